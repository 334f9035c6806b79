"""The curator's memory: one row of clipped losses per evaluated point, in blocks that never move.

A block holds up to 64 rows of n numbers. ``numpy.empty`` commits memory as rows are written, so a
run of m points keeps about m * n * itemsize bytes: 850 points of 10^6 people take 3.4 GB in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

_ROWS_PER_BLOCK = 64


class LossRows:
    """Rows of centred, clipped losses, addressed by name.

    Args:
        n: people.
        dtype: float32 or float64.
    """

    def __init__(self, n: int, dtype: type[np.float32] | type[np.float64]) -> None:
        self.n, self.dtype = n, dtype
        self._blocks: list[npt.NDArray[np.floating[Any]]] = []
        self._place: dict[str, int] = {}  # name -> slot; block = slot // 64
        self._free: list[int] = []

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def names(self) -> tuple[str, ...]:
        """Return the names held, in the order of arrival."""
        return tuple(self._place)

    def put(self, name: str, row: npt.NDArray[np.floating[Any]]) -> None:
        """Store a row (n,) under a new name."""
        if not self._free:
            first = len(self._blocks) * _ROWS_PER_BLOCK
            self._blocks.append(np.empty((_ROWS_PER_BLOCK, self.n), dtype=self.dtype))
            self._free = list(range(first + _ROWS_PER_BLOCK - 1, first - 1, -1))
        slot = self._free[-1]
        self._blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK] = row
        self._place[name] = self._free.pop()

    def row(self, name: str) -> npt.NDArray[np.floating[Any]]:
        """Return a copy of a row, (n,), as it is kept."""
        slot = self._place[name]
        return np.array(self._blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK])

    def drop(self, name: str) -> None:
        """Forget a row: its values are overwritten and its memory is reused."""
        slot = self._place.pop(name)
        self._blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK] = 0
        self._free.append(slot)

    def combine(self, names: tuple[str, ...], weights: Matrix, people: slice) -> Matrix:
        """Return G = W L for the people of a slice: (p, m) times (m, people), as float64."""
        slots = np.array([self._place[name] for name in names])  # (m,)
        total: Matrix | None = None
        for index in np.unique(slots // _ROWS_PER_BLOCK):
            mine = slots // _ROWS_PER_BLOCK == index
            rows = slots[mine] % _ROWS_PER_BLOCK
            spread = np.zeros((len(weights), int(rows.max()) + 1), dtype=self.dtype)  # (p, used rows)
            spread[:, rows] = weights[:, mine]
            part = spread @ self._blocks[index][: spread.shape[1], people]
            total = part.astype(np.float64) if total is None else np.add(total, part, out=total)
        if total is None:
            raise LookupError("no rows were named")
        return total
