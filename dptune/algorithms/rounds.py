"""The bookkeeping of searches in rounds: b new points, one or more questions about them, the next round.

A point *waits* until a question was asked about it. Points that were asked about may be kept, if later questions are
about them too. A subclass says where to look, what to ask and what to make of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, positive
from dptune.algorithms.method import Statistic
from dptune.privacy.query import Question

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RoundSettings:
    """Settings of a search whose every round is one question about b points.

    Attributes:
        d: dimension.
        rounds: number of rounds.
        batch: b, new points of a round.
        mu: GDP budget of all rounds together.
        clip: clipping radius of the asked statistic, in its units.
        seed: of the algorithm's own, public randomness.

    Raises:
        InputError: a setting is out of range.
    """

    d: int
    rounds: int
    batch: int
    mu: float
    clip: float
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in {"d": 1, "rounds": 1, "batch": 1, "seed": 0}.items():
            object.__setattr__(self, name, at_least(name, getattr(self, name), least))
        for name in ("mu", "clip"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @property
    def round_mu(self) -> float:
        """GDP price of one round's question."""
        return self.mu / math.sqrt(self.rounds)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return the vector of b entries that every round asks for."""
        return (Statistic("an entry of a round's vector", self.clip, self.batch, self.round_mu),)

    def describe(self) -> dict[str, object]:
        """Return them as plain JSON data."""
        return asdict(self)


class Rounds:
    """A search in rounds that holds public data only; see :class:`dptune.algorithms.method.SearchAlgorithm`.

    Args:
        settings: public, with ``d`` and ``rounds``.
    """

    unit: ClassVar[str] = "round"
    shows: ClassVar[str] = "mean {loss}, withheld"

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.t = 0
        self.before = 0  # rounds of them that earlier runs have paid for
        self._points: dict[str, Vector] = {}  # all points held, in the order of arrival
        self._waiting: list[str] = []  # those that no question was about yet, in the same order

    # ---- rounds ------------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds of a complete run, with those of the runs that it starts from."""
        return self.before + int(self.settings.rounds)

    @property
    def finished(self) -> bool:
        """Whether all rounds are used up."""
        return self.t >= self.rounds

    @property
    def batch(self) -> int:
        """Points that the present round needs."""
        return int(self.settings.batch)

    # ---- points ------------------------------------------------------------------------------------

    def observe(self, name: str, x: Vector) -> None:
        """The losses at x (d,) are with the curator under ``name``; told twice, counted once."""
        if name not in self._points:
            self._points[name] = np.array(x, dtype=np.float64)
            self._waiting.append(name)

    def missing(self) -> int:
        """Return how many more new points the next question needs; <= 0: none."""
        return self.batch - len(self._waiting)

    def points_in_use(self) -> tuple[str, ...]:
        """Return the names of the points held; the curator may forget the others."""
        return () if self.finished else tuple(self._points)

    def points_at(self, names: tuple[str, ...]) -> Matrix:
        """Return the points of these names, (m, d)."""
        return np.array([self._points[name] for name in names])

    def waiting(self) -> tuple[str, ...]:
        """Return the names of the new points that the next question is about, as far as there are any."""
        return tuple(self._waiting[: self.batch])

    def best_points(self, count: int) -> Matrix:
        """Return points to ask for again where their losses were lost, best first, (at most count, d); here none."""
        return np.zeros((0, self.settings.d))

    def used_up(self, *, own: bool, forget: bool = False) -> None:
        """The round is over; if its question was this process's ``own``, the points it was about wait no longer.

        With ``forget`` no later question is about them, either.
        """
        self.t += 1
        if own:
            self._waiting = self._waiting[self.batch :]
        if forget:
            self.keep()

    def keep(self, names: Collection[str] = ()) -> None:
        """Forget all points but these and those that wait."""
        self._points = {name: x for name, x in self._points.items() if name in names or name in self._waiting}

    def restarted(self) -> Self:
        """Return the algorithm before its first answer, holding the same points."""
        again = type(self)(self.settings)
        again.take_points(self)
        return again

    def take_points(self, other: Rounds, moved: Callable[[Vector], Vector] = np.array) -> None:
        """Hold the same points as another search, each ``moved`` to where it lies in this one."""
        self._points = {name: moved(x) for name, x in other._points.items()}
        self._waiting = list(other._waiting)

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn an answer; subclasses say how."""
        raise NotImplementedError

    def recall(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float) -> None:
        """Learn an answer that an earlier run has paid for; it uses up no round of this run's."""
        t = self.t
        self.learn(key, note, answer, sigma, own=False)
        self.before += self.t - t

    # ---- what to know ------------------------------------------------------------------------------

    def price(self) -> float:
        """GDP price of the present round's question."""
        return float(self.settings.round_mu)

    def question(self) -> Question | None:
        """Return the next question; None if points are missing, or all rounds are used up."""
        return None if self.finished or self.missing() > 0 else self.next_question()

    def next_question(self) -> Question:
        """Return what to ask about the points that wait; subclasses say it."""
        raise NotImplementedError

    # ---- what an algorithm without more to say says ---------------------------------------------------

    def value(self, x: Vector) -> float | None:
        """None: nothing comparable is known about single points."""
        return None

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """None: nothing is known about differences."""
        return None

    @property
    def narrowed(self) -> float:
        """1: nothing is known about how far people's losses lie apart."""
        return 1.0

    def progress(self) -> dict[str, object]:
        """Return how far it is, for a dashboard."""
        return {f"{self.unit}s_done": self.t, f"{self.unit}s": self.rounds}
