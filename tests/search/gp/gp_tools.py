"""Derivatives from differences, for kernels and posteriors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dptune.search.gp.points import FloatArray


def differences(f: Callable[[FloatArray], float], X: FloatArray, step: float = 1e-5) -> FloatArray:
    """Central differences of a scalar function, in the shape of X."""
    out = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        e = np.zeros_like(X)
        e[i] = step
        out[i] = (f(X + e) - f(X - e)) / (2 * step)
    return out
