"""A budget in (epsilon, delta): divided before the first release, held to two limits, stated sharply, never over it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ledger_tools import edit

import dptune
from dptune import Budget, BudgetExhausted, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.ledger import Risk, entries
from dptune.ledger.approximate import composed_delta, composed_epsilon, divided, largest_plan
from dptune.ledger.events import GaussianRelease, SelectionRelease
from dptune.ledger.filter import Division, PairFilter
from dptune.ledger.gdp import bounded_range_from_mu, epsilon_from_mu
from dptune.search.outlook import risk_in_words
from dptune.training import join

EPSILON, DELTA = 1.0, 1e-5
PAIR = Budget.approximate_dp(EPSILON, DELTA)
WHOLE = largest_plan(0.7, EPSILON, DELTA)  # mu of a plan whose choice has .7 of mu^2


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", PAIR)


def gaussian(ledger: PrivacyLedger, key: str, mu: float, scope: str = "run") -> Any:
    return ledger.charge(scope, key, GaussianRelease(mu, 1.0, 1.0, 1, "mean"), digest=key)


def choice(ledger: PrivacyLedger, mu: float, scope: str = "run", key: str = "choice") -> Any:
    event = SelectionRelease(mu, bounded_range_from_mu(mu), 1.0, 1.0, 9, "means")
    return ledger.charge(scope, key, event, digest=key)


def plan(ledger: PrivacyLedger, mu: float = WHOLE, share: float = 0.7, scope: str = "run") -> None:
    ledger.fix_plan(scope, lambda rest: {"mu": mu, "shares": {"choice": share}})


def test_a_plan_gets_more_than_in_gdp_and_not_a_bit_more(ledger: PrivacyLedger) -> None:
    plan(ledger)
    for t in range(4):
        gaussian(ledger, f"step/{t}", WHOLE * math.sqrt(0.3 / 4))
    assert choice(ledger, WHOLE * math.sqrt(0.7)).mu is None
    for refused in (lambda: gaussian(ledger, "more", 0.01 * WHOLE), lambda: choice(ledger, 0.1 * WHOLE, key="again")):
        with pytest.raises(BudgetExhausted):
            refused()
    again = PrivacyLedger(ledger.url.database or "", PAIR)  # read, row by row
    limits = again.filter.limits
    assert (again.allowance().unplanned, again.remaining()) == (0.0, 0.0)
    assert again.spent() == pytest.approx(WHOLE) == again.mu > 1.2 * PAIR.mu
    assert choice(again, WHOLE * math.sqrt(0.7)).seq == 5, "it is paid, once"
    assert f"epsilon={EPSILON!r}, delta={DELTA!r})" in repr(again)  # and not the mu of another division
    assert composed_delta(limits.mu, limits.eta, EPSILON) <= DELTA < composed_delta(1.001 * limits.mu, limits.eta, 1.0)
    for delta in (1e-9, DELTA, 1e-3):
        assert again.statement(delta=delta).epsilon == composed_epsilon(limits.mu, limits.eta, delta)
    statement = again.statement()
    assert statement.epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert statement.spent_epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert epsilon_from_mu(WHOLE, DELTA) > 1.2, "what GDP alone would say"
    text = statement.to_text()
    for words in ("and, more sharply, epsilon = 1 at", "Dong, Durfee & Rogers", "for the choice of the run 'run'"):
        assert words in text
    assert statement.to_dict()["limits"] == {"mu": limits.mu, "eta_of_choices": limits.eta}


def test_the_first_charge_divides_for_good_and_only_its_own_run_has_the_choice(ledger: PrivacyLedger) -> None:
    plan(ledger)
    plan(ledger, scope="other")
    gaussian(ledger, "first", 0.05)
    limits = ledger.filter.limits
    assert (ledger.filter.holder, limits.eta) == ("run", bounded_range_from_mu(WHOLE * math.sqrt(0.7)))
    with pytest.raises(BudgetExhausted):
        choice(ledger, WHOLE * math.sqrt(0.7), scope="other")
    assert choice(ledger, 0.05, scope="other").mu == 0.05, "paid in GDP"
    ledger.fix("run", "another fact", {"shares": {"choice": 1.0}})
    assert choice(ledger, WHOLE * math.sqrt(0.7)).mu is None
    assert ledger.filter.limits == limits


def test_without_a_plan_everything_is_as_in_gdp(ledger: PrivacyLedger) -> None:
    gaussian(ledger, "alone", PAIR.mu / 2)
    plan(ledger)
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta, ledger.mu) == (PAIR.mu, 0.0, PAIR.mu)
    with pytest.raises(BudgetExhausted):
        choice(ledger, WHOLE * math.sqrt(0.7))
    assert ledger.allowance().whole(0.7) == ledger.allowance().unplanned
    assert ledger.statement().epsilon == pytest.approx(EPSILON)


@pytest.mark.parametrize("share", [-1, "all", None, 1.0])
def test_a_plan_that_does_not_fit_or_is_none_divides_nothing(ledger: PrivacyLedger, share: Any) -> None:
    ledger.fix_plan("run", lambda rest: {"mu": 5.0, "shares": {"choice": share}})
    gaussian(ledger, "first", PAIR.mu)
    assert ledger.filter.limits.eta == 0


def test_more_budget_is_more_mu_beside_the_same_choice(ledger: PrivacyLedger) -> None:
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    eta, mu = ledger.filter.limits.eta, ledger.filter.limits.mu
    with pytest.raises(InputError, match=r"\(epsilon, delta\)"):
        ledger.raise_budget(Budget.gdp(3.0))
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    assert (ledger.filter.limits.eta, ledger.filter.limits.mu > mu) == (eta, True)
    assert ledger.statement().epsilon == pytest.approx(2.0, rel=1e-6)
    again = PrivacyLedger(ledger.url.database or "")
    assert again.filter.limits == ledger.filter.limits
    with pytest.raises(InputError, match="only raised"):
        ledger.raise_budget(Budget.approximate_dp(2.1, 1e-3 * DELTA))


def test_selection_takes_what_the_promise_allows(ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(ledger, n=300, clip=(0.0, 1.0))
    losses = np.random.default_rng(0).random((20, 300))
    chosen = dptune.select(losses, privatizer, name="which")
    eta = ledger.charges("which")[0].eta
    assert (chosen.method, eta) == ("exponential selection", pytest.approx(1.005, abs=1e-3))
    assert chosen.mu == pytest.approx(0.627, abs=1e-3)
    assert dptune.select(losses, privatizer, name="which") == chosen
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    with pytest.raises(dptune.DptuneError):
        dptune.select(losses, privatizer, name="another")


@pytest.fixture
def other(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "other.db", Budget.gdp(0.5), dataset="other")


def test_a_division_without_a_plan_of_its_own_before_another_was_charged_is_late(
    ledger: PrivacyLedger, other: PrivacyLedger
) -> None:
    gaussian(other, "first", 0.1)
    plan(ledger)
    assert join([ledger, other], delta=DELTA).late == (), "the figure holds for every division"
    gaussian(ledger, "first", 0.05)
    assert join([ledger, other], delta=DELTA).late == ("validation data",)


@pytest.mark.parametrize("announced", [PAIR.mu / 2, PAIR.mu / 3])
def test_a_plan_that_was_fixed_before_the_other_was_charged_is_not_warned_of(
    announced: float, ledger: PrivacyLedger, other: PrivacyLedger, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in every run that trains on private people: it plans, trains, and then asks. So for what a clip keeps."""
    times = (f"2100-01-01T00:{minute:02}:00+00:00" for minute in itertools.count())
    monkeypatch.setattr(entries, "now", lambda *_: next(times))
    kept = PrivacyLedger(fast_path / "clip.db", PAIR, dataset="clip")
    limits = Division(0.1, PAIR.mu / 2)
    plan(ledger)
    kept.announce_division("clip", replace(limits, eta=announced))
    gaussian(other, "first", 0.1)
    gaussian(ledger, "first", 0.05)
    kept.charge("clip", "clip", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="clip", division=limits)
    assert kept.filter.limits.eta == limits.eta
    late = ("clip",) if announced != limits.eta else ()  # it was not what was announced
    assert join([ledger, kept, other], delta=DELTA).late == late


