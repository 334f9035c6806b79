"""Audit the user's losses at the user's settings, through the real release path.

Unit: one row. Adjacency: one row is replaced, n public. Trust model: a trusted curator, like every search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Vector
from dptune._checks import at_least, attempt, function, kind, positive
from dptune.audit.evidence import complaints, lower_bound
from dptune.audit.transcript import transcript
from dptune.errors import InputError
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Interval

ODD = (np.nan, np.inf, -np.inf, 1e30)  # extreme numbers of one person
CHANCE = 1e-6


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: its name.
        holds: False if it proves that the promise is broken.
        proves: in words.
    """

    check: str
    holds: bool
    proves: str

    def __str__(self) -> str:
        return f"[{'ok' if self.holds else 'BROKEN'}] {self.check}: {self.proves}"


@dataclass(frozen=True)
class Audit:
    """Everything that is audited. Every row is public or made up: they are read without noise.

    Args:
        losses: (X, y) -> losses (n,) of these rows, as the search would read them, at one configuration.
        X: (n, d) rows to audit with.
        y: (n,) answers.
        clip: (low, high) of the search.
        mu: of one release.
        people: how many rows are replaced, each in several ways.
        answers: how many releases about each of two neighbours an attack may see.

    Raises:
        InputError: a setting is not usable.

    Example:
        >>> X, y = np.linspace(-1, 1, 30).reshape(-1, 1), np.zeros(30)
        >>> for finding in Audit(lambda X, y: (X[:, 0] - y) ** 2, X, y, clip=(0, 1), people=3, answers=500).run():
        ...     print(finding.check, finding.holds)
        isolation True
        silence True
        noise True
        attack True
    """

    losses: Callable[[Any, Any], npt.ArrayLike]
    X: Any
    y: Any
    clip: tuple[float, float]
    mu: float = 1.0
    people: int = 8
    answers: int = 2000

    def __post_init__(self) -> None:
        function("losses", self.losses)
        positive("mu", self.mu)
        Interval.of(self.clip)
        at_least("people", self.people, 1)
        at_least("answers", self.answers, 100)
        X, y = (attempt(np.asarray, each, failed=np.empty(())) for each in (self.X, self.y))
        if X.ndim == 0 or y.shape[:1] != X.shape[:1] or len(X) < 2:
            raise InputError(
                f"X and y must be arrays of as many rows, at least 2; got {kind(self.X)} and {kind(self.y)}."
            )
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)

    def run(self) -> Iterator[Finding]:
        """Make all checks."""
        yield self._isolation()
        yield self._silence()
        yield self._noise()
        yield self._attack()

    # ---- the objective ---------------------------------------------------------------------------

    @cached_property
    def _asked(self) -> list[tuple[int, str, Vector | None, str]]:
        """Yield row, change, losses (n,) or None, and all output; the first two items have unchanged rows."""
        cases = [(-1, "", self.X, self.y), (-1, "", self.X, self.y), *self._neighbours()]
        return [(row, how, *self._ask(X, y)) for row, how, X, y in cases]

    def _ask(self, X: Any, y: Any) -> tuple[Vector | None, str]:
        answer, said = transcript(lambda: np.array(self.losses(X.copy(), y.copy()), dtype=np.float64))
        return (answer if answer is not None and answer.shape == (len(X),) else None), said

    def _neighbours(self) -> Iterator[tuple[int, str, Any, Any]]:
        n = len(self.X)
        for row in np.linspace(0, n - 1, min(self.people, n)).astype(int):
            for other in (int(row + 1) % n, int(row + n // 2) % n):
                yield row, "is another person's", *(_replaced(part, row, part[other]) for part in (self.X, self.y))
                yield row, "has another person's answer", self.X, _replaced(self.y, row, self.y[other])
            for odd in ODD if self.X.dtype.kind == "f" else ():
                yield row, f"holds {odd}", _replaced(self.X, row, odd), self.y

    def _isolation(self) -> Finding:
        """Check that a replaced row moves its own loss only, and that two calls on the same rows agree."""
        (_, _, first, said), (_, _, again, _), *rest = self._asked
        if first is None or again is None:
            return Finding("isolation", False, f"no losses ({len(self.X)},) of the rows as they are. {said}")
        if not np.array_equal(first, again, equal_nan=True):
            words = "two calls on the same rows differ: seed what is random, and audit again"
            return Finding("isolation", False, words)
        others = np.arange(len(first))
        broken = [
            f"row {row} {how}"
            for row, how, losses, _ in rest
            if losses is None or not np.array_equal(losses[others != row], first[others != row], equal_nan=True)
        ]
        if broken:
            words = f"others' losses change, or are missing, if {broken[0]} ({len(broken)} of {len(rest)} neighbours)"
            return Finding("isolation", False, f"{words}. No noise of a search covers one person who moves many losses")
        return Finding("isolation", True, f"each of {len(rest)} replaced rows moved its own loss only")

    def _silence(self) -> Finding:
        """Check that prints, logs, warnings and errors are the same for neighbours."""
        (_, _, _, said), _, *rest = self._asked
        loud = [f"row {row} {how}" for row, how, _, words in rest if words != said]
        if loud:
            words = f"what it prints, logs or raises tells if {loud[0]} ({len(loud)} of {len(rest)} neighbours)"
            return Finding("silence", False, words)
        words = f"console, loggers, warnings and errors are the same for {len(rest)} neighbours"
        return Finding("silence", True, words)

    # ---- the releases ----------------------------------------------------------------------------

    def _answers(self, losses: Vector) -> Vector:
        """Return answers (answers,) about the same losses (n,), each of mu."""
        privatizer = LossPrivatizer(FreeLedger(), n=len(losses), clip=self.clip)
        privatizer.observe("x", losses)
        query = privatizer.mean_query("x", self.mu)
        return np.array([privatizer.release(query, scope="audit", key=str(t)).scalar for t in range(self.answers)])

    def _noise(self) -> Finding:
        """Check that answers about one data set are its clipped mean plus noise of N(0, (width/(n mu))^2)."""
        losses = np.full(len(self.X), self.clip[0])
        sigma = (self.clip[1] - self.clip[0]) / (len(losses) * self.mu)
        lines = complaints((self._answers(losses) - self.clip[0]) / sigma)
        words = f"nothing speaks against N(0, {sigma:.4g}^2), independent, in {self.answers} answers"
        return Finding("noise", not lines, "; ".join(lines) or words)

    def _attack(self) -> Finding:
        """Check that the bound on mu from the worst neighbours does not exceed the charged mu."""
        low, high = self.clip
        first = self._asked[0][2]
        middle = np.full(len(self.X), (low + high) / 2) if first is None else first
        a, b = middle.copy(), middle.copy()
        a[0], b[0] = low, high
        means = [float(np.clip(np.nan_to_num(x, nan=high), low, high).mean()) for x in (a, b)]
        proven = lower_bound(self._answers(a), self._answers(b), sum(means) / 2, 1 - CHANCE)
        words = f"an attack with {self.answers} answers a side proves mu >= {max(proven, 0.0):.3f}; "
        return Finding("attack", proven <= self.mu, f"{words}{self.mu:g} is paid for each (mistaken once in 10^6)")


def _replaced(part: Any, row: int, value: Any) -> Any:
    copy = part.copy()
    copy[row] = value
    return copy


class FreeLedger(PrivacyLedger):
    """A ledger in memory without a budget, for thousands of releases about synthetic rows, never private ones."""

    def __init__(self) -> None:
        self.paid: dict[tuple[str, str], SimpleNamespace] = {}

    def check_people(self, n: int) -> None:
        """Accept any number of people."""

    def find(self, scope: str, key: str) -> Any:
        return self.paid.get((scope, key))

    def charge(self, scope: str, key: str, event: Any, **_: Any) -> Any:
        return self.paid.setdefault(
            (scope, key), SimpleNamespace(scope=scope, value=None, mu=event.mu, seq=len(self.paid) + 1)
        )

    def record(self, charge: Any, value: Sequence[float], *, at: str | None = None) -> Any:
        charge.value = tuple(value)
        return charge
