"""A ledger charges once per key, never exceeds its budget, counts exactly, and keeps the first writer's facts."""

import math
import pickle
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptune import Budget, BudgetExhausted, InputError, LossPrivatizer, PlanComplete, PrivacyLedger
from dptune.errors import BudgetMismatch, LedgerError
from dptune.ledger.entries import Quota
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import PLAN
from ledger_tools import gaussian, pay
from refusals import refused


@pytest.fixture
def budget_of_one(url: str) -> PrivacyLedger:
    return PrivacyLedger(url, Budget.gdp(1.0))


def test_a_charge_inside_another_transaction_is_refused(budget_of_one: PrivacyLedger) -> None:
    """A signal handler that releases, or a plan that does: a value would be seen, and its charge rolled back."""

    def plan(rest: Any) -> object:
        pay(budget_of_one, "a")
        raise AssertionError("a value was released")

    words = "in the middle of another transaction"
    refused(LedgerError, words, lambda: budget_of_one.fix_plan("study", plan))
    assert (budget_of_one.count(), budget_of_one.spent()) == (0, 0.0)
    pay(budget_of_one, "a")
    assert budget_of_one.count() == PrivacyLedger(budget_of_one.url.render_as_string()).count() == 1


def test_the_budget_is_never_passed_and_the_error_says_what_is_left(budget_of_one: PrivacyLedger) -> None:
    ledger = budget_of_one
    for step in range(3):
        pay(ledger, str(step), 0.5)
    with pytest.raises(BudgetExhausted) as refusal:
        pay(ledger, "too much", 0.75)
    error = pickle.loads(pickle.dumps(refusal.value))
    assert (error.asked, error.left, error.budget) == (0.75, pytest.approx(0.5), 1.0)
    assert all(number in str(error) for number in ("0.75", "0.5"))
    pay(ledger, "3", 0.5)
    pay(ledger, "3", 0.5)  # paid already: a retry is free on an empty ledger
    refused(BudgetExhausted, None, lambda: pay(ledger, "4", 1e-5))


@pytest.mark.parametrize("mu", [0.7071067811865476, 1.5831082])
def test_what_a_refusal_says_is_left_can_be_paid_and_check_writes_nothing(fast_path: Path, mu: float) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(mu))
    ledger.check(mu)
    refused(BudgetExhausted, None, lambda: ledger.check(1.001 * mu))
    with pytest.raises(BudgetExhausted) as caught:
        ledger.check(2 * mu)
    said = re.search(r"but only mu=(\S+) of", str(caught.value))
    assert said is not None
    ledger.check(float(said[1]))
    assert ledger.charges() == []


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.05, 0.9)), max_size=15))
def test_any_sequence_of_charges_stays_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, float]]
) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(1.0))
    paid: dict[str, float] = {}
    for key, mu in asked:
        try:
            charge = ledger.record(pay(ledger, key, mu), [mu / 3])
        except BudgetExhausted:
            assert sum(m * m for m in paid.values()) + mu * mu > 1 - 1e-9
        else:
            assert charge.mu == paid.setdefault(key, mu)
            assert charge.value == (paid[key] / 3,), "values are stored exactly"
    assert {c.key: c.mu for c in ledger.charges()} == paid
    assert ledger.spent() == Spent.of(paid.values()).mu <= 1 + 1e-12
    assert ledger.remaining() == Spent.of(paid.values()).remaining(1.0)


def test_a_quota_holds_in_the_charging_transaction(budget_of_one: PrivacyLedger) -> None:
    ledger, quota = budget_of_one, Quota("value/", 2)
    for key in ("value/0", "value/1", "value/1"):  # a retry is not a further charge
        pay(ledger, key, 0.1, quota=quota)
    pay(ledger, "step/1", 0.1, quota=Quota("step/", 1))
    pay(ledger, "value/2", 0.1, scope="other", quota=quota)
    refused(PlanComplete, None, lambda: pay(ledger, "value/2", 0.1, quota=quota))
    assert len(ledger.charges("study")) == 3


def test_charges_are_listed_in_order_and_counted_by_scope_and_prefix(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(9.0))
    for scope, key in [("s", "value/1"), ("t", "value/1"), ("s", "step/1"), ("s", "value/2"), ("s", "value%")]:
        pay(ledger, key, scope=scope, note={"theta": [0.5]})
    assert [(c.seq, c.scope, c.key) for c in ledger.charges()][:2] == [(1, "s", "value/1"), (2, "t", "value/1")]
    assert [c.key for c in ledger.charges("s", prefix="value/")] == ["value/1", "value/2"]
    assert [c.key for c in ledger.charges("s", prefix="value%")] == ["value%"]
    assert (ledger.count(), ledger.count("s"), ledger.count("s", prefix="value/")) == (5, 4, 2)
    assert (ledger.count("u"), ledger.count(prefix="value/")) == (0, 3)
    first = ledger.find("s", "value/1")
    assert (first.mu, first.note, ledger.find("u", "value/1")) == (1.0, {"theta": [0.5]}, None)


