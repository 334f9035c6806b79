"""Derivatives from differences, for kernels and posteriors."""

import numpy as np


def differences(f, X, step=1e-05):
    """Central differences of a scalar function, in the shape of X."""
    out = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        e = np.zeros_like(X)
        e[i] = step
        out[i] = (f(X + e) - f(X - e)) / (2 * step)
    return out
