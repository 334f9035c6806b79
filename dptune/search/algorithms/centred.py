"""Centred joint releases: a private search over numbers that queries differences only.

    lambda       population: new points of a generation          G    number of generations
    r            references: the best earlier points, queried in every generation
    L_i (m,)     a person's losses at the m = lambda + r points of a generation
    H = I - 11^T/m, (m, m)        the centring matrix
    H L_i        a person's losses minus their own mean over the generation: individual levels cancel
    C            clipping radius of ||H L_i||; replacing one person moves the mean of clipped H L_i by at most 2 C / n
    kappa        saturation: at first, before centring, each person's losses are cut at their median + kappa C / sqrt(m)
    mu_c, mu_q   GDP price of one generation's two releases, mu_c^2 + mu_q^2 = mu^2 / G
    M, sigma, S  mean, step size and covariance of CMA-ES's distribution

One generation:

1. Propose lambda points: each is the best of many candidates of CMA-ES, under a function drawn from the surrogate's
   posterior given all released values.
2. Release the share of people with ||H L_i|| <= C, and set C <- C exp(-rate (share - quantile)). As the search
   converges people agree, so C and the noise shrink.
3. Release the mean over people of H L_i, clipped to C *after* centring: one query, 2 C / n for all m points.
   A failed point counts, for each person, as their mean over the other points plus C / sqrt(m).
4. Fit the surrogate (:mod:`dptune.search.gp.grouped`) to all released values, with their known noise: earlier
   generations reduce the noise. CMA-ES learns the surrogate's means.

The references connect the generations, each of which is known only up to its own constant. The curator already has
their losses, so they cost no trial.

The first points come from CMA-ES's first distribution, until the releases distinguish points. CMA-ES begins at the
weighted mean of their better half. A search that follows its first few points gets stuck where the loss is flat.

CMA-ES: Hansen, *The CMA Evolution Strategy: A Tutorial*, arXiv 1604.00772; integers: CMA-ES with margin, Hamano et
al., arXiv 2205.13482; both from the `cmaes` library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune.errors import MissingExtra
from dptune.privacy.query import LARGEST, SMALLEST, Ball, MeanQuery, NormQuery, Question
from dptune.search.algorithms.centred_settings import CentredSettings
from dptune.search.algorithms.rounds import Rounds
from dptune.search.gp.grouped import Group, GroupedRegression

SHARE, GENERATION = "share/", "generation/"  # keys of a generation's two queries
PROPOSALS = 4  # generations of proposals drawn at once
EVIDENCE = 12.0  # nats by which the surrogate must beat a constant, for CMA-ES to begin early
FINEST = 1e-4  # smallest cell width for CMA-ES with margin, whose rounding errors grow; finer grids are a continuum
RESAMPLINGS = 3  # redraws of a candidate outside the cube before clipping: many optima lie on the boundary


@dataclass(frozen=True)
class Generation:
    """The public results of one released generation."""

    points: Matrix  # (m, d), the new ones first
    new: int
    values: Vector  # (m,), the released mean of clipped H L_i
    sigma: float  # standard deviation of their noise
    radius: float  # C

    def note(self) -> dict[str, object]:
        """Return the ledger's note on the values, as plain JSON data."""
        return {"points": self.points.tolist(), "new": self.new, "radius": self.radius}

    @classmethod
    def from_note(cls, note: Mapping[str, Any], values: Vector, sigma: float) -> Generation:
        return cls(np.array(note["points"]), int(note["new"]), np.array(values), sigma, float(note["radius"]))


