"""A private column in the representation of a public one: numbers, or the values of public rows.

Public rows alone determine a column's representation. :func:`dptune.privacy.seal.parsing.says` reads each private cell
by itself:

    public column   a private cell becomes
    numbers         the number that it is or spells, in the public floating-point type
    text            the equivalent first public value; else its text, a number in its shortest form
    categories      the equivalent category; the missing value, if it is another text or number
    any             the public missing value, if the cell is missing

Cells are equivalent if ``says`` of both is equal: 1, 1.0, "1" and "1.0" are, and so are "7" and "007". A public column
with two equivalent values, in which values repeat, is refused. Any other cell makes its own row unreadable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dptune._arrays import Array, Mask
from dptune._checks import attempt, shown
from dptune.errors import InputError
from dptune.privacy.seal.parsing import UNREADABLE, entries_of, numbers_in, says


class Names(NamedTuple):
    """The arguments that gave the private and the public table, as errors name them to the user."""

    private: str
    public: str


NAMES = Names("the private X", "like=")


class Parsed(NamedTuple):
    """A private column: its values, and where a cell does not fit or is missing, (n,) each."""

    values: Array
    unreadable: Mask
    gaps: Mask


class Column(ABC):
    """The representation of a public column."""

    _example: Array  # (1,)

    @abstractmethod
    def parse(self, cells: Array) -> Parsed:
        """Read each private cell (n,) by itself."""

    @abstractmethod
    def example(self, odd: float | None) -> Array:
        """Return the first public cell (1,), or with ``odd`` (NaN, inf) a missing or infinite one."""

    def unknown_values(self, values: Array) -> dict[Any, list[int]]:
        """Return the places in values (n,) of each text and category that no public row has.

        Only a column in which public rows repeat a few values has such places.
        """
        return {}


class _Numbers(Column):
    """Numbers, in the floating-point type of the public cells (m,), or float64."""

    def __init__(self, public: Array) -> None:
        self._dtype = public.dtype if public.dtype.kind == "f" else np.dtype(np.float64)
        self._example = self.parse(public[:1]).values

    def parse(self, cells: Array) -> Parsed:
        values, odd = numbers_in(self._dtype, cells)
        return Parsed(values, odd, np.isnan(values) & ~odd)

    def example(self, odd: float | None) -> Array:
        return self._example.copy() if odd is None else np.full(1, odd, dtype=self._dtype)


class _Words(Column):
    """Text or categories: the values of public cells (m,), and any other text if these are text."""

    def __init__(
        self, name: object, public: Array, categories: Sequence[Any] | None = None, names: Names = NAMES
    ) -> None:
        self._open = categories is None
        cells = entries_of(public)
        self._values: dict[Any, Any] = {}  # says(cell) -> the first equivalent public value
        twins = False
        for value in (*(categories or ()), *cells):
            said = says(value)
            first = self._values.setdefault(said, value)
            twins = twins or (first is not value and said is not None and first != value)
        self._missing = self._values.setdefault(None, None)
        values, _, gaps = self.parse(cells)
        self._example = values[:1]
        words = set(values[~gaps])
        self._known = words if 2 * len(words) <= len(cells) - gaps.sum() else set()  # free text repeats little
        if twins and (self._known or not self._open):
            raise InputError(
                f"column {shown(name)} of {names.public} holds different values that are one number, such as '1.1' and "
                "'1.10'. Private cells are compared by their number. Turn the column into numbers, or write its values "
                f"so that they are not numbers (for example 'v1.10'), in {names.public} and in {names.private}."
            )

    def parse(self, cells: Array) -> Parsed:
        said = [says(cell) for cell in entries_of(cells)]
        values, unreadable = np.empty(len(said), dtype=object), np.zeros(len(said), dtype=bool)
        for i, what in enumerate(said):
            value = attempt(self._values.get, what, self._written(what), failed=UNREADABLE)
            unreadable[i] = value is UNREADABLE
            values[i] = None if unreadable[i] else value
        gap = np.array([value is None or value is self._missing for value in values], dtype=bool) & ~unreadable
        gap &= not isinstance(self._missing, str)
        return Parsed(values, unreadable, gap)

    def _written(self, what: Any) -> Any:
        """Return the value for a cell that equals no public value."""
        if what is None:
            return None
        if isinstance(what, str) and self._open:
            return what
        if isinstance(what, float) and self._open:
            return str(int(what)) if what.is_integer() and abs(what) < 2**53 else repr(what)
        return self._missing if isinstance(what, str | float) else UNREADABLE  # a category that training lacks

    def example(self, odd: float | None) -> Array:
        if odd is None or not np.isnan(odd):
            return self._example.copy()
        missing = np.empty(1, dtype=object)
        missing[0] = self._missing
        return missing

    def unknown_values(self, values: Array) -> dict[Any, list[int]]:
        places: dict[Any, list[int]] = {}
        for i, value in enumerate(values if self._known else ()):
            attempt(self._add_unknown, places, value, i, failed=None)  # else only this row may fail with the model
        return places

    def _add_unknown(self, places: dict[Any, list[int]], value: Any, i: int) -> None:
        if value not in self._known and (value in places or says(value) is not None):
            places.setdefault(value, []).append(i)


def column_of(name: object, public: Array, categories: Sequence[Any] | None = None, names: Names = NAMES) -> Column:
    """Return the representation of a public column (m,); ``categories`` are those that its type lists."""
    if categories is not None:
        return _Words(name, public, categories, names)
    cells = entries_of(public)
    plain = all(isinstance(says(each), str | float | None) and np.ndim(each) == 0 for each in cells)
    if public.dtype.kind in "mM" or not plain:
        raise InputError(
            f"column {shown(name)} of {names.public} holds neither numbers, text nor categories. Convert it in "
            f"{names.public} and in {names.private}, for example dates into days. Text must be valid Unicode."
        )
    texts = any(isinstance(each, str) for each in cells)
    return _Words(name, public, names=names) if texts else _Numbers(public)
