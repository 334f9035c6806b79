"""Algorithms that are variants of the centred search; `centred_variants` measures them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from cmaes import CMA

from benchmarks.data import Array
from dptune.privacy.query import Question
from dptune.search.algorithms.centred import PROPOSALS, RESAMPLINGS, Centred, Generation
from dptune.search.algorithms.centred_settings import CentredSettings
from dptune.search.gp.grouped import Group, GroupedRegression


class RawValues(Centred):
    """CMA-ES told the released values as they are; the surrogate still chooses the proposals, unless candidates=1."""

    def _tell(self, generation: Generation) -> None:
        """Learn the raw values; the surrogate is fitted all the same."""
        engine, new = self.cma, generation.points[: generation.new]
        self.cma = _Deaf(engine)
        super()._tell(generation)
        self.cma = engine
        engine.tell([(x, float(v)) for x, v in zip(new, generation.values[: generation.new], strict=True)])
        self.means[-1] = np.array(engine.mean)

    def recommend(self) -> Array:
        """The mean of CMA-ES's last means."""
        return np.asarray(np.clip(np.mean(self.means[-self.settings.tuning.average :], axis=0), 0.0, 1.0))


class _Deaf:
    """CMA-ES that learns nothing."""

    def __init__(self, engine: object) -> None:
        self.mean = engine.mean

    def tell(self, solutions: object) -> None:
        """Nothing."""


class Schedule(Centred):
    """The first generation's squared price is ``ratio`` times the last one's, geometrically."""

    ratio = 3.0

    def question(self) -> Question | None:
        """At this generation's price."""
        asked = super().question()
        return asked and replace(asked, query=replace(asked.query, mu=asked.query.mu * self._factor()))

    def _factor(self) -> float:
        G = self.settings.generations
        weights = self.ratio ** (-np.arange(G) / max(G - 1, 1))
        return math.sqrt(weights[self.t] / weights.mean())


class LearningRate(Centred):
    """CMA-ES of `cmaes`, with a learning rate that adapts to the noise (Nomura et al., arXiv 2304.03473)."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        engine = partial(CMA, n_max_resampling=RESAMPLINGS, seed=settings.seed, population_size=settings.population)
        bounds = np.tile([0.0, 1.0], (settings.d, 1))
        self.cma = engine(np.full(settings.d, 0.5), settings.tuning.sigma, bounds=bounds, lr_adapt=True)


class RawLearningRate(LearningRate, RawValues):
    """The same, told the released values as they are."""


class TrustRegion(Centred):
    """Trust-region BO (TuRBO, Eriksson et al., arXiv 1910.01739) in the place of CMA-ES."""

    SHORTEST, LONGEST, FIRST = 2.0**-7, 1.6, 0.8

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self._side, self._good, self._bad = self.FIRST, 0, 0

    def _propose(self, rng: np.random.Generator) -> Array:
        s = self.settings
        count = PROPOSALS * s.population
        total = s.tuning.candidates * s.population
        if not self.generations:
            return np.asarray(np.clip(0.5 + s.tuning.sigma * rng.standard_normal((count, s.d)), 0, 1))
        lengths = np.exp(self.surrogate.theta[: s.d])
        sides = self._side * np.clip(lengths / np.exp(np.log(lengths).mean()), 0.1, 10)
        centre = self.means[-1]
        low, high = np.maximum(centre - sides / 2, 0), np.minimum(centre + sides / 2, 1)
        moved = rng.random((total, s.d)) < min(1.0, 20 / s.d)
        moved[np.arange(total), rng.integers(s.d, size=total)] = True
        drawn = np.where(moved, rng.uniform(low, high, (total, s.d)), centre)
        return self._best_under_drawn_functions(drawn, rng, spread=s.tuning.spread)

    def _tell(self, generation: Generation) -> None:
        """Learn, and move, widen or narrow the region."""
        super()._tell(generation)
        seen = np.vstack([g.points[: g.new] for g in self.generations])
        means = self.surrogate.mean(seen)
        best, newest = int(np.argmin(means)), len(seen) - generation.new
        better = best >= newest
        self._good, self._bad = (self._good + 1, 0) if better else (0, self._bad + 1)
        if self._good >= 3:
            self._side, self._good = min(2 * self._side, self.LONGEST), 0
        elif self._bad >= math.ceil(max(4, self.settings.d) / generation.new):
            self._side, self._bad = self._side / 2, 0
        if self._side < self.SHORTEST:
            self._side = self.FIRST
        self.means[-1] = seen[best]


class TPE(Centred):
    """Optuna's TPE, told the surrogate's means of all points, in the place of CMA-ES."""

    def _propose(self, rng: np.random.Generator) -> Array:
        import optuna
        from optuna.distributions import FloatDistribution

        s = self.settings
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=1000 * s.seed + self.t, multivariate=True, constant_liar=True, n_startup_trials=s.population
            )
            study = optuna.create_study(sampler=sampler)
            space = {f"u{j}": FloatDistribution(0.0, 1.0) for j in range(s.d)}
            if self.generations:
                seen = np.vstack([g.points[: g.new] for g in self.generations])
                for x, value in zip(seen, self.surrogate.mean(seen), strict=True):
                    parameters = dict(zip(space, x.tolist(), strict=True))
                    study.add_trial(
                        optuna.trial.create_trial(params=parameters, distributions=space, value=float(value))
                    )
            asked = [study.ask(space).params for _ in range(s.population)]
        return np.array([[parameters[name] for name in space] for parameters in asked])

    def _tell(self, generation: Generation) -> None:
        """Learn; the incumbent takes the place of CMA-ES's mean."""
        super()._tell(generation)
        seen = np.vstack([g.points[: g.new] for g in self.generations])
        self.means[-1] = seen[int(np.argmin(self.surrogate.mean(seen)))]


