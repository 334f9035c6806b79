"""A raised budget is public and permanent, and every statement shows it."""

import re
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
    refused(BudgetMismatch, r"raised from mu=1 to mu=1\.5\. Write the latter", lambda: again(Budget.gdp(1.0)))
    refused(InputError, r"only raised: it is mu=1\.5", lambda: ledger.raise_budget(Budget.gdp(1.0)))
    refused(InputError, "must be a Budget", lambda: ledger.raise_budget(2.0))


A, B, C, D = (Budget.approximate_dp(*each) for each in ((4.0, 1e-5), (3.0, 1e-5), (4.5, 1e-9), (6.0, 1e-5)))
IT_IS = "a budget is only raised: it is epsilon=4 at delta=1e-05{}, in all; you gave {}, which is not more."


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (B, IT_IS.format("", "epsilon=3 at delta=1e-05")),
        (C, IT_IS.format(" (mu=0.924931)", f"epsilon=4.5 at delta=1e-09 (mu={C.mu:.6g})")),
        (Budget.gdp(0.5), IT_IS.format(" (mu=0.924931)", "mu=0.5")),
    ],
    ids=["pair", "another delta", "mu"],
)
def test_a_budget_that_is_no_raise_is_refused_in_its_own_terms(fast_path: Path, given: Budget, says: str) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", A)
    refused(InputError, f"^{re.escape(says)}$", lambda: ledger.raise_budget(given))


MORE = " To allow more: ledger.raise_budget, or `dptune raise-budget` on the command line."


@pytest.mark.parametrize(
    ("given", "named", "more"),
    [
        (Budget.gdp(1.0), "mu=1", ""),
        (D, "epsilon=6 at delta=1e-05", ""),
        (Budget.gdp(1.2), "mu=1.2", MORE),
        (Budget.gdp(3.0), "mu=3", MORE),
    ],
    ids=["first", "second", "never", "more"],
)
def test_a_script_of_before_a_raise_is_told_what_to_write(
    ledger: PrivacyLedger, given: Budget, named: str, more: str
) -> None:
    for budget in (D, Budget.gdp(2.0)):
        ledger.raise_budget(budget)
    says = (
        f"this ledger's budget is not {named}: it was raised from mu=1 to mu=2. Write the latter in your script, or "
        f"leave budget= out. Nothing was charged.{more}"
    )
    refused(BudgetMismatch, f"^{re.escape(says)}$", lambda: PrivacyLedger(ledger.url.database, given))


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


# ---- the command line ---------------------------------------------------------------------------------------

UNCHANGED = "It was that already: nothing was changed."


@pytest.mark.parametrize(
    ("first", "options", "then", "says"),
    [
        ((4.0, 1e-6), "--epsilon 4", (4.0, 1e-6), UNCHANGED),
        ((4.0, 1e-6), "--epsilon 4 --delta 1e-6", (4.0, 1e-6), UNCHANGED),
        ((4.0, 1e-6), "--epsilon 5", (5.0, 1e-6), None),
        ((4.0, 1e-6), "--epsilon 4 --delta 1e-5", (4.0, 1e-5), "Its delta was 1e-06 and is now 1e-05."),
        (None, "--mu 1", None, UNCHANGED),
        (None, "--epsilon 8", (8.0, 1e-5), None),
    ],
)
def test_a_raise_keeps_the_ledgers_own_delta_unless_it_is_given(
    fast_path: Path, first: tuple[float, float] | None, options: str, then: tuple[float, float] | None, says: str | None
) -> None:
    path = str(fast_path / "x.db")
    ledger = PrivacyLedger(path, Budget.gdp(1.0) if first is None else Budget.approximate_dp(*first))
    done = CliRunner().invoke(app, ["raise-budget", path, *options.split()])
    assert done.exit_code == 0, done.output
    pair = (None, None) if then is None else then
    budget = PrivacyLedger(path).budget
    assert (budget.stated_epsilon, budget.stated_delta) == pair
    assert len(ledger.raises()) == (says != UNCHANGED)
    assert done.output.splitlines()[1:] == ([] if says is None else [says])


def test_a_raise_from_a_stated_pair_to_gdp_says_that_delta_is_gone(ledger: PrivacyLedger) -> None:
    path = str(ledger.url.database)
    ledger.raise_budget(Budget.approximate_dp(8.0, 1e-6))
    done = CliRunner().invoke(app, ["raise-budget", path, "--mu", "9"])
    assert done.output.splitlines()[1:] == ["Its delta was 1e-06 and is now none, as the budget is stated in GDP."]


def test_the_spent_part_of_a_pair_adds_up_or_says_what_is_kept(fast_path: Path) -> None:
    """Before the first charge no division is known, so no numbers in GDP are printed."""
    path = str(fast_path / "x.db")
    ledger = PrivacyLedger(path, Budget.approximate_dp(3.0, 1e-5), dataset="patients")
    show = partial(CliRunner().invoke, app, ["show", path])
    unused = "patients: epsilon 3 at delta 1e-05; nothing spent; the first charge divides it\n"
    assert show().output == unused
    raised = CliRunner().invoke(app, ["raise-budget", path, "--epsilon", "4"])
    assert raised.output == f"the budget of '{unused[:8]}' in all: {unused[10:].replace('epsilon 3', 'epsilon 4')}"
    ledger.fix_plan("svc", lambda rest: {"mu": rest.whole(0.8), "shares": {"choice": 0.8}})
    pay(ledger, "estimate", 0.1, scope="svc")
    assert "left (the rest is kept for the run 'svc')" in show().output
