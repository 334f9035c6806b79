"""Gaussian process regression on groups of values; each group has an unknown constant added to it.

Notation::

    X (m, d)     points, all groups stacked; several groups may contain the same point
    y (m,)       released values, in units of their standard deviation; g (m,) their groups
    sigma (m,)   known standard deviations of the privacy noise, same units
    y = f(X) + c_g + N(0, sigma^2 + e^2),   f ~ GP(0, s^2 k_l),   c_g ~ N(0, OFFSET)
    theta        (log l_1, ..., log l_d, log s, log e), with an independent normal prior

Everything here is public: the values were released, so fitting theta to them is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import Bounds, minimize

from dptune.search.gp.kernels import Matern52
from dptune.search.gp.points import FloatArray, as_points

OFFSET = 100.0  # variance of a group's unknown constant, in units of the values' variance
LENGTHSCALE = 0.3  # prior median of l_j / sqrt(d): the cube's diagonal grows like sqrt(d)
EXTRA = 0.05  # prior median of e
CONSTANT_EXTRAS = (0.1, 0.2, 0.4, 0.7, 1.0)  # e if f is constant: all variation is then noise
LENGTHSCALES, SCALES, EXTRAS = (0.03, 30.0), (0.02, 50.0), (0.005, 3.0)  # bounds of theta
MOVES_EVERY = 3  # fits per move of theta, once the memory is full
DESCENT = 30  # iterations of the search for a minimiser
JITTER = 1e-6  # share of s^2, added to the covariance of a sample


@dataclass(frozen=True)
class Group:
    """Released values that share an unknown constant."""

    points: FloatArray  # (k, d), in the unit cube
    values: FloatArray  # (k,)
    sigma: float  # standard deviation of the privacy noise of one value


class GroupedRegression:
    """The posterior of f given groups of noisy values, with length-scales fitted to these values.

    The newest ``memory`` values are kept, in whole groups. Each fit that moves theta starts where the last one ended.
    Once the memory is full, only every third fit moves theta: a few new values among many change theta little.
    """

    def __init__(self, d: int, *, memory: int = 250, iterations: int = 15) -> None:
        self.d, self.memory, self.iterations = d, memory, iterations
        self._prior = np.array([math.log(LENGTHSCALE * math.sqrt(d))] * d + [0.0, math.log(EXTRA)])
        self.theta = self._prior
        self._fits = 0
        self.groups: list[Group] = []  # the kept groups, oldest first
        self._factor: FloatArray = np.zeros((0, 0))
        self._weights: FloatArray = np.zeros(0)
        self.unit = 1.0
        self._minima: dict[tuple[bytes, float], FloatArray] = {}  # cached since the last fit: every trial needs them

    def fit(self, groups: Sequence[Group]) -> None:
        """Keep the newest groups, and move theta towards the mode of its posterior if that is due."""
        self._minima = {}
        self._take(groups)
        if len(self.groups) == len(groups) or self._fits % MOVES_EVERY == 0:
            box = Bounds(*np.log([*[LENGTHSCALES] * self.d, SCALES, EXTRAS]).T)  # (d + 2,) each
            self.theta = minimised(self.objective, self.theta, box, self.iterations)
        self._fits += 1
        signal = self.kernel_at(self.theta)(self._X, self._X)
        self._factor = np.asarray(np.linalg.cholesky(self._covariance(signal, self.theta)), dtype=np.float64)
        self._weights = cho_solve((self._factor, True), self._y)

    def evidence(self) -> float:
        """Return the log-likelihood ratio, in nats, of the values against a constant f with any noise."""
        if not self.groups:
            return 0.0
        nothing = np.zeros_like(self._offsets)
        sizes = np.log([math.exp(self.theta[self.d + 1]), *CONSTANT_EXTRAS])
        thetas = [np.append(self.theta[: self.d + 1], size) for size in sizes]
        factors = [np.asarray(np.linalg.cholesky(self._covariance(nothing, theta)), dtype=float) for theta in thetas]
        constant = min(_misfit(factor, self._y) for factor in factors)
        return constant - _misfit(self._factor, self._y)

    def mean(self, points: FloatArray) -> FloatArray:
        """Return the posterior mean of f, (k,), in units of the values; only differences are meaningful."""
        if not self.groups:
            return np.zeros(len(points))
        return np.asarray(self.unit * (self.kernel_at(self.theta)(points, self._X) @ self._weights))

    def minimiser(self, start: FloatArray, *, reach: float) -> FloatArray:
        """Return the minimiser (d,) of the posterior mean in the cube, within ``reach`` of ``start`` per coordinate."""
        if not self.groups:
            return np.array(start)
        asked = start.tobytes(), reach
        if asked not in self._minima:
            kernel = self.kernel_at(self.theta)

            def mean(x: FloatArray) -> tuple[float, FloatArray]:
                value = float(self.mean(x[None, :])[0]) / self.unit
                return value, np.asarray(kernel.gradient(x, self._X) @ self._weights)

            box = Bounds(np.maximum(start - reach, 0.0), np.minimum(start + reach, 1.0))
            self._minima[asked] = minimised(mean, start, box, DESCENT)
        return np.array(self._minima[asked])

    def joint(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the posterior mean (k,) and covariance (k, k) of f, in units of the values and their squares."""
        kernel = self.kernel_at(self.theta)
        cross = kernel(points, self._X)  # (k, m)
        V = solve_triangular(self._factor, cross.T, lower=True, check_finite=False)  # (m, k)
        covariance = kernel(points, points) - V.T @ V
        covariance[np.diag_indices(len(points))] += JITTER * kernel.variance
        return np.asarray(self.unit * (cross @ self._weights)), np.asarray(self.unit**2 * covariance)

    def difference(self, x: FloatArray, y: FloatArray) -> tuple[float, float]:
        """Return the posterior mean of f(x) - f(y) and its standard deviation, in units of the values."""
        mean, covariance = self.joint(np.array([x, y]))
        contrast = np.array([1.0, -1.0])
        return float(contrast @ mean), math.sqrt(max(float(contrast @ covariance @ contrast), 0.0))

    def samples(self, points: FloatArray, count: int, rng: np.random.Generator, *, spread: float = 1.0) -> FloatArray:
        """Return draws (k, count) from the posterior of f at the points, with ``spread`` times its deviations."""
        mean, covariance = self.joint(points)
        drawn = np.linalg.cholesky(covariance) @ rng.standard_normal((len(points), count))
        return np.asarray(mean[:, None] + spread * drawn)

    def _take(self, groups: Sequence[Group]) -> None:
        kept = len(groups)
        count = 0
        while kept and count + len(groups[kept - 1].values) <= self.memory:
            kept, count = kept - 1, count + len(groups[kept - 1].values)
        self.groups = list(groups[min(kept, len(groups) - 1) :])
        self._X = as_points(np.concatenate([group.points for group in self.groups]), self.d)
        values = np.concatenate([group.values - group.values.mean() for group in self.groups])
        largest = max(group.sigma for group in self.groups)
        self.unit = max(float(np.std(values)), 1e-3 * largest) or 1.0
        self._y = values / self.unit
        sizes = [len(group.values) for group in self.groups]
        names = np.repeat(np.arange(len(sizes)), sizes)
        self._offsets = OFFSET * (names[:, None] == names[None, :])  # (m, m)
        self._noise = np.repeat([(group.sigma / self.unit) ** 2 for group in self.groups], sizes)  # (m,)

    def kernel_at(self, theta: FloatArray) -> Matern52:
        """Return s^2 k_l of these hyperparameters."""
        return Matern52(tuple(np.exp(theta[: self.d])), math.exp(2 * theta[self.d]))

    def _covariance(self, signal: FloatArray, theta: FloatArray) -> FloatArray:
        """Return K, (m, m): the kernel's part with offsets and noise."""
        K = signal + self._offsets
        K[np.diag_indices(len(K))] += self._noise + math.exp(2 * theta[self.d + 1])
        return np.asarray(K)

    def objective(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return -log p(y | theta) - log p(theta) up to a constant, and its gradient (d + 2,).

        With Q = K^-1 - a a^T, a = K^-1 y, the derivative along a coordinate of theta is tr(Q dK) / 2. Here dK / dlog
        l_j = M * (x_j - x'_j)^2 / l_j^2 for M = -2 s^2 f'(.), elementwise.
        """
        kernel = self.kernel_at(theta)
        Z = self._X / np.exp(theta[: self.d])
        distances = kernel.squared_distances(self._X, self._X)  # (m, m)
        signal, slope = kernel.profile_and_slope(distances)
        signal *= kernel.variance
        L = np.asarray(np.linalg.cholesky(self._covariance(signal, theta)), dtype=np.float64)
        a = cho_solve((L, True), self._y, check_finite=False)
        Q = inverse_of(L)
        Q -= np.outer(a, a)
        QM = -2 * kernel.variance * Q  # (m, m)
        QM *= slope
        along = QM.sum(axis=1) @ Z**2 - np.einsum("ij,ij->j", Z, QM @ Z)  # (d,)
        away = theta - self._prior
        signal *= Q
        slopes = np.array([*along, np.sum(signal), math.exp(2 * theta[self.d + 1]) * np.trace(Q)])
        value = 0.5 * self._y @ a + np.log(np.diag(L)).sum() + 0.5 * away @ away
        return float(value), slopes + away


def minimised(
    f: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, box: Bounds, iterations: int
) -> FloatArray:
    """Return the end (d,) of L-BFGS-B on value and gradient from ``start``."""
    result = minimize(f, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": iterations})
    return np.asarray(result.x, dtype=np.float64)


def _misfit(L: FloatArray, y: FloatArray) -> float:
    """Return -log N(y; 0, L L^T) up to a constant."""
    return float(0.5 * y @ cho_solve((L, True), y) + np.log(np.diag(L)).sum())


def inverse_of(L: FloatArray) -> FloatArray:
    """Return (L L^T)^-1 of a lower factor, (m, m)."""
    lower, failed = lapack.dpotri(L, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the covariance of the values is singular.")
    diagonal = np.diag(lower).copy()
    lower = lower + lower.T  # a Cholesky factor's upper half is 0, and dpotri leaves it
    np.fill_diagonal(lower, diagonal)
    return np.asarray(lower)
