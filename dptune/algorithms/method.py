"""What a search method is to everybody else: a public algorithm, its plan, and a name.

A front end, a run and a benchmark know nothing more of a method than this file says::

    method = Method("my search", plan=plan_my_search, algorithm=MySearch)
    plan = method.plan(people, space, mu=1.0, seed=0, trials=100)   # what it will spend; fixed in the ledger
    algorithm = method.algorithm(plan.settings)                     # proposes, asks, learns

Everything here is public. An algorithm is a fold over released answers: it never sees a loss, a ledger or noise.
``examples/own_algorithm.py`` is a complete method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from inspect import signature
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, positive, share
from dptune._numbers import real
from dptune.errors import InputError
from dptune.privacy.query import Question
from dptune.space import Space, Value

Vector = npt.NDArray[np.float64]
RULES = 2  # version of the planners' defaults; a run keeps those that it began with, and a plan that names none has 1


@dataclass(frozen=True)
class Statistic:
    """A vector that an algorithm will ask for in every round, clipped to a ball per person; public.

    Attributes:
        name: what it is, in words, with its article.
        radius: of the ball.
        dimension: number of coordinates.
        mu: GDP price of one.
    """

    name: str
    radius: float
    dimension: int
    mu: float


class Settings(Protocol):
    """All of an algorithm's settings: frozen and public."""

    def statistics(self) -> tuple[Statistic, ...]:
        """Return what it will ask for, so that a user can be told how large the noise will be."""
        ...

    @property
    def seed(self) -> int:
        """Of the algorithm's own randomness."""
        ...

    def describe(self) -> dict[str, object]:
        """Return them as plain JSON data."""
        ...


@dataclass(frozen=True)
class RungPlan:
    """What a run pays for decisions to stop trials by private losses; public (:mod:`dptune.search.rungs`).

    Attributes:
        share: of mu^2.
        count: of decisions a trial, at most.
        radius: C at first, to which each person's difference of two losses is clipped; it follows the search's own.

    Raises:
        InputError: a setting is out of range.
    """

    share: float
    count: int
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share("rung_share", self.share))
        object.__setattr__(self, "count", at_least("rungs", self.count, 1))
        object.__setattr__(self, "radius", positive("rung_radius", self.radius))


