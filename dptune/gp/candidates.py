"""Finite candidate sets in the unit cube: a Sobol design, and a finer one around a point. Public and seeded."""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike

from dptune._checks import at_least
from dptune.errors import InputError
from dptune.gp.arrays import FloatArray, as_vector


def sobol_candidates(d: int, count: int, *, seed: int = 0) -> FloatArray:
    """Return ``count`` points of a scrambled Sobol sequence in [0, 1]^d, (count, d).

    Raises:
        InputError: d or count is not an integer of at least 1.
    """
    d, count = at_least("d", d, 1), at_least("count", count, 1)
    sobol = scipy.stats.qmc.Sobol(d, rng=np.random.default_rng([seed, d]))
    return np.asarray(sobol.random_base2(math.ceil(math.log2(count)))[:count], dtype=np.float64)


def local_candidates(centre: ArrayLike, radius: float, count: int, *, seed: int = 0) -> FloatArray:
    """Return ``count`` points of a Sobol design in the box of half-width ``radius`` around a point, inside the cube.

    Raises:
        InputError: the centre is not a finite point, or the radius is not in (0, 1].
    """
    point = as_vector(centre, name="centre")
    if not 0 < radius <= 1:
        raise InputError(f"radius must lie in (0, 1], the side of the cube being 1; got {radius!r}.")
    low, high = np.clip(point - radius, 0.0, 1.0), np.clip(point + radius, 0.0, 1.0)
    return low + (high - low) * sobol_candidates(point.size, count, seed=seed)
