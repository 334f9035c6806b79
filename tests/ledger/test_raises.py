"""A raised budget is public and permanent, and every statement shows it."""

from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptune import Budget, BudgetExhausted, InputError, LedgerError, PrivacyLedger
from dptune.cli import app
from dptune.errors import BudgetMismatch
from ledger_tools import edit, pay
from refusals import refused


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0), dataset="patients")


def test_a_raise_is_recorded_and_shown_with_what_was_released_before(ledger: PrivacyLedger) -> None:
    assert "Raised" not in ledger.statement(delta=1e-5).to_text()
    assert ledger.statement(delta=1e-5).to_dict()["raises"] == []
    pay(ledger, "k", 0.9)
    ledger.raise_budget(Budget.approximate_dp(8.0, 1e-5))
    ledger.raise_budget(Budget.gdp(3.0))
    first, second = PrivacyLedger(ledger.url.database).statement(delta=1e-5).to_dict()["raises"]
    assert (first["from"]["mu"], first["releases"], first["to"]["stated_epsilon"]) == (1.0, 1, 8.0)
    assert (second["from"], second["to"]["mu"]) == (first["to"], 3.0)
    text = ledger.statement(delta=1e-5).to_text()
    assert "Raised         from mu = 1 at 20" in text
    assert "after 1 release; from epsilon = 8 at delta = 1e-05 at 20" in text
    assert "if no released value could have led to a larger one" in text
    assert "mu = 3 GDP" in text


def test_an_open_ledger_learns_of_a_raise_when_it_would_refuse(ledger: PrivacyLedger) -> None:
    other, third = (PrivacyLedger(ledger.url.database) for _ in range(2))
    pay(other, "k", 1.0)
    refused(BudgetExhausted, None, lambda: pay(other, "more", 0.5))
    ledger.raise_budget(Budget.gdp(1.5))
    pay(other, "more", 0.5)
    assert other.budget == Budget.gdp(1.5)
    refused(BudgetExhausted, None, lambda: other.check(1.5))
    assert PrivacyLedger(ledger.url.database, Budget.gdp(1.5)).allowance().left == pytest.approx(1.0, rel=1e-9)
    statement = third.statement(delta=1e-5)
    assert (statement.budget.mu, statement.spent_mu) == (1.5, pytest.approx(1.25**0.5))


def test_a_budget_never_shrinks_and_a_script_that_states_another_is_told(ledger: PrivacyLedger) -> None:
    again = partial(PrivacyLedger, ledger.url.database)
    refused(BudgetMismatch, "To allow more: ledger", lambda: again(Budget.gdp(1.5)))
    for _ in range(2):
        ledger.raise_budget(Budget.gdp(1.5))
    assert len(ledger.raises()) == 1
    refused(BudgetMismatch, "It was raised since then", lambda: again(Budget.gdp(1.0)))
    refused(InputError, r"only raised: it is mu=1\.5", lambda: ledger.raise_budget(Budget.gdp(1.0)))
    refused(InputError, "must be a Budget", lambda: ledger.raise_budget(2.0))


def test_the_command_line_raises_a_budget_once_for_all(ledger: PrivacyLedger) -> None:
    path = str(ledger.url.database)
    done = CliRunner().invoke(app, ["raise-budget", path, "--mu", "1.5"])
    assert (done.exit_code, done.output) == (
        0,
        "the budget of 'patients' in all: mu 0 of 1.5 spent, 1.5 left (squares add up)\n",
    )
    assert PrivacyLedger(path).budget == Budget.gdp(1.5)
    assert CliRunner().invoke(app, ["raise-budget", path]).exit_code == 2
    assert CliRunner().invoke(app, ["raise-budget", path, "--epsilon", "20"]).exit_code == 0
    assert PrivacyLedger(path).budget.stated_epsilon == 20.0


def test_a_raise_that_an_older_copy_took_back_pays_for_nothing(ledger: PrivacyLedger) -> None:
    path = Path(str(ledger.url.database))
    pay(ledger, "k", 0.5)
    before = path.read_bytes()
    ledger.raise_budget(Budget.gdp(3.0))
    path.write_bytes(before)
    refused(BudgetExhausted, None, lambda: pay(ledger, "more", 2.0))
    assert ledger.statement(delta=1e-5).budget.mu == 1.0


# ---- the charges vouch for raises ---------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [Budget.gdp(0.6), Budget.approximate_dp(3.0, 1e-5)], ids=["mu", "pair"])
def test_the_charge_after_a_raise_has_it_in_its_hash(fast_path: Path, budget: Budget) -> None:
    path, raised = fast_path / "x.db", Budget.approximate_dp(4.0, 1e-5)
    ledger = PrivacyLedger(path, budget)
    pay(ledger, "a", 0.5)
    for more in (raised, Budget.approximate_dp(5.0, 1e-5)):
        ledger.raise_budget(more)
    for key in ("b", "c"):
        pay(ledger, key, 0.1)
    ledger.raise_budget(Budget.approximate_dp(6.0, 1e-5))  # no charge has seen it yet
    said = [charge.description.get("raises", []) for charge in ledger.charges()]
    assert [[act["to"]["stated_epsilon"] for act in each] for each in said] == [[], [4.0, 5.0], []]
    assert PrivacyLedger(path, Budget.approximate_dp(6.0, 1e-5)).filter.limits.mu == pytest.approx(ledger.budget.mu)
    edit(ledger, "DELETE FROM dptune_facts WHERE name = 'budget/000003'")  # it paid for nothing
    if budget.stated_epsilon is not None:
        edit(ledger, "DELETE FROM dptune_facts WHERE name = (SELECT max(name) FROM dptune_facts)")
    assert PrivacyLedger(path).budget.stated_epsilon == 5.0


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM dptune_facts WHERE name = 'budget/000001'",
        "UPDATE dptune_facts SET value = replace(value, '2.0', '3.0') WHERE name = 'budget/000001'",
        "UPDATE dptune_facts SET value = replace(value, 's\": 1', 's\": 0') WHERE name = 'budget/000001'",
    ],
    ids=["lost", "larger", "earlier"],
)
def test_a_raise_that_is_not_what_the_charges_say_is_refused(ledger: PrivacyLedger, change: str) -> None:
    pay(ledger, "a", 0.5)
    ledger.raise_budget(Budget.gdp(2.0))
    pay(ledger, "b", 1.5)
    edit(ledger, change)
    refused(LedgerError, "its raises are not those that its charges say", lambda: PrivacyLedger(ledger.url.database))
