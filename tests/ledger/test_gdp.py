"""GDP conversions, bridges from pure DP and bounded range, composition and the filter equal mpmath at 50 digits."""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptune import Budget, InputError
from dptune.ledger.gdp import (
    Spent,
    bounded_range_from_mu,
    delta_from_mu,
    epsilon_from_mu,
    mu_from_bounded_range,
    mu_from_epsilon,
)
from refusals import refused

RELATIVE = 1e-9
SOME_MU = st.floats(math.log(1e-3), math.log(20)).map(math.exp)
SOME_DELTA = st.floats(math.log(1e-12), math.log(0.1)).map(math.exp)


def at_50_digits(function: Callable[..., mpmath.mpf]) -> Callable[..., mpmath.mpf]:
    @functools.wraps(function)
    def wrapped(*args: float) -> mpmath.mpf:
        with mpmath.workdps(50):
            return function(*(mpmath.mpf(a) for a in args))

    return wrapped


def Phi(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


@at_50_digits
def exact_delta(mu: mpmath.mpf, eps: mpmath.mpf) -> mpmath.mpf:
    return Phi(-eps / mu + mu / 2) - mpmath.exp(eps) * Phi(-eps / mu - mu / 2)


@at_50_digits
def exact_epsilon(mu: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    low, high = mpmath.mpf(0), mu * mu / 2 + 10 * mu
    if exact_delta(mu, 0) <= delta:
        return low
    for _ in range(60):  # a bisection cannot be led astray
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(mu, middle) > delta else (low, middle)
    return high


def close(ours: float, exact: mpmath.mpf) -> bool:
    with mpmath.workdps(50):
        return abs(mpmath.mpf(ours) - exact) <= RELATIVE * abs(exact) + 1e-15  # epsilon may be next to 0


# ---- epsilon and delta ---------------------------------------------------------------------------------


def test_the_reference_numbers_of_theory() -> None:
    for mu, epsilon in ((0.5, 1.9931), (1.0, 4.3772), (2.0, 9.9973)):
        assert Budget.gdp(mu).epsilon(1e-5) == epsilon_from_mu(mu, 1e-5) == pytest.approx(epsilon, abs=5e-5)
    budget = Budget.approximate_dp(1.0, 1e-5)
    assert budget.delta(1.0) == pytest.approx(1e-5, rel=1e-7)
    assert (budget.stated_epsilon, budget.stated_delta) == (1.0, 1e-5)


@settings(max_examples=15)
@given(SOME_MU, SOME_DELTA)
def test_epsilon_from_mu(mu: float, delta: float) -> None:
    assert close(epsilon_from_mu(mu, delta), exact_epsilon(mu, delta))


@settings(max_examples=7)
@given(SOME_MU, SOME_DELTA)
def test_mu_from_epsilon(mu: float, delta: float) -> None:
    epsilon = float(exact_epsilon(mu, delta))
    back = float(exact_epsilon(mu_from_epsilon(epsilon, delta), delta))
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-9)


@given(SOME_MU, st.floats(0, 9))
def test_delta_from_mu(mu: float, x: float) -> None:
    epsilon = mu * mu / 2 + mu * x  # x standard deviations into the tail
    exact = exact_delta(mu, epsilon)
    if exact > 1e-12:
        assert close(delta_from_mu(mu, epsilon), exact)


def test_both_ends() -> None:
    assert epsilon_from_mu(1e-3, 0.1) == 0.0, "delta alone is enough"
    assert close(0.05, exact_delta(mu_from_epsilon(0.0, 0.05), 0.0))
    assert delta_from_mu(20.0, 0.0) == pytest.approx(1.0)
    assert delta_from_mu(1e-3, 1.0) == 0.0
    assert math.isfinite(epsilon_from_mu(200.0, 1e-300))
    assert math.isfinite(mu_from_epsilon(1e6, 1e-300))


USES: dict[str, list[Callable[[Any], object]]] = {
    "mu must": [Budget.gdp, lambda mu: epsilon_from_mu(mu, 0.1), lambda mu: delta_from_mu(mu, 1.0)],
    "epsilon": [lambda e: delta_from_mu(1.0, e), lambda e: mu_from_epsilon(e, 1e-5), lambda e: Budget(1.0, e, 1e-5)],
    "epsilon must be a number": [lambda e: Budget.approximate_dp(e, 1e-5)],
    "delta": [lambda d: epsilon_from_mu(1.0, d), lambda d: Budget.approximate_dp(1.0, d)],
    "eta": [mu_from_bounded_range],
}
BAD = {"mu must": [0], "epsilon must be a number": [0], "delta": [0, 1, 1.5], "eta": [0.0]}


@pytest.mark.parametrize("name", USES)
def test_what_is_no_number_of_its_range_is_refused_by_name(name: str) -> None:
    for bad in (-0.1, math.nan, math.inf, "4", None, True, *BAD.get(name, [])):
        refused(InputError, name, *(partial(use, bad) for use in USES[name]))
    for mu in (1e-160, 1e-10, 1e10, 1e160):  # its square would lose digits
        refused(InputError, "mu must lie", partial(Budget.gdp, mu))


def test_a_stated_pair_is_one_that_mu_implies() -> None:
    mu = Budget.approximate_dp(4.0, 1e-5).mu
    assert Budget(mu / 2, 4.0, 1e-5).stated_epsilon == 4.0
    for pair in ((1.0, 1e-5), (4.0, None), (None, 1e-5), (4.0, 0.0)):
        refused(InputError, r"epsilon|delta", partial(Budget, mu, *pair))


# ---- composition and the filter -----------------------------------------------------------------------------


@given(st.lists(SOME_MU, max_size=30), st.lists(st.floats(1e-300, 1e150), max_size=30))
def test_the_sum_of_squares_is_never_too_small_and_right_to_47_digits(some: list[float], any_: list[float]) -> None:
    assert Spent.of(some).mu == pytest.approx(float(np.linalg.norm(some)), rel=1e-13)
    assert Spent.of(reversed(some)).mu == Spent.of(some).mu
    exact, spent = sum((Fraction(mu) ** 2 for mu in any_), Fraction(0)), Fraction(Spent.of(any_).squares)
    assert exact <= spent <= exact * (1 + Fraction(1, 10**47))


@given(SOME_MU, st.integers(1, 300))
def test_T_equal_releases_fit_and_one_more_does_not(budget: float, T: int) -> None:
    mu = budget / math.sqrt(T)
    for done in {0, T // 2, T - 1}:
        spent = Spent.of([mu] * done)
        assert spent.admits(mu, budget)
        assert spent.admits(spent.remaining(budget), budget)
    spent = Spent.of([mu] * T)
    assert not spent.admits(mu, budget)
    assert not spent.admits(budget * 2e-6, budget)
    assert spent.mu == pytest.approx(budget, rel=1e-12)
    assert spent.remaining(budget) == 0.0


# ---- bounded range, in 60 digits -------------------------------------------------------------------------


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


def test_choices_and_pure_releases_add_up_in_their_own_limits() -> None:
    spent = Spent().plus(None, 0.25, 0.5).plus(None, 0.5, 0.25)
    assert (spent.choices, spent.pure, spent.gaussian) == (0.75, 0.75, 0.0)
    assert spent.admits_choice(0.25, 1.0)
    assert not spent.admits_choice(0.26, 1.0)
    assert not spent.admits_pure(0.26, 1.0)