@dataclass(frozen=True)
class Plan:
    """How a run spends its budget: decided before it begins, public, written to the ledger once.

    The budget is split in shares of mu^2: ``monitor_share`` for a value of each trial, ``choice_share`` for a choice
    among all trials at the end, ``final_share`` for one final estimate, the rest for the algorithm's questions, whose
    prices are in ``settings``.

    Attributes:
        method: name of the method.
        mu: GDP budget of the whole run.
        settings: of the algorithm.
        trials: number of trials of a complete run.
        monitor_share: for the trials' own values; 0 withholds them.
        final_share: for the final estimate; 0 makes none.
        choice_share: for the choice; 0: the algorithm's own answer is recommended.
        spare: trials beyond the plan that may still get a value, to replace lost ones.
        choice_among: the choice is made among so many of the best points by all answers and the user's default
            configuration, which is three times as likely beforehand as all others together; 0: among all points, with
            equal odds.
        rules: version of the defaults that the plan was made with.

    Raises:
        InputError: a setting is out of range.
    """

    method: str
    mu: float
    settings: Any
    trials: int
    monitor_share: float = 0.0
    final_share: float = 0.05
    spare: int = 0
    choice_share: float = 0.0
    rungs: RungPlan | None = None
    choice_among: int = 0
    rules: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))
        object.__setattr__(self, "trials", at_least("n_trials", self.trials, 1))
        object.__setattr__(self, "final_share", share("final_share", self.final_share))
        values = real(self.monitor_share)
        if values is None or not 0 <= values <= 1 - self.final_share:
            raise InputError(f"monitor_share must lie in [0, 1 - final_share]; got {self.monitor_share!r}.")

    @property
    def monitor_mu(self) -> float:
        """GDP price of one trial's value; 0 withholds values."""
        return self.mu * math.sqrt(self.monitor_share / (self.trials + self.spare))

    @property
    def choice_mu(self) -> float:
        """GDP price of the choice among all trials; 0 if there is none."""
        return self.mu * math.sqrt(self.choice_share)

    @property
    def decisions(self) -> int:
        """Number of decisions to stop a trial that are paid for."""
        return 0 if self.rungs is None else self.rungs.count * self.trials

    @property
    def rung_mu(self) -> float:
        """GDP price of one of them; 0 if there are none."""
        return 0.0 if self.rungs is None else self.mu * math.sqrt(self.rungs.share / self.decisions)

    @property
    def final_mu(self) -> float:
        """GDP price of the final estimate; 0 if there is none."""
        return self.mu * math.sqrt(self.final_share)

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which a second process recognises the plan."""
        return {
            "algorithm": self.method,
            "mu": self.mu,
            "seed": self.settings.seed,
            "settings": self.settings.describe(),
            "trials": self.trials,
            "shares": {"monitor": self.monitor_share, "choice": self.choice_share, "final": self.final_share},
            "spare": self.spare,
            **({} if self.rungs is None else {"rungs": asdict(self.rungs)}),
            **({} if self.choice_among == 0 else {"choice_among": self.choice_among}),
            **({} if self.rules == 1 else {"rules": self.rules}),
        }

    @classmethod
    def from_description(cls, described: Mapping[str, Any], settings: Any) -> Self:
        """Return the plan that described itself so, with its settings."""
        shares = {f"{name}_share": value for name, value in described["shares"].items()}
        rungs = RungPlan(**described["rungs"]) if "rungs" in described else None
        name, mu, trials, spare = (described[each] for each in ("algorithm", "mu", "trials", "spare"))
        others = {each: described[each] for each in ("choice_among", "rules") if each in described}
        return cls(name, mu, settings, trials, **shares, spare=spare, rungs=rungs, **others)


class SearchAlgorithm(Protocol):
    """A private search in rounds; its state is a fold over released answers.

    A run calls ``observe`` for every evaluated point, ``question`` as long as there is one, and ``learn`` for every
    answer in the ledger, whoever asked for it. :class:`dptune.algorithms.rounds.Rounds` has what most of them share.
    """

    unit: ClassVar[str]  # what one round is called: "step", "generation"
    shows: ClassVar[str]  # what value() is, with the place of the loss's name: "mean {loss} above the centre's"

    @property
    def t(self) -> int:
        """Rounds used up."""
        ...

    @property
    def rounds(self) -> int:
        """Rounds of a complete run."""
        ...

    @property
    def finished(self) -> bool:
        """Whether all questions are asked."""
        ...

    @property
    def batch(self) -> int:
        """Points that the present round needs."""
        ...

    def ask(self, slot: int) -> Vector:
        """Return the present round's proposal number ``slot`` = 0, 1, ..., a point of the unit cube (d,)."""
        ...

    def observe(self, name: str, x: Vector) -> None:
        """Take note that the losses at x (d,) are with the curator under ``name``; told twice, counted once."""
        ...

    def missing(self) -> int:
        """Return how many more points the next question needs; <= 0: none."""
        ...

    def best_points(self, count: int) -> npt.NDArray[np.float64]:
        """Return points to ask for again where their losses were lost, best first, (at most count, d).

        Asked in the last round of a run that ends with a choice among the points of one process.
        """
        ...

    def price(self) -> float:
        """GDP price of what is left of the present round's questions."""
        ...

    def question(self) -> Question | None:
        """Return the next question, or None if points are missing or all questions are asked."""
        ...

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn the answer to a question of this or of another process.

        Args:
            key, note: of the question.
            answer: (p,), or None: it is paid, and its answer is lost or not recorded yet.
            sigma: standard deviation of its noise per coordinate.
            own: whether it was about this process's points.
        """
        ...

    def recall(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float) -> None:
        """Learn an answer that an earlier run has paid for; it uses up no round of this run's."""
        ...

    def restarted(self) -> Self:
        """Return the algorithm before its first answer, holding the same points.

        All answers are learned again then, in the order of the ledger: an answer that was recorded late changes what
        came after it.
        """
        ...

    def points_in_use(self) -> tuple[str, ...]:
        """Return the names of the points it may still ask about; the curator forgets the others."""
        ...

    def value(self, x: Vector) -> float | None:
        """Return what the answers say about x (d,), for displays; None if they say nothing comparable."""
        ...

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """Return what the answers say about the mean loss at x (d,) less that at y, and its standard deviation."""
        ...

    @property
    def narrowed(self) -> float:
        """How far people's losses lie apart by the answers so far, in units of what the plan assumed at first."""
        ...

    def recommend(self) -> Vector:
        """Return the point to use, (d,): never the argmin of noisy values."""
        ...

    def progress(self) -> dict[str, object]:
        """Return how far it is: released facts, as plain JSON data."""
        ...


