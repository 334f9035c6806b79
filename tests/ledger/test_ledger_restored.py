"""Older copies and older parts of a ledger: noticed by whoever has seen more, and by the file itself."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from ledger_tools import pay

from dptune import Budget, InputError, LedgerError, PrivacyLedger
from dptune.local import LocalRandomizer, UserLedger


def overwrite(old: Path, path: Path) -> None:
    path.write_bytes(old.read_bytes())


def replace(old: Path, path: Path) -> None:
    shutil.copy(old, old.with_suffix(".new"))
    old.with_suffix(".new").rename(path)


@pytest.mark.parametrize("put_back", [overwrite, replace])
def test_restores_of_older_files_are_each_noticed(fast_path: Path, put_back: Callable[..., None]) -> None:
    path, old, new, rng = fast_path / "x.db", fast_path / "old", fast_path / "now", random.Random(0)
    ledger = PrivacyLedger(path, Budget.gdp(9.0))
    for number in range(10):
        shutil.copy(path, old)
        kept = pickle.dumps(ledger) if number % 2 else None
        for more in range(rng.randint(1, 3)):
            pay(ledger, f"{number}/{more}", 0.1)
            kept = kept and pickle.dumps(ledger)
        spent = ledger.spent()
        shutil.copy(path, new)
        put_back(old, path)
        for use in (ledger.spent, lambda: pay(ledger, "again", 0.1), lambda: ledger.check(0.1)):
            with pytest.raises(LedgerError, match=r"is behind.*Restore the newest file"):
                use()
        if kept:
            with pytest.raises(LedgerError, match="is behind"):
                pickle.loads(kept)
        put_back(new, path)
        assert ledger.spent() == spent


@pytest.mark.parametrize("kind", ["central", "users"])
def test_a_mark_that_was_kept_elsewhere_refuses_older_and_other_ledgers(fast_path: Path, kind: str) -> None:
    def open_it(name: str, **new: object) -> PrivacyLedger | UserLedger:
        if kind == "users":
            return UserLedger(fast_path / name, *([9.0] if new else []))
        return PrivacyLedger(fast_path / name, *([Budget.gdp(9.0)] if new else []))

    def spend(ledger: PrivacyLedger | UserLedger, key: str) -> None:
        if isinstance(ledger, UserLedger):
            ledger.reply(LocalRandomizer(0.5, 1.0), 0.1, user="ann", key=key)
        else:
            pay(ledger, key, 0.5)

    ledger = open_it("x.db", new=True)
    empty = json.loads(json.dumps(ledger.mark()))
    spend(ledger, "a")
    shutil.copy(fast_path / "x.db", fast_path / "old.db")
    spend(ledger, "b")
    mark = json.loads(json.dumps(ledger.mark()))
    assert mark["seq"] == 2
    spend(ledger, "c")
    for kept in (empty, mark, ledger.mark()):
        open_it("x.db").check_mark(kept)
    with pytest.raises(LedgerError, match=r"is behind.*row 2"):
        open_it("old.db").check_mark(mark)
    with pytest.raises(LedgerError, match="another ledger"):
        open_it("other.db", new=True).check_mark(mark)
    fork = open_it("old.db")  # the same identity, and another history
    spend(fork, "other b")
    with pytest.raises(LedgerError, match="is behind"):
        fork.check_mark(mark)
    for bad in (None, {}, {"ledger": 1}, 7, {**mark, "seq": "2"}, {**mark, "seq": -1}):
        with pytest.raises(InputError, match="mark"):
            ledger.check_mark(bad)


@pytest.mark.parametrize("kind", ["central", "users"])
def test_a_page_that_was_rolled_back_is_noticed_on_opening_or_counted(fast_path: Path, kind: str) -> None:
    """Any page of an older copy in a newer file: refused, or at least everything that was charged is counted."""
    path, old = fast_path / "x.db", fast_path / "old"
    ledger = PrivacyLedger(path, Budget.gdp(1.0)) if kind == "central" else UserLedger(path, 4.0)

    def spend(name: str) -> None:
        if isinstance(ledger, UserLedger):
            ledger.reply(LocalRandomizer(0.1, 1.0), 0.1, user="ann", key=name)
        else:
            ledger.record(pay(ledger, name, 0.15, note={"padding": "x" * 300}), [0.5])

    for number in range(20):
        spend(str(number))
    shutil.copy(path, old)
    for number in range(20, 40):
        spend(str(number))
    now, before, size = path.read_bytes(), old.read_bytes(), 4096
    noticed = 0
    for page in range(len(before) // size):
        mixed = now[: page * size] + before[page * size : (page + 1) * size] + now[(page + 1) * size :]
        path.write_bytes(mixed)
        if mixed == now:
            continue
        try:
            again = PrivacyLedger(path) if kind == "central" else UserLedger(path)
            left = again.remaining() if isinstance(again, PrivacyLedger) else again.remaining("ann")
        except LedgerError:
            noticed += 1
            continue
        assert left <= (0.3163 if kind == "central" else 1e-9), f"page {page}: what was charged is forgotten"
    assert noticed > 2


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE dptune_charges SET mu = 1e-9 WHERE seq = 2",
        "UPDATE dptune_charges SET mu_squared_so_far = '0.1' WHERE seq = 3",
        "UPDATE dptune_charges SET seeded_so_far = 1 WHERE seq = 2",
        "UPDATE dptune_charges SET description = '{}' WHERE seq = 1",
        "DELETE FROM dptune_charges WHERE seq = 2",
        "DELETE FROM dptune_charges WHERE seq = 3",
    ],
)
def test_a_row_that_was_changed_or_lost_is_noticed_on_opening(fast_path: Path, tamper: str) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(9.0))
    for number in range(3):
        ledger.record(pay(ledger, str(number), 0.5), [0.5])
    with closing(sqlite3.connect(fast_path / "x.db")) as connection:
        for verb in ("UPDATE", "DELETE"):
            connection.execute(f"DROP TRIGGER dptune_charges_no_{verb}")
        connection.execute(tamper)
        connection.commit()
    with pytest.raises(LedgerError, match="damaged"):
        PrivacyLedger(fast_path / "x.db").spent()
