"""CMA-ES on centred joint releases: a rank-based search in a space of numbers.

The first points come from CMA-ES's first distribution, until what was released tells points apart; CMA-ES begins at the
weighted mean of their better half. A search that follows its first few points gets stuck where the loss is flat.

CMA-ES: Hansen, *The CMA Evolution Strategy: A Tutorial*, arXiv 1604.00772; integers: CMA-ES with margin, Hamano et
al., arXiv 2205.13482; both from the `cmaes` library. Candidates are drawn from N(m, sigma^2 C) and chosen by Thompson
sampling on the surrogate, as in surrogate-assisted CMA-ES; after each generation CMA-ES is told the surrogate's
posterior means at the new points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dptune.algorithms.centred import PROPOSALS, Centred, CentredSettings, Generation, Matrix, Vector, best_of_each
from dptune.errors import MissingExtra

EVIDENCE = 12.0  # nats by which the surrogate must fit better than a constant, for CMA-ES to begin before it has to
RESAMPLINGS = 3  # of a candidate outside the cube, before it is cut to it: many optima lie on the boundary


class CentredCMA(Centred):
    """The search for numbers; see :class:`dptune.algorithms.centred.Centred`."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.means: list[Vector] = [np.full(settings.d, 0.5)]
        self._cma = _engine(settings, self.means[0])
        self._explores = settings.explored > 0

    @property
    def centre(self) -> Vector:
        """The centre of the cube."""
        return self.means[0]

    def _propose(self, rng: np.random.Generator) -> Matrix:
        s = self.settings
        self._cma.reseed_rng(int(rng.integers(2**31)))
        count = PROPOSALS * s.population
        drawn = np.array([_point(self._cma.ask()) for _ in range(max(s.candidates * s.population, count))])
        if s.candidates == 1 or not self.generations:
            return drawn[:count]
        spread = 1.0 if self._explores else s.spread
        return drawn[best_of_each(self.surrogate.samples(drawn, count, rng, spread=spread))]

    def _tell(self, generation: Generation) -> None:
        super()._tell(generation)
        if self._explores:
            self.means.append(self._better_half())
            self._explores = not self._knows_enough()
            if not self._explores:
                self._cma = _engine(self.settings, self.means[-1])
            return
        new = generation.points[: generation.new]
        self._cma.tell([(x, float(v)) for x, v in zip(new, self.surrogate.mean(new), strict=True)])
        self.means.append(np.array(self._cma.mean, dtype=np.float64))

    def _knows_enough(self) -> bool:
        """Whether CMA-ES may begin to move."""
        s, explored = self.settings, sum(generation.new for generation in self.generations)
        if explored < s.explored or explored >= s.most_explored:
            return bool(explored >= s.explored)
        return self.surrogate.evidence() >= EVIDENCE

    def _better_half(self) -> Vector:
        """The mean of the better half of the points so far, weighted as CMA-ES weights a generation, (d,)."""
        X = np.vstack([generation.points[: generation.new] for generation in self.generations])
        ranks = np.arange(1, len(X) // 2 + 1)
        weights = np.log((len(X) + 1) / 2) - np.log(ranks)
        return np.asarray(weights @ X[np.argsort(self.surrogate.mean(X), kind="stable")[: len(ranks)]] / weights.sum())

    def recommend(self) -> Vector:
        """Return where the surrogate is smallest near the mean of CMA-ES's last ``average`` means, (d,).

        Never the argmin of noisy values.
        """
        average = np.clip(np.mean(self.means[-self.settings.average :], axis=0), 0.0, 1.0)
        return self.surrogate.minimiser(average, reach=self.settings.reach)


def _engine(settings: CentredSettings, mean: Vector) -> Any:
    """CMA-ES around a mean, or CMA-ES with margin if a coordinate has cells."""
    try:
        from cmaes import CMA, CMAwM
    except ImportError:
        raise MissingExtra('this algorithm needs cmaes: pip install "dptune[cmaes]".') from None
    common = {"population_size": settings.population, "seed": settings.seed, "n_max_resampling": RESAMPLINGS}
    if not any(settings.steps):
        bounds = np.tile([0.0, 1.0], (settings.d, 1))
        return CMA(mean=mean, sigma=settings.sigma, bounds=bounds, **common)
    steps = np.array(settings.steps)
    bounds = np.column_stack([steps / 2, 1 - steps / 2])  # the first and the last cell's middle
    return CMAwM(
        mean=np.clip(mean, bounds[:, 0], bounds[:, 1]), sigma=settings.sigma, bounds=bounds, steps=steps, **common
    )


def _point(asked: Any) -> Vector:
    """CMA-ES with margin returns the rounded point and the one it was rounded from."""
    return np.asarray(np.clip(asked[0] if isinstance(asked, tuple) else asked, 0.0, 1.0))
