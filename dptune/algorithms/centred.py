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
   posterior given all released values. Candidates in a space of numbers are those of CMA-ES
   (:mod:`dptune.algorithms.centred_cma`); with categories and conditions random draws and mutations of the best points
   (:mod:`dptune.algorithms.centred_mixed`);
2. release the share of people with ||H L_i|| <= C, and set C <- C exp(-rate (share - quantile)): as the search
   converges people agree, C shrinks, and so does the noise;
3. release the mean over people of H L_i, clipped to C *after* centring: one query, 2 C / n for all m points. A point
   whose evaluation failed counts, for each person, as their mean over the other points plus C / sqrt(m);
4. fit the surrogate (:mod:`dptune.gp.grouped`) to all released values, with their known noise: what earlier
   generations said takes noise away.

The references tie the generations together: each is known up to a constant of its own only. Their losses are with
the curator anyway, so they cost no trial.

Everything here is public: the state is a fold over released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least
from dptune._numbers import plain
from dptune.algorithms.method import Statistic
from dptune.algorithms.rounds import Rounds
from dptune.errors import InputError
from dptune.gp.grouped import Group, GroupedRegression
from dptune.privacy.query import LARGEST, SMALLEST, Ball, MeanQuery, NormQuery, Question, smallest_price
from dptune.space import Space

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

PROPOSALS = 4  # proposals made at once, in generations
LATER = {"explored": 0, "most_explored": 0, "saturated": 1.0}  # what ledgers mean that do not name them
_LARGEST_EXPONENT = 700.0  # exp of more overflows


@dataclass(frozen=True)
class CentredSettings:
    """All of the algorithm's settings, public; :func:`dptune.algorithms.centred_plan.plan_centred` chooses them.

    Attributes:
        d: dimension, number of coordinates of the space's code.
        generations: G.
        population: lambda, new points of a generation, at least 4: with fewer CMA-ES has no covariance to learn.
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
        seed: of the algorithm's own, public randomness.

    Raises:
        InputError: a setting is out of range; names it.
    """

    d: int
    generations: int
    population: int
    mu: float
    radius: float
    quantile: float = 0.5
    rate: float = 1.0
    floor: float = 0.01
    share: float = 0.05
    references: int = 2
    sigma: float = 0.2
    explored: int = 0
    most_explored: int = 0
    spread: float = 0.5
    candidates: int = 40
    average: int = 1
    reach: float = 0.2
    steps: tuple[float, ...] = ()
    default: tuple[float, ...] | None = None
    saturation: float | None = None
    saturated: float = 1.0
    space: Space | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        least = {"d": 1, "generations": 1, "population": 4, "references": 0, "candidates": 1, "average": 1}
        least |= {"explored": 0, "most_explored": 0, "seed": 0}
        for name, smallest in least.items():
            at_least(name, getattr(self, name), smallest)
        for name in ("mu", "radius", "rate", "sigma", "reach"):
            if not (_is_finite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} must be positive and finite; got {getattr(self, name)!r}.")
        if not SMALLEST <= self.radius <= LARGEST:
            raise InputError(
                f"radius must lie in [{SMALLEST:g}, {LARGEST:g}]; got {self.radius!r}. It is 0.4 of the clip's width "
                "unless given: scale the loss."
            )
        if not (_is_finite(self.floor) and 1e-12 <= self.floor <= 1):
            raise InputError(f"floor must lie between 1e-12 and 1; got {self.floor!r}.")
        if not (_is_finite(self.quantile) and 0 < self.quantile < 1):
            raise InputError(f"quantile must lie between 0 and 1; got {self.quantile!r}.")
        if not (_is_finite(self.spread) and self.spread >= 0):
            raise InputError(f"spread must be finite and not negative; got {self.spread!r}.")
        if self.saturation is not None and not (_is_finite(self.saturation) and self.saturation >= 0):
            raise InputError(
                f"saturation must be finite and not negative, or math.inf for none; got {self.saturation!r}."
            )
        if not (_is_finite(self.saturated) and 0 <= self.saturated <= 1):
            raise InputError(f"saturated must lie in [0, 1]; got {self.saturated!r}.")
        if not (_is_finite(self.share) and 0 <= self.share < 1):
            raise InputError(f"share must lie in [0, 1); got {self.share!r}.")
        widths = self.steps if isinstance(self.steps, tuple | list) else (None,)
        if len(widths) not in (0, self.d) or not all(_is_finite(width) and 0 <= width <= 1 for width in widths):
            raise InputError(
                f"steps must be {self.d} cell widths in [0, 1], or (); got {self.steps!r}. To plan trials use n_trials."
            )
        remedy = f"too small for {self.generations} generations; plan fewer trials or a larger mu"
        if self.mean_mu < smallest_price(self.population + self.references):
            raise InputError(f"mu={self.mu!r} is {remedy}.")
        if self.share and self.share_mu < smallest_price(1):
            raise InputError(f"share={self.share!r} of mu={self.mu!r} is {remedy}, or share=0.")

    def statistics(self) -> tuple[Statistic, ...]:
        """Return a generation's centred vector, at the first C: C shrinks as the search converges."""
        m = self.population + self.references
        return (Statistic("a mean loss within a generation, at first,", self.radius, m, self.mean_mu),)

    def describe(self) -> dict[str, object]:
        """Return them as plain JSON data; the space stands beside them in the plan."""
        kept = asdict(self).items()
        return {name: value for name, value in kept if name != "space" and (name, value) not in LATER.items()}

    @property
    def mean_mu(self) -> float:
        """mu_c, of one generation's centred mean."""
        return self.mu * math.sqrt((1 - self.share) / self.generations)

    @property
    def share_mu(self) -> float:
        """mu_q, of one generation's share of unclipped people; 0 if there is none."""
        return self.mu * math.sqrt(self.share / self.generations)


