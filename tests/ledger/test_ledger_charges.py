"""Charging: paid once per key, never past the budget, and counted exactly."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_tools import pay

from dptune import Budget, BudgetExhausted, InputError, PlanComplete, PrivacyLedger
from dptune.errors import LedgerError
from dptune.ledger.entries import Quota
from dptune.ledger.gdp import Spent


def test_other_arguments_are_not_taken_for_true_either(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    with pytest.raises(InputError, match="write must be True or False"):
        ledger.news("study", after=0, write="yes")
    with pytest.raises(InputError, match="make must be a function"):
        ledger.fix_plan("study", {"mu": 1.0})
    with pytest.raises(InputError, match="JSON data"):
        ledger.fix("study", "plan", {"a": math.nan})
    assert ledger.fact("study", "plan") is None


def test_a_charge_is_no_part_of_another_transaction_that_could_take_it_back(url: str) -> None:
    """A signal handler that releases, or a plan that does: a value would be seen, and its charge rolled back."""
    ledger = PrivacyLedger(url, Budget.gdp(2.0))

    def plan(rest: Any) -> object:
        pay(ledger, "a")
        raise AssertionError("a value was released")

    with pytest.raises(LedgerError, match="in the middle of another transaction"):
        ledger.fix_plan("study", plan)
    assert (ledger.count(), ledger.spent()) == (0, 0.0)
    pay(ledger, "a")
    assert ledger.count() == PrivacyLedger(url).count() == 1


def test_a_key_belongs_to_its_scope(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    first = pay(ledger, "a", note={"theta": [0.5]})
    assert (first.scope, first.key, first.mu, first.note) == ("study", "a", 1.0, {"theta": [0.5]})
    assert pay(ledger, "a", scope="other study").seq != first.seq
    assert ledger.spent() == math.sqrt(2)
    assert [c.key for c in ledger.charges("study")] == ["a"]
    assert (ledger.find("study", "b"), ledger.find("other", "a")) == (None, None)


def test_the_budget_is_never_passed_and_the_error_says_what_is_left(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    for step in range(3):
        pay(ledger, str(step), 0.5)
    with pytest.raises(BudgetExhausted) as refused:
        pay(ledger, "too much", 0.75)
    error = refused.value
    assert (error.asked, error.budget) == (0.75, 1.0)
    assert error.left == pytest.approx(0.5)
    assert "0.75" in str(error)
    assert "0.5" in str(error)
    assert len(ledger.charges()) == 3
    restored = pickle.loads(pickle.dumps(error))
    assert (restored.asked, restored.left, restored.budget) == (error.asked, error.left, error.budget)
    pay(ledger, "3", 0.5)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-12)
    assert ledger.remaining() == 0.0
    pay(ledger, "3", 0.5)  # paid already: a retry is free on an empty ledger
    with pytest.raises(BudgetExhausted):
        pay(ledger, "4", 1e-5)


@pytest.mark.parametrize("mu", [0.7071067811865476, 1.5831082, 1.0])
def test_what_a_refusal_says_is_left_can_be_paid_and_check_writes_nothing(url: str, mu: float) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(mu))
    ledger.check(mu / 2, releases=4)
    with pytest.raises(BudgetExhausted):
        ledger.check(mu / 2, releases=5)
    with pytest.raises(BudgetExhausted) as caught:
        ledger.check(2 * mu)
    said = re.search(r"but only mu=(\S+) of", str(caught.value))
    assert said is not None
    ledger.check(float(said[1]))
    assert ledger.charges() == []


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_a_price_is_refused(url: str, mu: float) -> None:
    class Free:
        mechanism = "free lunch"

        def __init__(self) -> None:
            self.mu = mu

        def describe(self) -> dict[str, object]:
            return {}

    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    with pytest.raises(InputError, match="mu"):
        ledger.charge("s", "k", Free(), digest="d")
    assert ledger.charges() == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.05, 0.9)), max_size=15))
def test_any_sequence_of_charges_stays_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, float]]
) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(1.0))
    paid: dict[str, float] = {}
    for key, mu in asked:
        try:
            charge = pay(ledger, key, mu)
        except BudgetExhausted:
            assert sum(m * m for m in paid.values()) + mu * mu > 1 - 1e-9
        else:
            assert charge.mu == paid.setdefault(key, mu)
    assert {c.key: c.mu for c in ledger.charges()} == paid
    assert ledger.spent() == Spent.of(paid.values()).mu <= 1 + 1e-12
    assert ledger.remaining() == Spent.of(paid.values()).remaining(1.0)


def test_a_limit_holds_in_the_charging_transaction(url: str) -> None:
    ledger, quota = PrivacyLedger(url, Budget.gdp(1.0)), Quota("value/", 2)
    for key in ("value/0", "value/1", "value/1"):  # a retry is not a further charge
        pay(ledger, key, 0.1, quota=quota)
    pay(ledger, "step/1", 0.1, quota=Quota("step/", 1))
    pay(ledger, "value/2", 0.1, scope="other", quota=quota)
    with pytest.raises(PlanComplete):
        pay(ledger, "value/2", 0.1, quota=quota)
    assert len(ledger.charges("study")) == 3


def test_charges_are_listed_in_order_and_counted_by_scope_and_prefix(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(9.0))
    for scope, key in [("s", "value/1"), ("t", "value/1"), ("s", "step/1"), ("s", "value/2"), ("s", "value%")]:
        pay(ledger, key, scope=scope)
    assert [(c.scope, c.key) for c in ledger.charges()][:3] == [("s", "value/1"), ("t", "value/1"), ("s", "step/1")]
    assert [c.key for c in ledger.charges("s", prefix="value/")] == ["value/1", "value/2"]
    assert [c.key for c in ledger.charges("s", prefix="value%")] == ["value%"]
    assert [c.seq for c in ledger.charges()] == [1, 2, 3, 4, 5]
    assert ledger.count() == 5
    assert (ledger.count("s"), ledger.count("s", prefix="value/"), ledger.count("s", prefix="value%")) == (4, 2, 1)
    assert (ledger.count("u"), ledger.count(prefix="value/")) == (0, 3)


def test_a_look_at_the_budget_reads_no_charge(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    for number in range(3):
        pay(ledger, str(number), 0.1)
    pay(ledger, "seeded", 0.1, private=False)
    monkeypatch.setattr("dptune.ledger.entries.charge_of", lambda row: pytest.fail("a charge was read"))
    ledger.check(0.5, releases=2)
    assert (ledger.spent(), ledger.count(), ledger.private) == (0.2, 4, False)
    assert ledger.remaining() < 2.0


BAD_NAMES = [None, math.nan, 7, 0.5, b"study", "", ["study"], "a\0b", "\ud800"]


@pytest.mark.parametrize("bad", BAD_NAMES)
def test_a_scope_or_a_key_that_is_not_a_text_is_refused_by_name(url: str, bad: Any) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    for name, use in {
        "scope": lambda: pay(ledger, "k", scope=bad),
        "key": lambda: pay(ledger, bad),
        "digest": lambda: pay(ledger, "k", digest=bad),
        "scope ": lambda: ledger.find(bad, "k"),
        "key ": lambda: ledger.find("s", bad),
        "scope  ": lambda: ledger.news(bad, after=0),
        "scope   ": lambda: ledger.fix(bad, "fact", 1),
        "name": lambda: ledger.fact("s", bad),
        "scope    ": lambda: ledger.fix_plan(bad, lambda rest: {"mu": 1.0}),
    }.items():
        with pytest.raises(InputError, match=f"{name.strip()} must be a text"):
            use()
    assert ledger.charges() == []


@pytest.mark.parametrize("huge", [10**400, 10**5000, -(10**5000)], ids=["400", "5000", "minus 5000"])
def test_a_number_that_is_too_large_is_refused_by_name(url: str, huge: int) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    with pytest.raises(InputError, match="mu"):
        ledger.check(huge)
    with pytest.raises(InputError, match="releases"):
        ledger.check(0.1, releases=huge)
    with pytest.raises(InputError, match="mu"):
        Budget.gdp(huge)
    pay(ledger, "tiny", 1e-200)
    assert ledger.spent() == 1e-200
    with pytest.raises(BudgetExhausted):
        pay(ledger, "huge", 1e308)
