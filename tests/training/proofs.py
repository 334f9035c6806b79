"""What two samples of outputs prove about a search: a lower bound on its epsilon."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta


def proved(a: np.ndarray, b: np.ndarray, delta: float) -> float:
    """Epsilon at delta proved with confidence 1 - 1e-6 in the second half; the first chooses the thresholds."""
    found = 0.0
    for x, y in ((a, b), (b, a), (-a, -b), (-b, -a)):
        t = max(np.quantile(x, np.linspace(0.02, 0.98, 49)), key=lambda t: ratio(x[::2] > t, y[::2] > t, delta, 0.1))
        found = max(found, ratio(x[1::2] > t, y[1::2] > t, delta, 1e-6))
    return found


def ratio(hits: np.ndarray, misses: np.ndarray, delta: float, error: float) -> float:
    k, m, n = hits.sum(), misses.sum(), len(hits)
    low = float(beta.ppf(error / 2, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(1 - error / 2, m + 1, n - m)) if m < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0
