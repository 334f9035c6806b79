"""The Gaussian process posterior of a gradient, as weights on losses that this code never sees.

Source: Sopa et al., *Differentially Private Hyperparameter Tuning using Local Bayesian Optimization*, Algorithm 1,
line 6.

Notation::

    D (m, d)   points evaluated so far       K = k(D, D) + noise I = L L^T (m, m)
    W (d, m)   weights: the posterior mean of grad f(theta) is W y for losses y (m,) at D
    C_0 (d, d) prior covariance of grad f(theta)
    P = L^-1 grad k(D, theta) (m, d)      a = L^-1 1 (m,)          the points held, whitened
    V = L^-1 k(D, X) (m, b)                                        of further points X (b, d)
    M M^T = k(X, X) + noise I - V^T V                              the Schur complement

Points, weights and covariances are public: they do not depend on losses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from dptune._checks import at_least, positive
from dptune.errors import InputError
from dptune.search.gp.kernels import Kernel
from dptune.search.gp.points import FloatArray, as_points, as_vector

LADDER = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)  # jitter, in units of the points' mean variance


class GradientPosterior:
    """The posterior of grad f(theta) given noisy losses at the points held.

    The hyperparameters of ``kernel``, the prior covariance of f, must not depend on private data. ``noise_variance`` is
    that of one loss, in squared units of the loss; above 0, because close points make K singular.

    `constant_mean=True` treats the prior mean as an unknown constant instead of 0. The weights of each coordinate then
    sum to 0, so adding a constant to all losses changes nothing.

    Raises:
        InputError: a setting out of range, or a theta that is not a finite point (d,).
    """

    def __init__(self, kernel: Kernel, noise_variance: float, d: int) -> None:
        self.kernel = kernel
        self.noise_variance = positive("noise_variance", noise_variance)
        self.d = at_least("d", d, 1)
        self.jitter: tuple[float, ...] = ()  # noise variance added to each block beyond the requested one
        self.points = np.zeros((0, self.d))  # D, read-only
        self._L = np.zeros((0, 0))

    @classmethod
    def from_points(cls, kernel: Kernel, noise_variance: float, points: ArrayLike) -> GradientPosterior:
        """Return a posterior holding the points (m, d), factorised as one block; raises as `append` does."""
        D = as_points(points)
        posterior = cls(kernel, noise_variance, D.shape[1])
        posterior.append(D)
        return posterior

    def __len__(self) -> int:
        return len(self.points)

    def append(self, points: ArrayLike) -> None:
        """Add points (b, d) in O(m^2 b); on an error nothing has changed.

        Raises:
            InputError: wrong shape, not finite, or a covariance that needs a larger noise_variance.
        """
        X = as_points(points, self.d)
        m = len(self)
        V, M, jitter = self._extension(X)
        L = np.zeros((m + len(X), m + len(X)), order="F")
        L[:m, :m] = self._L
        L[m:, :m] = V.T
        L[m:, m:] = M
        self._L = L
        self.jitter = (*self.jitter, jitter)
        self.points = np.concatenate([self.points, X])
        self.points.flags.writeable = False

    def weights(self, theta: ArrayLike, *, constant_mean: bool = False) -> FloatArray:
        """Return W = grad k(theta, D) K^-1, (d, m); for an unknown mean, less (W 1)(1^T K^-1) / (1^T K^-1 1)."""
        P = self._whitened(theta, constant_mean=constant_mean)  # (m, d)
        return np.ascontiguousarray(_solve(self._L, P, transposed=True).T)

    def covariance(self, theta: ArrayLike, *, constant_mean: bool = False) -> FloatArray:
        """Return the posterior covariance of grad f(theta), C_0 - P^T P, in squared loss per squared unit; (d, d)."""
        P = self._whitened(theta, constant_mean=constant_mean)  # (m, d)
        return self.kernel.gradient_covariance(as_vector(theta, self.d)) - P.T @ P

    def _whitened(self, theta: ArrayLike, *, constant_mean: bool) -> FloatArray:
        """Return P, less its projection on a for an unknown constant mean; (m, d)."""
        G = self.kernel.gradient(as_vector(theta, self.d), self.points).T  # (m, d)
        if not constant_mean or not len(self):
            return _solve(self._L, G)
        both = _solve(self._L, np.column_stack([G, np.ones(len(self))]))  # (m, d + 1)
        P = both[:, :-1]
        a = both[:, -1]
        return P - np.outer(a, a @ P / (a @ a))

    def _extension(self, X: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return V (m, b), M (b, b) and the jitter of M for further points X (b, d)."""
        V = _solve(self._L, self.kernel(self.points, X))
        block = self.kernel(X, X) + self.noise_variance * np.eye(len(X))
        scale = float(np.mean(np.diag(block))) if len(block) else 1.0
        return V, *stable_cholesky(block - V.T @ V, scale=scale, noise_variance=self.noise_variance)


def stable_cholesky(S: FloatArray, *, scale: float, noise_variance: float) -> tuple[FloatArray, float]:
    """Return the lower factor of S + jitter I, (b, b), and the least jitter of the ladder that is safe.

    The ladder's first step, mostly 0, raises noise + jitter to 1e-12 of `scale`, the mean variance of the points. With
    less noise, rounding errors would pass as small pivots, and weights of many small blocks would be wrong by half. The
    next steps are 1e-12, 1e-11, ... 1e-6 of `scale`. A factor is safe if every squared pivot is at least half of its
    noise: exactly computed, a Schur complement of K + noise I is at least noise I.
    """
    missing = max(LADDER[0] * scale - noise_variance, 0.0)
    for jitter in (missing, *(step * scale for step in LADDER)):
        M = _cholesky(S + jitter * np.eye(len(S)))
        if M is not None and np.all(np.diag(M) ** 2 >= (noise_variance + jitter) / 2):
            return M, jitter
    raise InputError(
        f"the covariance of the points cannot be factorised with noise_variance={noise_variance:.3g}, even "
        f"with a jitter of {LADDER[-1]:g} times their mean variance. Give a larger noise_variance."
    )


def _cholesky(S: FloatArray) -> FloatArray | None:
    """Return the lower factor, or None where rounding has made S indefinite."""
    try:
        M = np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return M if np.isfinite(M).all() else None


def _solve(L: FloatArray, B: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Return L^-1 B, or L^-T B."""
    return np.asarray(solve_triangular(L, B, lower=True, trans=1 if transposed else 0, check_finite=False))
