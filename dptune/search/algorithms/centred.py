"""Centred joint releases: a private search that asks for differences only, in any search space.

    lambda       population: new points of a generation          G    number of generations
    r            references: the best earlier points, asked again in every generation
    L_i (m,)     a person's losses at the m = lambda + r points of a generation
    H = I - 11^T/m, (m, m)        the centring matrix
    H L_i        a person's losses minus their own mean over the generation: everybody's level drops out
    C            clipping radius of ||H L_i||; replacing one person moves the mean of clipped H L_i by at most 2 C / n
    kappa        saturation: at first, before centring, each person's losses are cut at their median + kappa C / sqrt(m)
    mu_c, mu_q   GDP price of one generation's two releases, mu_c^2 + mu_q^2 = mu^2 / G

One generation:

1. propose lambda points: of many candidates each proposal is the best one under a function drawn from the surrogate's
   posterior given all released values. Candidates in a space of numbers are those of CMA-ES (:class:`CentredCMA`); with
   categories and conditions random draws and mutations of the best points (:class:`CentredMixed`);
2. release the share of people with ||H L_i|| <= C, and set C <- C exp(-rate (share - quantile)): as the search
   converges people agree, C shrinks, and so does the noise;
3. release the mean over people of H L_i, clipped to C *after* centring: one query, 2 C / n for all m points. A point
   whose evaluation failed counts, for each person, as their mean over the other points plus C / sqrt(m);
4. fit the surrogate (:mod:`dptune.search.gp.grouped`) to all released values, with their known noise: what earlier
   generations said takes noise away.

The references tie the generations together: each is known up to a constant of its own only. Their losses are with
the curator anyway, so they cost no trial.

CMA-ES: Hansen, *The CMA Evolution Strategy: A Tutorial*, arXiv 1604.00772; integers: CMA-ES with margin, Hamano et
al., arXiv 2205.13482; both from the `cmaes` library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy  # its parts are loaded when they are used

from dptune._checks import at_least, between, boolean, check, check_fields, positive, share
from dptune._numbers import plain, tupled
from dptune.errors import InputError, MissingExtra
from dptune.parameters import Categorical
from dptune.privacy.query import LARGEST, SMALLEST, Ball, MeanQuery, NormQuery, Question, smallest_price
from dptune.search.algorithms.rounds import Matrix, Rounds, Settings, Statistic, Vector
from dptune.search.gp.grouped import Group, GroupedRegression
from dptune.space import Space

SHARE, GENERATION = "share/", "generation/"  # keys of a generation's two questions
PROPOSALS = 4  # proposals made at once, in generations


def _radius(name: str, value: object) -> float:
    if not SMALLEST <= (radius := positive(name, value)) <= LARGEST:
        raise InputError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]; got {radius!r}. It is 0.4 of the clip's width unless "
            "given: scale the loss."
        )
    return radius


def _widths(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, tuple | list):
        raise InputError(f"{name} must be cell widths in [0, 1], or (); got {value!r}. To plan trials use n_trials.")
    return tuple(between(f"a width in {name}", width, 0.0, 1.0) for width in value)


@dataclass(frozen=True)
class CentredSettings(Settings):
    """All of the algorithm's settings, public; :func:`dptune.search.algorithms.centred_plan.plan_centred` chooses them.

    Attributes:
        d: number of coordinates of the space's code.
        generations: G.
        population: lambda, at least 4: with fewer CMA-ES has no covariance to learn.
        mu: GDP budget of all generations together.
        radius: the first C, in units of the loss times sqrt(lambda).
        quantile: the share of people that C aims to leave unclipped.
        rate: how fast C follows.
        floor: the smallest C, in units of the first, 1e-12 to 1. Where most people's losses are the same at all points,
            their norms are 0 and C would follow: the released mean would become a vote, with another minimiser.
        share: share of mu^2 for the releases that C follows; 0 keeps C as it is.
        references: r.
        sigma: initial step size of CMA-ES, in sides of the cube.
        explored: at least so many points are drawn from CMA-ES's first distribution, before it begins to move; 0: none.
        most_explored: up to so many, as long as what was released does not tell points apart; asked after each
            generation. No effect below ``explored``.
        halton: whether the ``explored`` points are a Halton sequence in the cube instead: all of it is looked at.
        spread: scale of the random part of the functions drawn from the surrogate: 1 is Thompson sampling, 0 its mean.
        candidates: drawn for each place of a generation; with CMA-ES 1 switches the surrogate's choice off.
        average, reach: the recommendation is the surrogate's minimiser, sought at most ``reach`` in each coordinate
            from the mean of CMA-ES's last ``average`` means.
        steps: cell width of each coordinate, 0 for a continuum: (d,); () for none.
        default: the user's default configuration (d,), in the cube: the first point, and a reference as long as this
            process holds its losses; None: there is none.
        saturation: kappa; None: losses are centred as they are.
        saturated: share of the generations, the first ones, in which losses are saturated. Later points lie near each
            other, and where losses have long tails the cut mean has another minimiser.
        space: the search space, if it has categories or conditions; None: numbers, searched by CMA-ES.
    """

    d: int = field(metadata=check(at_least, 1))
    generations: int = field(metadata=check(at_least, 1))
    population: int = field(metadata=check(at_least, 4))
    mu: float = field(metadata=check(positive))
    radius: float = field(metadata=check(_radius))
    quantile: float = field(default=0.5, metadata=check(share))
    rate: float = field(default=1.0, metadata=check(positive))
    floor: float = field(default=0.01, metadata=check(between, 1e-12, 1.0))
    share: float = field(default=0.05, metadata=check(share))
    references: int = field(default=2, metadata=check(at_least, 0))
    sigma: float = field(default=0.2, metadata=check(positive))
    explored: int = field(default=0, metadata=check(at_least, 0))
    most_explored: int = field(default=0, metadata=check(at_least, 0))
    halton: bool = field(default=False, metadata=check(boolean))
    spread: float = field(default=0.5, metadata=check(between, 0.0, 1e300))
    candidates: int = field(default=40, metadata=check(at_least, 1))
    average: int = field(default=1, metadata=check(at_least, 1))
    reach: float = field(default=0.2, metadata=check(positive))
    steps: tuple[float, ...] = field(default=(), metadata=check(_widths))
    default: tuple[float, ...] | None = None
    saturation: float | None = field(default=None, metadata=check(between, 0.0, 1e300))
    saturated: float = field(default=1.0, metadata=check(between, 0.0, 1.0))
    space: Space | None = None
    seed: int = field(default=0, metadata=check(at_least, 0))

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "default", plain(self.default))
        if len(self.steps) not in (0, self.d):
            raise InputError(f"steps must be {self.d} cell widths, or (); got {self.steps!r}.")
        remedy = f"too small for {self.generations} generations; plan fewer trials or a larger mu"
        if self.mean_mu < smallest_price(self.population + self.references):
            raise InputError(f"mu={self.mu!r} is {remedy}.")
        if self.share and self.share_mu < smallest_price(1):
            raise InputError(f"share={self.share!r} of mu={self.mu!r} is {remedy}, or share=0.")

    @property
    def mean_mu(self) -> float:
        """mu_c, of one generation's centred mean."""
        return self.mu * math.sqrt((1 - self.share) / self.generations)

    @property
    def share_mu(self) -> float:
        """mu_q, of one generation's share of unclipped people; 0 if there is none."""
        return self.mu * math.sqrt(self.share / self.generations)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return a generation's centred vector, at the first C: C shrinks as the search converges."""
        m = self.population + self.references
        return (Statistic("a mean loss within a generation, at first,", self.radius, m, self.mean_mu),)

    def describe(self) -> dict[str, object]:
        """Return them as plain JSON data; the plan has the space, too."""
        return {name: value for name, value in asdict(self).items() if name != "space"}

    @classmethod
    def restored(cls, described: Mapping[str, Any], space: Space | None) -> Self:
        """Return the settings that described themselves so."""
        mixed = space if space is not None and not space.plain else None
        return cls(**{name: tupled(value) for name, value in described.items()}, space=mixed)


