"""Proofs from samples of answers: a lower bound on mu, and tests of the noise's law."""

from __future__ import annotations

import numpy as np
import scipy  # loads its subpackages when they are used
from scipy.special import betaincinv, chdtr, chdtrc, ndtr, ndtri

from dptune._arrays import Vector

MISTAKE = 1e-8  # probability of a false complaint of one test


def lower_bound(a: Vector, b: Vector, threshold: float, confidence: float = 1 - 1e-6) -> float:
    """Return a lower bound on the pair's mu, by Clopper-Pearson bounds of both errors of the test "> threshold".

    No mu-GDP mechanism has a test with Phi^-1(1 - FPR) - Phi^-1(FNR) > mu (Dong, Roth, Su 2022).

    Args:
        a: (k,) independent answers about one data set.
        b: (m,) independent answers about its neighbour, expected to be larger.
        threshold: chosen without looking at ``a`` and ``b``.
        confidence: probability that the bound holds.
    """
    fpr, fnr = (_upper(int(wrong.sum()), len(wrong), confidence) for wrong in (a > threshold, b <= threshold))
    return float(-ndtri(fpr) - ndtri(fnr))


def _upper(successes: int, trials: int, confidence: float) -> float:
    return float(betaincinv(successes + 1, trials - successes, 1 - (1 - confidence) / 2)) if successes < trials else 1.0


def complaints(z: Vector) -> list[str]:
    """Return reasons why z (count,) are not independent draws of N(0, 1); empty if there are none."""
    count = len(z)
    square = float(z @ z)
    lines = []
    if min(chdtr(count, square), chdtrc(count, square)) < MISTAKE:
        lines.append(f"variance {square / count:.4g}, not 1")
    if scipy.stats.kstest(z, ndtr).pvalue < MISTAKE:
        lines.append("not a normal law")
    if len(np.unique(z)) < count - 5:
        lines.append("the same noise twice")
    sums = {"mean": float(z.sum()) / count**0.5}
    sums |= {f"correlation at lag {k}": float(z[k:] @ z[:-k]) / (count - k) ** 0.5 for k in (1, 2, 3)}
    large = -ndtri(MISTAKE / 100)
    return lines + [f"{name}: {x:.2f} standard deviations" for name, x in sums.items() if abs(x) > large]
