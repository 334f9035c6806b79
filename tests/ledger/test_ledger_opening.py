"""Opening a ledger: made with a budget, reopened as it was, refused with another promise or in another place."""

from __future__ import annotations

import math
import pickle
import sqlite3
from pathlib import Path

import pytest
from audit_tools import run_forked
from ledger_tools import pay

from dptune import Budget, BudgetExhausted, LedgerError, PrivacyLedger
from dptune.errors import BudgetMismatch

# ---- the promise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (Budget.approximate_dp(4.0, 1e-7), Budget(math.nextafter(Budget.approximate_dp(4.0, 1e-7).mu, 0), 4.0, 1e-7)),
        (Budget.approximate_dp(4.0, 1e-7), Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu)),
        (Budget.gdp(0.3), Budget.gdp(0.1 + 0.2)),
        (Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu), Budget.approximate_dp(4.0, 1e-7)),
    ],
    ids=["another root", "mu alone", "rounding", "pair alone"],
)
def test_the_same_promise_reopens_and_the_stored_mu_is_the_bound(url: str, made: Budget, given: Budget) -> None:
    PrivacyLedger(url, made)
    ledger = PrivacyLedger(url, given)
    assert ledger.budget == made
    pay(ledger, "all", made.mu)
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetExhausted):
        pay(ledger, "more", 1e-5)


def test_another_root_of_the_same_pair_leaves_the_stored_bound(url: str) -> None:
    exact = Budget.approximate_dp(4.0, 1e-7)
    stored = Budget(exact.mu * (1 - 5e-10), 4.0, 1e-7)  # of another root finder
    PrivacyLedger(url, stored)
    assert PrivacyLedger(url, exact).budget == stored
    with pytest.raises(BudgetExhausted):
        PrivacyLedger(url, exact).check(exact.mu)


@pytest.mark.parametrize(
    "given",
    [
        Budget(0.5, 4.0, 1e-7),  # the same pair, a smaller mu
        Budget.approximate_dp(4.0, 2e-7),
        Budget.approximate_dp(4.0 + 1e-9, 1e-7),
        Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu * (1 + 1e-11)),
    ],
)
def test_another_promise_is_refused(url: str, given: Budget) -> None:
    PrivacyLedger(url, Budget.approximate_dp(4.0, 1e-7))
    with pytest.raises(BudgetMismatch, match="budget"):
        PrivacyLedger(url, given)


# ---- the place -----------------------------------------------------------------------------------------


def test_a_new_ledger_says_where_it_is(fast_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert f"created a new ledger, nothing spent yet: sqlite:///{fast_path}/x.db" in caplog.text
    caplog.clear()
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert caplog.text == ""


def test_a_place_without_a_folder_a_damaged_file_and_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="folder"):
        PrivacyLedger(tmp_path / "no folder" / "x.db", Budget.gdp(1.0))
    with pytest.raises(LedgerError, match="no ledger"):
        PrivacyLedger(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("this is not a database, but long enough to look like one" * 50)
    with pytest.raises(LedgerError, match="cannot be used"):
        PrivacyLedger(tmp_path / "text.db", Budget.gdp(1.0))
    PrivacyLedger(tmp_path / "new.db", Budget.gdp(1.0))
    connection = sqlite3.connect(tmp_path / "new.db")
    connection.execute("DROP TRIGGER dptune_ledger_no_UPDATE")
    connection.execute("UPDATE dptune_ledger SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="99"):
        PrivacyLedger(tmp_path / "new.db")


@pytest.mark.parametrize("name", ["a b.db", "a%20b.db", "a?b=1.db", "a#b.db", "ä.db"])
def test_a_path_is_taken_literally(tmp_path: Path, name: str) -> None:
    PrivacyLedger(tmp_path / name, Budget.gdp(1.0))
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, f"{name}.lock"]
    assert pickle.loads(pickle.dumps(PrivacyLedger(tmp_path / name))).budget.mu == 1.0
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, f"{name}.lock"]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("x.db", Budget.gdp(1.0))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pay(ledger, "a")
    assert pickle.loads(pickle.dumps(ledger)).spent() == 1.0
    assert list((tmp_path / "elsewhere").iterdir()) == []


READ_ONLY = """
import os, sys
from dptune import LedgerError, PrivacyLedger

if os.geteuid() == 0:  # for whom there are no permissions
    os.setuid(65534)
ledger = PrivacyLedger(sys.argv[1])
assert ledger.spent() == 0.1, "reading is allowed"
try:
    ledger.check(0.1)
except LedgerError as error:
    print(error)
"""


def test_a_ledger_that_cannot_be_written_is_noticed_by_the_check_before_a_trial(fast_path: Path) -> None:
    pay(PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0)), "a", 0.1)
    (fast_path / "x.db").chmod(0o444)
    fast_path.chmod(0o555)
    try:
        found = run_forked(READ_ONLY, str(fast_path / "x.db"))
    finally:
        fast_path.chmod(0o755)
    assert "readonly database. This process must be allowed to write the file and its folder" in found.stdout