@dataclass(frozen=True)
class Generation:
    """What is public about one generation, once it is released.

    Attributes:
        points: (m, d), the new ones first.
        new: number of new ones.
        values: (m,), the released mean of clipped H L_i.
        sigma: standard deviation of their noise.
        radius: C.
    """

    points: Matrix
    new: int
    values: Vector
    sigma: float
    radius: float

    def note(self) -> dict[str, object]:
        """Return what a ledger keeps beside the values, as plain JSON data."""
        return {"points": self.points.tolist(), "new": self.new, "radius": self.radius}

    @classmethod
    def from_note(cls, note: Mapping[str, Any], values: Vector, sigma: float) -> Generation:
        """Return the generation that a ledger kept."""
        return cls(np.array(note["points"]), int(note["new"]), np.array(values), sigma, float(note["radius"]))


class Centred(Rounds):
    """The releases and what is learned from them; subclasses say where to look and what to recommend.

    Holds public data only. See :class:`dptune.algorithms.method.SearchAlgorithm` for its use.

    One generation: ``ask`` for ``missing()`` points, evaluate them, ``observe`` each; have its two questions answered,
    the share of unclipped people and the centred mean, and ``learn`` each answer. Points of one's own are welcome, and
    what is never observed is missed by nobody: another proposal takes its place.
    """

    unit = "generation"
    shows = "mean {loss} above the centre's, upper estimate"

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.radius = settings.radius
        self.generations: list[Generation] = []
        self.surrogate = GroupedRegression(settings.d)
        self._recalled = 0  # generations of earlier runs that were answered
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

    # ---- where to look ---------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Return proposal number ``slot`` = 0, 1, ... of the current generation, (d,).

        Where trials are pruned a generation may need many: after 4 lambda of them others are drawn.
        """
        if slot == 0 and self.t == 0 and self.settings.default is not None:
            return np.array(self.settings.default)
        if not self._proposed:
            self._first_slot = slot
        again = max(slot - self._first_slot, 0) // (PROPOSALS * self.settings.population)
        if again not in self._proposed:
            key = [self.settings.seed, self.t, *([again] if again else [])]
            self._proposed[again] = self._propose(np.random.default_rng(key))
        drawn = self._proposed[again]
        return np.array(drawn[slot % len(drawn)])

    def _propose(self, rng: np.random.Generator) -> Matrix:
        """Return proposals for the generation, (PROPOSALS lambda, d); they depend on released values only."""
        raise NotImplementedError

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

    # ---- what to know ------------------------------------------------------------------------------

    def price(self) -> float:
        """GDP price of what is left of the generation's two questions."""
        return math.hypot(self.settings.mean_mu, 0.0 if self._followed > self.t else self.settings.share_mu)

    def next_question(self) -> Question:
        """Return the generation's next question: the share of unclipped people, then the centred mean."""
        s, names = self.settings, self._asked_names()
        m = len(names)
        H = np.eye(m) - 1 / m
        # Higher, and a failure would fill the clipped vectors; lower, and where the function fails would look good.
        failed_above = self.radius / math.sqrt(m)
        saturates = s.saturation is not None and self.t < s.saturated * self.rounds
        saturate_above = s.saturation * self.radius / math.sqrt(m) if saturates else None
        if s.share and self._followed <= self.t:
            query = NormQuery(names, H, self.radius, s.share_mu, failed_above, saturate_above)
            return Question(f"{SHARE}{self.t + 1}", query, {"radius": self.radius})
        asked = Generation(self.points_at(names), s.population, np.zeros(0), 0.0, self.radius)
        mean = MeanQuery(names, H, Ball(self.radius), s.mean_mu, failed_above, saturate_above)
        return Question(f"{GENERATION}{self.t + 1}", mean, asked.note())

    def _asked_names(self) -> tuple[str, ...]:
        """The new points, then the references."""
        return (*self.waiting(), *(name for name in self._points if name not in self._waiting))

    # ---- what was learned --------------------------------------------------------------------------

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Set C from the released share, or tell the surrogate the released mean; see the module."""
        if key.startswith(SHARE):
            self._followed = int(key.removeprefix(SHARE))
            if answer is not None:
                self._follow(float(note["radius"]), float(answer[0]))
            return
        self.used_up(own=own)
        self._proposed = {}
        if answer is not None:
            self._tell(Generation.from_note(note, answer, sigma))
            self._keep_references()

    def recall(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float) -> None:
        """Learn an answer that an earlier run has paid for."""
        super().recall(key, note, answer, sigma)
        self._recalled = len(self.generations)

    def _follow(self, radius: float, share: float) -> None:
        s = self.settings
        moved = radius * math.exp(min(-s.rate * (min(max(share, 0.0), 1.0) - s.quantile), _LARGEST_EXPONENT))
        self.radius = min(max(moved, s.floor * s.radius, SMALLEST), LARGEST)

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

    def value(self, x: Vector) -> float | None:
        """Return how much worse than the centre of the space x (d,) may be: a careful estimate for displays.

        The posterior mean of f(x) - f(centre) plus its standard deviation; None before the first release.
        An optimistic estimate would make an early guess the best trial for ever.
        """
        known = self.difference(x, self.centre)
        return None if known is None else sum(known)

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """Return the posterior mean of f(x) - f(y) and its standard deviation; None before the first release."""
        return self.surrogate.difference(x, y) if self.generations else None

    @property
    def narrowed(self) -> float:
        """C in units of the first: less than 1 where people have come to agree."""
        return float(self.radius / self.settings.radius)

    def progress(self) -> dict[str, object]:
        """Return how far it is, for a dashboard."""
        return {**super().progress(), "radius": self.radius}


SHARE, GENERATION = "share/", "generation/"  # keys of a generation's two questions


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def best_of_each(samples: Matrix) -> list[int]:
    """Return for each column of samples (candidates, count) the smallest row that no earlier column took."""
    taken: list[int] = []
    for column in samples.T:
        taken.append(next(int(i) for i in np.argsort(column) if int(i) not in taken))
    return taken
