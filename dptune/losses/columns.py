"""What one column holds, as its public cells say, and private cells read as that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune.errors import InputError
from dptune.privacy.entries import attempt, listed, missing, numbers, spellings, text

Mask: TypeAlias = npt.NDArray[np.bool_]


class Column:
    """What a public column (m,) holds: categories or text, read as objects; or numbers."""

    def __init__(self, name: object, public: npt.NDArray[Any], categories: Sequence[Any] | None = None) -> None:
        cells = [cell for cell in listed(public) if not missing(cell)]
        self.has_gaps = len(cells) < len(public)
        self._labels = None if categories is None else {text(c) if isinstance(c, str) else c: c for c in categories}
        self._is_text = categories is None and any(isinstance(cell, str) for cell in cells)
        self._dtype = public.dtype if public.dtype.kind == "f" else np.dtype(np.float64)
        if not (self._is_text or self._labels is not None) and (numbers(public)[1].any() or public.dtype.kind in "mM"):
            raise InputError(
                f"column {name!r} of like= holds neither numbers, text nor categories; turn it into one of them, "
                "as a date into days, in like= and in X."
            )
        read = self.read(public)[0]
        self._example = read[:1].copy()
        known = {cell for cell in read if cell is not None} if read.dtype.kind == "O" else set()
        self._known = known if 2 * len(known) <= len(cells) else set()  # free text repeats little

    def read(self, cells: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Mask, Mask]:
        """Return values, where a cell does not fit, and where one is missing, (n,) each."""
        if not (self._is_text or self._labels is not None):
            values, odd = numbers(cells)
            with np.errstate(all="ignore"):
                return values.astype(self._dtype), odd, np.isnan(values) & ~odd
        entries = listed(cells)
        gap = np.array([missing(entry) and not isinstance(entry, str) for entry in entries], dtype=bool)
        read = np.empty(len(entries), dtype=object)
        for i in np.flatnonzero(~gap):
            read[i] = text(entries[i]) if self._labels is None else self._category(entries[i])
        return read, np.array([entry is None for entry in read], dtype=bool) & ~gap, gap

    def _category(self, entry: Any) -> Any:
        """The category that an entry is, or spells; None if it is none."""
        labels = self._labels or {}
        spelled = (attempt(labels.get, s, failed=None) for s in spellings(entry))
        return next((category for category in spelled if category is not None), None)

    def strangers(self, values: npt.NDArray[Any]) -> list[Any]:
        """Return the texts and categories among values (n,) that no public row holds, where public rows share a few."""
        return list(dict.fromkeys(v for v in values if v is not None and v not in self._known)) if self._known else []

    def example(self, odd: float | None) -> npt.NDArray[Any]:
        """Return the first public cell (1,), or a missing or infinite one."""
        if odd is None or (self._example.dtype.kind != "f" and not np.isnan(odd)):
            return self._example.copy()
        return np.full(1, odd if self._example.dtype.kind == "f" else None, dtype=self._example.dtype)
