"""The GDP price of bounded range, against its definition: a maximisation over all extreme pairs, in 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dptune.ledger.gdp import bounded_range_from_mu, mu_from_bounded_range

ETAS = [1e-6, 0.1, 1.61, 40.0]


def quantile(p: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


def price(eta: float, t: mpmath.mpf) -> mpmath.mpf:
    """mu of the pair on two outcomes whose log-ratios are t and t - eta: P(second) = p, Q(first) = 1 - p e^t ..."""
    p = (1 - mpmath.exp(t - eta)) / (mpmath.exp(t) - mpmath.exp(t - eta))
    return quantile(1 - p) - quantile(1 - p * mpmath.exp(t))


@pytest.mark.parametrize("eta", ETAS)
def test_the_formula_is_the_largest_price_of_all_extreme_pairs(eta: float) -> None:
    with mpmath.workdps(60):
        claimed = mpmath.mpf(mu_from_bounded_range(eta))
        prices = [price(eta, mpmath.mpf(eta) * k / 50) for k in range(1, 50)]
        assert max(prices) <= claimed
        assert price(eta, mpmath.mpf(eta) / 2) == pytest.approx(claimed, rel=1e-9)


@given(st.floats(1e-6, 30))
def test_there_and_back_never_gives_more_than_was_paid(mu: float) -> None:
    eta = bounded_range_from_mu(mu)
    assert mu_from_bounded_range(eta) <= mu
    assert mu_from_bounded_range(eta) == pytest.approx(mu, rel=1e-9)


@given(st.integers(0, 10_000), st.floats(0.1, 8.0), st.integers(2, 12))
def test_no_exponential_mechanism_is_easier_to_tell_apart(seed: int, eta: float, m: int) -> None:
    """Random scores, moved by at most 1/2 each way: every likelihood-ratio test stays above the trade-off of mu."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, rng.choice([0.1, 1.0, 5.0]), m)
    moved = scores + rng.choice([-0.5, 0.5, rng.uniform(-0.5, 0.5)], m)
    P, Q = (np.exp(eta * (u - u.max())) / np.exp(eta * (u - u.max())).sum() for u in (scores, moved))
    order = np.argsort(P / Q)  # most likely under Q first
    false_alarm, miss = np.cumsum(P[order])[:-1], 1 - np.cumsum(Q[order])[:-1]
    assert (miss >= norm.cdf(norm.isf(np.minimum(false_alarm, 1.0)) - mu_from_bounded_range(eta)) - 1e-9).all()
