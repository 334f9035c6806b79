"""CMA-ES with a surrogate on centred joint releases: the package's proposals for numbers until November 2026.

Candidates are drawn from N(m, sigma^2 C) and chosen by Thompson sampling on the surrogate; after each generation CMA-ES
is told the surrogate's posterior means at the new points. Spaces of continuous numbers only.
"""

from __future__ import annotations

import math

import numpy as np
from cmaes import CMA

from benchmarks.data import Array
from dptune.algorithms.centred import Centred, CentredSettings, Generation

RESAMPLINGS = 3  # of a candidate outside the cube, before it is cut to it
PROPOSALS = 4  # made at once, in generations
CANDIDATES = 40  # drawn for each place of a generation
AVERAGED = 0.15  # share of CMA-ES's means near whose average the recommendation is sought
REACH = 0.2  # of the recommendation from there, in sides of the cube


def population(d: int) -> int:
    """lambda = 4 + 3 log d."""
    return 4 + math.floor(3 * math.log(d))


def settings_of(d: int, clip: tuple[float, float], trials: int) -> dict[str, object]:
    """The planner's settings that it had: larger generations, half of the people unclipped, nothing saturated."""
    fixed = {"quantile": 0.5, "rate": 1.0, "saturation": None, "radius": 0.4 * (clip[1] - clip[0])}
    return {"population": max(min(population(d), trials // 4), 4), **fixed}


class SurrogateCMA(Centred):
    """The search; see :class:`dptune.algorithms.centred.Centred`."""

    candidates = CANDIDATES  # 1: CMA-ES alone chooses its proposals

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.means = [self.centre]
        bounds = np.tile([0.0, 1.0], (settings.d, 1))
        common = {"population_size": settings.population, "seed": settings.seed, "n_max_resampling": RESAMPLINGS}
        self._cma = CMA(mean=self.centre, sigma=settings.sigma, bounds=bounds, **common)

    @property
    def centre(self) -> Array:
        """The centre of the cube."""
        return np.full(self.settings.d, 0.5)

    def _propose(self, rng: np.random.Generator, proposed: Array) -> Array:
        if not len(proposed):
            self._made = self._batch(np.random.default_rng([self.settings.seed, self.t]))
        return self._made[len(proposed)]

    def _batch(self, rng: np.random.Generator) -> Array:
        s, count = self.settings, PROPOSALS * self.settings.population
        self._cma.reseed_rng(int(rng.integers(2**31)))
        total = max(self.candidates * s.population, count)
        drawn = np.array([np.clip(self._cma.ask(), 0.0, 1.0) for _ in range(total)])
        if self.candidates == 1 or not self.generations:
            return drawn[:count]
        mean, covariance = self.surrogate.joint(drawn)
        random = np.linalg.cholesky(covariance) @ rng.standard_normal((len(drawn), count))
        return drawn[best_of_each(mean[:, None] + s.spread * random)]

    def _tell(self, generation: Generation) -> None:
        super()._tell(generation)
        new = generation.points[: generation.new]
        self._cma.tell([(x, float(v)) for x, v in zip(new, self.surrogate.mean(new), strict=True)])
        self.means.append(np.array(self._cma.mean))

    def recommend(self) -> Array:
        """Where the surrogate is smallest near the mean of CMA-ES's last means."""
        last = max(round(AVERAGED * self.settings.generations), 1)
        return self.surrogate.minimiser(np.clip(np.mean(self.means[-last:], axis=0), 0.0, 1.0), reach=REACH)


def best_of_each(samples: Array) -> list[int]:
    """For each column of samples (candidates, count) the smallest row that no earlier column took."""
    taken: list[int] = []
    for column in samples.T:
        taken.append(next(int(i) for i in np.argsort(column) if int(i) not in taken))
    return taken
