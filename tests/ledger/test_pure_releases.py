"""A run may use a whole (epsilon, delta) budget for pure releases: the mathematics, the filter and planted bugs."""

import itertools
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dptune import Budget, BudgetExhausted, InputError, PrivacyLedger
from dptune.ledger.approximate import PURE_UP_TO, Limits
from dptune.ledger.dominating import Choices, Gaussian, Pure, together
from dptune.ledger.events import FlipRelease, GaussianRelease, LaplaceRelease, SelectionRelease
from dptune.ledger.filter import PURE, PairFilter
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_pure, pure_from_mu
from dptune.ledger.risk import Risk
from dptune.training import join
from refusals import refused

EPSILON, DELTA = 1.0, 1e-5
PAIR = Budget.approximate_dp(EPSILON, DELTA)
A = 0.2 * EPSILON  # of the estimate

# ---- the mathematics -------------------------------------------------------------------------------------------------


def laplace(epsilon: float, a: float) -> float:
    """The profile of Laplace noise of epsilon a (Balle, Barthe & Gaboardi 2018)."""
    if epsilon >= a:
        return 0.0
    return -math.expm1(epsilon) if epsilon <= -a else -math.expm1((epsilon - a) / 2)


def gaussian(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def response(epsilon: float) -> list[tuple[float, float]]:
    """Log-ratio and probability of the two answers of randomised response."""
    p = 1 / (1 + math.exp(-epsilon))
    return [(epsilon, p), (-epsilon, 1 - p)]


@pytest.mark.parametrize("parts", [(0.9, 0.1), (3.0, 1.0), (0.2, 0.3, 0.5)])
def test_pure_releases_are_dominated_by_randomised_response_of_the_sum(parts: tuple[float, ...]) -> None:
    """Each part is randomised response, the worst one, and the last may have Laplace noise instead."""
    whole = sum(parts)
    for epsilon in np.linspace(0, whole, 31):
        allowed, both, noisy = Limits(0.0, pure=whole).delta(epsilon), 0.0, 0.0
        for answers in itertools.product(*map(response, parts)):
            loss, p = sum(each for each, _ in answers), math.prod(p for _, p in answers)
            both += p * max(0.0, -math.expm1(epsilon - loss))
        for answers in itertools.product(*map(response, parts[:-1])):
            loss, p = sum(each for each, _ in answers), math.prod(p for _, p in answers)
            noisy += p * laplace(epsilon - loss, parts[-1])
        assert both <= allowed * (1 + 1e-9) + 1e-12
        assert noisy <= both + 1e-12
    assert Limits(0.0, pure=whole).delta(whole) == pytest.approx(0.0, abs=1e-12)
    assert Limits(0.0, pure=0.99 * whole).delta(0.98 * whole) < Limits(0.0, pure=whole).delta(0.98 * whole)


@pytest.mark.parametrize(("pure", "delta"), [(0.3, 1e-9), (1.0, 1e-5), (4.0, 1e-2)])
def test_epsilon_of_pure_releases_is_never_above_their_own(pure: float, delta: float) -> None:
    limits = Limits(0.0, pure=pure)
    epsilon = limits.epsilon(delta)
    assert epsilon <= pure
    assert epsilon == pytest.approx(math.log(math.exp(pure) - delta * (1 + math.exp(pure))), rel=1e-9)
    assert limits.delta(epsilon) <= delta
    right = (1 + Risk.of_curve(limits).advantage) / 2
    assert right == pytest.approx(math.exp(pure) / (1 + math.exp(pure)), rel=1e-9)


def test_beside_gaussians_it_is_the_product() -> None:
    mu, pure = 0.3, 0.8
    limits, grid = Limits(mu, pure=pure), together([Gaussian(mu), Pure(pure)], 1e-5)
    for epsilon in (0.1, 0.8, 2.0):
        density = quad(
            lambda x, e=epsilon: norm.pdf(x, mu**2 / 2, mu) * sum(
                p * max(0.0, -math.expm1(e - x - loss)) for loss, p in response(pure)
            ), -6 * mu, 8 * mu, points=[epsilon - pure, epsilon + pure], limit=200,
        )[0]  # fmt: skip
        assert limits.delta(epsilon) == pytest.approx(density, rel=1e-6, abs=1e-12)
        assert limits.delta(epsilon) <= grid.delta(epsilon) * (1 + 1e-9)
        assert grid.delta(epsilon) == pytest.approx(limits.delta(epsilon), rel=2e-3, abs=1e-8)


@pytest.mark.parametrize(
    "parts", [(Pure(1.0), Pure(2.0)), (Pure(1.0), Pure(1.0)), (Pure(0.3), Choices(0.7), Pure(1.1))]
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-30])
def test_parts_without_gaussians_cost_at_most_their_sum(parts: tuple[Pure | Choices, ...], delta: float) -> None:
    """Basic composition holds at every delta; where the grid is sharper, it decides. A Gaussian ends it."""
    whole = sum(part.epsilon(delta) for part in parts)
    found = together(parts, delta)
    assert found.delta(whole) == 0.0
    assert found.delta(whole * (1 - 1e-3)) > 0.0
    assert found.epsilon(delta) <= whole * (1 + 1e-12)
    assert found.epsilon(1e-2) < whole
    assert together([*parts, Gaussian(0.1)], delta).delta(whole) > 0.0


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_two_pure_ledgers_are_stated_at_no_more_than_their_sum(tmp_path: Path, delta: float) -> None:
    held = [PrivacyLedger(tmp_path / f"{e}.db", Budget.approximate_dp(e, delta), dataset=str(e)) for e in (1.0, 2.0)]
    for ledger in held:
        epsilon = ledger.budget.stated_epsilon
        ledger.fix_plan("x", lambda rest, e=epsilon: {"mu": mu_from_pure(e), PURE: e})
        ledger.charge("x", "index", FlipRelease(mu_from_pure(epsilon), epsilon, 1.0, 1.0, 9, "means"), digest="d")
    assert join(held, delta=delta).epsilon <= 3.0