def test_a_division_that_the_other_s_results_may_decide_is_late(
    ledger: PrivacyLedger, other: PrivacyLedger, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(ledger)
    plan(ledger, scope="second")  # of two plans, which one charges first may be decided later
    monkeypatch.setattr(entries, "now", lambda *_: "2100-01-01T00:00:00+00:00")
    same_time = PrivacyLedger(fast_path / "same.db", PAIR, dataset="same time")
    plan(same_time)
    gaussian(other, "first", 0.1)
    for each in (ledger, same_time):
        gaussian(each, "first", 0.05)
    assert join([ledger, same_time, other], delta=DELTA).late == ("validation data", "same time")


def test_before_a_division_the_risk_is_that_of_the_worst_one(ledger: PrivacyLedger) -> None:
    """That of pure releases: one Gaussian's would be smaller, and that of any other division."""
    before, pair = Risk.of_statement(ledger.statement()), Risk.of_epsilon(EPSILON, DELTA)
    assert "at most 74 times" in risk_in_words(LossPrivatizer(ledger, n=300, clip=(0.0, 1.0)))
    assert before.advantage == pytest.approx(math.tanh(EPSILON / 2), rel=1e-9)
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    after, limits = Risk.of_statement(ledger.statement()), ledger.filter.limits
    assert after.advantage == composed_delta(limits.mu, limits.eta, 0.0) < Risk.of_mu(ledger.mu).advantage
    exact = min(0.01 * math.exp(e) + composed_delta(limits.mu, limits.eta, e) for e in np.arange(0, 5, 1e-2))
    assert after.detected == pytest.approx(exact, rel=1e-4)
    assert Risk.of_mu(PAIR.mu).advantage < after.advantage < before.advantage < pair.advantage
    assert after.detected < before.detected <= pair.detected * (1 + 1e-5)


FACTS = "UPDATE dptune_facts SET value = json_set(value, '$.is.{}', {}) WHERE name LIKE 'limits/%'"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (FACTS.format("mu", 5.0), "its limits are not those"),
        (FACTS.format("eta", 5.0), "its limits are not those"),
        (FACTS.format("holder", "'other'"), "its limits are not those"),
        ("UPDATE dptune_charges SET mu = NULL WHERE seq = 1", "does not follow"),
        ("UPDATE dptune_charges SET description = replace(description, '\"eta\"', '\"mu\"')", "does not follow"),
    ],
)
def test_planted_bugs_of_the_file_are_refused(ledger: PrivacyLedger, change: str, words: str) -> None:
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    choice(ledger, WHOLE * math.sqrt(0.7))
    edit(ledger, change)
    with pytest.raises(LedgerError, match=words):
        PrivacyLedger(ledger.url.database or "")


