"""A function drawn from the posterior of a Gaussian process, known everywhere, with its gradient.

Notation (Wilson et al. 2021, *Pathwise Conditioning of Gaussian Processes*, arXiv 2011.04026)::

    f(x) = phi(x).omega      a draw of the prior, by random Fourier features
    a (m,)                   K^-1 (y - f(X) - the draw's own offsets and noise)
    h(x) = f(x) + k(x, X) a  the draw of the posterior; without f it is the posterior mean

Finding the smallest value by gradient steps finds the coordinates that belong on the boundary; random candidates are
seldom there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from dptune.gp.arrays import FloatArray
from dptune.gp.features import FourierFeatures
from dptune.gp.kernels import Matern52

FREQUENCIES = 256
FREEDOM = 5.0  # of the t distribution that is the spectrum of Matern 5/2
DESCENT = 30  # iterations of the search for a minimiser


@dataclass(frozen=True)
class Prior:
    """A function f drawn from the prior.

    Attributes:
        features: phi.
        omega: (M,).
    """

    features: FourierFeatures
    omega: FloatArray

    @classmethod
    def draw(cls, kernel: Matern52, d: int, rng: np.random.Generator, *, spread: float) -> Prior:
        """Draw f ~ GP(0, spread^2 k) in d coordinates."""
        mixed = np.sqrt(rng.chisquare(FREEDOM, (FREQUENCIES, 1)) / FREEDOM)
        features = FourierFeatures(rng.standard_normal((FREQUENCIES, d)) / mixed, kernel.scales(d))
        return cls(features, spread * math.sqrt(kernel.variance) * rng.standard_normal(features.M))


@dataclass(frozen=True)
class Function:
    """h, in units of the values' standard deviation.

    Attributes:
        kernel: k.
        X: (m, d).
        weights: a, (m,).
        prior: f; None: h is the posterior mean.
    """

    kernel: Matern52
    X: FloatArray
    weights: FloatArray
    prior: Prior | None = None

    def __call__(self, points: FloatArray) -> FloatArray:
        """h at points (k, d), (k,)."""
        known = self.kernel(points, self.X) @ self.weights
        return np.asarray(known if self.prior is None else known + self.prior.features(points) @ self.prior.omega)

    def minimiser(self, start: FloatArray, *, reach: float) -> FloatArray:
        """Where h is smallest near ``start``, (d,): a local search in the unit cube.

        Args:
            start: (d,), in the cube.
            reach: the farthest it may go in each coordinate.
        """
        box = Bounds(np.maximum(start - reach, 0.0), np.minimum(start + reach, 1.0))
        along = self._value_and_gradient
        found = minimize(along, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": DESCENT})
        return np.asarray(found.x)

    def _value_and_gradient(self, x: FloatArray) -> tuple[float, FloatArray]:
        value = float(self.kernel(x[None, :], self.X)[0] @ self.weights)
        gradient = self.kernel.gradient(x, self.X) @ self.weights
        if self.prior is None:
            return value, np.asarray(gradient)
        more, along = self.prior.features.value_and_gradient(x[None, :], self.prior.omega[None, :])
        return value + float(more[0]), np.asarray(gradient + along[0])
