"""The Gaussian process posterior of a gradient, as weights on losses that this code never sees.

Source: Sopa et al., *Differentially Private Hyperparameter Tuning using Local Bayesian Optimization*, Algorithm 1,
line 6.

Notation::

    D (m, d)   points evaluated so far       K = k(D, D) + noise I (m, m)
    W (d, m)   weights: the posterior mean of grad f(theta) is W y for losses y (m,) at D
    C_0 (d, d) prior covariance of grad f(theta)

Points, weights and covariances are public: they do not depend on losses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptune._checks import at_least, positive
from dptune.gp.arrays import FloatArray, as_points, as_vector
from dptune.gp.factor import GrowingCholesky
from dptune.gp.kernels import Kernel
from dptune.gp.lookahead import Lookahead


@dataclass(frozen=True)
class Jitter:
    """Noise variance added beyond the one asked for, block by block in the order of `append`.

    A block with jitter has exactly the posterior of a larger noise variance on its points.
    """

    blocks: tuple[float, ...] = ()

    @property
    def total(self) -> float:
        """The sum over blocks, in squared units of the loss; 0 if every block was well conditioned."""
        return sum(self.blocks)


class GradientPosterior:
    """The posterior of grad f(theta) given noisy losses at the points held.

    Args:
        kernel: the prior covariance of f, with hyperparameters that do not depend on private data.
        noise_variance: variance of the noise of one loss, in squared units of the loss; above 0. Without noise
            close points make K singular.
        d: number of coordinates.

    `constant_mean=True` treats the prior mean as an unknown constant instead of 0: the weights of each
    coordinate then sum to 0, so adding a constant to all losses changes nothing.

    Raises:
        InputError: a setting out of range.
    """

    def __init__(self, kernel: Kernel, noise_variance: float, d: int) -> None:
        self.kernel = kernel
        self.noise_variance = positive("noise_variance", noise_variance)
        self.d = at_least("d", d, 1)
        self.jitter = Jitter()
        self._factor = GrowingCholesky()
        self._points = np.zeros((0, self.d))  # (capacity, d)

    @classmethod
    def from_points(cls, kernel: Kernel, noise_variance: float, points: ArrayLike) -> GradientPosterior:
        """A posterior holding the points (m, d), factorised as one block.

        Raises:
            InputError: see `append`.
        """
        D = as_points(points)
        posterior = cls(kernel, noise_variance, D.shape[1])
        posterior.append(D)
        return posterior

    def __len__(self) -> int:
        return len(self._factor)

    @property
    def points(self) -> FloatArray:
        """The points held in the order of arrival, a read-only view (m, d)."""
        view = self._points[: len(self)]
        view.flags.writeable = False
        return view

    def append(self, points: ArrayLike) -> None:
        """Add points (b, d) in O(m^2 b); on an error nothing has changed.

        Raises:
            InputError: wrong shape, not finite, or a covariance that needs a larger noise_variance.
        """
        X = as_points(points, self.d)
        block = self.kernel(X, X) + self.noise_variance * np.eye(len(X))
        jitter = self._factor.append(
            self.kernel(self.points, X), block, noise_variance=self.noise_variance
        )  # cross (m, b)
        self.jitter = Jitter((*self.jitter.blocks, jitter))
        self._store(X)

    def keep_last(self, m: int) -> GradientPosterior:
        """A new posterior holding only the last m points, or all if there are fewer.

        Raises:
            InputError: m is not an integer of at least 1.
        """
        return type(self).from_points(self.kernel, self.noise_variance, self.points[-at_least("m", m, 1) :])

    def weights(self, theta: ArrayLike, *, constant_mean: bool = False) -> FloatArray:
        """W = grad k(theta, D) K^-1, (d, m); for an unknown mean, less (W 1)(1^T K^-1) / (1^T K^-1 1).

        Raises:
            InputError: theta is not a finite point (d,).
        """
        whitened = self._whitened(theta, constant_mean=constant_mean)  # (m, d)
        return np.ascontiguousarray(self._factor.solve_transposed(whitened).T)

    def covariance(self, theta: ArrayLike, *, constant_mean: bool = False) -> FloatArray:
        """The posterior covariance of grad f(theta), C_0 - P^T P, in squared loss per squared unit; (d, d).

        Raises:
            InputError: theta is not a finite point (d,).
        """
        P = self._whitened(theta, constant_mean=constant_mean)  # (m, d)
        return self.kernel.gradient_covariance(as_vector(theta, self.d)) - P.T @ P

    def trace(self, theta: ArrayLike, *, constant_mean: bool = False) -> float:
        """The trace of `covariance`; rounding below 0 is returned as 0.

        Raises:
            InputError: theta is not a finite point (d,).
        """
        return max(float(np.trace(self.covariance(theta, constant_mean=constant_mean))), 0.0)

    def trace_after(
        self, theta: ArrayLike, candidates: ArrayLike, *, constant_mean: bool = False
    ) -> tuple[float, FloatArray]:
        """The trace if the candidates (b, d) were appended, and its gradient in the candidates, (b, d).

        Raises:
            InputError: wrong shapes, or a covariance that needs a larger noise_variance.
        """
        return self.lookahead(theta, constant_mean=constant_mean)(as_points(candidates, self.d))

    def lookahead(self, theta: ArrayLike, *, constant_mean: bool = False) -> Lookahead:
        """`trace_after` at one theta, with the part that does not depend on candidates computed once.

        Raises:
            InputError: theta is not a finite point (d,).
        """
        where = as_vector(theta, self.d).copy()
        return Lookahead(
            self.kernel, self.noise_variance, self._factor, self.points, where, constant_mean=constant_mean
        )

    def _whitened(self, theta: ArrayLike, *, constant_mean: bool) -> FloatArray:
        """P = L^-1 grad k(D, theta), less its projection on L^-1 1 for an unknown constant mean; (m, d)."""
        G = self.kernel.gradient(as_vector(theta, self.d), self.points).T  # (m, d)
        if not constant_mean or not len(self):
            return self._factor.solve(G)
        both = self._factor.solve(np.column_stack([G, np.ones(len(self))]))  # (m, d + 1)
        P, a = both[:, :-1], both[:, -1]
        return P - np.outer(a, a @ P / (a @ a))

    def _store(self, X: FloatArray) -> None:
        n, m = len(self), len(self) - len(X)
        if n > len(self._points):
            grown = np.zeros((max(n, 2 * len(self._points)), self.d))
            grown[:m] = self._points[:m]
            self._points = grown
        self._points[m:n] = X
