"""The search by centred releases for numbers: candidates are those of CMA-ES, which is told the surrogate's means.

CMA-ES: Hansen, *The CMA Evolution Strategy: A Tutorial*, arXiv 1604.00772; integers: CMA-ES with margin, Hamano et
al., arXiv 2205.13482; both from the `cmaes` library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from dptune._arrays import Matrix, Vector
from dptune.errors import MissingExtra
from dptune.search.algorithms.centred import PROPOSALS, Centred, Generation
from dptune.search.algorithms.centred_settings import CentredSettings

EVIDENCE = 12.0  # nats by which the surrogate must fit better than a constant, for CMA-ES to begin before it has to
RESAMPLINGS = 3  # of a candidate outside the cube, before it is cut to it: many optima lie on the boundary


class CentredCMA(Centred):
    """The search for numbers: CMA-ES on the surrogate's means.

    The first points come from CMA-ES's first distribution, until what was released tells points apart, or are a Halton
    sequence. CMA-ES begins at the weighted mean of their better half. A search that follows its first few points gets
    stuck where the loss is flat.

        m, sigma, C    mean, step size and covariance of CMA-ES's distribution (this C is not the clipping radius)
    """

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.means: list[Vector] = [np.full(settings.d, 0.5)]  # m of each generation
        self.cma = _engine(settings, self.means[0])
        self.explores = settings.tuning.explored > 0

    @property
    def centre(self) -> Vector:
        return self.means[0]

    def ask(self, slot: int) -> Vector:
        """Likewise. A Halton sequence repeats no point, whether slots continue across processes or restart."""
        s = self.settings
        had = sum(generation.new for generation in self.generations)
        if not (self.explores and s.halton) or (slot == 0 and self.t == 0 and s.default is not None):
            return super().ask(slot)
        sequence = scipy.stats.qmc.Halton(s.d, rng=np.random.default_rng([s.seed, s.d]))
        return np.asarray(sequence.fast_forward(slot if slot >= had else had + slot).random(1)[0])

    def _propose(self, rng: np.random.Generator) -> Matrix:
        s = self.settings
        tuning = self.settings.tuning
        count = PROPOSALS * self.settings.population
        self.cma.reseed_rng(int(rng.integers(2**31)))
        X = np.array([_point(self.cma.ask()) for _ in range(max(tuning.candidates * s.population, count))])
        # rows of X ~ N(m, sigma^2 C), cut to the cube
        if tuning.candidates == 1 or not self.generations:
            return X[:count]
        return self._best_under_drawn_functions(X, rng, spread=1.0 if self.explores else tuning.spread)

    def _tell(self, generation: Generation) -> None:
        super()._tell(generation)
        X = generation.points[: generation.new]
        if not self.explores:
            self.cma.tell([(x, float(f)) for x, f in zip(X, self.surrogate.mean(X), strict=True)])
            self.means.append(np.array(self.cma.mean, dtype=np.float64))
            return
        self.means.append(self._better_half())
        self.explores = not self._knows_enough()
        if not self.explores:
            self.cma = _engine(self.settings, self.means[-1])

    def _knows_enough(self) -> bool:
        """Whether CMA-ES may begin to move."""
        tuning = self.settings.tuning
        explored = sum(generation.new for generation in self.generations)
        if explored < tuning.explored or explored >= tuning.most_explored:
            return bool(explored >= tuning.explored)
        return self.surrogate.evidence() >= EVIDENCE

    def _better_half(self) -> Vector:
        """The mean of the better half of the n points so far, weighted as CMA-ES weights a generation, (d,).

        sum_i w_i x_{i:n} / sum_i w_i, with w_i = log((n + 1) / 2) - log i.
        """
        X = np.vstack([generation.points[: generation.new] for generation in self.generations])
        w = np.log((len(X) + 1) / 2) - np.log(np.arange(1, len(X) // 2 + 1))
        better = X[np.argsort(self.surrogate.mean(X), kind="stable")[: len(w)]]
        return np.asarray(w @ better / w.sum())

    def recommend(self) -> Vector:
        """Return where the surrogate is smallest near the mean of CMA-ES's last ``average`` means, (d,).

        Never the argmin of noisy values.
        """
        average = np.clip(np.mean(self.means[-self.settings.tuning.average :], axis=0), 0.0, 1.0)
        return self.surrogate.minimiser(average, reach=self.settings.tuning.reach)


def _engine(settings: CentredSettings, mean: Vector) -> Any:
    """CMA-ES around a mean, or CMA-ES with margin if a coordinate has cells."""
    try:
        from cmaes import CMA, CMAwM
    except ImportError:
        raise MissingExtra('this algorithm needs cmaes: pip install "dptune[cmaes]".') from None
    common: dict[str, Any] = {"population_size": settings.population, "seed": settings.seed}
    common |= {"sigma": settings.tuning.sigma, "n_max_resampling": RESAMPLINGS}
    if not any(settings.tuning.steps):
        return CMA(mean=mean, bounds=np.tile([0.0, 1.0], (settings.d, 1)), **common)
    steps = np.array(settings.tuning.steps)
    low = steps / 2  # the first cell's middle
    high = 1 - steps / 2  # the last cell's middle
    return CMAwM(mean=np.clip(mean, low, high), bounds=np.column_stack([low, high]), steps=steps, **common)


def _point(asked: Any) -> Vector:
    """CMA-ES with margin returns the rounded point and the one it was rounded from."""
    return np.asarray(np.clip(asked[0] if isinstance(asked, tuple) else asked, 0.0, 1.0))
