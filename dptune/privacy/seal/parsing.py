"""The value of one cell, independent of how other cells changed its type.

A container has one type for many cells: NumPy, pandas, Arrow and CSV readers choose it by looking at all of them. One
person's "?" turns a column of numbers into text, one missing value turns whole numbers into floats. So :func:`says`
reads one cell only and undoes what the others may have done to it:

    how other cells change a cell                            says() of both
    "007", "1.50", "1e3", "TRUE" -> 7, 1.5, 1000.0, True     the float that the text spells
    1 -> 1.0 -> (1+0j), True -> 1, 1 -> timedelta64(1)       the same float
    1 -> "1", 1.5 -> "1.5", True -> "True", b"a" -> "a"      what the text spells
    1j -> "1j"                                               "1j"
    -0.0 -> 0                                                0.0
    float32(0.1) -> "0.1"                                    0.1, the shortest decimal
    None -> nan -> "nan", NA, masked                         None
    "a" with NUL characters at its end -> "a"                "a"

**Why one cell costs its own row only.** Let a container turn cells c_1 ... c_n into r_1 ... r_n. If each change is in
the table, says(r_i) = says(c_i), and results for cell i depend only on says(r_i) and public facts. So a change of c_j,
whatever it does to the others' types, changes results for cell j only. Public text that spells a number is looked up by
that number for the same reason: "1" and 1.0 may be one person's cell.

Assumed: a reader changes cells in no other way. Options such as ``decimal=","``, ``thousands=`` and dates act column by
column; then declare the columns' types, or read private rows as text. A reader that rounds differently from ``float``
changes a number by one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Mask
from dptune._checks import attempt

UNREADABLE = object()  # equal to no cell
CHUNK = 1 << 16  # cells that are written as text at a time


def says(entry: Any) -> Any:
    """Return the number that a cell is or spells as a float, else its text, None if it is missing, else the cell.

    A list, tuple or array of one entry says what the entry says, as do the rows of a column (n, 1) as a list.
    Text that UTF-8 cannot encode, which Arrow refuses with its whole column, is ``UNREADABLE``.
    """
    if type(entry) is float:
        return None if math.isnan(entry) else entry + 0.0
    return attempt(_plain, entry, failed=UNREADABLE)


def number(entry: Any) -> float:
    """Return the cell as a float; NaN if it is not one real number. Text is read as the number it spells."""
    return entry + 0.0 if type(entry) is float else attempt(_number, entry, failed=np.nan)


@np.errstate(all="ignore")  # casts may overflow or underflow
def numbers(array: Array) -> tuple[npt.NDArray[np.float64], Mask]:
    """Return an array's cells as float64, NaN for no number, and where a cell is neither number nor missing.

    Both have the array's shape. An array of lower precision keeps its exact values.
    """
    if array.dtype.kind in "fiub":
        return np.add(array, 0.0, dtype=np.float64, order="C"), np.zeros(array.shape, dtype=bool)
    cells = list(array.ravel())
    values = np.array([number(cell) for cell in cells], dtype=np.float64)
    odd = np.zeros(array.size, dtype=bool)
    for i in np.flatnonzero(np.isnan(values)):
        odd[i] = says(cells[i]) is not None
    return values.reshape(array.shape), odd.reshape(array.shape)


@np.errstate(all="ignore")
def numbers_in(kind: np.dtype[Any], array: Array) -> tuple[Array, Mask]:
    """Return private cells as :func:`numbers` does, in the floating-point type of public ones.

    Cells of a lower precision are read as their shortest decimals, which they would become in a column with text.
    """
    values = array
    if array.dtype.kind == "f" and array.dtype.itemsize < kind.itemsize:
        flat = array.reshape(-1)
        exact = flat.astype(np.float64)
        whole = (np.trunc(exact) == exact) & (np.abs(exact) <= 2.0 ** np.finfo(array.dtype).nmant)
        places = np.flatnonzero(~whole)
        with np.printoptions(legacy=False):
            for part in np.split(places, range(CHUNK, len(places), CHUNK)):
                exact[part] = flat[part].astype(str).astype(np.float64)
        values = exact.reshape(array.shape)
    values, odd = numbers(values)
    return values.astype(kind, copy=False), odd


def odd_type(values: Any) -> str:
    """Return the name of the type of cells, or of a frame's first such column, of dates or structures; else "".

    No single odd cell turns numbers or text into these types.
    """
    dtypes = attempt(lambda: [values.dtype], failed=None) or attempt(lambda: list(values.dtypes), failed=[])
    return next((str(each.type.__name__) for each in dtypes if getattr(each, "kind", "") in ("M", "V")), "")


def as_labels(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return numbers (n,) in a form that does not depend on their floating-point type, in which labels are compared.

    The label 0.1 is 0.10000000149 as a float32, 0.09997559 as a float16, and stays so if it becomes a Python float.
    Fractions are rounded to float32, after those that a float16 can hold became its shortest decimals.
    """
    with np.errstate(all="ignore"), np.printoptions(legacy=False):
        places = np.flatnonzero((np.trunc(values) != values) & (np.abs(values) >= np.finfo(np.float32).tiny))
        if not len(places):
            return values
        fractions = values[places].astype(np.float32)
        halves = fractions.astype(np.float16)
        short, which = np.unique(halves, return_inverse=True)
        decimals = short.astype(str).astype(np.float32)[which]
        rounded = values.copy()
        rounded[places] = np.where(halves == fractions, decimals, fractions)
        return rounded


