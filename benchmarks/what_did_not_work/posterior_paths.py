"""Centred releases without CMA-ES: many small generations, each point the bottom of a function from the posterior.

A function drawn from a posterior, by Matheron's rule (Wilson et al., arXiv 2011.04026)::

    f(x) = phi(x).omega    a draw of the prior, by random Fourier features
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
from dptune.search.algorithms.centred import Centred
from dptune.search.algorithms.centred_plan import default_population
from dptune.search.gp.features import FourierFeatures
from dptune.search.gp.grouped import OFFSET, GroupedRegression

FREQUENCIES = 256
FREEDOM = 5.0  # of the t distribution that is the spectrum of Matern 5/2
DESCENT = 30  # iterations
BATCH = 4  # of proposals, in generations
DRAWS = 4  # paths drawn before a known point is proposed again, each with twice the spread and leap of the last


class Path:
    """One function drawn from the posterior of a fitted surrogate, with its gradient.

    Args:
        surrogate: fitted, with n released values of points in d dimensions.
        rng: of the draw.
        spread: scale of the random part; 0 is the posterior mean.
    """

    def __init__(self, surrogate: GroupedRegression, rng: np.random.Generator, spread: float) -> None:
        d, theta, self.X = surrogate.d, surrogate.theta, surrogate._X
        self.kernel = surrogate.kernel_at(theta)
        mixed = np.sqrt(rng.chisquare(FREEDOM, (FREQUENCIES, 1)) / FREEDOM)
        lengths = np.exp(theta[:d])
        self.features = FourierFeatures(rng.standard_normal((FREQUENCIES, d)) / mixed, lengths)
        self.omega = spread * math.sqrt(self.kernel.variance) * rng.standard_normal(self.features.M)
        groups = np.argmax(surrogate._offsets > 0, axis=1)  # (n,): the first value of each one's group
        offsets = math.sqrt(OFFSET) * rng.standard_normal(len(groups))[groups]
        noise = np.sqrt(surrogate._noise + math.exp(2 * theta[d + 1])) * rng.standard_normal(len(groups))
        drawn = self.features(self.X) @ self.omega + spread * (offsets + noise)
        self.weights = surrogate._weights - cho_solve((surrogate._factor, True), drawn)

    def values(self, points: Array) -> Array:
        """h at points (k, d), (k,)."""
        return np.asarray(self.features(points) @ self.omega + self.kernel(points, self.X) @ self.weights)

    def descend(self, start: Array, reach: float) -> Array:
        """Where h is smallest near ``start`` (d,), at most ``reach`` away in each coordinate."""

        def value(x: Array) -> tuple[float, Array]:
            prior, along = self.features.value_and_gradient(x[None, :], self.omega[None, :])
            known = self.kernel(x[None, :], self.X)[0] @ self.weights
            return float(prior[0] + known), along[0] + self.kernel.gradient(x, self.X) @ self.weights

        box = Bounds(np.maximum(start - reach, 0.0), np.minimum(start + reach, 1.0))
        found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": DESCENT})
        return np.asarray(found.x)


class Paths(Centred):
    """After as many random points as CMA-ES's first generation has, each proposal is the bottom of a path.

    The descent starts at the tried point where the path is smallest; the answer is the posterior mean's minimiser near
    the tried point where the mean is smallest. Numbers only, without cells.
    """

    leap = 0.3  # the farthest a proposal goes from the point it starts at, in each coordinate

    @property
    def centre(self) -> Array:
        """The centre of the cube."""
        return np.full(self.settings.d, 0.5)

    def ask(self, slot: int) -> Array:
        """Proposals are drawn one by one, when they are asked for."""
        s = self.settings
        if slot == 0 and self.t == 0 and s.default is not None:
            return np.array(s.default)
        if not self._proposed:
            self._first_slot = slot
        count = BATCH * s.population
        batch, place = max(slot - self._first_slot, 0) // count, slot % count
        drawn = self._proposed.setdefault(batch, [])
        while len(drawn) <= place:
            drawn.append(self._next(np.random.default_rng([s.seed, self.t, batch, len(drawn)]), drawn))
        return np.array(drawn[place])

    def _next(self, rng: np.random.Generator, drawn: list[Array]) -> Array:
        tried = self._tried()
        known = np.vstack([tried, *drawn])
        for times in 2 ** np.arange(DRAWS):
            x = self._bottom(rng, tried, float(times))
            if not (known == x).all(axis=1).any():
                break
        return x

    def _bottom(self, rng: np.random.Generator, tried: Array, times: float) -> Array:
        s = self.settings
        if len(tried) < default_population(s.d, s.generations * s.population):
            return np.asarray(np.clip(0.5 + s.sigma * rng.standard_normal(s.d), 0.0, 1.0))
        path = Path(self.surrogate, rng, times * s.tuning.spread)
        return path.descend(tried[int(np.argmin(path.values(tried)))], times * self.leap)

    def _tried(self) -> Array:
        none = np.zeros((0, self.settings.d))
        return np.vstack([none, *(generation.points[: generation.new] for generation in self.generations)])

    def recommend(self) -> Array:
        """Near the tried point with the smallest posterior mean; the centre before there is one."""
        tried = self._tried()
        if not len(tried):
            return self.centre
        return self.surrogate.minimiser(
            tried[int(np.argmin(self.surrogate.mean(tried)))], reach=self.settings.tuning.reach
        )
