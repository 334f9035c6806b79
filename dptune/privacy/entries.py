"""Arrays and numbers from what other people's code returns, so that one entry decides about itself only.

NumPy reads a list as a whole: one entry sets the dtype, the shape, or makes the conversion raise. Here what has no
dtype of its own is read entry by entry, and an entry that cannot be had or is not a number is missing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


def attempt(call: Callable[..., T], *args: object, failed: T) -> T:
    """Return what the call returns, or ``failed`` whatever it raises, ``SystemExit`` and panics included.

    Only ``KeyboardInterrupt`` passes, as a new one: the other's frames hold private values.
    """
    try:
        return call(*args)
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001
        return failed
    raise KeyboardInterrupt


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
    """Return the entry as a float; NaN if it is not one real number."""
    return entry if type(entry) is float else attempt(_number, entry, failed=np.nan)


def _as_array(values: Any) -> npt.NDArray[Any]:
    if _is_sequence(values):
        return listed(values)
    array = np.asarray(values)
    typed = array.ndim != 1 or isinstance(getattr(values, "dtype", None), np.dtype)
    return array if typed else array.astype(object)


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
    if isinstance(entry, np.ndarray | np.complexfloating) or getattr(entry, "shape", ()) != ():
        return np.nan  # float() of these may warn, which would be seen
    return float(entry)
