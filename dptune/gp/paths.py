"""Functions drawn from the posterior of a grouped regression, with their gradients and local minima.

By Matheron's rule (Wilson et al., arXiv 2011.04026)::

    f(x) = phi(x).omega    a draw of the prior, by random Fourier features
    h(x) = m(x) + spread (f(x) - k(x, X) K^-1 (f(X) + c + e))    m: posterior mean; c, e: draws of offsets and noise

so h(x) = spread phi(x).omega + k(x, X).weights. The gradient is known, and a descent finds the coordinates that belong
on the boundary; candidates drawn at random are seldom there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from dptune.gp.arrays import FloatArray
from dptune.gp.features import FourierFeatures
from dptune.gp.kernels import Kernel

DESCENT = 30  # iterations


@dataclass(frozen=True, eq=False)
class Path:
    """One function h on the unit cube.

    Attributes:
        features, omega: of the drawn part, (M,).
        kernel, X, weights: of the part that is known, X (n, d) and weights (n,).
    """

    features: FourierFeatures
    omega: FloatArray
    kernel: Kernel
    X: FloatArray
    weights: FloatArray

    def values(self, points: FloatArray) -> FloatArray:
        """h at points (k, d), (k,)."""
        return np.asarray(self.features(points) @ self.omega + self.kernel(points, self.X) @ self.weights)

    def value_and_gradient(self, x: FloatArray) -> tuple[float, FloatArray]:
        """h at x (d,) and its gradient (d,)."""
        drawn, along = self.features.value_and_gradient(x[None, :], self.omega[None, :])
        known = self.kernel(x[None, :], self.X)[0] @ self.weights
        return float(drawn[0] + known), along[0] + self.kernel.gradient(x, self.X) @ self.weights

    def descend(self, start: FloatArray, *, reach: float, free: NDArray[np.bool_]) -> FloatArray:
        """Return where h is smallest near ``start``, (d,): a local search in the unit cube.

        Args:
            start: (d,), in the cube.
            reach: the farthest it may go in each coordinate.
            free: (d,), the coordinates that may move.
        """
        if not free.any():
            return np.array(start)

        def on_free(z: FloatArray) -> tuple[float, FloatArray]:
            x = np.array(start)
            x[free] = z
            value, slopes = self.value_and_gradient(x)
            return value, slopes[free]

        box = Bounds(np.maximum(start[free] - reach, 0.0), np.minimum(start[free] + reach, 1.0))
        found = minimize(on_free, start[free], jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": DESCENT})
        x = np.array(start)
        x[free] = found.x
        return x
