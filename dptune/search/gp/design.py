"""The next points to learn the gradient at theta. A design costs no privacy: it depends on points only.

It is in closed form: b points resolve the b - 1 least known directions by a regular simplex. From b = d + 2 on, pairs
of opposite points measure directions one by one: b = 2d is central differences.

Source: the criterion is line 5 of Algorithm 1 of Sopa et al., *Differentially Private Hyperparameter Tuning
using Local Bayesian Optimization*; the closed form is ours. A regular simplex of q dimensions with vertices at distance
h (in length-scales) has the edge h sqrt(2 (q + 1) / q). The variance left in each of its directions is

    -2 v f'(0) - (1 + 1/q) (2 v h f'(h^2))^2 / (v + noise - v f(edge^2)),

because the simplex makes both K and grad k invariant. `step_length` minimises it over h. For RBF, v = 1 and
little noise the minimiser is (2 noise q^2 / (q^2 - 1))^(1/4), and (3/2 noise)^(1/6) for a pair (q = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, helmert
from scipy.optimize import minimize_scalar

from dptune._checks import at_least, positive
from dptune.errors import InputError
from dptune.search.gp.kernels import Stationary
from dptune.search.gp.points import FloatArray, as_points, as_vector

SHORTEST_STEP, LONGEST_STEP = 1e-4, 4.0


@dataclass(frozen=True)
class Design:
    """Points to evaluate (b, d), around the centre (d,): theta, or the nearest place where they fit into the cube."""

    centre: FloatArray
    points: FloatArray


def step_length(kernel: Stationary, noise_variance: float, q: int) -> float:
    """Return the best distance h from the centre, in length-scales, for a regular simplex of q >= 1 dimensions."""
    noise = positive("noise_variance", noise_variance) / kernel.variance
    q = at_least("q", q, 1)

    def variance_left(log_h: float) -> float:
        s = np.exp(2 * log_h) * np.array([0.0, 1.0, 2 * (q + 1) / q])  # centre, vertex, edge
        f, slope = kernel.profile(s), kernel.slope(s)
        explained = (1 + 1 / q) * s[1] * (2 * slope[1]) ** 2 / (1 + noise - f[2])
        return float(-2 * slope[0] - explained)

    best = minimize_scalar(variance_left, bounds=(np.log(SHORTEST_STEP), np.log(LONGEST_STEP)), method="bounded")
    return float(np.exp(best.x))


def simplex_design(
    theta: ArrayLike,
    kernel: Stationary,
    noise_variance: float,
    b: int,
    rng: np.random.Generator,
    *,
    covariance: ArrayLike | None = None,
) -> Design:
    """Return b points around theta in closed form.

    For 2 <= b <= 2d and without history this design has the least trace; further points repeat it. A single point
    (b = 1) tells a slope only together with points that the posterior holds near theta.

    Args:
        theta: where the gradient is wanted, in the unit cube, (d,).
        noise_variance: of one loss, in squared units of the loss; above 0.
        rng: the algorithm's own randomness: turns the simplex.
        covariance: posterior covariance of the gradient at theta, (d, d). Directions are then taken by
            decreasing variance; without it they are random, and of equal weight in units of length-scale.

    Raises:
        InputError: theta outside the unit cube, or a setting out of range.
    """
    centre = _in_cube(theta)
    axes = _axes(kernel.scales(centre.size), rng, covariance)  # (d, d)
    offsets = _offsets(kernel, noise_variance, at_least("b", b, 1), centre.size) @ axes  # (b, d)
    return fit_into_cube(centre, offsets)


def fit_into_cube(theta: FloatArray, offsets: FloatArray) -> Design:
    """Return the points theta + offsets (b, d), with theta moved inwards no further than needed to fit.

    Along a coordinate in which the offsets are wider than the cube, they shrink.
    """
    low, high = np.minimum(offsets.min(axis=0), 0.0), np.maximum(offsets.max(axis=0), 0.0)  # (d,)
    shrink = 1 / np.maximum(high - low, 1.0)
    centre = np.clip(theta, -low * shrink, 1 - high * shrink)
    return Design(np.clip(centre, 0.0, 1.0), np.clip(centre + offsets * shrink, 0.0, 1.0))


def regular_simplex(q: int) -> FloatArray:
    """Return q + 1 unit vectors with mean 0 and equal angles, (q + 1, q); a pair of opposite points for q = 1."""
    vertices = helmert(q + 1).T  # columns orthonormal and orthogonal to 1
    return np.asarray(vertices / np.linalg.norm(vertices, axis=1, keepdims=True), dtype=np.float64)


def _offsets(kernel: Stationary, noise_variance: float, b: int, d: int) -> FloatArray:
    """Return points in units of length-scale along the axes, least known axis first, (b, d)."""
    if b > 2 * d:
        rest = _offsets(kernel, noise_variance, b - 2 * d, d)
        return np.vstack([_offsets(kernel, noise_variance, 2 * d, d), rest])
    pairs = max(b - d - 1, 0)
    q = min(max(b - 1, 1), d) - pairs  # dimensions of the simplex
    pair = step_length(kernel, noise_variance, 1) * regular_simplex(1)
    simplex = step_length(kernel, noise_variance, q) * regular_simplex(q)
    offsets = block_diag(*[pair] * pairs, simplex)[:b]  # b = 1 keeps one point of a pair
    return np.pad(offsets, ((0, 0), (0, d - offsets.shape[1])))


def _axes(scales: FloatArray, rng: np.random.Generator, covariance: ArrayLike | None) -> FloatArray:
    """Return directions in rows, each one length-scale long, least known first, (d, d)."""
    d = len(scales)
    if covariance is None:  # a uniformly random rotation: Q of a Gaussian matrix, with R's diagonal positive
        Q, R = np.linalg.qr(rng.standard_normal((d, d)))
        return np.asarray(Q * np.sign(np.diag(R)) * scales, dtype=np.float64)
    C = as_points(covariance, d, name="covariance")
    vectors = np.linalg.eigh((C + C.T) / 2)[1].T[::-1]  # rows, decreasing variance
    signs = rng.choice([-1.0, 1.0], size=(d, 1))
    return np.asarray(signs * vectors / np.linalg.norm(vectors / scales, axis=1, keepdims=True))


def _in_cube(theta: ArrayLike) -> FloatArray:
    centre = as_vector(theta).copy()
    if centre.min() < 0 or centre.max() > 1:
        raise InputError("theta must lie in the unit cube: every coordinate between 0 and 1.")
    return centre