@dataclass(frozen=True)
class Generation:
    """What is public about one generation, once it is released."""

    points: Matrix  # (m, d), the new ones first
    new: int
    values: Vector  # (m,), the released mean of clipped H L_i
    sigma: float  # standard deviation of their noise
    radius: float  # C

    def note(self) -> dict[str, object]:
        """Return what a ledger keeps beside the values, as plain JSON data."""
        return {"points": self.points.tolist(), "new": self.new, "radius": self.radius}

    @classmethod
    def from_note(cls, note: Mapping[str, Any], values: Vector, sigma: float) -> Generation:
        """Return the generation that a ledger kept."""
        return cls(np.array(note["points"]), int(note["new"]), np.array(values), sigma, float(note["radius"]))


class Centred(Rounds):
    """The releases and what is learned from them; subclasses say where to look and what to recommend.

    One generation: ``ask`` for ``missing()`` points, evaluate them, ``observe`` each; have its two questions answered,
    the share of unclipped people and the centred mean, and ``learn`` each answer. Points of one's own are welcome, and
    what is never observed is missed by nobody: another proposal takes its place.
    """

    unit = "generation"
    shows = "mean {loss} above the centre's, upper estimate"

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.radius = settings.radius  # C
        self.generations: list[Generation] = []
        self.surrogate = GroupedRegression(settings.d)  # f ~ GP, values of a generation = f(points) + constant + noise
        self._recalled = 0  # generations that other runs have paid for
        self._followed = 0  # generations whose share of unclipped people is released
        self._proposed: dict[int, Matrix] = {}  # of this generation, each (PROPOSALS lambda, d)
        self._first_slot = 0  # of this generation that was asked for

    @property
    def rounds(self) -> int:
        """G, and the generations of the runs that this one starts from."""
        return self.before + int(self.settings.generations)

    @property
    def batch(self) -> int:
        """lambda."""
        return int(self.settings.population)

    # ---- 1. propose --------------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Return proposal number ``slot`` = 0, 1, ... of the current generation, (d,).

        Where trials are pruned a generation may need many: after 4 lambda of them others are drawn.
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
        raise NotImplementedError

    def _best_under_drawn_functions(self, candidates: Matrix, rng: np.random.Generator, spread: float) -> Matrix:
        """Of the candidates (k, d) the best under each of PROPOSALS lambda functions f_j, each point once.

        f_j ~ N(E f, spread^2 Cov f | all released values): Thompson sampling with spread 1.
        """
        F = self.surrogate.samples(candidates, PROPOSALS * self.batch, rng, spread=spread)  # (k, PROPOSALS lambda)
        taken: list[int] = []
        for f in F.T:
            taken.append(next(int(i) for i in np.argsort(f) if int(i) not in taken))
        return candidates[taken]

    @property
    def centre(self) -> Vector:
        """The point that values are compared with, (d,): the centre of the search space."""
        raise NotImplementedError

    def best_points(self, count: int) -> Matrix:
        """Return this run's points with the smallest posterior means, best first, (at most count, d)."""
        return self._best_of(self.generations[self._recalled :])[:count]

    def _best_of(self, generations: list[Generation]) -> Matrix:
        X = np.unique(np.vstack([np.zeros((0, self.settings.d)), *(g.points for g in generations)]), axis=0)
        return np.asarray(X[np.argsort(self.surrogate.mean(X), kind="stable")])

    # ---- 2. and 3. ask -----------------------------------------------------------------------------

    def price(self) -> float:
        """GDP price of what is left of the generation's two questions."""
        return math.hypot(self.settings.mean_mu, 0.0 if self._followed > self.t else self.settings.share_mu)

    def next_question(self) -> Question:
        """Return the generation's next question: the share of unclipped people, then the centred mean."""
        s, asked_before = self.settings, (name for name in self._points if name not in self._waiting)
        names = (*self.waiting(), *asked_before)
        m, C = len(names), self.radius
        H = np.eye(m) - 1 / m
        # Large enough that a failed point never looks good, small enough that it does not use up the clipping radius.
        failed_above = C / math.sqrt(m)
        saturates = s.saturation is not None and self.t < s.saturated * self.rounds
        saturate_above = s.saturation * C / math.sqrt(m) if saturates else None
        if s.share and self._followed <= self.t:
            query = NormQuery(names, H, C, s.share_mu, failed_above, saturate_above)
            return Question(f"{SHARE}{self.t + 1}", query, {"radius": C})
        asked = Generation(self.points_at(names), s.population, np.zeros(0), 0.0, C)
        mean = MeanQuery(names, H, Ball(C), s.mean_mu, failed_above, saturate_above)
        return Question(f"{GENERATION}{self.t + 1}", mean, asked.note())

    # ---- 4. learn ----------------------------------------------------------------------------------

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Set C from the released share, or tell the surrogate the released mean."""
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

    def recall(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float) -> None:
        """Learn an answer that another run has paid for."""
        super().recall(key, note, answer, sigma)
        self._recalled = len(self.generations)

    def _followed_to(self, C: float, share: float) -> float:
        """C exp(-rate (share - quantile)), not below its floor; a noisy share may leave [0, 1], and exp overflow."""
        s = self.settings
        exponent = -s.rate * (min(max(share, 0.0), 1.0) - s.quantile)
        return float(min(max(C * math.exp(min(exponent, 700.0)), s.floor * s.radius, SMALLEST), LARGEST))

    def _tell(self, generation: Generation) -> None:
        self.radius = generation.radius
        self.generations.append(generation)
        newest = Group(generation.points, generation.values, generation.sigma)
        self.surrogate.fit([*self.surrogate.groups, newest])

    def _keep_references(self) -> None:
        """Of the points that were asked about keep the best ``references``, and the default configuration."""
        asked = tuple(name for name in self._points if name not in self._waiting)
        means = self.surrogate.mean(self.points_at(asked)) if asked else np.zeros(0)
        best = {asked[i] for i in np.argsort(means, kind="stable")[: self.settings.references]}
        default = self.settings.default
        self.keep(best | {name for name in asked if default is not None and np.allclose(self._points[name], default)})

    # ---- what the answers say ------------------------------------------------------------------------

    def value(self, x: Vector) -> float | None:
        """Return an upper estimate of the mean loss at x (d,) minus the centre's; None before the first release.

        E[f(x) - f(centre)] + its standard deviation: with the mean alone a lucky early guess would stay the best trial.
        """
        known = self.difference(x, self.centre)
        return None if known is None else sum(known)

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """Return the posterior mean of f(x) - f(y) and its standard deviation; None before the first release."""
        return self.surrogate.difference(x, y) if self.generations else None

    @property
    def radius_ratio(self) -> float:
        """C in units of the first: less than 1 where people have come to agree."""
        return float(self.radius / self.settings.radius)

    def progress(self) -> dict[str, object]:
        """Return how far it is, for a dashboard."""
        return {**super().progress(), "radius": self.radius}


# ---- numbers: CMA-ES ---------------------------------------------------------------------------------------------

EVIDENCE = 12.0  # nats by which the surrogate must fit better than a constant, for CMA-ES to begin before it has to
RESAMPLINGS = 3  # of a candidate outside the cube, before it is cut to it: many optima lie on the boundary


class CentredCMA(Centred):
    """The search for numbers: CMA-ES, told the surrogate's means.

    The first points come from CMA-ES's first distribution, until what was released tells points apart, or are a Halton
    sequence; CMA-ES begins at the weighted mean of their better half. A search that follows its first few points gets
    stuck where the loss is flat.

        m, sigma, C    mean, step size and covariance of CMA-ES's distribution (this C is not the clipping radius)
    """

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.means: list[Vector] = [np.full(settings.d, 0.5)]  # m of each generation
        self.cma = _engine(settings, self.means[0])
        self.explores = settings.explored > 0

    @property
    def centre(self) -> Vector:
        """The centre of the cube."""
        return self.means[0]

    def ask(self, slot: int) -> Vector:
        """Likewise. A Halton sequence has no point twice, whether slots continue, as Optuna's trials, or start anew."""
        s, had = self.settings, sum(generation.new for generation in self.generations)
        if not (self.explores and s.halton) or (slot == 0 and self.t == 0 and s.default is not None):
            return super().ask(slot)
        sequence = scipy.stats.qmc.Halton(s.d, rng=np.random.default_rng([s.seed, s.d]))
        return np.asarray(sequence.fast_forward(slot if slot >= had else had + slot).random(1)[0])

    def _propose(self, rng: np.random.Generator) -> Matrix:
        s, count = self.settings, PROPOSALS * self.settings.population
        self.cma.reseed_rng(int(rng.integers(2**31)))
        X = np.array([_point(self.cma.ask()) for _ in range(max(s.candidates * s.population, count))])
        # rows of X ~ N(m, sigma^2 C), cut to the cube
        if s.candidates == 1 or not self.generations:
            return X[:count]
        return self._best_under_drawn_functions(X, rng, spread=1.0 if self.explores else s.spread)

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
        s, explored = self.settings, sum(generation.new for generation in self.generations)
        if explored < s.explored or explored >= s.most_explored:
            return bool(explored >= s.explored)
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
        average = np.clip(np.mean(self.means[-self.settings.average :], axis=0), 0.0, 1.0)
        return self.surrogate.minimiser(average, reach=self.settings.reach)


