"""Runs within a budget in (epsilon, delta): a choice, and an automatic clip before it, have limits of their own."""

import math

import numpy as np
import pytest

import dptune
from dptune import Budget, BudgetExhausted, Categorical, Float, InputError, LossPrivatizer, PrivacyLedger, Space
from dptune.choice.choosing import ChoiceSettings
from dptune.ledger.approximate import composed_delta, divided, largest_plan
from dptune.ledger.events import GaussianRelease
from dptune.ledger.filter import Division
from dptune.privacy import auto_clip
from dptune.privacy.auto_clip import AutoClip
from dptune.search import CENTRED, SELECTION
from dptune.search.asked_loss import AskedLoss
from dptune.search.replay import CHOICE
from dptune.search.request import SearchRequest
from dptune.search.view import RunView
from dptune.training import join
from refusals import refused
from runs import WatchedLedger, at

SPACE = Space({"x": Float(0.0, 1.0), "kind": Categorical(["a", "b"])})
DEFAULT = {"x": 0.9, "kind": "a"}
EPSILON, DELTA, N = 1.0, 1e-5, 400
PAIR = Budget.approximate_dp(EPSILON, DELTA)
CLIP = "clip/automatic"


@pytest.fixture
def ledger(fast_path):
    return WatchedLedger(fast_path / "ledger.db", PAIR)


def opened(ledger):
    """The same ledger, as another process has it."""
    return PrivacyLedger(ledger.url.database or "", PAIR)


def asked(ledger, method=CENTRED, clip="auto", **settings):
    given = {"space": SPACE, "settings": {"trials": 12}, "default": DEFAULT, "seed": 1, **settings}
    return SearchRequest(method, LossPrivatizer(ledger, n=N, clip=clip), **given)


def losses(level=1.0):
    return np.random.default_rng(0).exponential(level, N)


def clipped(request, space=SPACE, losses=losses):
    return request.choose_clip("run", space, losses, AskedLoss("loss", math.inf))


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
    request = asked(ledger, method, (0.0, 4.0))
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
    assert asked(opened(ledger), method, (0.0, 4.0)).begin("run", SPACE).recommend() == run.recommend()
    view = RunView.of(ledger, "run")
    assert view.plan.describe() == run.plan.describe()
    refused(BudgetExhausted, None, lambda: asked(ledger, method, (0.0, 4.0)).begin("another", SPACE))


def test_what_the_default_would_take_may_be_asked_for(ledger, fast_path):
    most = asked(PrivacyLedger(fast_path / "other.db", PAIR), clip=(0.0, 4.0)).begin("run", SPACE).plan.mu
    refused(BudgetExhausted, None, lambda: asked(ledger, clip=(0.0, 4.0), mu=1.01 * most).begin("run", SPACE))
    request = asked(ledger, clip=(0.0, 4.0), mu=most)
    request.check_start("run", SPACE)
    complete(request.begin("run", SPACE))
    assert choices(ledger) == {"run": ledger.filter.limits.eta}
    assert ledger.allowance().unplanned == 0


def test_a_run_with_a_price_of_its_own_leaves_the_rest_to_others(ledger):
    complete(asked(ledger, clip=(0.0, 4.0), mu=0.1).begin("run", SPACE))
    rest = ledger.allowance().unplanned
    assert rest**2 > ledger.budget.mu**2 - 0.1**2, "the choice is cheaper than in GDP"
    other = complete(asked(ledger, clip=(0.0, 4.0)).begin("other", SPACE))
    assert other.plan.mu == rest
    charge = ledger.find("other", CHOICE)
    assert charge.mu == other.plan.choice_mu
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


# ---- an automatic clip is the ledger's first charge ----------------------------------------------------------


