"""A Laplace release beside choices adds its epsilon to their bounded range: the proof, the filter, planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dptune import Budget, BudgetExhausted, PrivacyLedger
from dptune.ledger.approximate import composed_delta, largest_plan
from dptune.ledger.events import GaussianRelease, LaplaceRelease, SelectionRelease
from dptune.ledger.filter import PairFilter
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_bounded_range, mu_from_pure, pure_from_mu

EPSILON, DELTA = 1.0, 1e-5
PAIR = Budget.approximate_dp(EPSILON, DELTA)
WHOLE = largest_plan(1.0, EPSILON, DELTA)
ETA = bounded_range_from_mu(WHOLE)
SHARE = 0.2
A = SHARE * ETA  # epsilon of the Laplace release


# ---- the mathematics -------------------------------------------------------------------------------------------------


def laplace(epsilon: float, a: float) -> float:
    """The profile of Laplace noise of epsilon a: H of Lap(0, 1/a) and Lap(1, 1/a), of Balle, Barthe & Gaboardi 2018."""
    if epsilon >= a:
        return 0.0
    return -math.expm1(epsilon) if epsilon <= -a else -math.expm1((epsilon - a) / 2)


def gaussian(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def beside_choices(h: float, epsilon: float, other: Callable[[float], float], corners: list[float]) -> float:
    """H of T(h) and another release: the density of T's log-ratio times the other's profile, integrated."""
    points = sorted({epsilon - each for each in corners if -h < epsilon - each < h})

    def density(loss: float) -> float:
        return math.exp(loss / 2) / (4 * math.sinh(h / 2)) * other(epsilon - loss)

    return float(quad(density, -h, h, points=points or None, limit=400, epsabs=1e-14)[0])


@pytest.mark.parametrize(("h", "a"), [(0.8, 0.2), (0.5, 0.5), (3.0, 1.0), (0.2, 0.05), (4.0, 3.9)])
def test_choices_and_laplace_noise_are_dominated_by_choices_of_the_sum(h: float, a: float) -> None:
    for epsilon in np.linspace(-h - a, h + a, 41):
        both = beside_choices(h, epsilon, lambda e: laplace(e, a), [-a, a])
        allowed = composed_delta(0.0, h + a, abs(epsilon))
        allowed = allowed if epsilon >= 0 else -math.expm1(epsilon) + math.exp(epsilon) * allowed
        assert both <= allowed * (1 + 1e-9) + 1e-13
    assert beside_choices(h, 0.9 * (h + a), lambda e: laplace(e, a), [-a, a]) > composed_delta(0.0, h, 0.9 * (h + a))


@pytest.mark.parametrize("epsilon", [0.2, 0.7, 1.3, 2.0])
def test_with_a_gaussian_too(epsilon: float) -> None:
    h, a, mu = 0.8, 0.25, 0.3

    def middle(e: float) -> float:
        return beside_choices(h, e, lambda x: gaussian(x, mu), [0.0])

    # Laplace: mass 1/2 at a, e^-a / 2 at -a, and density e^(-(a - l) / 2) / 4 between
    both = middle(epsilon - a) / 2 + math.exp(-a) / 2 * middle(epsilon + a)
    both += quad(lambda x: math.exp(-(a - x) / 2) / 4 * middle(epsilon - x), -a, a)[0]
    assert both <= composed_delta(mu, h + a, epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("a", [0.2, 0.5])
def test_no_adversary_who_chooses_the_worst_pair_first_gets_more(a: float) -> None:
    """By enumeration: each worst pair of bounded range h has two outcomes, and then comes the Laplace release."""
    h = 0.5
    for epsilon in np.linspace(0, h + a, 15):
        reached = 0.0
        for t in np.linspace(0.001, h - 0.001, 199):
            p = math.exp(t) * -math.expm1(t - h) / (math.exp(t) - math.exp(t - h))
            reached = max(reached, p * laplace(epsilon - t, a) + (1 - p) * laplace(epsilon - t + h, a))
        assert reached <= composed_delta(0.0, h + a, epsilon) + 1e-12


def test_planted_bug_more_epsilon_than_the_choices_have_is_not_dominated() -> None:
    h, a = 0.2, 0.8
    both = beside_choices(h, 0.3, lambda e: laplace(e, a), [-a, a])
    assert both > 1.05 * composed_delta(0.0, h + a, 0.3)
    assert laplace(0.0, a) > 1.5 * composed_delta(0.0, a, 0.0), "alone it counts twice its epsilon"


def test_pure_dp_is_bounded_range_of_twice_its_epsilon() -> None:
    for epsilon in (0.01, 0.4, 3.0):
        mu = mu_from_pure(epsilon)
        assert mu == pytest.approx(2 * norm.ppf(math.exp(epsilon) / (1 + math.exp(epsilon))))
        assert pure_from_mu(mu) == pytest.approx(epsilon)
        assert pure_from_mu(mu) <= epsilon
        for e in np.linspace(0, epsilon, 7):
            assert laplace(e, epsilon) <= gaussian(e, mu) + 1e-12


# ---- the filter ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", PAIR)


def plan(ledger: PrivacyLedger, scope: str = "run") -> None:
    ledger.fix_plan(scope, lambda rest: {"mu": WHOLE, "shares": {"choice": 1.0, "laplace": SHARE}})


def choice(ledger: PrivacyLedger, eta: float = ETA - A, key: str = "choice", scope: str = "run") -> Any:
    event = SelectionRelease(mu_from_bounded_range(eta), eta, 1.0, 1.0, 9, "means")
    return ledger.charge(scope, key, event, digest=key)


def estimate(ledger: PrivacyLedger, epsilon: float = A, key: str = "estimate", scope: str = "run") -> Any:
    event = LaplaceRelease(mu_from_pure(epsilon), epsilon, 1.0, 1 / epsilon, math.sqrt(2) / epsilon, "mean")
    return ledger.charge(scope, key, event, digest=key)


def filter_of(ledger: PrivacyLedger) -> PairFilter:
    ledger.allowance()
    assert isinstance(ledger.filter, PairFilter)
    return ledger.filter


def test_choice_and_estimate_take_the_whole_promise_and_not_a_bit_more(ledger: PrivacyLedger) -> None:
    plan(ledger)
    assert choice(ledger).mu is None
    assert filter_of(ledger).laplace == A
    assert estimate(ledger).mu is None
    assert estimate(ledger).seq == 2, "it is paid, once"
    for refused in (
        lambda: choice(ledger, 0.01, key="more"),
        lambda: estimate(ledger, 0.01, key="more"),
        lambda: ledger.charge("run", "step", GaussianRelease(0.05, 1.0, 1.0, 1, "mean"), digest="step"),
    ):
        with pytest.raises(BudgetExhausted):
            refused()
    again = PrivacyLedger(ledger.url.database or "", PAIR)  # read, row by row
    assert (filter_of(again).laplace, again.filter.limits) == (0.0, ledger.filter.limits)
    assert again.spent() == pytest.approx(WHOLE)
    assert again.statement().epsilon == pytest.approx(EPSILON, abs=1e-5)
    text = again.statement().to_text()
    assert "Laplace mechanism on the mean (1)" in text
    assert "for the choice of the run 'run' and its Laplace release" in text


@pytest.mark.parametrize(
    "wrong", ["before the choice", "too large", "too small", "by another run", "the choice takes its part"]
)
def test_what_the_proof_does_not_cover_is_priced_in_gdp_and_does_not_fit(ledger: PrivacyLedger, wrong: str) -> None:
    plan(ledger)
    if wrong == "the choice takes its part":
        with pytest.raises(BudgetExhausted):
            choice(ledger, ETA)
    elif wrong == "before the choice":
        choice(ledger, A / 2)
        with pytest.raises(BudgetExhausted):
            estimate(ledger)
    else:
        choice(ledger)
        with pytest.raises(BudgetExhausted):
            estimate(
                ledger,
                **({"scope": "other"} if "run" in wrong else {"epsilon": A * (1.001 if "large" in wrong else 0.9)}),
            )
    assert filter_of(ledger).laplace in (0.0, A)


def test_a_second_one_counts_twice_its_epsilon(fast_path: Path) -> None:
    """Within a budget of more than the plan: what is left is mu, and a second release has its price in GDP."""
    ledger = PrivacyLedger(fast_path / "more.db", Budget.approximate_dp(4.0, DELTA))
    plan(ledger)
    choice(ledger)
    assert (estimate(ledger).mu, estimate(ledger, key="again").mu) == (None, mu_from_pure(A))


def test_after_it_the_run_may_choose_again_within_the_sum(ledger: PrivacyLedger) -> None:
    plan(ledger)
    choice(ledger, A)
    estimate(ledger)
    assert choice(ledger, (ETA - 2 * A) * (1 - 1e-12), key="again").mu is None
    with pytest.raises(BudgetExhausted):
        choice(ledger, 0.01, key="more")


def test_a_ledger_in_gdp_takes_its_price_there(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "gdp.db", Budget.gdp(1.0))
    assert estimate(ledger).mu == mu_from_pure(A)
    assert ledger.remaining() == pytest.approx(math.sqrt(1 - mu_from_pure(A) ** 2))


@pytest.mark.parametrize("share", [-1.0, 0.7, 5.0, "half", None])
def test_no_plan_keeps_more_than_half_for_it(ledger: PrivacyLedger, share: Any) -> None:
    ledger.fix_plan("run", lambda rest: {"mu": WHOLE, "shares": {"choice": 1.0, "laplace": share}})
    choice(ledger, 0.1)
    assert 0 <= filter_of(ledger).laplace <= ETA / 2


def test_a_raised_budget_keeps_what_is_kept_for_it(ledger: PrivacyLedger) -> None:
    plan(ledger)
    choice(ledger)
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    assert filter_of(ledger).laplace == A
    assert estimate(ledger).mu is None