def _engine(settings: CentredSettings, mean: Vector) -> Any:
    """CMA-ES around a mean, or CMA-ES with margin if a coordinate has cells."""
    try:
        from cmaes import CMA, CMAwM
    except ImportError:
        raise MissingExtra('this algorithm needs cmaes: pip install "dptune[cmaes]".') from None
    common: dict[str, Any] = {"sigma": settings.sigma, "population_size": settings.population, "seed": settings.seed}
    common["n_max_resampling"] = RESAMPLINGS
    if not any(settings.steps):
        return CMA(mean=mean, bounds=np.tile([0.0, 1.0], (settings.d, 1)), **common)
    steps = np.array(settings.steps)
    low, high = steps / 2, 1 - steps / 2  # the first and the last cell's middle
    return CMAwM(mean=np.clip(mean, low, high), bounds=np.column_stack([low, high]), steps=steps, **common)


def _point(asked: Any) -> Vector:
    """CMA-ES with margin returns the rounded point and the one it was rounded from."""
    return np.asarray(np.clip(asked[0] if isinstance(asked, tuple) else asked, 0.0, 1.0))


# ---- categories and conditions: draws and mutations ----------------------------------------------------------------

BEST = 5  # points of which mutations are made
DRAWN = 1 / 3  # share of random configurations among the candidates
SMALLEST_STEP, LARGEST_STEP = 0.03, 0.4  # of a mutated number, in sides of the cube
SWITCHED = 0.3  # chance that a mutated category is drawn anew


