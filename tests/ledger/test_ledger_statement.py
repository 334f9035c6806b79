"""The statement: what was promised, what is spent of it, and what makes it void."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from ledger_tools import gaussian, pay
from refusals import refused

from dptune import Budget, InputError, PrivacyLedger
from dptune.ledger.gdp import epsilon_from_mu


def test_a_statement_has_the_promise_and_what_is_spent_of_it(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.approximate_dp(4.0, 1e-7))
    ledger.bind_people(10**7)
    assert "delta = 1e-07 is not below 1/n" in ledger.statement(delta=1e-8).warnings[0], "also the stated one"
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


def test_a_budget_in_gdp_has_its_mu_and_what_is_spent_and_needs_a_delta(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(3.0))
    refused(InputError, "delta=1e-5", ledger.statement)
    assert ledger.statement(delta=1e-5).spent_epsilon == 0.0
    for key, mu, what in (("g1", 1.0, "mean"), ("g2", 1.0, "mean"), ("p", 0.5, "count"), ("l", 0.5, "count")):
        ledger.charge("s", key, gaussian(mu, what), digest="d")
    statement, all_of_it = ledger.statement(delta=1e-5), Budget.gdp(math.sqrt(2.5))
    data = statement.to_dict()
    assert data["stated"] is None
    assert data["budget"] == {"mu": 3.0, "epsilon": Budget.gdp(3.0).epsilon(1e-5)}
    assert data["spent"] == pytest.approx({"mu": all_of_it.mu, "epsilon": all_of_it.epsilon(1e-5)})
    assert {m["mechanism"].split()[-1]: m["releases"] for m in data["mechanisms"]} == {"mean": 2, "count": 2}
    parts = ("replace all records of one", "trusted curator", "mu = 3", "rows that train", "search space", "timing")
    for text in (statement.to_text(), statement.to_markdown()):
        assert all(part in " ".join(text.split()) for part in (*parts, "in 4 releases", "mechanism on the count"))
        assert "Promised" not in text
    pay(ledger, "seeded", private=False)
    data = ledger.statement(delta=1e-5).to_dict()
    assert data["budget"] == data["spent"] == {"mu": "infinity", "epsilon": "infinity"}
    assert "epsilon = 4" not in str(ledger.statement(delta=1e-5))
