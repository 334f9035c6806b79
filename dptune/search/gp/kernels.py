"""Covariance functions k(x, y) of the Gaussian process on the unit cube, with the derivatives DP-GIBO needs.

Notation::

    X, Y      points in rows (m, d), (k, d)
    theta     the point where the gradient is wanted (d,)
    s         squared distance in units of the length-scales, sum_i ((x_i - y_i) / l_i)^2
    f(s)      profile of a stationary kernel: k(x, y) = v f(s), f(0) = 1

Hyperparameters must not depend on private data; fit them, if at all, on released values.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

from dptune._checks import Checked, between, check, positive
from dptune.errors import InputError
from dptune.search.gp.points import FloatArray, as_points, as_vector

Description = dict[str, str | float | list[float]]


class Kernel(Protocol):
    """A positive semi-definite function of two points, twice differentiable where they meet."""

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of f(X) and f(Y), (m, k)."""

    def gradient(self, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return the covariances of grad f(theta) and f(X): grad_theta k(theta, X), (d, m)."""

    def gradient_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the prior covariance of grad f(theta): d^2 k / dtheta dtheta' at theta' = theta, (d, d)."""

    def describe(self) -> Description:
        """Return the kernel as plain data that `json.dumps` accepts."""


def _lengthscale(name: str, value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if np.ndim(value) == 0:
        return positive(name, float(np.asarray(value)))
    scales = tuple(positive(name, float(v)) for v in np.asarray(value, dtype=np.float64))
    if not scales:
        raise InputError(f"{name} must be a number or one number per coordinate, got an empty sequence.")
    return scales


@dataclass(frozen=True)
class Stationary(ABC, Checked):
    """A kernel v f(s) of the scaled distance alone.

    ``lengthscale`` is l in units of the cube's side, one for all coordinates or one per coordinate. ``variance`` is v =
    k(x, x), in squared units of the loss. Both are above 0; with l per coordinate d is fixed. Else `InputError`.
    """

    lengthscale: float | tuple[float, ...] = field(metadata=check(_lengthscale))
    variance: float = field(default=1.0, metadata=check(positive))

    @abstractmethod
    def profile(self, s: FloatArray) -> FloatArray:
        """Return f(s), elementwise."""

    @abstractmethod
    def slope(self, s: FloatArray) -> FloatArray:
        """Return f'(s), elementwise."""

    def scales(self, d: int) -> FloatArray:
        """Return the length-scale of each coordinate, (d,)."""
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != d:
            many = len(self.lengthscale)
            raise InputError(f"the kernel has {many} length-scales, but the points have {d} coordinates.")
        return np.full(d, self.lengthscale, dtype=np.float64)

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return v f(s), (m, k)."""
        return self.variance * self.profile(self.squared_distances(X, Y))

    def gradient(self, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return 2 v f'(s) (theta - x) / l^2, (d, m)."""
        r, s = self._offsets(theta, X)  # (m, d), (m,)
        return np.ascontiguousarray((2 * self.variance * self.slope(s)[:, None] * r).T)

    def gradient_covariance(self, theta: FloatArray) -> FloatArray:
        """Return -2 v f'(0) diag(1 / l^2), (d, d)."""
        scales = self.scales(as_vector(theta).size)
        return np.asarray(np.diag(-2 * self.variance * self.slope(np.zeros(1)) / scales**2), dtype=np.float64)

    def describe(self) -> Description:
        """Name, length-scale (a list if there is one per coordinate) and variance."""
        scale = list(self.lengthscale) if isinstance(self.lengthscale, tuple) else self.lengthscale
        return {"kernel": type(self).__name__, "lengthscale": scale, "variance": self.variance}

    def squared_distances(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return s for all pairs, (m, k), from differences: |x|^2 + |y|^2 - 2 x.y would lose close points."""
        X, Y = _two_sets(X, Y)
        scales = self.scales(X.shape[1])
        return np.asarray(cdist(X / scales, Y / scales, "sqeuclidean"), dtype=np.float64)

    def _offsets(self, theta: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (theta - x) / l^2, (m, d), and s, (m,)."""
        X = as_points(X)
        scales = self.scales(X.shape[1])
        scaled = (as_vector(theta, X.shape[1]) - X) / scales  # (m, d)
        return scaled / scales, np.einsum("md,md->m", scaled, scaled)


@dataclass(frozen=True)
class RBF(Stationary):
    """The squared exponential kernel v exp(-s / 2)."""

    def profile(self, s: FloatArray) -> FloatArray:
        return np.exp(-0.5 * s)

    def slope(self, s: FloatArray) -> FloatArray:
        return -0.5 * np.exp(-0.5 * s)


@dataclass(frozen=True)
class Matern52(Stationary):
    """The Matern kernel of smoothness 5/2: v (1 + t + t^2 / 3) exp(-t), t = sqrt(5 s).

    Source: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, equation 4.17.
    """

    def profile(self, s: FloatArray) -> FloatArray:
        return self.profile_and_slope(s)[0]

    def slope(self, s: FloatArray) -> FloatArray:
        return self.profile_and_slope(s)[1]

    def profile_and_slope(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return f(s) and f'(s) = -5/6 (1 + t) exp(-t), with one exponential and few large temporaries."""
        t = 5 * s
        np.sqrt(t, out=t)
        decay = np.exp(-t)
        profile = t**2
        profile /= 3
        t += 1
        profile += t
        profile *= decay
        t *= -5 / 6
        t *= decay
        return profile, t


@dataclass(frozen=True)
class Polynomial2(Checked):
    """The kernel v (x.y + c)^2: losses quadratic in theta, of rank (d + 1)(d + 2) / 2.

    ``constant`` is c >= 0: with c = 0 the losses have no linear or constant part. ``variance`` is v > 0, in squared
    units of the loss.
    """

    constant: float = field(default=1.0, metadata=check(between, 0.0, sys.float_info.max))
    variance: float = field(default=1.0, metadata=check(positive))

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return v (x.y + c)^2, (m, k)."""
        X, Y = _two_sets(X, Y)
        return np.asarray(self.variance * (X @ Y.T + self.constant) ** 2, dtype=np.float64)

    def gradient(self, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return 2 v (theta.x + c) x, (d, m)."""
        X = as_points(X)
        t = X @ as_vector(theta, X.shape[1]) + self.constant  # (m,)
        return np.asarray(2 * self.variance * t * X.T, dtype=np.float64)

    def gradient_covariance(self, theta: FloatArray) -> FloatArray:
        """Return 2 v (theta theta^T + (|theta|^2 + c) I), (d, d)."""
        theta = as_vector(theta)
        spread = (theta @ theta + self.constant) * np.eye(theta.size)
        return np.asarray(2 * self.variance * (np.outer(theta, theta) + spread), dtype=np.float64)

    def describe(self) -> Description:
        """Name, constant and variance."""
        return {"kernel": "Polynomial2", "constant": self.constant, "variance": self.variance}


def _two_sets(X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    X = as_points(X, name="X")
    return X, as_points(Y, X.shape[1], name="Y")
