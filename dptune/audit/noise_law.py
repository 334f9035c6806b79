"""The law of the noise as released: normal, of the promised size, and independent from answer to answer."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used
from scipy.special import chdtr, chdtrc, ndtr, ndtri

from dptune.audit.bounds import Array

MISTAKE = 1e-7  # chance that one test complains although nothing is wrong


def complaints(z: Array) -> list[str]:
    """Return what speaks against z (count,) being independent draws of N(0, 1); empty if nothing does."""
    count, square = len(z), float(z @ z)
    found = []
    if min(chdtr(count, square), chdtrc(count, square)) < MISTAKE:
        found.append(f"variance {square / count:.4g}, not 1")
    if scipy.stats.kstest(z, ndtr).pvalue < MISTAKE:
        found.append("not a normal law")
    if len(np.unique(z)) < count - 5:
        found.append("the same noise twice")
    sums = {"mean": float(z.sum()) / count**0.5}
    sums |= {f"correlation at lag {k}": float(z[k:] @ z[:-k]) / (count - k) ** 0.5 for k in (1, 2, 3)}
    large = -ndtri(MISTAKE / 100)
    return found + [f"{name}: {x:.2f} standard deviations" for name, x in sums.items() if abs(x) > large]
