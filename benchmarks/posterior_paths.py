"""Centred releases without CMA-ES: many small generations, each point the bottom of a function from the posterior.

A function drawn from a posterior, by Matheron's rule (Wilson et al., arXiv 2011.04026)::

    f(x) = sum_j w_j cos(omega_j x + b_j)    a draw of the prior, by random Fourier features
    h(x) = m(x) + spread (f(x) - k(x, X) K^-1 (f(X) + c + e))    m: posterior mean; c, e: draws of offsets and noise

Its gradient is known, so a descent finds the coordinates that belong on the boundary; candidates drawn from a normal
distribution are seldom there.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import Bounds, minimize

from benchmarks.data import Array
from dptune.algorithms.centred import PROPOSALS
from dptune.algorithms.centred_cma import CentredCMA
from dptune.algorithms.centred_plan import default_population
from dptune.gp.grouped import OFFSET, GroupedRegression

FEATURES = 512
FREEDOM = 5.0  # of the t distribution that is the spectrum of Matern 5/2
DESCENT = 30  # iterations
BOX = 0.3  # the farthest a proposal goes from the point it starts at, in each coordinate


class Path:
    """One function drawn from the posterior of a fitted surrogate, with its gradient.

    Args:
        surrogate: fitted, with n released values of points in d dimensions.
        rng: of the draw.
        spread: scale of the random part; 0 is the posterior mean.
    """

    def __init__(self, surrogate: GroupedRegression, rng: np.random.Generator, spread: float) -> None:
        d, theta, self.X = surrogate.d, surrogate._theta, surrogate._X
        self.kernel = surrogate._kernel(theta)
        scaled = np.sqrt(rng.chisquare(FREEDOM, (FEATURES, 1)) / FREEDOM) * surrogate.lengthscales
        self.omega = rng.standard_normal((FEATURES, d)) / scaled
        self.b = rng.uniform(0, 2 * np.pi, FEATURES)
        self.w = spread * rng.standard_normal(FEATURES) * math.sqrt(2 * self.kernel.variance / FEATURES)
        groups = np.argmax(surrogate._offsets > 0, axis=1)  # (n,): the first value of each one's group
        offsets = math.sqrt(OFFSET) * rng.standard_normal(len(groups))[groups]
        noise = rng.standard_normal(len(groups)) * np.sqrt(surrogate._noise + math.exp(2 * theta[d + 1]))
        drawn = np.cos(self.X @ self.omega.T + self.b) @ self.w + spread * (offsets + noise)
        self.weights = surrogate._weights - cho_solve((surrogate._factor, True), drawn)

    def values(self, points: Array) -> Array:
        """h at points (k, d), (k,)."""
        return np.asarray(np.cos(points @ self.omega.T + self.b) @ self.w + self.kernel(points, self.X) @ self.weights)

    def descend(self, start: Array, reach: float) -> Array:
        """Where h is smallest near ``start`` (d,), at most ``reach`` away in each coordinate."""

        def value(x: Array) -> tuple[float, Array]:
            along = -(np.sin(self.omega @ x + self.b) * self.w) @ self.omega
            return float(self.values(x[None, :])[0]), along + self.kernel.gradient(x, self.X) @ self.weights

        box = Bounds(np.maximum(start - reach, 0.0), np.minimum(start + reach, 1.0))
        found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": DESCENT})
        return np.asarray(found.x)


class Paths(CentredCMA):
    """After as many random points as CMA-ES's first generation has, each proposal is the bottom of a path.

    The descent starts at the tried point where the path is smallest; the answer is the posterior mean's minimiser near
    the tried point where the mean is smallest.
    """

    def _propose(self, rng: np.random.Generator) -> Array:
        s = self.settings
        if len(self._tried()) < default_population(s.d, s.generations * s.population):
            return np.clip(0.5 + s.sigma * rng.standard_normal((PROPOSALS * s.population, s.d)), 0.0, 1.0)
        proposed = [self._bottom(Path(self.surrogate, rng, s.spread)) for _ in range(s.population)]
        return np.vstack([proposed] * PROPOSALS)

    def _bottom(self, path: Path) -> Array:
        tried = self._tried()
        return path.descend(tried[int(np.argmin(path.values(tried)))], BOX)

    def _tried(self) -> Array:
        none = np.zeros((0, self.settings.d))
        return np.vstack([none, *(generation.points[: generation.new] for generation in self.generations)])

    def recommend(self) -> Array:
        """Near the tried point with the smallest posterior mean; the centre before there is one."""
        tried = self._tried()
        if not len(tried):
            return self.centre
        return self.surrogate.minimiser(tried[int(np.argmin(self.surrogate.mean(tried)))], reach=self.settings.reach)
