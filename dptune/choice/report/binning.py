"""The number of a report's score bins: public rows choose it without simulation, as the variances are known.

More bins mean a finer curve and more noise. Their number, and the budget's part for the four counts of (class,
decision), minimise the expected error of four metrics: area, accuracy, sensitivity and specificity. The n people are
assumed to be spread over the bins like the public rows. In five of six tables, the area's bias by the unknown order
within bins is at most a third of its standard error.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dptune._arrays import Mask, Vector
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.bins import Bins, edges_of

CANDIDATES = (3, 4, 5, 6, 8, 10, 12, 16, 20)
_FEWEST_IN_BIN = 6  # least public rows of either class in a bin
ON_DECISIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # candidate shares of the budget
_OF_ERROR = 1 / 3  # largest bias of the area, as a share of its standard error
_MISFITS = 1.4  # standard deviations of that bias that count (docs/research/report.md)


def choose(scores: Vector, positive: Mask, threshold: float, *, n: int, sigma: float, bins: int | None = None) -> Bins:
    """Return the bins with the least expected error for n people and noise sigma of a released number.

    Args:
        scores: (N,) cross-validated scores of the public rows.
        positive: (N,) whether a row is of the positive class.
        threshold: of the decision.
        n: number of private people.
        sigma: standard deviation of the noise.
        bins: their number, if it is given; else it is chosen.
    """
    most = max(2, min(int(positive.sum()), int((~positive).sum())) * 2 // _FEWEST_IN_BIN)
    wanted = [bins] if bins is not None else [b for b in CANDIDATES if b <= most] or [most]
    made = [Bins.at(edges_of(scores, positive, threshold, b), threshold, scores, positive) for b in wanted]
    tried = (replace(each, on_decisions=w) for each in made for w in ON_DECISIONS)
    return min(tried, key=lambda each: _expected_error(each, n, sigma))


def _expected_error(bins: Bins, n: int, sigma: float) -> tuple[float, float]:
    """Return the excess of the area's bias over its limit, and the summed standard errors of four metrics.

    The n people are spread like the public rows.
    """
    counts = np.asarray(bins.table)
    table = BinaryTable(bins, counts * n / counts.sum(), bins.noise(sigma), total=float(n))
    error = table.area_error
    over = max(_MISFITS * table.area_misfit - _OF_ERROR * error, 0.0) if math.isfinite(error) else math.inf
    return over, error + table.decisions.error
