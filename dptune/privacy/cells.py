"""Arrays and numbers from what other people's code returns, so that one entry decides about itself only.

NumPy reads a list as a whole: one entry sets the dtype, the shape, or makes the conversion raise. Here what has no
dtype of its own is read entry by entry, and an entry that cannot be had or is not a number is missing by itself.
So is an array of text, of objects or of complex numbers: one entry is enough to make NumPy or a CSV reader choose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._code import attempt


def as_array(values: Any) -> npt.NDArray[Any] | None:
    """Return an array of the dtype and shape that the caller's own has; None if it cannot be read as a whole.

    A sequence without NumPy's interface becomes objects (n,), None where an entry cannot be had. So does a vector whose
    dtype is not NumPy's: a nullable column of integers is read as objects or as floats once a value is missing.
    """
    return attempt(_as_array, values, failed=None)


def listed(values: Any) -> npt.NDArray[np.object_]:
    """Return the entries of a sequence, or the rows of an array, as objects (n,); what is in them is not looked at."""
    array = np.empty(len(values), dtype=object)
    for i in range(len(array)):
        array[i] = attempt(values.__getitem__, i, failed=None)
    return array


def number(entry: Any) -> float:
    """Return the entry as a float; NaN if it is not one real number. Text is read as the number it spells."""
    return entry if type(entry) is float else attempt(_number, entry, failed=np.nan)


def numbers(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return an array's entries as float64, NaN where there is none, and where an entry is neither number nor missing.

    All of one shape. Numbers that were turned into text are read back, since one odd entry does that to all of them.
    """
    if array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):  # a cast of long doubles may overflow
            return array.astype(np.float64), np.zeros(array.shape, dtype=bool)
    cells = array.ravel().tolist() if array.dtype.kind in "UST" else list(array.ravel())
    values = np.array([number(cell) for cell in cells], dtype=np.float64).reshape(array.shape)
    odd = np.zeros(array.size, dtype=bool)
    for i in np.flatnonzero(np.isnan(values)):
        odd[i] = not missing(cells[i])
    return values, odd.reshape(array.shape)


def missing(entry: Any) -> bool:
    """Tell whether an entry says that nothing is known: None, a NaN, pandas' NA, or text that spells NaN."""
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or attempt(_is_nan, entry, failed=False)


def as_text(entry: Any) -> str | None:
    """Return the entry as text, None if it is neither text nor a number; 1 and 1.0 are both "1"."""
    if isinstance(entry, str):
        return str(entry)
    value = number(entry) if isinstance(entry, int | float | np.number | np.bool_) else np.nan
    if isinstance(entry, bool | np.bool_):
        return str(bool(entry))
    return None if np.isnan(value) else str(int(value) if value.is_integer() else value)


def spellings(label: Any) -> tuple[Any, ...]:
    """Return what a label may be called: 1, 1.0, "1" and "1.0" are one, which of them it is may be due to others."""
    value = number(label)
    if np.isnan(value):
        return (label,)
    return (label, value, as_text(value), str(value), *((str(bool(value)),) if value in (0, 1) else ()))


def _as_array(values: Any) -> npt.NDArray[Any]:
    if _is_sequence(values):
        return listed(values)
    if isinstance(values, np.ma.MaskedArray):  # NumPy would take what lies under the mask
        return _unmasked(np.asarray(values), np.ma.getmaskarray(values))
    array = np.asarray(values)
    typed = array.ndim != 1 or isinstance(getattr(values, "dtype", None), np.dtype)
    return array if typed else array.astype(object)


def _unmasked(array: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    array = array.astype(np.float64 if array.dtype.kind in "fiub" else object)
    array[mask] = None  # among numbers NaN
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


def _number(entry: Any) -> float:
    if isinstance(entry, str | bytes):
        return _spelled(entry if isinstance(entry, str) else entry.decode())
    if isinstance(entry, complex | np.complexfloating) and entry.imag == 0:  # beside one that is not real
        return float(entry.real)
    if isinstance(entry, np.ndarray | np.complexfloating) or getattr(entry, "shape", ()) != ():
        raise TypeError  # float() of these may warn, which would be seen
    return float(entry)


def _spelled(word: str) -> float:
    truth = {"true": 1.0, "false": 0.0}.get(word.strip().lower())
    return float(word) if truth is None else truth


def _is_nan(entry: Any) -> bool:
    return bool(np.isnan(_number(entry)))
