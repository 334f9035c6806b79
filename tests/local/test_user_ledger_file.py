"""The file of a users' ledger: append-only, copied as a view, missed if deleted or replaced, waiting for the disk."""

from __future__ import annotations

import copy
import math
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dptune import Budget, PrivacyLedger
from dptune.errors import BudgetMismatch, InputError, LedgerError
from dptune.local import LocalRandomizer, UserLedger


def reply_of_ann(ledger: UserLedger, key: str) -> float:
    return ledger.reply(LocalRandomizer(1.0, 1.0), 0.5, user="ann", key=key)


CHANGES = (
    "DELETE FROM dptune_replies",
    "UPDATE dptune_replies SET epsilon = 0",
    "INSERT OR REPLACE INTO dptune_replies VALUES (1, 'bob', 'l', 0.0, 1, '', 1, '0', '')",
    "UPDATE dptune_values SET value = 0",
    "UPDATE dptune_local SET cap = 100",
)


def test_the_file_is_append_only(ledger: UserLedger) -> None:
    reply_of_ann(ledger, "k")
    with closing(sqlite3.connect(ledger.path)) as connection:
        for change in CHANGES:
            with pytest.raises(sqlite3.IntegrityError, match="append"):
                connection.execute(change)


def test_the_cap_is_fixed_and_the_file_is_a_file(ledger: UserLedger, fast_path: Path) -> None:
    with pytest.raises(BudgetMismatch):
        UserLedger(ledger.path, cap=3.0)
    with pytest.raises(LedgerError, match="no ledger"):
        UserLedger(fast_path / "none.db")
    with pytest.raises(LedgerError, match="folder"):
        UserLedger(fast_path / "none" / "a.db", cap=1.0)
    (fast_path / "text.db").write_text("not a database at all, by any means, however long it may be" * 20)
    with pytest.raises(LedgerError, match="cannot be used"):
        UserLedger(fast_path / "text.db", cap=1.0)
    for cap in (0.0, math.inf, math.nan):
        with pytest.raises(InputError, match="cap"):
            UserLedger(fast_path / "x.db", cap=cap)
    for url in (":memory:", "sqlite://", "sqlite:///a.db", "postgresql://h/d", "file:a.db"):
        with pytest.raises(InputError, match="outlive"):
            UserLedger(url, cap=1.0)


def test_a_copy_is_a_view_of_the_same_file(ledger: UserLedger) -> None:
    reply = reply_of_ann(ledger, "k")
    for twin in (pickle.loads(pickle.dumps(ledger)), copy.copy(ledger), copy.deepcopy(ledger)):
        assert reply_of_ann(twin, "k") == reply
        assert (twin.cap, twin.spent("ann")) == (2.0, 1.0)
    assert "cap=2.0" in repr(ledger)


def test_another_ledger_in_its_place_is_refused_and_a_pickle_never_makes_one(ledger: UserLedger) -> None:
    reply_of_ann(ledger, "k")
    frozen = pickle.dumps(ledger)
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        pickle.loads(frozen)
    assert not ledger.path.exists()
    UserLedger(ledger.path, cap=2.0)
    for use in (
        *(lambda: reply_of_ann(ledger, "l"), lambda: ledger.spent("ann"), lambda: ledger.private("ann")),
        lambda: pickle.loads(frozen),
    ):
        with pytest.raises(LedgerError, match="replaced"):
            use()
    assert UserLedger(ledger.path).spent("ann") == 0


@pytest.mark.parametrize("content", [None, b""])
def test_a_deleted_ledger_is_missed_and_leaves_no_empty_file(ledger: UserLedger, content: bytes | None) -> None:
    ledger.path.unlink()
    if content is not None:
        ledger.path.write_bytes(content)
    for use in (lambda: reply_of_ann(ledger, "l"), lambda: ledger.remaining("ann")):
        with pytest.raises(LedgerError, match="cannot be used"):
            use()
    assert ledger.path.exists() == (content is not None)
    assert UserLedger(ledger.path, cap=1.0).cap == 1.0  # what a crash while creating leaves does not stand in the way


def test_a_value_without_its_charge_is_not_sent(ledger: UserLedger) -> None:
    before = ledger.path.read_bytes()

    def measure() -> float:
        ledger.path.write_bytes(before)  # somebody puts an old copy back
        return 0.5

    with pytest.raises(LedgerError, match="An older copy was restored"):
        ledger.reply(LocalRandomizer(1.0, 1.0), measure, user="ann", key="k")
    with closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM dptune_values").fetchone() == (0,)


def test_a_ledger_of_users_is_recognised(fast_path: Path) -> None:
    UserLedger(fast_path / "users.db", cap=1.0)
    PrivacyLedger(fast_path / "curator.db", Budget.gdp(1.0))
    (fast_path / "text.db").write_text("this is no database" * 100)
    (fast_path / "empty.db").touch()
    found = {p.name: UserLedger.is_at(p) for p in [*fast_path.iterdir(), fast_path / "none.db", fast_path]}
    assert [name for name, is_one in found.items() if is_one] == ["users.db"]
    for budget in (None, Budget.gdp(1.0)):
        with pytest.raises(LedgerError, match="UserLedger"):
            PrivacyLedger(fast_path / "users.db", budget)
    with pytest.raises(LedgerError, match="curator"):
        UserLedger(fast_path / "curator.db", cap=1.0)


def test_another_format_is_refused(ledger: UserLedger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("DROP TRIGGER dptune_local_no_UPDATE")
        connection.execute("UPDATE dptune_local SET version = 99")
    with pytest.raises(LedgerError, match="has format 99; this dptune reads format 1"):
        UserLedger(ledger.path)
