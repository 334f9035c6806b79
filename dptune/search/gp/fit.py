"""Length-scales and noise of a squared-exponential kernel, fitted to an agent's own observations.

L-BFGS on the exact gradient finds the maximum a posteriori of theta = (log l_1, ..., log l_d, log v, log s2). The model
is y ~ N(0, v K_l + s2 I) with standardised y. Log-normal priors keep scales sensible when observations are few::

    l_i: median 0.3 of the cube's side    v: median 1    s2: median 0.01      (standard deviations in _PRIOR_SD)

Source: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, equations 5.8 and 5.9. Use it only on
data that the caller may look at, such as an agent's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import Bounds

from dptune.search.gp.grouped import inverse_of, minimised
from dptune.search.gp.points import FloatArray

_PRIOR_MEDIAN = (0.3, 1.0, 0.01)  # l, v, s2
_PRIOR_SD = (1.0, 1.0, 2.0)  # standard deviations of the logarithms
_BOUNDS = ((0.02, 5.0), (0.05, 20.0), (1e-4, 2.0))
_ITERATIONS = 20


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a squared-exponential kernel on the unit cube, for standardised values."""

    lengthscale: FloatArray  # l (d,), in units of the cube's side
    variance: float  # v = k(x, x)
    noise: float  # s2

    @classmethod
    def prior(cls, d: int) -> Hyperparameters:
        return cls(np.full(d, _PRIOR_MEDIAN[0]), *_PRIOR_MEDIAN[1:])


def fit(X: FloatArray, y: FloatArray, start: Hyperparameters) -> Hyperparameters:
    """Return the fitted hyperparameters of observations X (m, d), y (m,); the search begins at ``start``."""
    d = X.shape[1]
    squares = (X.T[:, :, None] - X.T[:, None, :]) ** 2  # (d, m, m)
    expand = [0] * d + [1, 2]
    median, sd = (np.array([values[i] for i in expand]) for values in (_PRIOR_MEDIAN, _PRIOR_SD))
    bounds = np.log([_BOUNDS[i] for i in expand])

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = negative_log_likelihood(theta, squares, y)
        away = (theta - np.log(median)) / sd
        return value + 0.5 * float(away @ away), gradient + away / sd

    begin = np.log([*start.lengthscale, start.variance, start.noise]).clip(*bounds.T)
    best = minimised(loss, begin, Bounds(*bounds.T), _ITERATIONS)
    return Hyperparameters(np.exp(best[:d]), float(np.exp(best[d])), float(np.exp(best[d + 1])))


def negative_log_likelihood(theta: FloatArray, squares: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return -log N(y; 0, K + s2 I) less a constant, and its gradient in theta (d + 2,)."""
    l2 = np.exp(2 * theta[:-2])
    v, s2 = np.exp(theta[-2:])
    K = v * np.exp(-0.5 * np.tensordot(1 / l2, squares, axes=1))  # (m, m)
    C = K.copy()
    C[np.diag_indices_from(C)] += s2
    L = cholesky(C, lower=True, check_finite=False)
    inverse = inverse_of(L)  # C^-1
    alpha = inverse @ y
    G = 0.5 * (inverse - np.outer(alpha, alpha))  # d loss / d C
    GK = G * K
    lengths = np.tensordot(squares, GK, axes=2) / l2  # (d,)
    value = 0.5 * float(y @ alpha) + float(np.log(np.diag(L)).sum())
    return value, np.concatenate([lengths, [GK.sum(), s2 * np.trace(G)]])