def label(entry: Any) -> Any:
    """Return what :func:`says` does, a number in the form of :func:`as_labels`."""
    said = says(entry)
    return said if type(said) is not float or said.is_integer() else float(as_labels(np.array([said]))[0])


def as_array(values: Any) -> Array | None:
    """Return an array with the dtype and shape of the caller's; None if it cannot be read as a whole.

    A sequence without NumPy's interface becomes objects (n,), with None for unreadable entries. So does a vector whose
    dtype is not NumPy's: a missing value changes whether nullable integers become objects or floats.
    """
    return attempt(_as_array, values, failed=None)


def entries_of(values: Any) -> npt.NDArray[np.object_]:
    """Return the entries of a sequence, or the rows of an array, as objects (n,), without inspecting them."""
    array = np.empty(len(values), dtype=object)
    for i in range(len(array)):
        array[i] = attempt(values.__getitem__, i, failed=None)
    return array


def _plain(cell: Any) -> Any:
    entry = _one(cell)
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(entry, str | bytes):
        entry = _text(entry)
    value = attempt(_value, entry, failed=None)
    if value is None:  # a complex number as NumPy writes it with text
        return str(entry) if isinstance(entry, complex | np.complexfloating) else entry
    return None if math.isnan(value) else value


def _text(entry: str | bytes) -> str:
    """Return the text without the NULs at its end, or ``UNREADABLE`` if UTF-8 cannot encode it."""
    data = entry if isinstance(entry, bytes) else entry.encode()
    return data.decode().rstrip("\0")


_SCALARS = frozenset((bool, int, float, str, bytes, np.float64))  # most cells: they are looked at no further


def _one(cell: Any) -> Any:
    """Return the entry of a list, tuple, array or tensor that has just one; all else as it is."""
    if type(cell) in _SCALARS:
        return cell
    if isinstance(cell, list | tuple):
        return cell[0] if len(cell) == 1 else cell
    if isinstance(cell, np.ndarray):
        return cell.flat[0] if cell.size == 1 else cell
    shape = getattr(cell, "shape", ())
    return cell.item() if shape != () and math.prod(shape) == 1 else cell


def _number(cell: Any) -> float:
    return _value(_one(cell))


def _value(entry: Any) -> float:
    if isinstance(entry, np.floating):  # as NumPy writes it with text, whatever its print options are
        entry = float(entry) if isinstance(entry, float) else np.format_float_scientific(entry)
    if isinstance(entry, str | bytes):
        word = _text(entry)
        truth = {"true": 1.0, "false": 0.0}.get(word.strip().lower())
        entry = complex(word) if truth is None else truth
    if isinstance(entry, np.timedelta64):
        return math.nan if np.isnat(entry) else float(entry.astype(np.int64))
    if isinstance(entry, complex | np.complexfloating) and entry.imag == 0:
        return float(entry.real) + 0.0
    if isinstance(entry, np.ndarray | np.complexfloating) or getattr(entry, "shape", ()) != ():
        raise TypeError  # float() of these may warn, which would be seen
    try:
        return float(entry) + 0.0
    except OverflowError:
        return math.inf if entry > 0 else -math.inf  # as float() of its text


def _as_array(values: Any) -> Array:
    if _is_sequence(values):
        return entries_of(values)
    if isinstance(values, np.ma.MaskedArray):  # NumPy would use the values under the mask
        return _unmasked(np.asarray(values), np.ma.getmaskarray(values))
    array = np.asarray(values)
    if array.dtype.kind in "mM" and not isinstance(values, np.ndarray):
        array = np.asarray(values.astype(object))  # NumPy would make integers of some
    typed = array.ndim != 1 or isinstance(getattr(values, "dtype", None), np.dtype)
    return array if typed else array.astype(object)


def _unmasked(array: Array, mask: Mask) -> Array:
    array = array.astype(np.float64 if array.dtype.kind in "fiub" else object)
    array[mask] = None  # NaN among numbers
    return array


def _is_sequence(values: Any) -> bool:
    kind = type(values)
    interfaces = ("__array__", "__array_interface__", "__array_struct__")
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not isinstance(values, str | bytes | Mapping)
        and not any(hasattr(kind, interface) for interface in interfaces)
    )
