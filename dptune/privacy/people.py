"""Who the people are, and what range their losses have: a privatizer's public arguments, checked first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dptune._numbers import COUNTABLE, real, whole
from dptune.errors import InputError
from dptune.privacy.query import Interval

Vector = npt.NDArray[np.float64]


def interval_of(clip: object) -> Interval:
    """Return the public range of a loss."""
    ends = [real(end) for end in clip] if isinstance(clip, Sequence) else []
    numbers = [end for end in ends if end is not None]
    if len(ends) != 2 or len(numbers) != 2:
        raise InputError("clip must be a pair of numbers (low, high), finite, the public range of one loss.")
    return Interval(*numbers)


def count_of(n: object) -> int:
    """Return the number of examples."""
    number = whole(n)
    if number is None or not 1 <= number <= COUNTABLE:
        raise InputError(f"n must be a whole number >= 1, the number of validation examples; got {n!r}.")
    return number


def person_of_row(n: object, groups: npt.ArrayLike | None) -> npt.NDArray[np.intp] | None:
    """Return the number of each row's person, (rows,) from 0 on, or None if every row is a person's own."""
    if (n is None) == (groups is None):
        raise InputError("give either n= (a person an example) or groups= (one identifier per example).")
    if groups is None:
        return None
    array = np.asarray(groups)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"groups must be a vector with one identifier per example; got shape {array.shape}.")
    if array.dtype.kind not in "iuUSb":
        raise InputError(f"groups must be whole numbers or text, without missing ones; got dtype {array.dtype}.")
    return np.unique(array, return_inverse=True)[1]


def person_weights_of(weights: npt.ArrayLike | None, n: int) -> Vector:
    """Return the public weights of the mean, (n,); they sum to 1."""
    if weights is None:
        return np.full(n, 1.0 / n)
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (n,) or not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"person_weights must be {n} positive finite numbers, one per person, and public.")
    array = array / array.max()  # first, so that the sum is finite
    return np.asarray(array / array.sum())


def float_type(dtype: object) -> type[np.float32] | type[np.float64]:
    """Return how rows are kept."""
    if dtype is np.float32:
        return np.float32
    if dtype is np.float64:
        return np.float64
    raise InputError("dtype must be numpy.float32 or numpy.float64.")
