"""The memory of arrays, tensors, frames and lists, and whether two objects share some. No user's code is called."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dptune._arrays import Array
from dptune._checks import attempt
from dptune.privacy.seal.holders import attributes, keeps_its_own, offers, package

_WORK = 10_000  # limit of NumPy's exact search for shared memory; harder cases count as shared if their bounds overlap


def memory(each: Any) -> list[Array]:
    """Return the memory of an object as arrays; none of a proxy, nor of a trial, which remembers accesses."""
    none: list[Array] = []
    if package(type(each)) == "builtins" and not issubclass(type(each), bytearray | memoryview):
        return none
    return none if keeps_its_own(each) else attempt(_arrays, each, failed=none)


def rows_of_list(each: Any) -> Iterable[Any]:
    """Yield rows of a list that are distinct objects; equal numbers and texts may be shared by chance."""
    rows = each if isinstance(each, list | tuple) else ()
    return [row for row in rows if isinstance(row, list | dict | np.ndarray)]


def shares(a: Array, b: Array) -> bool:
    """Return whether two arrays share memory."""
    if not np.may_share_memory(a, b):
        return False
    exact: Callable[..., bool] = np.shares_memory
    return attempt(lambda: exact(a, b, max_work=_WORK), failed=True)


def _arrays(each: Any) -> list[Array]:
    """Return the memory of an array, a tensor, a sparse matrix, a series, a frame or an Arrow table."""
    if issubclass(type(each), np.ndarray):
        return [each]
    if issubclass(type(each), bytearray | memoryview | array):
        return [np.asarray(memoryview(each))]
    if offers(each, "untyped_storage"):
        return [each.detach().numpy()]
    if offers(each, "tocsr"):
        held = attributes(each).items()
        return [a for name, a in held if isinstance(a, np.ndarray) and (name == "data" or a.dtype.kind == "f")]
    if offers(each, "iloc") and offers(each, "dtypes"):
        columns = [each.iloc[:, j] for j in range(each.shape[1])] if each.ndim == 2 else [each]
        return _of_all(map(_column, columns))
    if offers(each, "get_columns"):  # a frame of polars
        return _of_all(each.get_columns())
    if offers(each, "to_arrow"):
        return _arrays(each.to_arrow())
    if package(type(each)) == "pyarrow":
        return _of_arrow(each)
    return []


def _of_all(parts: Iterable[Any]) -> list[Array]:
    none: list[Array] = []
    return [a for part in parts for a in attempt(_arrays, part, failed=none)]


def _column(column: Any) -> Any:
    """Return the memory of a pandas column, or a copy if it is not accessible."""
    names = ("_pa_array", "_ndarray", "_data", "_codes")
    held = (attempt(getattr, column.array, name, failed=None) for name in names)
    return next((each for each in held if each is not None), None)


def _of_arrow(each: Any) -> list[Array]:
    """Return bytes of the values, or of texts' offsets; slices of one table share buffers."""
    if not hasattr(each, "buffers"):
        return _of_all(getattr(each, "chunks", None) or getattr(each, "columns", None) or ())
    bits = attempt(lambda: each.type.bit_width, failed=64 if "large" in str(each.type) else 32)
    parts = np.frombuffer(each.buffers()[1], np.uint8)
    return [parts[each.offset * bits // 8 : (each.offset + len(each)) * bits // 8]]