def test_pure_dp_is_bounded_range_of_twice_its_epsilon() -> None:
    for epsilon in (0.01, 0.4, 3.0):
        mu = mu_from_pure(epsilon)
        assert mu == pytest.approx(2 * norm.ppf(math.exp(epsilon) / (1 + math.exp(epsilon))))
        assert pure_from_mu(mu) == pytest.approx(epsilon)
        assert pure_from_mu(mu) <= epsilon
        for e in np.linspace(0, epsilon, 7):
            assert Limits(0.0, pure=epsilon).delta(e) <= gaussian(e, mu) + 1e-12


# ---- the filter ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", PAIR)


def plan(ledger: PrivacyLedger, scope: str = "run", pure: object = EPSILON) -> None:
    ledger.fix_plan(scope, lambda rest: {"mu": mu_from_pure(EPSILON), PURE: pure})


def choice(ledger: PrivacyLedger, epsilon: float = EPSILON - A, key: str = "choice", scope: str = "run") -> Any:
    event = FlipRelease(mu_from_pure(epsilon), epsilon, 1.0, 1.0, 9, "means")
    return ledger.charge(scope, key, event, digest=key)


def estimate(ledger: PrivacyLedger, epsilon: float = A, key: str = "estimate", scope: str = "run") -> Any:
    event = LaplaceRelease(mu_from_pure(epsilon), epsilon, 1.0, 1 / epsilon, math.sqrt(2) / epsilon, "mean")
    return ledger.charge(scope, key, event, digest=key)


def test_choice_and_estimate_take_the_whole_promise_and_not_a_bit_more(ledger: PrivacyLedger) -> None:
    plan(ledger)
    assert (choice(ledger).mu, estimate(ledger).mu) == (None, None)
    old = SelectionRelease(0.01, bounded_range_from_mu(0.01), 1.0, 1.0, 9, "means")
    refused(
        BudgetExhausted,
        None,
        lambda: choice(ledger, 0.01, key="more"),
        lambda: estimate(ledger, 1e-9, key="more"),
        lambda: step(ledger, 0.05),
        lambda: ledger.charge("run", "old", old, digest="old"),
    )
    again = PrivacyLedger(ledger.url.database or "", PAIR)  # read, row by row
    assert again.filter.limits == ledger.filter.limits == Limits(0.0, pure=EPSILON)
    assert again.spent() == pytest.approx(mu_from_pure(EPSILON))
    statement = again.statement()
    assert EPSILON * (1 - 1e-4) < statement.epsilon <= EPSILON
    said = "epsilon = 1 at delta = 0 for the releases of the run 'run', nothing for others"
    assert said in " ".join(statement.to_text().split())
    assert statement.to_dict()["limits"] == {"mu": 0.0, "pure_epsilon": 1.0}


def test_what_does_not_fit_is_refused_and_costs_nothing(ledger: PrivacyLedger) -> None:
    plan(ledger)
    plan(ledger, "other")
    choice(ledger)
    refused(BudgetExhausted, None, lambda: estimate(ledger, A * (1 + 1e-6)), lambda: estimate(ledger, scope="other"))
    estimate(ledger)
    before = ledger.spent()
    refused(BudgetExhausted, None, lambda: estimate(ledger, key="a second one"))
    assert ledger.spent() == before
    for epsilon in (0.01, 0.999, 1.001):  # which is not the price
        wrong = FlipRelease(mu_from_pure(1.0), epsilon, 1.0, 1.0, 9, "means")
        refused(InputError, "epsilon of a release", partial(ledger.charge, "run", "k", wrong, digest="k"))


