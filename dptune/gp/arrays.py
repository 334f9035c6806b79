"""Checks on the public arrays of a Gaussian process: points in rows, one coordinate per column."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptune.errors import InputError

FloatArray = NDArray[np.float64]


def as_points(values: ArrayLike, d: int | None = None, *, name: str = "points") -> FloatArray:
    """The values as finite points in rows, (m, d).

    Raises:
        InputError: not two-dimensional, not finite, or rows of another dimension than d.
    """
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or (d is not None and points.shape[1] != d):
        raise InputError(f"{name} must have shape (m, {'d' if d is None else d}), got {points.shape}.")
    return _finite(points, name)


def as_vector(values: ArrayLike, d: int | None = None, *, name: str = "theta") -> FloatArray:
    """The values as one finite point, (d,).

    Raises:
        InputError: not one-dimensional, not finite, or of another dimension than d.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0 or (d is not None and vector.size != d):
        raise InputError(f"{name} must have shape ({'d' if d is None else d},), got {vector.shape}.")
    return _finite(vector, name)


def _finite(values: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite: remove NaN and infinite coordinates.")
    return values
