"""Private rows in a public representation: a cell's value is private, its dtype is public.

Rows are read once, cell by cell, into a :class:`ParsedRows`. Public facts determine the representation: numbers
(float64), or the types of the public rows ``like`` (`dptune.losses.columns`). A cell that does not fit makes only its
own row unreadable. A model gets a copy in every call.

    data = Rows(X_val, y_val, like=X_train)     # a data frame, texts, float32
    data = (X_val, y_val)                       # numbers
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from dptune._arrays import Array, Indices, Mask
from dptune._checks import attempt, column_names, shown
from dptune.errors import InputError
from dptune.losses.columns import NAMES, Column, Names, column_of
from dptune.losses.containers import by_positions, of_shape, one_by_one, row_shape, takes_positions
from dptune.privacy.seal.parsing import UNREADABLE, as_array, entries_of, numbers, numbers_in, odd_type

_Rebuilt: TypeAlias = Callable[[list[Array]], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Private examples, and public rows that say what their columns hold.

    Attributes:
        X: private rows (n, d): an array, a list of rows or of texts, a sparse matrix, a data frame.
        y: private answers (n,).
        like: public rows of the same columns, such as the training rows, read without the private ones. In a table of
            both, one private cell can decide what a column holds. Where they hold text or categories, so does
            ``X``, as the public value that says the same. Everything else is a number, in the floating-point type of
            ``like``. Any number of rows; the first one is what a model is tried out on.

    An object is read once, by the first call that needs it: give the same one to a choice and to its report. Later
    changes of X and y play no part.
    """

    X: Any
    y: Any
    like: Any = None
    _read: dict[int | None, Any] = field(default_factory=dict, init=False)  # examples, by the model's columns if needed
    _names: Names = field(default=NAMES, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_read": {}}


def rows_named(X: Any, y: Any, like: Any, names: Names) -> Rows:
    """Return rows whose errors name the arguments of a function that takes the tables itself."""
    rows = Rows(X, y, like)
    object.__setattr__(rows, "_names", names)
    return rows


class ParsedRows:
    """Rows in a public representation, in the form that models take.

    Attributes:
        unreadable: rows (n,) with a cell that does not fit, or that are not rows; a model never gets them.
        gaps, infinite: missing values (n, k), and rows (n,) with an infinite value. Most models fail on such a batch.
        synthetic_counts: whether a model must answer a synthetic row; False if its container cannot be built.
    """

    synthetic_counts = True

    def __init__(self, n: int, columns: int = 0) -> None:
        self.unreadable, self.infinite = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.gaps = np.broadcast_to(np.False_, (n, columns))  # one value in memory

    def __len__(self) -> int:
        return len(self.unreadable)

    @cached_property
    def incomplete(self) -> bool:
        """Return whether any value is missing."""
        return bool(self.gaps.any())

    def take(self, rows: Indices) -> Any:
        """Return a copy of the rows of these indices, which the model may change."""
        raise NotImplementedError

    def everybody(self) -> Any:
        """Return a copy of all rows in the layout of :meth:`take`, so that answers are rounded in the same way."""
        return self.take(np.arange(len(self)))

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Any:
        """Return one public row: the first of ``like``, or zeros; with ``odd`` (NaN, inf) in these columns."""
        raise NotImplementedError

    def unknown_values(self) -> Iterator[tuple[Mask, Callable[[], Any]]]:
        """Yield, for each text that no public row has, the rows (n,) with it, and a maker of a public row with it."""
        return iter(())


class _Numbers(ParsedRows):
    """An array (n, ...) of one floating-point type."""

    def __init__(self, X: Array, like: Array | None) -> None:
        super().__init__(len(X), math.prod(X.shape[1:]))
        public = np.zeros((1, *X.shape[1:])) if like is None else like
        self._values, odd = numbers_in(public.dtype if public.dtype.kind == "f" else np.dtype(np.float64), X)
        self._example = public[:1].astype(self._values.dtype)
        flat = self._values.reshape(len(X), -1)
        if odd.any():
            self.unreadable = np.any(odd.reshape(len(X), -1), axis=1)
        if not np.isfinite(flat).all():
            self.gaps, self.infinite = np.isnan(flat), np.any(np.isinf(flat), axis=1)

    def take(self, rows: Indices) -> Array:
        return self._values[rows]  # indexed by an array: a copy

    def everybody(self) -> Array:
        return self._values.copy()  # three times as fast as an index

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Array:
        row = self._example.copy()
        if odd is not None:
            row.reshape(1, -1)[:, columns] = odd
        return row


class _Sparse(ParsedRows):
    """A compressed sparse matrix (n, d) of one floating-point type; missing values are not tracked by column."""

    def __init__(self, X: Any, like: Any) -> None:
        super().__init__(X.shape[0])
        kind = getattr(like, "dtype", np.dtype(np.float64))
        entries = X.tocoo(copy=True)
        # complex numbers, too, if one entry is not real
        entries.data, odd = numbers_in(kind if kind.kind == "f" else np.dtype(np.float64), entries.data)
        self.unreadable[entries.row[odd]] = True
        self._X = entries.tocsr()  # sums duplicate entries
        row = np.repeat(np.arange(X.shape[0]), np.diff(self._X.indptr))
        self.infinite[row[np.isinf(self._X.data)]] = True
        self.gaps = np.zeros((len(self), 1), dtype=bool)
        self.gaps[row[np.isnan(self._X.data)]] = True

    def take(self, rows: Indices) -> Any:
        return self._X[rows]

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Any:
        return type(self._X)(np.full((1, self._X.shape[1]), odd or 0.0, dtype=self._X.dtype))


class _Texts(ParsedRows):
    """Texts (n,): a list, or an array of objects."""

    def __init__(self, X: Any, like: Any, names: Names) -> None:
        super().__init__(len(X))
        column = column_of(0, entries_of(like), names=names)
        self._listed = isinstance(like, list | tuple)
        self._example = column.example(None)
        self._texts, odd, gaps = column.parse(entries_of(X))
        self.unreadable = odd | gaps

    def take(self, rows: Indices) -> Any:
        return self._held(self._texts[rows])

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Any:
        return self._held(self._example.copy())

    def _held(self, texts: Array) -> Any:
        return texts.tolist() if self._listed else texts


class _Columns(ParsedRows):
    """Columns of a data frame, or of an array of objects, each with its own representation."""

    def __init__(self, X: list[Array], like: list[Column], rebuilt: _Rebuilt) -> None:
        super().__init__(len(X[0]))
        parsed = [column.parse(cells) for column, cells in zip(like, X, strict=True)]
        self._columns = [each.values for each in parsed]
        self._rebuilt = rebuilt
        self._like = like
        self.unreadable = np.any([each.unreadable for each in parsed], axis=0)
        self.gaps = np.column_stack([each.gaps for each in parsed])
        for values in self._columns:
            if values.dtype.kind == "f":
                self.infinite |= np.isinf(values)

    def take(self, rows: Indices) -> Any:
        return self._rebuilt([values[rows] for values in self._columns])

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Any:
        chosen = np.zeros(len(self._like), dtype=bool)
        chosen[columns] = odd is not None
        return self._rebuilt([column.example(odd if c else None) for column, c in zip(self._like, chosen, strict=True)])

    def unknown_values(self) -> Iterator[tuple[Mask, Callable[[], Any]]]:
        for j, values in enumerate(self._columns):
            for cell, places in self._like[j].unknown_values(values).items():
                row = [column.example(None) for column in self._like]
                row[j][0] = cell
                mask = np.zeros(len(self), dtype=bool)
                mask[places] = True
                yield mask, partial(self._rebuilt, row)


class _Foreign(ParsedRows):
    """Any other container with a fixed dtype, such as a tensor, or with a shape and rows by an array of positions."""

    def __init__(self, X: Any, like: Any) -> None:
        super().__init__(int(X.shape[0]))
        self._X = X
        self._like = like
        self.synthetic_counts = like is not None

    def take(self, rows: Indices) -> Any:
        taken = by_positions(self._X, rows)
        return attempt(copy.deepcopy, taken, failed=taken)  # a tensor with a gradient refuses; taken rows are a copy

    def synthetic_row(self, odd: float | None = None, columns: Indices | slice = slice(None)) -> Any:
        return np.zeros((1, *self._X.shape[1:])) if self._like is None else copy.deepcopy(self._like[:1])


def needs_columns(X: Any, like: Any) -> bool:
    """Return whether only a model determines X's number of columns: a list or vector of rows without ``like``."""
    return like is None and (_is_listed(X) or (isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.ndim == 1))


def read_rows(X: Any, like: Any = None, d: int | None = None, names: Names = NAMES) -> ParsedRows:
    """Read private rows in a public representation: that of ``like``, or numbers in ``d`` columns.

    Raises:
        InputError: the type of X needs ``like``, a list of rows needs it or ``d``, or shapes or columns differ from
            those of ``like``. The error depends on types, shapes and names of columns only.
    """
    if _is_frame(X) or _is_frame(like):
        return _frame(X, like, names)
    if odd := odd_type(X):
        raise InputError(
            f"{names.private} has the type {odd}; allowed: numbers and text. Of dates give numbers, such as days, and "
            "of a structure its fields as columns."
        )
    X, like = _plain(X), _plain(like)
    if hasattr(X, "tocsr"):
        return _Sparse(X, like)
    refuse_one_sparse(X, like, names)
    shape = None
    if not _is_listed(X) and not isinstance(X, np.ndarray):
        shape = row_shape(X, like, names.private)
        if takes_positions(X):
            return _Foreign(X, like)
        X = one_by_one(X, names.private)
    public = _public(like, names)
    if public is not None and public.ndim == 1:
        return _Texts(X, like if isinstance(like, list | tuple) else public, names)
    cells = _cells(X, shape if public is None else public.shape[1:], d, names)
    if public is None or public.dtype.kind != "O":
        return _Numbers(cells, public)
    columns = [column_of(j, public[:, j], names=names) for j in range(public.shape[1])]
    return _Columns(list(cells.T), columns, lambda each: np.stack([v.astype(object) for v in each], axis=1))


def refuse_one_sparse(X: Any, like: Any, names: Names) -> None:
    """Refuse sparse public rows where the private ones are not; a model that was trained on arrays takes both."""
    if hasattr(like, "tocsr") and not hasattr(X, "tocsr"):
        raise InputError(f"{names.public} is sparse: give {names.private} sparse, too.")


def _public(like: Any, names: Names) -> Array | None:
    """Return public rows as numbers, or as objects if any cell is text."""
    if like is None:
        return None
    array = np.array(like, dtype=object) if _is_listed(like) else np.asarray(like)
    if array.dtype.kind in "fiub":
        rows = array
    else:
        array = array.astype(object)
        rows, odd = numbers(array)
        if any(isinstance(cell, str) for cell in array.ravel()):
            rows = array
        elif odd.any():
            raise InputError(
                f"{names.public} must hold numbers and text; got an array or a list that holds something else. Of "
                f"dicts give pandas.DataFrame(rows), of {names.private} and of {names.public}."
            )
    if rows.size == 0 or (rows.ndim == 1 and rows.dtype.kind != "O"):
        raise InputError(
            f"{names.public} must be public rows, at least one, like those of {names.private}; got shape {rows.shape}."
        )
    return rows


def _cells(X: Any, shape: tuple[int, ...] | None, d: int | None, names: Names) -> Array:
    """Return an array (n, ...); rows of lists are read one by one, so that a wrong shape spoils only its row."""
    if isinstance(X, np.ndarray) and (X.ndim > 1 or X.dtype.kind != "O"):
        if X.ndim < 2 or shape not in (None, X.shape[1:]):
            raise of_shape(X.shape, shape, names.private)
        return X
    shape = (d,) if shape is None and d is not None else shape
    if not shape:
        raise InputError(
            "the number of columns of a list or a vector of rows must come from public facts. This model has no "
            "n_features_in_: is it fitted? Give data=Rows(X, y, like=public or made-up rows), or an array of numbers."
        )
    table = np.full((len(X), *shape), UNREADABLE, dtype=object)
    for i, row in enumerate(entries_of(X)):
        _fill(table[i], row)
    return table


def _fill(place: Array, row: Any) -> None:
    """Set a row (d, ...) to the given one, also of nested lists, if it has this shape."""
    cells = as_array(row)
    if cells is not None and cells.shape == place.shape:
        place[:] = cells
    elif cells is not None and cells.shape == place.shape[:1]:
        for part, each in zip(place, entries_of(cells), strict=True):
            _fill(part, each)


def _frame(X: Any, like: Any, names: Names) -> ParsedRows:
    if not (_is_frame(X) and _is_frame(like)):
        both = f"{names.private} and {names.public}"
        if names.public == NAMES.public:
            both = "data=Rows(X, y, like=X_train), public or made-up rows of the same columns,"
        raise InputError(
            f"what columns of a data frame hold must not depend on private cells. Give {both} both as pandas data "
            "frames. If all are numbers, give arrays, such as X.to_numpy(). Got "
            f"{names.private} as {_whose(X)} and {names.public} as {_whose(like)}."
        )
    listed = column_names(like)
    if listed is None or column_names(X) != listed or len(like) == 0:
        raise InputError(
            f"{names.private} and {names.public} (public rows, such as those that train) must have the same columns; "
            f"{names.public} has {len(like)} rows of {', '.join(map(shown, listed or ())) or 'no named columns'}."
        )
    dtypes = list(like.dtypes)
    public = [_object_array(like.iloc[:, j]) for j in range(len(dtypes))]
    columns = [
        column_of(name, cells, None if not hasattr(dtype, "categories") else list(dtype.categories), names)
        for name, cells, dtype in zip(listed, public, dtypes, strict=True)
    ]
    for name, dtype, mine in zip(listed, dtypes, X.dtypes, strict=True):
        if getattr(mine, "kind", "") == "M" and not hasattr(dtype, "categories"):
            raise InputError(
                f"column {shown(name)} of {names.private} holds dates. Convert it as in {names.public}, for example "
                "into days."
            )
    series = type(like.iloc[:, 0])

    def rebuilt(each: list[Array]) -> Any:
        held = {j: series(v, dtype=dtypes[j] if v.dtype.kind == "O" else v.dtype) for j, v in enumerate(each)}
        frame = type(like)(held)
        frame.columns = like.columns
        return frame

    return _Columns([_object_array(X.iloc[:, j]) for j in range(len(dtypes))], columns, rebuilt)


def _whose(rows: Any) -> str:
    return "None" if rows is None else f"a {type(rows).__name__} of {type(rows).__module__.partition('.')[0]}"


def _object_array(series: Any) -> Array:
    array = as_array(series)
    return np.full(len(series), UNREADABLE, dtype=object) if array is None else array


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _plain(X: Any) -> Any:
    """Return the values without a series' index or a mask, and a matrix as an array."""
    if isinstance(X, np.ma.MaskedArray):
        return as_array(X)
    if isinstance(X, np.matrix):
        return np.asarray(X)
    return np.asarray(X, dtype=object) if hasattr(X, "iloc") and getattr(X, "ndim", None) == 1 else X


def _is_listed(X: Any) -> bool:
    return isinstance(X, Sequence) and not isinstance(X, str | bytes)
