"""The posterior gradient covariance that candidates *would* leave, before anything is evaluated.

The covariance depends on points only, never on losses: looking ahead is free of privacy cost.

Notation::

    D (m, d) points held, X (b, d) candidates, K = k(D, D) + noise I = L L^T
    P = L^-1 grad k(D, theta) (m, d)      a = L^-1 1 (m,)          the held part, whitened
    V = L^-1 k(D, X) (m, b)               M M^T = k(X, X) + noise I - V^T V
    Z = M^-1 (grad k(X, theta) - V^T P)   z = M^-1 (1 - V^T a)     the new part, whitened
    c (d,)  coefficient of the unknown constant mean; 0 for the zero prior mean

The trace after is tr C_0 - |P - a c^T|^2 - |Z - z c^T|^2. With an unknown constant mean c is its
least-squares minimiser; since it is a minimiser, it may be held fixed when differentiating.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from dptune.gp.arrays import FloatArray
from dptune.gp.factor import GrowingCholesky, schur_factor
from dptune.gp.kernels import Kernel


class Lookahead:
    """The trace after candidates, and its gradient, at one theta: what the optimiser of a design calls.

    Args:
        kernel, noise_variance: the prior.
        factor: L of the points held; it must not grow while this object is in use.
        D: points held, (m, d).
        theta: where the gradient is wanted, (d,).
        constant_mean: whether the mean is an unknown constant instead of 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        noise_variance: float,
        factor: GrowingCholesky,
        D: FloatArray,
        theta: FloatArray,
        *,
        constant_mean: bool = False,
    ) -> None:
        self._kernel, self._noise_variance, self._factor = kernel, noise_variance, factor
        self._D, self._theta, self._constant_mean = D, theta, constant_mean
        self._prior = float(np.trace(kernel.gradient_covariance(theta)))
        held = factor.solve(np.column_stack([kernel.gradient(theta, D).T, np.ones(len(D))]))  # (m, d + 1)
        self._P, self._a = held[:, :-1], held[:, -1]
        back = factor.solve_transposed(held)
        self._W, self._alpha = back[:, :-1], back[:, -1]  # K^-1 grad k (m, d), K^-1 1 (m,)

    def __call__(self, X: FloatArray) -> tuple[float, FloatArray]:
        """The trace of the posterior gradient covariance with X appended, and its gradient in X, (b, d).

        Units: squared loss per squared unit of theta. The gradient holds the jitter of X, if any, fixed.

        Raises:
            InputError: the candidates' covariance cannot be factorised; see `stable_cholesky`.
        """
        V = self._factor.solve(self._kernel(self._D, X))  # (m, b)
        M = self._new_factor(X, V)  # (b, b)
        Z, z = self._whitened(X, V, M)  # (b, d), (b,)
        c = self._mean_coefficient(Z, z)  # (d,)
        Z = Z - np.outer(z, c)
        trace = self._prior - float(np.sum((self._P - np.outer(self._a, c)) ** 2) + np.sum(Z**2))
        return max(trace, 0.0), self._gradient(X, V, blas.dtrsm(1.0, M, Z, lower=1, trans_a=1), c)

    def _new_factor(self, X: FloatArray, V: FloatArray) -> FloatArray:
        block = self._kernel(X, X) + self._noise_variance * np.eye(len(X))
        return schur_factor(block, V, noise_variance=self._noise_variance)[0]

    def _whitened(self, X: FloatArray, V: FloatArray, M: FloatArray) -> tuple[FloatArray, FloatArray]:
        R = self._kernel.gradient(self._theta, X).T - V.T @ self._P  # (b, d)
        Z = np.asarray(blas.dtrsm(1.0, M, np.column_stack([R, 1 - V.T @ self._a]), lower=1))
        return Z[:, :-1], Z[:, -1]

    def _mean_coefficient(self, Z: FloatArray, z: FloatArray) -> FloatArray:
        """argmin_c |P - a c^T|^2 + |Z - z c^T|^2, (d,); 0 when the mean is known to be 0."""
        if not self._constant_mean or not len(self._a) + len(z):
            return np.zeros(len(self._theta))
        cross = self._a @ self._P + z @ Z
        return np.asarray(cross / (self._a @ self._a + z @ z), dtype=np.float64)

    def _gradient(self, X: FloatArray, V: FloatArray, Q: FloatArray, c: FloatArray) -> FloatArray:
        """2 d/dX [ sum(Q W^T * k(X, all)) - sum(Q * grad k(X, theta)) ], Q the new weights, (b, d)."""
        W_old = self._W - np.outer(self._alpha, c) - self._factor.solve_transposed(V @ Q)  # (m, d)
        everything, weights = np.vstack([self._D, X]), np.vstack([W_old, Q])  # (m + b, d)
        values = self._kernel.value_pullback(X, everything, Q @ weights.T)
        return 2 * (values - self._kernel.gradient_pullback(self._theta, X, Q))