class People(Protocol):
    """The public facts about the people whose losses are asked about; a ``LossPrivatizer`` has them."""

    @property
    def n(self) -> int:
        """Number of people."""
        ...

    @property
    def loss_range(self) -> float:
        """Width of the clipping interval, high - low."""
        ...


_FRONT_END = ("mu", "seed", "trials")  # a front end has arguments of its own for these


@dataclass(frozen=True)
class Method:
    """A search algorithm that a front end can be made for.

    Attributes:
        name: in plans, statements and messages.
        planner: keyword arguments -> :class:`Plan`. It takes ``mu``, ``seed`` and ``trials``; of the public facts
            ``d``, ``n``, ``loss_range``, ``space``, ``default`` (the user's default configuration, a point of the
            cube, or None), ``earlier`` (the plan of the run that it starts from, as it describes itself, or None) and
            ``rules`` (the version of the defaults) those that it names; the others are the user's settings.
        algorithm: a plan's settings -> the algorithm before its first answer.
        shared_slots: whether processes take different proposals of a round, by the trial's number.
        any_space: whether it searches categories and conditions too; others search float and int parameters.
        joined: (algorithm, space, now=, began=) -> the algorithm before its first answer, holding the same points, in
            a wider space than its own, ``now``; ``began`` is that of the plan. None: its space never grows.
        restored: (settings as they describe themselves, space) -> the settings, so that others can watch a run who
            have nothing but its ledger. None: they cannot.
    """

    name: str  # by which it is recognised: a method that travelled to another process has functions of its own
    planner: Callable[..., Plan] = field(compare=False)
    algorithm: Callable[[Any], SearchAlgorithm] = field(compare=False)
    shared_slots: bool = False
    any_space: bool = False
    joined: Callable[..., SearchAlgorithm] | None = field(default=None, compare=False)
    restored: Callable[[Mapping[str, Any], Space | None], Any] | None = field(default=None, compare=False)

    def plan(
        self,
        people: People,
        space: Space | None,
        *,
        mu: float,
        seed: int,
        default: Mapping[str, Value] | None = None,
        earlier: Mapping[str, Any] | None = None,
        rules: int = RULES,
        **settings: Any,
    ) -> Plan:
        """Return the plan of a run with this budget.

        Args:
            people: the public facts about them.
            space: search space; None if another searcher proposes.
            mu: GDP budget of the run.
            seed: of the algorithm's own randomness.
            default: the user's default configuration.
            earlier: the plan of the run that this one starts from, as it describes itself.
            rules: version of the defaults; a run that began earlier keeps its own.
            settings: of the planner, ``trials`` and :attr:`options`.

        Raises:
            InputError: a setting is out of range.
        """
        facts: dict[str, Any] = {"n": people.n, "loss_range": people.loss_range, "earlier": earlier, "rules": rules}
        if space is not None:
            if not self.any_space:
                space.refuse_choices(f"the method {self.name!r}")
            point = None if default is None else tuple(space.encode(default).tolist())
            facts |= {"d": space.d, "space": space, "default": point}
        wanted = signature(self.planner).parameters
        return self.planner(**{k: v for k, v in facts.items() if k in wanted}, mu=mu, seed=seed, **settings)

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the settings that a front end passes on."""
        known = (*_FRONT_END, "d", "n", "loss_range", "space", "default", "earlier", "rules")
        return tuple(name for name in signature(self.planner).parameters if name not in known)

    def refuse_unknown(self, given: Mapping[str, Any], *, front_end: str) -> None:
        """Refuse a misspelt setting under the name of what the user called.

        Raises:
            InputError: it is none of :attr:`options`; names them.
        """
        for name in given:
            if name not in self.options:
                raise InputError(
                    f"{front_end} has no option {name!r}; it has n_trials, mu, seed, {', '.join(self.options)}."
                )