BAD_NAMES = [None, b"study", "", "a\0b", "\ud800"]


def test_what_is_not_a_text_a_function_or_a_number_is_refused_by_name(ledger: PrivacyLedger) -> None:
    for name, uses in {
        "scope": (lambda bad: pay(ledger, "k", scope=bad), lambda bad: ledger.fix(bad, "fact", 1)),
        "key": (lambda bad: pay(ledger, bad), lambda bad: ledger.find("s", bad)),
        "digest": (lambda bad: pay(ledger, "k", digest=bad),),
        "name": (lambda bad: ledger.fact("s", bad),),
    }.items():
        refused(InputError, f"{name} must be a text", *(partial(use, bad) for use in uses for bad in BAD_NAMES))
    free = replace(gaussian(1.0), mu=0.0)
    refused(InputError, "mu, a charge's price, must", lambda: ledger.charge("s", "k", free, digest="d"))
    refused(InputError, "JSON data", lambda: ledger.fix("study", "plan", {"a": math.nan}))
    assert (ledger.charges(), ledger.fact("study", "plan")) == ([], None)
    pay(ledger, "tiny", 1e-200)
    assert ledger.spent() == 1e-200
    refused(BudgetExhausted, None, lambda: pay(ledger, "huge", 1e308))


# ---- what the first writer says -----------------------------------------------------------------------------


def test_facts_and_the_number_of_people_are_fixed_by_the_first_writer(url: str, budget_of_one: PrivacyLedger) -> None:
    ledger = budget_of_one
    assert ledger.fix("s", "plan", {"T": 3, "x": [1.5, None, "a"]}) == {"T": 3, "x": [1.5, None, "a"]}
    assert PrivacyLedger(url).fix("s", "plan", "other") == {"T": 3, "x": [1.5, None, "a"]}
    assert ledger.fix("t", "plan", 0) == 0
    assert ledger.n is None
    late = LossPrivatizer(ledger, n=11, clip=(0, 1))
    first = LossPrivatizer(PrivacyLedger(url), groups=list(range(10)) * 2, clip=(0, 2))
    assert ledger.n is None  # the first charge fixes it
    for people in (first, late):
        people.observe("x", np.zeros(people.rows))
    first.release(first.mean_query("x", 0.5), scope="s", key="1")
    question = late.mean_query("x", 0.5)
    refused(
        BudgetMismatch,
        "n=10, not 11",
        lambda: LossPrivatizer(ledger, n=11, clip=(0, 1)),
        lambda: late.release(question, scope="s", key="2"),
    )
    assert (PrivacyLedger(url).n, ledger.count()) == (10, 1)


def test_a_new_run_may_count_on_what_is_neither_spent_nor_planned(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(5.0))
    ledger.fix_plan("run", lambda rest: {"mu": 3.0})
    assert ledger.allowance() == Allowance(5.0, 5.0, ())  # it has not begun to spend
    pay(ledger, "1", 2.0, scope="run")  # of what it has planned
    assert ledger.allowance() == Allowance(pytest.approx(math.sqrt(21)), pytest.approx(4.0), ("run",))
    pay(ledger, "1", 1.0, scope="no plan")
    pay(ledger, "2", math.sqrt(5), scope="run")  # done
    assert ledger.allowance() == Allowance(pytest.approx(math.sqrt(15)), pytest.approx(math.sqrt(15)), ())
    pay(ledger, "3", 1.0, scope="run")  # more than it had planned
    assert ledger.allowance().unplanned == pytest.approx(math.sqrt(14))
    ledger.fix_plan("two plans of all", lambda rest: {"mu": 5.0})
    pay(ledger, "1", 1.0, scope="two plans of all")
    assert ledger.allowance() == Allowance(pytest.approx(math.sqrt(13)), 0.0, ("two plans of all",))


def test_a_plan_is_fixed_once_from_the_rest_and_a_refusal_writes_nothing(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(5.0))

    def refuse(rest: Allowance) -> object:
        raise InputError(f"{rest.unplanned}")

    refused(InputError, r"5\.0", lambda: ledger.fix_plan("run", refuse))
    assert ledger.fact("run", PLAN) is None
    assert ledger.fix_plan("run", lambda rest: {"mu": rest.unplanned}) == {"mu": 5.0}
    assert PrivacyLedger(fast_path / "x.db").fix_plan("run", refuse) == {"mu": 5.0} == ledger.fact("run", PLAN)
