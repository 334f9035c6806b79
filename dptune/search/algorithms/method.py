"""A search method: a public algorithm, its plan, and a name.

Front ends, runs and benchmarks use only this interface and :mod:`dptune.search.algorithms.rounds`::

    method = Method("my search", planner=plan_my_search, algorithm=MySearch)
    plan = method.plan(people, space, mu=1.0, seed=0, trials=100)   # its spending; fixed in the ledger
    algorithm = method.algorithm(plan.settings)                     # proposes, queries, learns

``examples/own_algorithm.py`` is a complete method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any, Protocol

from dptune._checks import Checked, at_least, between, check, check_fields, positive, share
from dptune.errors import InputError
from dptune.search.algorithms.rounds import Rounds, Statistic
from dptune.space import Space, Value


@dataclass(frozen=True)
class PublicFacts(Checked):
    """The facts that a planner has before a run begins.

    Attributes:
        n: number of people.
        loss_range: high - low of the clipped loss.
        d: number of coordinates of the search space; 0 where another searcher proposes.
        space: the search space; None: a continuum, or another searcher proposes.
        default: the user's default configuration, a point of the cube (d,); None without a default.
    """

    n: int
    loss_range: float
    mu: float = field(metadata=check(positive))
    seed: int = field(default=0, metadata=check(at_least, 0))
    d: int = 0
    space: Space | None = None
    default: tuple[float, ...] | None = None


@dataclass(frozen=True)
class RunPlan:
    """The public plan of a run's budget, decided before it begins and written to the ledger once.

    The budget is split in shares of mu^2. ``monitor_share`` pays for a value of each trial, and
    ``final_share`` for one final estimate. The rest is for the algorithm's questions, whose prices are in ``settings``.

    Attributes:
        settings: of the algorithm, with the attributes of :class:`dptune.search.RoundSettings` that it uses; None if it
            asks no questions.
        trials: number of trials of a complete run.
        monitor_share: 0 withholds values.
        spare: trials beyond the plan that may still get a value, to replace lost ones.
    """

    method: str
    mu: float = field(metadata=check(positive))
    settings: Any
    trials: int = field(metadata=check(at_least, 1))
    monitor_share: float = 0.0
    final_share: float = field(default=0.05, metadata=check(share))
    spare: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        between("monitor_share", self.monitor_share, 0.0, 1 - self.final_share)

    @property
    def monitor_mu(self) -> float:
        """Return the GDP price of one trial's value; 0 withholds values."""
        return self.mu * math.sqrt(self.monitor_share / (self.trials + self.spare))

    @property
    def final_mu(self) -> float:
        """Return the GDP price of the final estimate; 0 if there is none."""
        return self.mu * math.sqrt(self.final_share)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return the algorithm's queries of every round."""
        return () if self.settings is None else tuple(self.settings.statistics())

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which a second process recognises the plan."""
        return {
            "algorithm": self.method,
            "seed": 0 if self.settings is None else self.settings.seed,
            "settings": {} if self.settings is None else self.settings.describe(),
            "shares": {"monitor": self.monitor_share, "final": self.final_share},
            "mu": self.mu,
            "trials": self.trials,
            "spare": self.spare,
        }


class PeopleFacts(Protocol):
    """The public facts about the people whose losses are queried; a ``LossPrivatizer`` has them."""

    @property
    def n(self) -> int:
        """Return the number of people."""

    @property
    def loss_range(self) -> float:
        """Return the width of the clipping interval, high - low."""


@dataclass(frozen=True)
class Method:
    """A search algorithm that a front end can be made for.

    Attributes:
        name: in plans, statements and messages.
        planner: (:class:`PublicFacts`, ``trials=`` and the user's settings, keyword-only) -> :class:`RunPlan`.
        algorithm: a plan's settings -> the algorithm before its first answer.
        shared_slots: whether processes take different proposals of a round, by the trial's number.
    """

    name: str  # identifies the method: a copy in another process has other function objects
    planner: Callable[..., RunPlan] = field(compare=False)
    algorithm: Callable[[Any], Rounds] = field(compare=False)
    shared_slots: bool = False

    @classmethod
    def chosen(cls, own: Method | None, method: object, *, front_end: str) -> Method:
        """Return the method of what the user called, or, if that has none of its own, the method that is given."""
        if own is not None and method is None:
            return own
        if own is None and isinstance(method, cls):
            return method
        needs = "needs method=, a dptune.search.Method" if own is None else "has a method of its own: omit method="
        raise InputError(f"{front_end} {needs}. Nothing was charged.")

    def plan(
        self,
        people: PeopleFacts,
        space: Space | None,
        *,
        mu: float,
        seed: int,
        default: Mapping[str, Value] | None = None,
        **settings: Any,
    ) -> RunPlan:
        """Return the plan of a run; the arguments are those of :class:`PublicFacts`, and the planner's ``settings``.

        Raises:
            InputError: a setting is out of range.
        """
        point = None
        if space is not None and default is not None:
            point = tuple(space.encode(default).tolist())
        d = 0 if space is None else space.d
        facts = PublicFacts(people.n, people.loss_range, mu, seed, d, space, point)
        return self.planner(facts, **settings)

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the settings that a front end passes on."""
        named = signature(self.planner).parameters.values()
        return tuple(each.name for each in named if each.kind is Parameter.KEYWORD_ONLY and each.name != "trials")

    def refuse_unknown(self, names: Iterable[str], *, front_end: str) -> None:
        """Refuse a setting that is not one of :attr:`options`, naming the function that the user called."""
        for name in names:
            if name not in self.options:
                raise InputError(
                    f"{front_end} has no option {name!r}; it has n_trials, mu, seed, {', '.join(self.options)}."
                )