@pytest.mark.parametrize(("method", "space"), [(CENTRED, None), (SELECTION, SPACE)])
def test_the_run_gets_what_it_would_but_for_the_share_of_the_clip(method, space, ledger, fast_path):
    given = asked(PrivacyLedger(fast_path / "given.db", PAIR), method, (0.0, 4.0)).begin("run", SPACE)
    other = PrivacyLedger(fast_path / "other.db", Budget.gdp(0.5), dataset="other")

    def trained():  # the default is, on private people whose ledger is charged before this one
        other.charge("s", "k", GaussianRelease(0.1, 1.0, 1.0, 1, "mean"), digest="k")
        return losses()

    request = asked(ledger, method, space=space)
    assert "chosen privately" in clipped(request, space, trained)
    limits = ledger.filter.limits
    assert (limits.eta > 0, ledger.filter.holder) == (True, "")
    run = complete(request.begin("run", SPACE))
    price = ledger.charges(CLIP)[0].mu
    assert price == pytest.approx(math.sqrt(0.05 / 0.95) * run.plan.mu)
    assert 0.85 * given.plan.mu < run.plan.mu < given.plan.mu
    assert choices(ledger) == {"run": pytest.approx(divided(run.plan.mu, run.plan.choice_share)[1])}
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta, ledger.filter.holder) == (limits.mu, limits.eta, "run")
    assert ledger.allowance().unplanned == 0
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert join([ledger, other], delta=DELTA).late == ()  # it was known before the default was trained
    refused(BudgetExhausted, None, lambda: asked(ledger, method).begin("another", SPACE))


def test_where_all_is_for_a_choice_the_clip_is_counted_among_the_choices(ledger):
    privatizer = LossPrivatizer(ledger, n=N, clip="auto")
    assert ChoiceSettings(estimate_share=0.1).choice_share(privatizer) == 0.9
    share = ChoiceSettings().choice_share(privatizer)
    privatizer.choose_clip(losses(), choice_share=share)
    assert "for 'clip/automatic', the choice of the first run that spends" in ledger.statement().to_text()
    many = np.abs(np.random.default_rng(0).standard_normal((20, N))) + 0.05 * np.arange(20)[:, None]
    chosen = dptune.select(many, privatizer, name="which")
    assert choices(ledger).keys() == {CLIP, "which"}
    assert sum(choices(ledger).values()) == pytest.approx(1.005, abs=1e-3)  # what one choice alone may have
    assert chosen.mu == pytest.approx(0.51, abs=0.005)
    assert ledger.statement().spent_epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert "for 'clip/automatic', the choice of the run 'which'" in ledger.statement().to_text()


def test_a_run_without_a_choice_is_as_in_gdp(ledger):
    space = Space({"x": Float(0.0, 1.0)})
    settings = {"trials": 40, "choice_share": 0.0}
    request = asked(ledger, space=None, settings=settings, default={"x": 0.5})
    clipped(request, None)
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta) == (PAIR.mu, 0.0)
    assert request.begin("run", space).plan.mu == pytest.approx(math.sqrt(0.95) * PAIR.mu)


def test_a_budget_of_the_runs_own_has_room_beside_its_clip(ledger):
    refused(InputError, "leaves no room", lambda: clipped(asked(ledger, SELECTION, mu=0.45)))
    assert ledger.spent() == 0
    request = asked(ledger, SELECTION, mu=0.4)
    clipped(request)
    run = complete(request.begin("run", SPACE))
    assert (run.plan.mu, ledger.charges(CLIP)[0].mu) == (0.4, math.sqrt(0.05) * 0.4)
    assert choices(ledger)["run"] == ledger.filter.limits.eta
    assert ledger.allowance().unplanned > 0


