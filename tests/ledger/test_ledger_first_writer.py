"""What the first writer says is everybody's: recorded values, facts, plans, the number of people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_tools import pay

from dptune import Budget, InputError, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_values_are_stored_exactly(tmp_path_factory: pytest.TempPathFactory, value: list[float]) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(1.0))
    assert ledger.record(pay(ledger, "a"), value).value == tuple(value)


def test_facts_are_fixed_by_the_first_writer(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert ledger.fact("s", "plan") is None
    assert ledger.fix("s", "plan", {"T": 3, "x": [1.5, None, "a"]}) == {"T": 3, "x": [1.5, None, "a"]}
    assert PrivacyLedger(url).fix("s", "plan", "other") == {"T": 3, "x": [1.5, None, "a"]}
    assert ledger.fix("t", "plan", 0) == 0
    with pytest.raises(InputError, match="JSON"):
        ledger.fix("s", "bad", math.nan)


def test_another_number_of_people_is_refused(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert ledger.n is None
    LossPrivatizer(ledger, n=10, clip=(0, 1))
    LossPrivatizer(PrivacyLedger(url), groups=list(range(10)) * 2, clip=(0, 2))
    with pytest.raises(BudgetMismatch, match="n="):
        LossPrivatizer(ledger, n=11, clip=(0, 1))
    assert PrivacyLedger(url).n == 10


def test_a_new_run_may_count_on_what_is_neither_spent_nor_planned(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(5.0))
    assert ledger.allowance() == Allowance(5.0, 5.0, ())
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


def test_a_plan_is_made_once_from_what_is_left_and_a_refusal_writes_nothing(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(5.0))

    def refuse(rest: Allowance) -> object:
        raise InputError(f"{rest.unplanned}")

    with pytest.raises(InputError, match=r"5\.0"):
        ledger.fix_plan("run", refuse)
    assert ledger.fact("run", PLAN) is None
    assert ledger.fix_plan("run", lambda rest: {"mu": rest.unplanned}) == {"mu": 5.0}
    assert PrivacyLedger(url).fix_plan("run", refuse) == {"mu": 5.0} == ledger.fact("run", PLAN)