def test_planted_bug_a_division_after_a_release_would_spend_twice(ledger: PrivacyLedger) -> None:
    """Two choices with all of epsilon each, delta counted once: refused, and far beyond the promise if it were not."""
    mu = largest_plan(1.0, EPSILON, DELTA)
    for scope in ("first", "second"):
        plan(ledger, mu, 1.0, scope=scope)
    choice(ledger, mu, scope="first")
    with pytest.raises(BudgetExhausted):
        choice(ledger, mu, scope="second")
    assert composed_delta(0.0, 2 * divided(mu, 1.0)[1], EPSILON) > 1000 * DELTA


def test_the_choice_as_it_is_drawn_nearly_attains_the_promise_and_does_not_pass_it(ledger: PrivacyLedger) -> None:
    """A black-box lower bound: the exact law of the index, from the scale that the ledger has, on the worst pairs."""
    privatizer = LossPrivatizer(ledger, n=300, clip=(0.0, 1.0))
    dptune.select(np.full((2, 300), 0.5), privatizer, name="which")
    about = ledger.charges("which")[0].description
    moved = np.array([1.0, -1.0]) * about["sensitivity"] / about["sigma"]  # one person, both candidates, opposite ways
    assert about["sensitivity"] == pytest.approx(1 / 300)
    gaps = np.linspace(-20, 20, 20001)[:, None] * [0.5, -0.5]  # of the two means, in units of the scale
    p, q = (np.exp(logs - np.logaddexp(*logs.T)[:, None]) for logs in (gaps + moved, gaps))
    attained = np.maximum(p - math.exp(EPSILON) * q, 0).sum(axis=1).max()
    assert 0.9 * DELTA < attained <= DELTA


def audit_what_a_run_without_the_limit_holds(folder: Path) -> None:
    """The choice of a run that does not hold the limit of choices is paid from mu, so all of its plan is kept."""
    ledger = PrivacyLedger(folder / f"{len(list(folder.iterdir()))}.db", PAIR)
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    holder, other = WHOLE * math.sqrt(0.3), 0.1
    assert ledger.allowance().unplanned == pytest.approx(math.sqrt(ledger.filter.limits.mu**2 - holder**2), abs=1e-7)
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    plan(ledger, mu=other, share=0.7, scope="other")
    gaussian(ledger, "first", 0.02, scope="other")
    left = math.sqrt(ledger.filter.limits.mu**2 - holder**2 - other**2)
    assert ledger.allowance().unplanned == pytest.approx(left, rel=1e-9), "the choice of the other run costs nothing"


def test_a_run_that_does_not_hold_the_limit_of_choices_keeps_all_that_it_planned(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_what_a_run_without_the_limit_holds(fast_path)
    true = PairFilter.reserves
    monkeypatch.setattr(PairFilter, "reserves", lambda self, scope, plan: true(self, self.holder, plan))
    with pytest.raises(AssertionError, match="costs nothing"):
        audit_what_a_run_without_the_limit_holds(fast_path)
