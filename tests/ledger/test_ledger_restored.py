"""A ledger that was moved, replaced or restored from an older copy is noticed."""

import json
import pickle
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dptune import Budget, InputError, LedgerError, PrivacyLedger
from dptune.local import LocalRandomizer, UserLedger
from ledger_tools import pay
from refusals import refused


def test_a_moved_ledger_is_missed_and_no_new_file_replaces_it(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    pay(ledger, "a", 0.1)
    packed = pickle.dumps(ledger)
    (fast_path / "x.db").rename(fast_path / "y.db")
    for use in (ledger.spent, lambda: pay(ledger, "b", 0.1), lambda: ledger.check(0.1)):
        refused(LedgerError, r"x\.db was moved or deleted .* put it back", use)
    refused(LedgerError, "no ledger", lambda: pickle.loads(packed))
    assert not (fast_path / "x.db").exists()
    (fast_path / "y.db").rename(fast_path / "x.db")
    assert ledger.spent() == 0.1


def test_no_operation_reads_or_writes_a_ledger_that_replaced_the_old_one(fast_path: Path) -> None:
    path = fast_path / "ledger.db"
    old = PrivacyLedger(path, Budget.gdp(1.0))
    charge, packed = pay(old, "a", 0.9), pickle.dumps(old)
    path.rename(fast_path / "old.db")
    new = PrivacyLedger(path, Budget.gdp(1.0))  # the same budget, unspent: a fork
    pay(new, "a", 0.5)
    refused(
        LedgerError,
        "replaced",
        *(old.spent, old.charges, lambda: old.find("study", "a")),
        *(lambda: pay(old, "b", 0.1), lambda: old.check(0.1), lambda: old.record(charge, [1.0])),
        *(lambda: old.statement(delta=1e-5), lambda: old.fix("study", "x", 1), lambda: old.fact("study", "x")),
        lambda: pickle.loads(packed),
    )
    assert new.fact("study", "x") is None
    assert [c.value for c in new.charges()] == [None]


def overwrite(old: Path, path: Path) -> None:
    path.write_bytes(old.read_bytes())


def replace(old: Path, path: Path) -> None:
    shutil.copy(old, old.with_suffix(".new"))
    old.with_suffix(".new").rename(path)


@pytest.mark.parametrize("put_back", [overwrite, replace])
def test_restores_of_older_files_are_each_noticed(fast_path: Path, put_back: Callable[..., None]) -> None:
    path, old, new, rng = fast_path / "x.db", fast_path / "old", fast_path / "now", random.Random(0)
    ledger = PrivacyLedger(path, Budget.gdp(9.0))
    for number in range(5):
        shutil.copy(path, old)
        for more in range(rng.randint(1, 3)):
            pay(ledger, f"{number}/{more}", 0.1)
        kept, spent = pickle.dumps(ledger), ledger.spent()
        shutil.copy(path, new)
        put_back(old, path)
        again = (ledger.spent, lambda: pay(ledger, "again", 0.1), lambda: ledger.check(0.1))
        refused(LedgerError, r"is behind.*Restore the newest file", *again, partial(pickle.loads, kept))
        put_back(new, path)
        assert ledger.spent() == spent


class Users:
    """A ledger of users, charged like one of a curator."""

    def __init__(self, path: Path, cap: float | None = None) -> None:
        self.ledger = UserLedger(path, cap)
        self.mark, self.check_mark = self.ledger.mark, self.ledger.check_mark

    def pay(self, key: str, note: object = None) -> None:
        self.ledger.reply(LocalRandomizer(0.25, 1.0), 0.1, user="ann", key=key)

    def spent(self) -> float:
        return self.ledger.spent("ann")


class Curator(PrivacyLedger):
    def pay(self, key: str, note: object = None) -> None:
        self.record(pay(self, key, 0.25, note={"padding": "x" * 300}), [0.5])


Made = tuple[type[Curator] | type[Users], Budget | float]
each_ledger = pytest.mark.parametrize("made", [(Curator, Budget.gdp(9.0)), (Users, 99.0)], ids=["curator", "users"])


@each_ledger
def test_a_mark_that_was_kept_elsewhere_refuses_older_and_other_ledgers(fast_path: Path, made: Made) -> None:
    kind, budget = made
    ledger = kind(fast_path / "x.db", budget)
    empty = json.loads(json.dumps(ledger.mark()))
    ledger.pay("a")
    shutil.copy(fast_path / "x.db", fast_path / "old.db")
    ledger.pay("b")
    mark = json.loads(json.dumps(ledger.mark()))
    assert mark["seq"] == 2
    ledger.pay("c")
    for kept in (empty, mark, ledger.mark()):
        kind(fast_path / "x.db").check_mark(kept)
    refused(LedgerError, r"is behind.*row 2", lambda: kind(fast_path / "old.db").check_mark(mark))
    refused(LedgerError, "another ledger", lambda: kind(fast_path / "other.db", budget).check_mark(mark))
    fork = kind(fast_path / "old.db")  # the same identity, and another history
    fork.pay("other b")
    refused(LedgerError, "holds another row 2 .* two copies .* their prices add up", lambda: fork.check_mark(mark))
    for bad in (None, {}, {"ledger": 1}, {**mark, "seq": "2"}, {**mark, "seq": -1}):
        refused(InputError, "mark", partial(ledger.check_mark, bad))


@each_ledger
def test_a_page_that_was_rolled_back_is_noticed_on_opening_or_counted(fast_path: Path, made: Made) -> None:
    """Any page of an older copy in a newer file: refused, or at least everything that was charged is counted."""
    path, old, (kind, budget) = fast_path / "x.db", fast_path / "old", made
    ledger = kind(path, budget)
    for number in range(20):
        ledger.pay(str(number))
    shutil.copy(path, old)
    for number in range(20, 40):
        ledger.pay(str(number))
    now, before, size, spent = path.read_bytes(), old.read_bytes(), 4096, ledger.spent()
    noticed = 0
    for page in range(len(before) // size):
        mixed = now[: page * size] + before[page * size : (page + 1) * size] + now[(page + 1) * size :]
        path.write_bytes(mixed)
        if mixed == now:
            continue
        try:
            assert kind(path).spent() >= spent, f"page {page}: what was charged is forgotten"
        except LedgerError:
            noticed += 1
    assert noticed > 2