class AsksItsAnswer(Centred):
    """One proposal of each generation is what would be recommended now."""

    def _propose(self, rng: np.random.Generator) -> Array:
        drawn = super()._propose(rng)
        if self.generations:
            drawn[0] = self.recommend()
        return drawn


class Tried(Centred):
    """Recommends the evaluated point whose posterior mean is smallest."""

    def recommend(self) -> Array:
        """Among all points that were asked about."""
        seen = np.vstack([generation.points for generation in self.generations])
        return np.asarray(seen[int(np.argmin(self.surrogate.mean(seen)))])


class LongScales(GroupedRegression):
    """Length-scales with the prior of Hvarfner et al. (arXiv 2402.02229): median e^sqrt(2) sqrt(d)."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self._prior = np.array([math.sqrt(2) + math.log(d) / 2] * d + list(self._prior[d:]))
        self.theta = self._prior

    def objective(self, theta: Array) -> tuple[float, Array]:
        value, slopes = super().objective(theta)
        spare = np.where(np.arange(len(theta)) < self.d, 2 / 3, 0.0) * (theta - self._prior)  # 1 - 1 / 3
        return value - 0.5 * float(spare @ (theta - self._prior)), slopes - spare


class LongScaled(Centred):
    """The same search with that prior."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.surrogate = LongScales(settings.d)


class Rescaled(GroupedRegression):
    """A generation's values and noise times sqrt(1 / C): where C is small it holds most people's differences down."""

    def fit(self, groups: Sequence[Group]) -> None:
        """Take the groups, of which the newest is not rescaled yet."""
        *old, new = groups
        scale = 1 / math.sqrt(self.radius)
        super().fit([*old, Group(new.points, new.values * scale, new.sigma * scale)])


class UndoesClipping(Centred):
    """The same search with such values."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.surrogate = Rescaled(settings.d)

    def _tell(self, generation: Generation) -> None:
        self.surrogate.radius = generation.radius / self.settings.radius
        super()._tell(generation)
