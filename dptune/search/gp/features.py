"""Random Fourier features of the squared-exponential kernel, the Bayesian linear model on them, and its maximiser.

Notation (Rahimi & Recht 2007; Dai, Low, Jaillet 2021, section 2)::

    phi(x)      sqrt(2/M) (cos(w_1.x), ..., cos(w_{M/2}.x), sin(w_1.x), ..., sin(w_{M/2}.x)), w_j ~ N(0, diag(1/l^2)),
                so that phi(x).phi(y) is about exp(-|x - y|_l^2 / 2) and |phi(x)| = 1 exactly
    Phi         features of the observed points in rows (m, M)
    Sigma       Phi^T Phi + lambda I
    nu          Sigma^-1 Phi^T y
    omega       a draw of N(nu, lambda Sigma^-1): the function phi(x).omega is a sample of the posterior

The frequencies are public and shared: the same seed gives every agent the same features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from dptune._checks import at_least, positive, shown
from dptune.errors import InputError
from dptune.search.gp.points import FloatArray


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """M features of d coordinates."""

    frequencies: FloatArray  # (M/2, d), standard normal, before division by the length-scale
    lengthscale: FloatArray | float  # (d,) or a scalar, in units of the cube's side

    @classmethod
    def draw(cls, *, d: int, M: int, lengthscale: FloatArray | float, seed: int) -> FourierFeatures:
        """Draw the frequencies; the same arguments give the same features on every machine. M is even."""
        if at_least("M", M, 1) % 2:
            raise InputError(f"M must be even, a cosine and a sine per frequency; got {shown(M)}.")
        if np.ndim(lengthscale) == 0:
            positive("lengthscale", float(lengthscale))
        frequencies = np.random.default_rng([seed, d, M]).standard_normal((M // 2, at_least("d", d, 1)))
        return cls(frequencies, lengthscale)

    @property
    def M(self) -> int:
        """Return the number of features."""
        return 2 * len(self.frequencies)

    @cached_property
    def _W(self) -> FloatArray:  # w_j in rows, (M/2, d)
        return np.ascontiguousarray(self.frequencies / self.lengthscale)

    @property
    def _scale(self) -> float:
        return float(np.sqrt(2.0 / self.M))

    def digest(self) -> str:
        """Return the fingerprint of the frequencies, the same on every machine that draws the same ones."""
        rounded = np.round(self.frequencies, 8) + 0.0  # another mathematical library may differ in the last digit
        return hashlib.sha256(rounded.astype("<f8").tobytes()).hexdigest()[:16]

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return phi of the points in the rows of X (m, d): (m, M)."""
        A = X @ self._W.T  # (m, M/2)
        return np.concatenate([np.cos(A), np.sin(A)], axis=1) * self._scale

    def rough_values(self, X: NDArray[np.float32], omega: FloatArray) -> NDArray[np.float32]:
        """Return phi(x).omega (m,) to single precision, for ranking many candidates: several times faster."""
        half = self.M // 2
        w = (omega * self._scale).astype(np.float32)
        A = X @ self._W.T.astype(np.float32)  # (m, M/2)
        return np.asarray(np.cos(A) @ w[:half] + np.sin(A) @ w[half:], dtype=np.float32)

    def value_and_gradient(self, X: FloatArray, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return phi(x).omega (m,) and its gradient in x (m, d); omega has one row per point (m, M)."""
        half = self.M // 2
        A = X @ self._W.T  # (m, M/2)
        cos, sin = np.cos(A), np.sin(A)
        a = omega[:, :half] * self._scale
        b = omega[:, half:] * self._scale
        return (a * cos + b * sin).sum(axis=1), (b * cos - a * sin) @ self._W


class FeaturePosterior:
    """The posterior N(nu, lambda Sigma^-1) of the weights, given values y (m,) at points with features Phi (m, M).

    m may be 0; ``lam`` is lambda > 0, the noise variance in units of the kernel's variance.
    """

    def __init__(self, Phi: FloatArray, y: FloatArray, lam: float) -> None:
        self.lam = positive("lam", lam)
        Sigma = Phi.T @ Phi
        Sigma[np.diag_indices_from(Sigma)] += self.lam
        self._L = cholesky(Sigma, lower=True, overwrite_a=True, check_finite=False)
        self.nu: FloatArray = cho_solve((self._L, True), Phi.T @ y, check_finite=False)  # (M,)

    def sample(self, rng: np.random.Generator, *, spread: float = 1.0) -> FloatArray:
        """Draw omega ~ N(nu, spread^2 lambda Sigma^-1), (M,); spread 0 is the mean."""
        g = rng.standard_normal(len(self.nu))
        deviation = solve_triangular(self._L, g, lower=True, trans="T", check_finite=False)
        return np.asarray(self.nu + spread * np.sqrt(self.lam) * deviation)


def ascend(
    f: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    starts: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    first_step: float,
    iterations: int = 12,
) -> tuple[FloatArray, FloatArray]:
    """Climb from every start (k, d) inside its own box: the points (k, d) and their values (k,), which never fall.

    Projected gradient ascent; each row has its own step length, doubled after a success and quartered after a failure.
    ``f`` maps X (k, d) to values (k,) and gradients (k, d), and is evaluated ``iterations`` + 1 times. ``low`` and
    ``high`` are the corners of the boxes (k, d), and ``first_step`` is in units of x.
    """
    X = starts
    value, gradient = f(X)
    length = np.full((len(X), 1), first_step)
    for _ in range(iterations):
        norm = np.sqrt((gradient * gradient).sum(axis=1, keepdims=True)) + np.finfo(float).tiny
        trial = np.minimum(np.maximum(X + (length / norm) * gradient, low), high)
        trial_value, trial_gradient = f(trial)
        better = trial_value > value
        row = better[:, None]
        X, gradient = np.where(row, trial, X), np.where(row, trial_gradient, gradient)
        value = np.where(better, trial_value, value)
        length = length * np.where(row, 2.0, 0.25)
    return X, value
