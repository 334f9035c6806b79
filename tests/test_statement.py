"""What statements print is a promise: a loss of privacy is rounded up."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dptune import Budget, LedgerError
from dptune._numbers import rounded_down, rounded_up
from dptune.ledger.filter import GdpFilter
from dptune.ledger.gdp import Spent
from dptune.ledger.statement import BudgetStatement, budget_statement


def statement_of(budget: Budget, spent: float, delta: float = 1e-6) -> BudgetStatement:
    facts = dict.fromkeys(("dataset", "unit", "adjacency", "trust_model"), "")
    facts |= {"n": 9, "delta": delta, "mechanisms": (), "private": True, "versions": {}}
    made = {"failures": 0, "public": (), "trained": (), "raises": ()}
    return budget_statement(facts, GdpFilter(budget), Spent.of([spent]), **made)


NUMBERS = st.floats(1e-12, 1e12)


@given(NUMBERS, st.integers(2, 8))
@example(0.1 + 0.2, 4)
@example(1000.0, 2)
def test_rounding_keeps_to_its_side_and_to_the_last_digit(value: float, digits: int) -> None:
    up, down = float(rounded_up(value, digits)), float(rounded_down(value, digits))
    assert down * (1 - 2e-9) <= value <= up * (1 + 2e-9)
    assert up - down <= 1.001 * 10 ** (math.floor(math.log10(value)) + 1 - digits) * (1 + 1e-6)
    short = float(f"{value:.3g}")  # in three digits; four leave it as it is
    assert float(rounded_up(short)) == float(rounded_down(short)) == short


def test_what_is_no_fraction_stays_as_it_is() -> None:
    assert [rounded_up(value) for value in (0.0, 3.0, 0.1 + 0.2, math.inf)] == ["0", "3", "0.3", "inf"]
    assert rounded_up(4.377178) == "4.378"
    assert rounded_down(0.71911743, 6) == "0.719117"


def test_a_statement_of_more_than_the_budget_is_refused() -> None:
    most = Budget.gdp(0.7).mu * (1 + 5e-13)  # what the filter forgives
    assert statement_of(Budget.gdp(0.7), most).spent_mu == most
    with pytest.raises(LedgerError, match=r"0\.71 in all, more than its budget of mu = 0\.7"):
        statement_of(Budget.gdp(0.7), 0.71)


def test_a_stated_pair_is_printed_no_smaller_than_it_is() -> None:
    budget = Budget.approximate_dp(1.2345612, 1e-6)
    statement = statement_of(budget, 0.1)
    assert "Promised       epsilon = 1.23457 at delta = 1e-06" in str(statement)
