"""The interface of search algorithms, and the bookkeeping that most of them share.

A search proceeds in rounds: b new points, one or more queries about them, the next round. A point *waits* until a query
included it. Queried points may be kept for later queries.

A run calls ``observe`` for every evaluated point, ``question`` while there is one, and ``learn`` for every answer in
the ledger, of any process. An algorithm's state is a fold over released answers: it never sees a loss, a ledger or
noise, and all of it is public.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune._checks import Checked, at_least, check, positive
from dptune.privacy.query import Question


class Statistic(NamedTuple):
    """A vector that is queried in every round: its description, each person's clipping radius, length and price.

    It determines the noise that a user sees announced.
    """

    name: str
    radius: float
    dimension: int
    mu: float


@dataclass(frozen=True)
class RoundSettings(Checked):
    """Settings of a search whose every round is one question about b points; public.

    Attributes:
        batch: b, new points of a round.
        mu: GDP budget of all rounds together.
        clip: clipping radius of the asked statistic, in its units.
    """

    d: int = field(metadata=check(at_least, 1))
    rounds: int = field(metadata=check(at_least, 1))
    batch: int = field(metadata=check(at_least, 1))
    mu: float = field(metadata=check(positive))
    clip: float = field(metadata=check(positive))
    seed: int = field(default=0, kw_only=True, metadata=check(at_least, 0))

    @property
    def round_mu(self) -> float:
        """Return the GDP price of one round's question."""
        return self.mu / math.sqrt(self.rounds)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return the algorithm's queries of every round."""
        return (Statistic("an entry of a round's vector", self.clip, self.batch, self.round_mu),)

    def describe(self) -> dict[str, object]:
        """Return the settings as plain JSON data."""
        return asdict(self)


class Rounds:
    """A search in rounds. A subclass writes ``ask``, ``next_question``, ``learn`` and ``recommend``.

    Args:
        settings: frozen and public, with ``d``, ``rounds``, ``batch``, ``round_mu`` and ``seed``.
    """

    unit: ClassVar[str] = "round"  # name of a round: "step", "generation"
    shows: ClassVar[str] = "mean {loss}, withheld"  # meaning of a trial's value

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.t = 0  # rounds used up
        self._points: dict[str, Vector] = {}  # all stored points, in the order of arrival
        self._waiting: list[str] = []  # names of points without a query so far, in the same order

    # ---- methods of a subclass ------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Return the present round's proposal number ``slot`` = 0, 1, ..., a point of the unit cube (d,)."""
        raise NotImplementedError

    def next_question(self) -> Question:
        """Return what to ask about the points that wait."""
        raise NotImplementedError

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn the answer (p,) to the question of this key and note, of this or of another process.

        None: it is paid, and its answer is lost or not recorded yet. ``sigma`` is the standard deviation of its noise
        per coordinate; ``own`` says whether it was about this process's points.
        """
        raise NotImplementedError

    def recommend(self) -> Vector:
        """Return the point to use, (d,): never the argmin of noisy values."""
        raise NotImplementedError

    # ---- rounds --------------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds of a complete run."""
        return int(self.settings.rounds)

    @property
    def finished(self) -> bool:
        """Return whether all queries are made."""
        return self.t >= self.rounds

    @property
    def batch(self) -> int:
        """Return the number of points that the present round needs."""
        return int(self.settings.batch)

    def price(self) -> float:
        """Return the GDP price of the present round's remaining queries."""
        return float(self.settings.round_mu)

    def question(self) -> Question | None:
        """Return the next question; None if points are missing, or all questions are asked."""
        return None if self.finished or self.missing() > 0 else self.next_question()

    def used_up(self, *, own: bool, forget: bool = False) -> None:
        """End the round; if its query was this process's ``own``, its points wait no longer.

        With ``forget`` no later question is about them, either.
        """
        self.t += 1
        if own:
            self._waiting = self._waiting[self.batch :]
        if forget:
            self.keep()

    # ---- points --------------------------------------------------------------------------------------

    def observe(self, name: str, x: Vector) -> None:
        """Record that the curator has the losses at x (d,) under ``name``; a repeated call changes nothing."""
        if name not in self._points:
            self._points[name] = np.array(x, dtype=np.float64)
            self._waiting.append(name)

    def missing(self) -> int:
        """Return how many more new points the next question needs; <= 0: none."""
        return self.batch - len(self._waiting)

    def waiting(self) -> tuple[str, ...]:
        """Return the names of the new points that the next question is about, as far as there are any."""
        return tuple(self._waiting[: self.batch])

    def points_in_use(self) -> tuple[str, ...]:
        """Return the names of the points it may still ask about; the curator forgets the others."""
        return () if self.finished else tuple(self._points)

    def points_at(self, names: tuple[str, ...]) -> Matrix:
        """Return the points of these names, (m, d)."""
        return np.array([self._points[name] for name in names])

    def keep(self, names: Collection[str] = ()) -> None:
        """Forget all points but these and those that wait."""
        self._points = {name: x for name, x in self._points.items() if name in names or name in self._waiting}

    def restarted(self) -> Self:
        """Return the algorithm before its first answer, holding the same points: all answers are learned again."""
        again = type(self)(self.settings)
        again._points = {name: np.array(x) for name, x in self._points.items()}
        again._waiting = list(self._waiting)
        return again

    # ---- results of the answers----------------------------------------------------------------------

    def value(self, x: Vector) -> float | None:
        """Return what the answers say about x (d,), for displays; None, as here: nothing comparable."""
        return None

    def difference(self, x: Vector, y: Vector) -> tuple[float, float] | None:
        """Return the mean loss at x (d,) less that at y, and its standard deviation; None, as here: not known."""
        return None

    def progress(self) -> dict[str, object]:
        """Return how far it is: released facts, as plain JSON data."""
        return {f"{self.unit}s_done": self.t, f"{self.unit}s": self.rounds}