class Centred(Rounds):
    """The algorithm; it holds public data only.

    In a generation, ``ask`` for ``missing()`` points, evaluate and ``observe`` each. Then release its two queries, the
    share of unclipped people and the centred mean, and ``learn`` each answer. Other points are allowed, and another
    proposal replaces one that is never observed.
    """

    unit = "generation"
    shows = "mean {loss}, upper estimate: the centre's counts as {most:g}"

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.radius = settings.radius  # C
        self.generations: list[Generation] = []
        self.surrogate = GroupedRegression(settings.d)  # f ~ GP, values of a generation = f(points) + constant + noise
        self._followed = 0  # number of generations whose share of unclipped people is released
        self._proposed: dict[int, Matrix] = {}  # proposals of this generation, each (PROPOSALS lambda, d)
        self._first_slot = 0  # first slot of this generation
        self.means: list[Vector] = [np.full(settings.d, 0.5)]  # M of each generation
        self.cma = _engine(settings, self.means[0])
        self.explores = settings.tuning.explored > 0

    @property
    def rounds(self) -> int:
        """Return G, the number of generations."""
        return int(self.settings.generations)

    @property
    def batch(self) -> int:
        """Return lambda, the population."""
        return int(self.settings.population)

    # ---- 1. propose --------------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Return proposal number ``slot`` = 0, 1, ... of the current generation, (d,).

        With pruned trials a generation may need many: after every 4 lambda, new ones are drawn.
        """
        s = self.settings
        if slot == 0 and self.t == 0 and s.default is not None:
            return np.array(s.default)
        if not self._proposed:
            self._first_slot = slot
        again = max(slot - self._first_slot, 0) // (PROPOSALS * s.population)
        if again not in self._proposed:
            self._proposed[again] = self._propose(np.random.default_rng([s.seed, self.t, *([again] if again else [])]))
        drawn = self._proposed[again]
        return np.array(drawn[slot % len(drawn)])

    def _propose(self, rng: np.random.Generator) -> Matrix:
        """Return proposals for the generation, (PROPOSALS lambda, d); they depend on released values only."""
        s, tuning = self.settings, self.settings.tuning
        count = PROPOSALS * s.population
        self.cma.reseed_rng(int(rng.integers(2**31)))
        X = np.array([_point(self.cma.ask()) for _ in range(max(tuning.candidates * s.population, count))])
        # rows of X ~ N(M, sigma^2 S), cut to the cube
        if tuning.candidates == 1 or not self.generations:
            return X[:count]
        return self._best_under_drawn_functions(X, rng, spread=1.0 if self.explores else tuning.spread)

    def _best_under_drawn_functions(self, candidates: Matrix, rng: np.random.Generator, spread: float) -> Matrix:
        """Return the best candidate (k, d) under each of PROPOSALS lambda functions f_j, each point once.

        f_j ~ N(E f, spread^2 Cov f | all released values): Thompson sampling with spread 1.
        """
        F = self.surrogate.samples(candidates, PROPOSALS * self.batch, rng, spread=spread)  # (k, PROPOSALS lambda)
        taken: list[int] = []
        for f in F.T:
            taken.append(next(int(i) for i in np.argsort(f) if int(i) not in taken))
        return candidates[taken]

    # ---- 2. and 3. query ----------------------------------------------------------------------------

    def price(self) -> float:
        return math.hypot(self.settings.mean_mu, 0.0 if self._followed > self.t else self.settings.radius_mu)

    def next_question(self) -> Question:
        """Return the generation's next query: the share of unclipped people, then the centred mean."""
        s = self.settings
        tuning = self.settings.tuning
        asked_before = (name for name in self._points if name not in self._waiting)
        names = (*self.waiting(), *asked_before)
        m = len(names)
        C = self.radius
        H = np.eye(m) - 1 / m
        # Large enough that a failed point never looks good, small enough that it does not use up the clipping radius.
        failed_above = C / math.sqrt(m)
        saturates = tuning.saturation is not None and self.t < tuning.saturated * self.rounds
        saturate_above = tuning.saturation * C / math.sqrt(m) if saturates else None
        if tuning.radius_share and self._followed <= self.t:
            query = NormQuery(names, H, C, s.radius_mu, failed_above, saturate_above)
            return Question(f"{SHARE}{self.t + 1}", query, {"radius": C})
        asked = Generation(self.points_at(names), s.population, np.zeros(0), 0.0, C)
        mean = MeanQuery(names, H, Ball(C), s.mean_mu, failed_above, saturate_above)
        return Question(f"{GENERATION}{self.t + 1}", mean, asked.note())

    # ---- 4. learn ----------------------------------------------------------------------------------

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Set C from the released share, or give the surrogate the released mean."""
        if key.startswith(SHARE):
            self._followed = int(key.removeprefix(SHARE))
            if answer is not None:
                self.radius = self._followed_to(float(note["radius"]), float(answer[0]))
            return
        self.used_up(own=own)
        self._proposed = {}
        if answer is not None:
            self._tell(Generation.from_note(note, answer, sigma))
            self._keep_references()

    def _followed_to(self, C: float, share: float) -> float:
        """Return C exp(-rate (share - quantile)) or its floor; a noisy share may leave [0, 1], and exp overflow."""
        tuning = self.settings.tuning
        exponent = -tuning.rate * (min(max(share, 0.0), 1.0) - tuning.quantile)
        smallest = max(tuning.floor * self.settings.radius, SMALLEST)
        return float(min(max(C * math.exp(min(exponent, 700.0)), smallest), LARGEST))

    def _tell(self, generation: Generation) -> None:
        self.radius = generation.radius
        self.generations.append(generation)
        newest = Group(generation.points, generation.values, generation.sigma)
        self.surrogate.fit([*self.surrogate.groups, newest])
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
        """Return whether CMA-ES may begin to move."""
        tuning = self.settings.tuning
        explored = sum(generation.new for generation in self.generations)
        if explored < tuning.explored or explored >= tuning.most_explored:
            return bool(explored >= tuning.explored)
        return self.surrogate.evidence() >= EVIDENCE

    def _better_half(self) -> Vector:
        """Return the mean of the better half of the n points so far, weighted as CMA-ES weights a generation, (d,).

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

    def _keep_references(self) -> None:
        """Keep the best ``references`` of the queried points, and the default configuration."""
        asked = tuple(name for name in self._points if name not in self._waiting)
        means = self.surrogate.mean(self.points_at(asked)) if asked else np.zeros(0)
        best = {asked[i] for i in np.argsort(means, kind="stable")[: self.settings.tuning.references]}
        default = self.settings.default
        self.keep(best | {name for name in asked if default is not None and np.allclose(self._points[name], default)})

    # ---- results of the answers----------------------------------------------------------------------

    def value(self, x: Vector) -> float | None:
        """Return an upper estimate of the mean loss at x (d,) minus the centre's; None before the first release.

        E[f(x) - f(centre)] + its standard deviation: with the mean alone a lucky early guess would stay the best trial.
        """
        difference = self.difference(x, self.means[0])
        return None if difference is None else sum(difference)

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """Return the posterior mean of f(x) - f(y) and its standard deviation; None before the first release."""
        return self.surrogate.difference(x, y) if self.generations else None

    def progress(self) -> dict[str, object]:
        return {**super().progress(), "radius": self.radius}


def _engine(settings: CentredSettings, mean: Vector) -> Any:
    """Return CMA-ES around a mean, or CMA-ES with margin if a coordinate has cells."""
    try:
        from cmaes import CMA, CMAwM
    except ImportError:
        raise MissingExtra('this algorithm needs cmaes: pip install "dptune[cmaes]".') from None
    common: dict[str, Any] = {"population_size": settings.population, "seed": settings.seed}
    common |= {"sigma": settings.tuning.sigma, "n_max_resampling": RESAMPLINGS}
    steps = np.array([width if width >= FINEST else 0.0 for width in settings.tuning.steps])
    if not steps.any():
        return CMA(mean=mean, bounds=np.tile([0.0, 1.0], (settings.d, 1)), **common)
    low = steps / 2  # the first cell's middle
    high = 1 - steps / 2  # the last cell's middle
    return CMAwM(mean=np.clip(mean, low, high), bounds=np.column_stack([low, high]), steps=steps, **common)


def _point(asked: Any) -> Vector:
    """Return the unrounded point: CMA-ES with margin returns it with the rounded one."""
    return np.asarray(np.clip(asked[0] if isinstance(asked, tuple) else asked, 0.0, 1.0))
