"""Copies share one budget, and a ledger that was replaced is not taken for the old one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger_tools import pay

from dptune import Budget, LedgerError, PrivacyLedger


def test_a_copy_does_not_make_a_ledger_where_there_is_none(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    packed = pickle.dumps(ledger)
    (fast_path / "x.db").unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        pickle.loads(packed)
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))  # the same budget, unspent: a fork
    with pytest.raises(LedgerError, match="replaced"):
        pickle.loads(packed)
    with pytest.raises(LedgerError, match="replaced"):  # and the object at hand does not spend the new one's budget
        pay(ledger, "a", 0.1)
    assert ledger != "x"


def test_a_ledger_that_was_moved_is_asked_back_and_no_file_is_left_in_its_place(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    pay(ledger, "a", 0.1)
    (fast_path / "x.db").rename(fast_path / "y.db")
    for use in (ledger.spent, lambda: pay(ledger, "b", 0.1), lambda: ledger.check(0.1)):
        with pytest.raises(LedgerError, match=r"x\.db was moved or deleted .* put it back"):
            use()
    assert not (fast_path / "x.db").exists()
    (fast_path / "y.db").rename(fast_path / "x.db")
    assert ledger.spent() == 0.1


def test_no_operation_reads_or_writes_another_ledger_in_the_old_one_s_place(fast_path: Path) -> None:
    path = fast_path / "ledger.db"
    old = PrivacyLedger(path, Budget.gdp(1.0))
    charge = pay(old, "a", 0.9)
    path.rename(fast_path / "old.db")
    new = PrivacyLedger(path, Budget.gdp(7.0))
    pay(new, "a", 0.5)
    operations: list[Callable[[], object]] = [
        old.spent,
        old.remaining,
        old.charges,
        lambda: old.find("study", "a"),
        lambda: old.check(0.1),
        lambda: old.statement(delta=1e-5),
        lambda: old.fix("study", "x", 1),
        lambda: old.fact("study", "x"),
        lambda: old.record(charge, [1.0]),
    ]
    for operation in operations:
        with pytest.raises(LedgerError, match="replaced"):
            operation()
    assert new.fact("study", "x") is None
    assert [c.value for c in new.charges()] == [None]