TOO_LARGE = Budget.approximate_dp(PURE_UP_TO * (1 + 1e-9), DELTA)


@pytest.mark.parametrize(
    ("budget", "pure", "before"),
    [
        (PAIR, EPSILON, lambda ledger: step(ledger, 0.05)),
        (PAIR, 0.0, None),
        (PAIR, True, None),
        (PAIR, 0.99 * EPSILON, None),
        (TOO_LARGE, TOO_LARGE.stated_epsilon, None),
        (Budget.gdp(1.0), EPSILON, None),
        (PAIR, EPSILON, lambda ledger: ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))),
    ],
    ids=["after a charge", "no", "true", "a part", "too large", "in GDP", "for less than there is"],
)
def test_another_run_is_not_pure_and_pays_in_gdp(fast_path: Path, budget: Budget, pure: object, before: Any) -> None:
    """Of a large epsilon, too: randomised response of 4 is told apart 98 times in 100, and choices risk less."""
    ledger = PrivacyLedger(fast_path / "other.db", budget)
    assert (ledger.allowance().pure > 0) == (budget is PAIR)
    plan(ledger, pure=pure)
    if before:
        before(ledger)
    assert estimate(ledger).mu == mu_from_pure(A)
    assert not ledger.filter.limits.divided


def step(ledger: PrivacyLedger, mu: float) -> None:
    ledger.charge("other", "step", GaussianRelease(mu, 1.0, 1.0, 1, "mean"), digest="step")


def test_a_raised_budget_keeps_the_limit_and_has_mu_for_others(ledger: PrivacyLedger) -> None:
    plan(ledger)
    choice(ledger)
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    assert isinstance(ledger.filter, PairFilter)
    limits = ledger.filter.limits
    assert (limits.pure, limits.eta) == (EPSILON, 0.0)
    assert limits.delta(2.0) <= DELTA < Limits(1.01 * limits.mu, pure=EPSILON).delta(2.0)
    assert estimate(ledger).mu is None
    assert ledger.allowance().unplanned == pytest.approx(limits.mu)
    assert choice(ledger, 0.1, key="more").mu == mu_from_pure(0.1), "what it had is spent: the price in GDP"
    left = math.sqrt(limits.mu**2 - mu_from_pure(0.1) ** 2)
    step(ledger, left)
    again = PrivacyLedger(ledger.url.database or "", Budget.approximate_dp(2.0, DELTA))
    assert again.statement().epsilon <= 2.0 * (1 + 1e-12)


def test_a_larger_mu_that_does_not_hold_what_was_released_is_refused(ledger: PrivacyLedger) -> None:
    """(.9, 1e-2) is more mu than (1, 1e-5), and less than what the run has."""
    plan(ledger)
    choice(ledger, EPSILON)
    unfit = "what is planned of epsilon=1 at delta=1e-05 does not fit into epsilon=0.9 at delta=0.01"
    refused(InputError, unfit, lambda: ledger.raise_budget(Budget.approximate_dp(0.9, 1e-2)))
    ledger.raise_budget(Budget.approximate_dp(0.9, 0.08))


def test_a_budget_that_is_divided_is_not_pure_again(ledger: PrivacyLedger) -> None:
    ledger.charge("other", "mean", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="mean")
    before = ledger.filter.limits
    plan(ledger)
    refused(BudgetExhausted, None, lambda: choice(ledger))
    assert ledger.filter.limits == before


def test_joined_ledgers_name_basic_composition(ledger: PrivacyLedger, fast_path: Path) -> None:
    other = PrivacyLedger(fast_path / "other.db", PAIR, dataset="others")
    for each in (ledger, other):
        plan(each)
        choice(each)
        each.bind_people(300)
    found = join([ledger, other], delta=DELTA)
    assert 1.999 < found.epsilon <= 2.001
    assert "basic composition" in found.accountant
    assert "bounded range" not in found.accountant


def test_planted_bug_pricing_pure_releases_as_bounded_range_is_too_cheap() -> None:
    """Randomised response is told apart more easily than T(eta) of the same size: eta would count it too low."""
    assert Limits(0.0, pure=EPSILON).delta(0.3) > 1.5 * Limits(0.0, EPSILON).delta(0.3)
    refused(InputError, "no limit together", lambda: Limits(0.0, 1.0, 1.0))
