"""Points of the unit cube: one a row, one coordinate a column. Checks, and finite candidate sets, public and seeded."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import scipy  # loads its subpackages when they are used
from numpy.typing import ArrayLike, NDArray

from dptune._checks import at_least, attempt, kind
from dptune.errors import InputError

FloatArray = NDArray[np.float64]


def as_points(values: ArrayLike, d: int | None = None, *, name: str = "points") -> FloatArray:
    """Return the values as finite points in rows, (m, d); `InputError` otherwise."""
    points = _floats(values)
    if points.ndim != 2 or d not in (None, points.shape[1]):
        raise InputError(f"{name} must have shape (m, {'d' if d is None else d}); got {kind(values)}.")
    if not np.isfinite(points).all():
        raise InputError(f"{name} must be finite: remove NaN and infinite coordinates.")
    return points


def as_vector(values: ArrayLike, d: int | None = None, *, name: str = "theta") -> FloatArray:
    """Return the values as one finite point, (d,); `InputError` otherwise."""
    vector = _floats(values)
    if vector.ndim != 1 or vector.size == 0 or d not in (None, vector.size):
        raise InputError(f"{name} must have shape ({'d' if d is None else d},); got {kind(values)}.")
    as_points(vector[None], name=name)
    return vector


def _floats(values: ArrayLike) -> FloatArray:
    return attempt(partial(np.asarray, dtype=np.float64), values, failed=np.empty(()))


def sobol_candidates(d: int, count: int, *, seed: int = 0) -> FloatArray:
    """Return ``count`` points of a scrambled Sobol sequence in [0, 1]^d, (count, d)."""
    d, count = at_least("d", d, 1), at_least("count", count, 1)
    sobol = scipy.stats.qmc.Sobol(d, rng=np.random.default_rng([seed, d]))
    return np.asarray(sobol.random_base2(math.ceil(math.log2(count)))[:count], dtype=np.float64)
