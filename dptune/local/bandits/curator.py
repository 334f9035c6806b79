"""Candidates as parameters of a search space: which a user tries, and for which a reply counts.

A reply counts for the candidate that the user was asked to try. Other parameters may be a user's own choice, a point
enqueued by hand, or a candidate that storage has rounded. Their reply counts for the candidate that is most correlated
with them under the kernel, if the correlation is at least ``NEAR``. Other replies are ignored, and so are replies with
a parameter that is missing or out of range.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Self

import numpy as np

from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.search.gp.points import FloatArray, sobol_candidates
from dptune.space import Space, Value

NEAR = 0.9
Key = tuple[Value, ...]  # the values of one candidate, in the order of the space


def key_of(space: Space, parameters: Mapping[str, Value]) -> Key | None:
    """Return the values in the order of the space, or None if one is missing, not a number, or out of range."""
    numbers = {name: value for name, value in parameters.items() if isinstance(value, Real)}
    return tuple(numbers[name] for name in space) if space.contains(numbers) else None


def design(space: Space, count: int, *, seed: int = 0) -> list[Key]:
    """Return all points of the space, or if they exceed ``count``, distinct points of a rounded Sobol design."""
    cells = [parameter.cells for parameter in space.values()]
    if all(cells) and math.prod(c or 0 for c in cells) <= count:
        grid = np.indices([c or 0 for c in cells]).reshape(len(cells), -1).T  # (M, d)
        points: FloatArray = (grid + 0.5) / np.array(cells, dtype=np.float64)
    else:
        points = sobol_candidates(len(space), count, seed=seed)
    return list(dict.fromkeys(tuple(space.decode(u).values()) for u in points))


class Curator:
    """One of the three algorithms on candidates of a search space; it maximises."""

    def __init__(
        self,
        algorithm: type[LocalBandit],
        space: Space,
        settings: LDPSettings,
        candidates: Sequence[Key],
    ) -> None:
        self.space = space
        self.settings = settings
        self._rows = {key: row for row, key in enumerate(dict.fromkeys(candidates))}
        self.bandit = algorithm(self._encoded(self._rows), settings)

    @property
    def candidates(self) -> list[Key]:
        return list(self._rows)

    def row(self, key: Key) -> int | None:
        """Return the candidate for which a reply at ``key`` counts, or None."""
        if key in self._rows:
            return self._rows[key]
        points = np.concatenate([self.bandit.points, self._encoded([key])])  # (M + 1, d)
        K = self.settings.kernel(points, points)
        correlation = K[-1, :-1] / np.sqrt(K[-1, -1] * np.diag(K)[:-1])  # (M,)
        best = int(correlation.argmax())
        return best if correlation[best] >= NEAR else None

    def tell(self, number: int, key: Key, reply: float) -> None:
        """Learn from a reply, if it counts."""
        row = self.row(key)
        if row is not None:
            self.bandit.tell(row, reply, number=number)

    def ask(self, pending: Iterable[Key] = ()) -> Key:
        rows = (self.row(key) for key in pending)
        return self.candidates[self.bandit.ask(row for row in rows if row is not None)]

    def recommend(self) -> Key:
        return self.candidates[self.bandit.recommend()]

    def copy(self) -> Self:
        twin = copy.copy(self)
        twin.bandit = self.bandit.copy()
        return twin

    def _encoded(self, keys: Iterable[Key]) -> FloatArray:
        return np.array([self.space.encode(dict(zip(self.space, key, strict=True))) for key in keys])
