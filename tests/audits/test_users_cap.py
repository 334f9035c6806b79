"""A user's cap holds for arbitrary prices in exact arithmetic, and when two writers meet at the worst moment."""

import sqlite3
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audit_tools import planted
from dptune._store import SqliteFile
from dptune.errors import CapReached
from dptune.local import LocalRandomizer, UserLedger, rows

FORGIVEN = Fraction(1, 10**12)  # rounding of k replies of cap / k


def audit_cap(folder: Path, cap: float, prices: list[float]) -> None:
    """A reply is paid if and only if it fits, whatever the prices and their order."""
    ledger, paid = UserLedger(folder / "replies.db", cap), Fraction(0)
    for k, price in enumerate(prices):
        fits = paid + Fraction(price) <= Fraction(cap) * (1 + FORGIVEN)
        try:
            ledger.reply(LocalRandomizer(price, 1.0), 0.5, user="ann", key=str(k))
        except CapReached:
            assert not fits, f"{price} was refused after {float(paid)} of {cap}"
        else:
            assert fits, f"{price} was paid after {float(paid)} of {cap}"
            paid += Fraction(price)
    assert ledger.spent("ann") == pytest.approx(float(paid))


@given(st.floats(0.1, 4.0), st.lists(st.floats(1e-6, 2.0), max_size=6))
@example(1.0, [0.7, 0.7, 0.3, 0.3])
@example(0.3, [0.1] * 4)
@example(1.0, [0.1] * 11)
@settings(max_examples=15)
def test_the_cap_holds_in_exact_arithmetic(cap: float, prices: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        audit_cap(Path(folder), cap, prices)


@pytest.mark.parametrize("factor", [1.5, 0.5])
def test_a_cap_that_is_another_is_found(fast_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    planted(rows, "pay", lambda true: lambda connection, row, cap: true(connection, row, factor * cap))(monkeypatch)
    with pytest.raises(AssertionError, match=r"was (paid|refused) after"):
        audit_cap(fast_path, 1.0, [0.7, 0.7])


def audit_lock(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Between the look at the sum and the charge no other process may begin to write."""

    def pay(true: Any) -> Any:
        def paid(connection: Any, row: rows.Charge, cap: float) -> Any:
            with closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as other:
                try:
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    return true(connection, row, cap)
            raise AssertionError("a second writer does not wait for the first")

        return paid

    ledger = UserLedger(path, 1.0)
    planted(rows, "pay", pay)(patch)
    ledger.reply(LocalRandomizer(0.7, 1.0), 0.5, user="ann", key="k")
    assert ledger.spent("ann") == 0.7


UNLOCKED = planted(
    SqliteFile, "transaction", lambda true: lambda self, *, write, create=True: true(self, write=False, create=create)
)


def test_a_second_writer_waits_until_the_first_has_paid(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds a charge that takes no lock."""
    with pytest.MonkeyPatch.context() as patch:
        audit_lock(fast_path / "replies.db", patch)
    UNLOCKED(monkeypatch)
    with pytest.raises(AssertionError):
        audit_lock(fast_path / "planted.db", monkeypatch)
