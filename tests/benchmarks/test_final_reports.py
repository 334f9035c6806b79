"""The floor of unbiased releases: the largest step by trying everybody, and the bound by a mechanism that meets it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks.final_reports import floor, largest_step
from dptune.choice.report.binary import exact_area


@pytest.mark.parametrize("seed", range(2))
def test_the_largest_step_is_that_of_trying_every_replacement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, positive = rng.integers(0, 9, size=14).astype(float), np.arange(14) < 3 + seed
    area, tried = exact_area(scores, positive), []
    for i in range(len(scores)):
        for kind in (False, True):
            for s in np.arange(-1.0, 10.0, 0.5):
                s2, y2 = scores.copy(), positive.copy()
                s2[i], y2[i] = s, kind
                if 0 < y2.sum() < len(y2):
                    tried.append(abs(exact_area(s2, y2) - area))
    assert largest_step(scores, positive) == pytest.approx(max(tried))


def test_the_bound_is_the_step_over_the_chi_square_of_two_normal_laws() -> None:
    mu, scores = 0.5, np.arange(100.0)
    assert largest_step(scores, scores >= 88) == pytest.approx(1 / 12)
    chi_square, _ = quad(lambda x: (norm.pdf(x, mu) - norm.pdf(x)) ** 2 / norm.pdf(x), -12, 12 + 2 * mu)
    found = floor(scores, scores >= 88, mu)
    assert found == pytest.approx((1 / 12) / math.sqrt(chi_square))
    assert found < (1 / 12) / mu  # the Gaussian mechanism on the area, which is unbiased
