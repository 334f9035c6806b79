"""Runs within a budget in (epsilon, delta): a choice has a limit of its own."""

import numpy as np
import pytest

from dptune import Budget, BudgetExhausted, Categorical, Float, LossPrivatizer, PrivacyLedger, Space
from dptune.ledger.approximate import composed_delta, divided, largest_plan
from dptune.ledger.events import GaussianRelease
from dptune.ledger.filter import PairFilter
from dptune.search import CENTRED, SELECTION
from dptune.search.replay import CHOICE
from dptune.search.request import SearchRequest
from dptune.search.view import RunView
from refusals import refused
from runs import WatchedLedger

SPACE = Space({"x": Float(0.0, 1.0), "kind": Categorical(["a", "b"])})
DEFAULT = {"x": 0.9, "kind": "a"}
EPSILON, DELTA, N = 1.0, 1e-5, 400
PAIR = Budget.approximate_dp(EPSILON, DELTA)


@pytest.fixture
def ledger(fast_path):
    return WatchedLedger(fast_path / "ledger.db", PAIR)


def opened(ledger):
    """The same ledger, as another process has it."""
    return PrivacyLedger(ledger.url.database or "", PAIR)


def asked(ledger, method=CENTRED, clip=(0.0, 4.0), **settings):
    given = {"space": SPACE, "settings": {"trials": 12}, "default": DEFAULT, "seed": 1, **settings}
    return SearchRequest(method, LossPrivatizer(ledger, n=N, clip=clip), **given)


def losses(level=1.0):
    return np.random.default_rng(0).exponential(level, N)


def complete(run):
    for trial in range(200):
        if run.complete:
            return run
        parameters = run.ask(trial=str(trial))
        run.finish(str(trial), parameters, losses(0.1 + (parameters["x"] - 0.3) ** 2))
    raise AssertionError("the run does not end")


def choices(ledger):
    """Bounded ranges of the choices that are held to a limit of their own."""
    return {charge.scope: charge.eta for charge in ledger.charges() if charge.eta}


@pytest.mark.parametrize("method", [CENTRED, SELECTION])
def test_a_run_that_takes_all_spends_the_promise_and_no_more(method, ledger):
    request = asked(ledger, method)
    run = complete(request.begin("run", SPACE))
    share = run.plan.choice_share
    assert run.plan.mu == largest_plan(share, EPSILON, DELTA) > 1.2 * ledger.budget.mu
    charge = ledger.find("run", CHOICE)
    assert (charge.mu, charge.eta) == (None, divided(run.plan.mu, share)[1])
    assert (ledger.filter.holder, ledger.filter.limits.eta) == ("run", charge.eta)
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert ledger.spent() <= ledger.mu == pytest.approx(run.plan.mu)
    assert run.progress()["mu_budget"] == ledger.mu
    assert "of the ledger's epsilon=1 at delta=1e-05" in request.announcement(run)
    assert asked(opened(ledger), method).begin("run", SPACE).recommend() == run.recommend()
    view = RunView.of(ledger, "run")
    assert view.plan.describe() == run.plan.describe()
    refused(BudgetExhausted, None, lambda: asked(ledger, method).begin("another", SPACE))


def test_what_the_default_would_take_may_be_asked_for(ledger, fast_path):
    most = asked(PrivacyLedger(fast_path / "other.db", PAIR)).begin("run", SPACE).plan.mu
    refused(BudgetExhausted, None, lambda: asked(ledger, mu=1.01 * most).begin("run", SPACE))
    request = asked(ledger, mu=most)
    request.check_start("run", SPACE)
    complete(request.begin("run", SPACE))
    assert choices(ledger) == {"run": ledger.filter.limits.eta}
    assert ledger.allowance().unplanned == 0


def test_a_run_with_a_price_of_its_own_leaves_the_rest_to_others(ledger):
    complete(asked(ledger, mu=0.1).begin("run", SPACE))
    rest = ledger.allowance().unplanned
    assert rest**2 > ledger.budget.mu**2 - 0.1**2, "the choice is cheaper than in GDP"
    other = complete(asked(ledger).begin("other", SPACE))
    assert other.plan.mu == rest
    charge = ledger.find("other", CHOICE)
    assert charge.mu == other.plan.choice_mu
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_a_run_without_a_choice_is_as_in_gdp(ledger):
    run = asked(ledger, settings={"trials": 40, "choice_share": 0.0}).begin("run", SPACE)
    complete(run)
    assert (run.plan.mu, ledger.filter.limits.mu, ledger.filter.limits.eta) == (PAIR.mu, PAIR.mu, 0.0)


def test_two_processes_agree_on_one_division(ledger):
    asked(ledger).begin("given up", SPACE)  # has planned, and never spends
    runs = [asked(each).begin("run", SPACE) for each in (ledger, opened(ledger))]
    assert runs[0].plan == runs[1].plan
    for turn in range(12):
        parameters = runs[turn % 2].ask(trial=str(turn))
        runs[turn % 2].finish(str(turn), parameters, losses())
    complete(runs[0])
    assert choices(ledger) == {"run": pytest.approx(ledger.filter.limits.eta)}
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert asked(opened(ledger)).begin("run", SPACE).recommend() == runs[0].recommend()


def test_after_another_first_charge_a_run_is_planned_in_gdp(ledger):
    ledger.charge("other", "first", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="first")
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta) == (PAIR.mu, 0.0)
    assert complete(asked(ledger).begin("run", SPACE)).plan.mu < PAIR.mu
    assert choices(ledger) == {}
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_a_run_whose_choice_is_lost_to_another_is_told(ledger):
    run = asked(ledger).begin("run", SPACE)
    run.check("0")
    other = asked(opened(ledger), mu=0.1).begin("other", SPACE)
    complete(other)
    with pytest.warns(UserWarning, match="the charge of the run 'other' came first"):
        run.check("0")
    run.check("0")  # once


# ---- planted bugs ---------------------------------------------------------------------------------------------


def test_planted_bug_limits_that_pass_the_promise_are_made_smaller():
    limits = PairFilter(PAIR).divided(5.0, 0.9, "run").limits
    assert limits.eta == 0.9
    assert composed_delta(limits.mu, 0.9, EPSILON) <= DELTA
