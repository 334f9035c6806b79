"""Permute-and-flip as the benchmark simulates it: its law, and what pure DP costs beside Gaussian releases."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks.what_did_not_work import choices


def test_exponential_noise_is_permute_and_flip() -> None:
    means, scale = np.array([0.30, 0.31, 0.33]), 0.02
    odds, law = np.exp(-(means - means.min()) / scale), np.zeros(3)
    for order in permutations(range(3)):  # candidates in random order, each taken with probability e^(-lead / scale)
        left = 1 / 6
        for j in order:
            law[j] += left * odds[j]
            left *= 1 - odds[j]
    drawn = [choices.permute_and_flip(means, scale, np.random.default_rng(seed)) for seed in range(50)]
    assert np.bincount(np.concatenate(drawn), minlength=3) / (50 * choices.DRAWS) == pytest.approx(law, abs=0.01)


def test_the_price_in_pure_dp_is_that_of_randomised_response() -> None:
    mu, pure, epsilon = 0.5, 1.2, 1.0
    p = 1 / (1 + math.exp(-pure))

    def above(x: float) -> float:
        ratio = math.exp(mu * x - mu * mu / 2)
        pairs = ((p, 1 - p), (1 - p, p))
        return norm.pdf(x) * sum(max(a * ratio - math.exp(epsilon) * b, 0.0) for a, b in pairs)

    knots = [(epsilon + sign * pure) / mu + mu / 2 for sign in (1, -1)]
    expected, _ = quad(above, -12, 16, points=knots, epsabs=1e-13, limit=200)
    assert choices.pure_delta(mu, pure, epsilon) == pytest.approx(expected, rel=1e-6)
