"""The statement: what was promised, what is spent of it, and what makes it void."""

from __future__ import annotations

import json
import math

import pytest
from ledger_tools import gaussian, pay

from dptune import Budget, InputError, PrivacyLedger
from dptune.accounting.gdp import epsilon_from_mu


def test_a_statement_has_the_promise_and_what_is_spent_of_it(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(4.0, 1e-7))
    pay(ledger, "a", 0.3)
    statement = ledger.statement()
    assert statement.delta == 1e-7
    spent = epsilon_from_mu(0.3, 1e-7)
    for rendered in (statement.to_text(), ledger.statement(delta=1e-5).to_markdown()):
        promised = "epsilon = 4 at delta = 1e-07, as the budget was stated; spent so far: epsilon = 1.436 at"
        assert promised in rendered  # 1.43599
    stated = {"epsilon": 4.0, "delta": 1e-7, "spent_epsilon": spent}
    assert ledger.statement(delta=1e-5).to_dict()["stated"] == stated
    pay(ledger, "b", 0.1, private=False)
    assert "epsilon = 4 " not in str(ledger.statement())
    assert ledger.statement().to_dict()["stated"] == {"epsilon": "infinity", "delta": 1e-7, "spent_epsilon": "infinity"}


def test_a_budget_in_gdp_needs_a_delta_for_its_statement(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    with pytest.raises(InputError, match="delta=1e-5"):
        ledger.statement()
    with pytest.raises(InputError, match="delta"):
        ledger.statement(delta="1e-5")
    assert ledger.statement(delta=1e-5).to_dict()["stated"] is None
    assert "Promised" not in str(ledger.statement(delta=1e-5))


def test_a_stated_delta_that_is_too_large_is_warned_of(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(1.0, 0.01))
    ledger.bind_people(500)
    assert "delta = 0.01 is not below 1/n" in ledger.statement(delta=1e-5).warnings[0]


def statement_ledger(url: str, *, private: bool = True) -> PrivacyLedger:
    ledger = PrivacyLedger(url, Budget.gdp(3.0), dataset="pipes | and 'quotes'", unit="one patient")
    ledger.bind_people(500)
    pay(ledger, "g1")
    pay(ledger, "g2", private=private)
    for key in ("p", "l"):
        ledger.charge("s", key, gaussian(0.5, "count"), digest="d")
    return ledger


def test_the_statement_says_everything_in_three_forms(url: str) -> None:
    ledger = statement_ledger(url)
    statement = ledger.statement(delta=1e-5)
    data = json.loads(statement.to_json())
    assert data == statement.to_dict()
    assert data["private"] is True
    assert data["warnings"] == []
    assert (data["unit"], data["n"], data["releases"]) == ("one patient", 500, 4)
    assert data["budget"] == {"mu": 3.0, "epsilon": Budget.gdp(3.0).epsilon(1e-5)}
    events = [1.0, 1.0, 0.5, 0.5]
    assert data["spent"]["mu"] == pytest.approx(math.hypot(*events))
    assert data["spent"]["epsilon"] == pytest.approx(Budget.gdp(math.hypot(*events)).epsilon(1e-5))
    assert {m["mechanism"].split()[-1]: m["releases"] for m in data["mechanisms"]} == {"mean": 2, "count": 2}
    for text in (statement.to_text(), statement.to_markdown(), str(statement)):
        for part in (
            "replace all records of one",
            "trusted curator",
            "one patient",
            "mu = 3",
            "training data",
            "search space",
        ):
            assert part in text
        for part in ("timing", "opendp", "in 4 releases", "n = 500", "delta = 1e-05", "mechanism on the count"):
            assert part in text
        assert "!!" not in text
        assert "NOT PRIVATE" not in text
    rows = [line for line in statement.to_markdown().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {3}


def test_a_statement_of_seeded_noise_promises_nothing(url: str) -> None:
    statement = statement_ledger(url, private=False).statement(delta=1e-5)
    assert statement.epsilon == math.inf
    data = json.loads(statement.to_json())
    assert data["private"] is False
    assert data["budget"] == data["spent"] == {"mu": "infinity", "epsilon": "infinity"}
    for text in (statement.to_text(), statement.to_markdown(), data["warnings"][0]):
        assert "NOT PRIVATE" in text
        assert "epsilon = 4" not in text
    assert "NONE" in statement.to_text()


def test_a_statement_warns_of_a_delta_that_means_nothing(url: str) -> None:
    ledger = statement_ledger(url)
    assert ledger.statement(delta=1 / 501).warnings == ()
    (warning,) = ledger.statement(delta=1 / 500).warnings
    assert "1/n" in warning
    assert warning in ledger.statement(delta=1 / 500).to_text()
    for bad in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            ledger.statement(delta=bad)


def test_the_statement_of_an_unused_ledger(url: str) -> None:
    statement = PrivacyLedger(url, Budget.gdp(1.0)).statement(delta=1e-5)
    assert statement.spent_epsilon == 0.0
    assert statement.releases == 0
    assert "none so far" in statement.to_text()


def test_the_epsilon_that_was_asked_for_is_the_one_that_is_stated(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(1.5, 1e-6))
    assert ledger.statement(delta=1e-6).epsilon == pytest.approx(1.5, rel=1e-9)
