"""Other ways to choose: their laws, what one person can move, and what pure DP costs beside Gaussian releases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks.what_did_not_work import choices

L = arrays(float, (3, 4), elements=st.floats(0, 1))


def flipped(means: np.ndarray, scale: float) -> np.ndarray:
    """The law of permute-and-flip: candidates in random order, each taken with probability e^(-lead / scale)."""
    odds = np.exp(-(means - means.min()) / scale)
    found = np.zeros(len(means))
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        left = 1 / 6
        for j in order:
            found[j] += left * odds[j]
            left *= 1 - odds[j]
    return found


def test_exponential_noise_is_permute_and_flip() -> None:
    means, scale = np.array([0.30, 0.31, 0.33]), 0.02
    drawn = [choices.permute_and_flip(means, scale, np.random.default_rng(seed)) for seed in range(50)]
    law = np.bincount(np.concatenate(drawn), minlength=3) / (50 * choices.DRAWS)
    assert law == pytest.approx(flipped(means, scale), abs=0.01)


def test_it_is_pure_and_not_of_bounded_range() -> None:
    scale, epsilon = 2.0, 1.0  # an entry moves by 1, so 2 / scale = epsilon
    logs = []
    for means in ([0.0, 0.0, 5.0], [1.0, 0.0, 0.5], [0.0, 1.5, 2.0]):
        for moved in ([1.0, -1.0, 0.0], [-1.0, 1.0, 1.0], [1.0, 1.0, -1.0]):
            laws = flipped(np.array(means), scale), flipped(np.array(means) + moved, scale)
            logs.append(np.log(laws[0] / laws[1]))
    assert np.abs(logs).max() <= epsilon + 1e-12
    assert max(np.ptp(log) for log in logs) > 1.4 * epsilon


@given(L, L, st.integers(0, 3), st.floats(0.01, 1))
def test_one_person_moves_differences_of_cut_means_by_twice_the_radius(
    losses: np.ndarray, others: np.ndarray, i: int, radius: float
) -> None:
    replaced = losses.copy()
    replaced[:, i] = others[:, i]
    moved = choices.cut(losses, radius).mean(axis=1) - choices.cut(replaced, radius).mean(axis=1)
    assert np.ptp(moved) <= 2 * radius / 4 + 1e-12


@pytest.mark.parametrize(("mu", "pure", "epsilon"), [(0.2, 0.4, 1.0), (0.5, 1.2, 1.0), (1.0, 2.0, 3.0)])
def test_the_price_in_pure_dp_is_that_of_randomised_response(mu: float, pure: float, epsilon: float) -> None:
    p = 1 / (1 + math.exp(-pure))

    def above(x: float) -> float:
        ratio = math.exp(mu * x - mu * mu / 2)
        pairs = ((p, 1 - p), (1 - p, p))
        return norm.pdf(x) * sum(max(a * ratio - math.exp(epsilon) * b, 0.0) for a, b in pairs)

    knots = [(epsilon + sign * pure) / mu + mu / 2 for sign in (1, -1)]
    assert choices.pure_delta(mu, pure, epsilon) == pytest.approx(
        quad(above, -12, 16, points=knots, epsabs=1e-13, limit=200)[0], rel=1e-6
    )


def test_a_pure_choice_may_cost_less_beside_gaussian_releases_than_one_of_bounded_range() -> None:
    mu, eta = choices.beside(1.0)
    pure = choices.largest_pure(mu, 1.0)
    assert choices.pure_delta(mu, pure, 1.0) == pytest.approx(choices.DELTA, rel=1e-6)
    assert pure < 0.8 * eta
