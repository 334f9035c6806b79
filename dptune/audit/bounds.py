"""A lower bound on mu from outside: what two samples of answers prove about the mechanism that made them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

Array = npt.NDArray[np.float64]


def lower_bound(a: Array, b: Array, threshold: float, confidence: float = 1 - 1e-6) -> float:
    """Return a mu that the pair certainly has: Clopper-Pearson bounds of both errors of the test "> threshold".

    No mu-GDP mechanism has a test with Phi^-1(1 - FPR) - Phi^-1(FNR) > mu (Dong, Roth, Su 2022).

    Args:
        a: (k,) independent answers about one data set.
        b: (m,) independent answers about its neighbour, expected to be larger.
        threshold: chosen without looking at ``a`` and ``b``.
        confidence: chance that the bound holds.
    """
    fpr, fnr = (_upper(int(wrong.sum()), len(wrong), confidence) for wrong in (a > threshold, b <= threshold))
    return float(-ndtri(fpr) - ndtri(fnr))


def _upper(successes: int, trials: int, confidence: float) -> float:
    return float(betaincinv(successes + 1, trials - successes, 1 - (1 - confidence) / 2)) if successes < trials else 1.0