# ---- restarts, kills and other processes ---------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_a_kill_between_the_charge_and_its_record_is_paid_once(share, ledger):
    """Counted as a Gaussian, and among the choices."""
    clip = AutoClip(share=share)
    at(ledger, "charged", auto_clip.CLIP, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        clipped(asked(ledger, SELECTION, clip))
    spent, limits = ledger.spent(), ledger.filter.limits
    assert (share > 0.5) == (CLIP in choices(ledger))
    later = opened(ledger)
    request = asked(later, SELECTION, clip)
    clipped(request)
    assert (later.spent(), later.filter.limits, later.count(CLIP)) == (spent, limits, 1)
    complete(request.begin("run", SPACE))
    assert later.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_two_processes_choose_one_clip_and_one_division_for_the_next_run_that_begins(ledger):
    first, second = asked(ledger), asked(opened(ledger))

    def slow():
        clipped(first)
        return losses(1e6)

    assert "chosen privately" in clipped(second, losses=slow)
    assert ledger.count() == 1
    asked(ledger).begin("given up", SPACE)  # has planned, and never spends
    runs = [request.begin("run", SPACE) for request in (first, second)]
    assert runs[0].plan == runs[1].plan
    assert runs[0].plan.mu == pytest.approx(0.3194, abs=1e-4)
    for turn in range(12):
        parameters = runs[turn % 2].ask(trial=str(turn))
        runs[turn % 2].finish(str(turn), parameters, losses())
    complete(runs[0])
    assert choices(ledger) == {"run": pytest.approx(ledger.filter.limits.eta)}
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert asked(opened(ledger)).begin("run", SPACE).recommend() == runs[0].recommend()


def test_another_run_may_charge_while_the_default_is_trained(ledger):
    """Then it has divided the budget, and the clip is paid in GDP."""
    request, other = asked(ledger), opened(ledger)

    def slow():
        other.charge("other", "first", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="first")
        return losses()

    clipped(request, losses=slow)
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta) == (PAIR.mu, 0.0)
    assert choices(ledger) == {}
    assert complete(request.begin("run", SPACE)).plan.mu < PAIR.mu
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_a_choice_that_is_larger_than_what_is_kept_is_planned_with_what_fits(ledger):
    clipped(asked(ledger))
    limits = ledger.filter.limits
    run = complete(asked(ledger, SELECTION).begin("run", SPACE))  # .95 of its mu^2 are for the choice, not .665
    assert choices(ledger) == {"run": pytest.approx(limits.eta)}
    assert run.plan.mu == pytest.approx(limits.gdp, rel=0.3)
    assert ledger.filter.limits.mu == limits.mu
    assert ledger.allowance().unplanned > 0.1  # for other runs


def test_a_run_whose_choice_is_lost_to_another_is_told(ledger):
    run = asked(ledger, clip=(0.0, 4.0)).begin("run", SPACE)
    run.check("0")
    other = asked(opened(ledger), mu=0.1, clip=(0.0, 4.0)).begin("other", SPACE)
    complete(other)
    with pytest.warns(UserWarning, match="the charge of the run 'other' came first"):
        run.check("0")
    run.check("0")  # once


# ---- planted bugs ---------------------------------------------------------------------------------------------


class Forgets(AutoClip):
    """It is paid among the choices, and not counted when their limit is made."""

    def priced(self, *given):
        return super().priced(*given)[0], Division(0.0, divided(largest_plan(1.0, EPSILON, DELTA), 1.0)[1], own=True)


def test_planted_bug_a_clip_that_its_division_forgets_is_counted_by_the_filter(ledger):
    privatizer = LossPrivatizer(ledger, n=N, clip=Forgets())
    privatizer.choose_clip(losses(), choice_share=1.0)
    paid = choices(ledger)[CLIP]
    assert composed_delta(0.0, ledger.filter.limits.eta + paid, EPSILON) > 100 * DELTA, "what both together would have"
    dptune.select(np.zeros((2, N)), privatizer, name="which")
    assert sum(choices(ledger).values()) <= ledger.filter.limits.eta * (1 + 1e-12)
    assert ledger.statement().spent_epsilon <= EPSILON * (1 + 1e-9)


def test_planted_bug_limits_that_pass_the_promise_are_made_smaller(ledger):
    kept = Division(5.0, 0.9)
    ledger.charge("s", "k", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="k", division=kept)
    assert ledger.filter.limits.eta == 0.9
    assert composed_delta(ledger.filter.limits.mu, 0.9, EPSILON) <= DELTA