class CentredMixed(Centred):
    """The search for any space; it ends with the evaluated point whose posterior mean is smallest.

    The surrogate sees a configuration as its point in the cube (:mod:`dptune.space`).

    Raises:
        InputError: the settings have no space.
    """

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        if settings.space is None:
            raise InputError("a search among categories needs space= in its settings.")
        self.space = self.began = settings.space

    def restarted(self) -> Self:
        """Return the algorithm before its first answer, holding the same points."""
        again = super().restarted()
        again.began = self.began
        return again

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn an answer; its points are those of the space of its time, in which later parameters were not active."""
        if "points" in note:
            then = Space.from_description(note["space"]) if "space" in note else self.began
            note = {**note, "points": self.space.recoded(np.array(note["points"]), then)}
        super().learn(key, note, answer, sigma, own=own)

    @property
    def centre(self) -> Vector:
        """Of every number the middle, of every category the first choice."""
        return self.space.encode(self.space.centre())

    def _propose(self, rng: np.random.Generator) -> Matrix:
        s = self.settings
        count = PROPOSALS * s.population
        if not self.generations:
            return drawn(self.space, count, rng)
        total = max(s.candidates * s.population, 2 * count)
        fresh = round(DRAWN * total)
        best = self._best_of(self.generations)[:BEST]
        parents = best[rng.integers(len(best), size=total - fresh)]
        candidates = np.vstack([drawn(self.space, fresh, rng), mutated(self.space, parents, rng)])
        return self._best_under_drawn_functions(candidates, rng, spread=s.spread)

    def recommend(self) -> Vector:
        """Return the evaluated point whose posterior mean is smallest, (d,): never the argmin of noisy values."""
        return self._best_of(self.generations)[0] if self.generations else self.centre


def centred(settings: CentredSettings) -> CentredCMA | CentredMixed:
    """Return the algorithm for these settings: CMA-ES for numbers, another search for everything else."""
    return CentredCMA(settings) if settings.space is None else CentredMixed(settings)


def joined(algorithm: Centred, space: Space, *, now: Space, began: Space) -> CentredMixed:
    """Return the search before its first answer in a wider space, holding the same points.

    ``now`` is the algorithm's own space, which ``space`` has joined, and ``began`` that of the plan.
    """
    settings, default = algorithm.settings, algorithm.settings.default
    point = None if default is None else tuple(space.recoded(np.array([default]), now)[0].tolist())
    again = CentredMixed(replace(settings, d=space.d, space=space, default=point, steps=()))
    again.began = began
    again.take_points(algorithm, lambda x: space.recoded(x[None, :], now)[0])
    return again


def drawn(space: Space, count: int, rng: np.random.Generator) -> Matrix:
    """Return the points of random configurations, (count, d)."""
    return space.snap(rng.random((count, space.d)))


def mutated(space: Space, U: Matrix, rng: np.random.Generator) -> Matrix:
    """Return points near U (k, d): of each some parameters moved by a random step; what becomes active is drawn."""
    k = len(U)
    share = np.exp(rng.uniform(math.log(1 / len(space)), 0.0, k))
    step = np.exp(rng.uniform(math.log(SMALLEST_STEP), math.log(LARGEST_STEP), k))
    known, fresh = space.activity(U), rng.random(U.shape)
    V = np.array(U)
    for name, p in space.items():
        where, moves = space.columns[name], rng.random(k) < share
        drawn_anew = ~known.get(name, np.ones(k, dtype=bool))
        if isinstance(p, Categorical):
            drawn_anew |= moves & (rng.random(k) < SWITCHED)
        else:
            V[:, where] += (moves * step * rng.standard_normal(k))[:, None]
        V[drawn_anew, where] = fresh[drawn_anew, where]
    return space.snap(V)
