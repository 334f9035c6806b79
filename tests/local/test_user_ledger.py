"""A user pays before the value is read, pays once per key, and is refused past the cap, whoever races."""

from __future__ import annotations

import math
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dptune.errors import BudgetMismatch, InputError, KeyConflict, LedgerError
from dptune.local import CapReached, InsecureRandomizer, LocalRandomizer, UserLedger

ROOT = Path(__file__).resolve().parents[2]
RACER = """
import sys
from dptune.local import CapReached, LocalRandomizer, UserLedger
{bug}
ledger, randomizer, paid = UserLedger(sys.argv[1]), LocalRandomizer(0.5, 1.0), 0
print("ready", flush=True)
sys.stdin.readline()
for k in range(30):
    for user in "abcdefgh":
        try:
            ledger.reply(randomizer, 0.3, user=user, key=f"{{sys.argv[2]}}/{{k}}")
            paid += 1
        except CapReached:
            pass
print(paid)
"""
COUNTED_IN_MEMORY = """
from collections import Counter
spent = Counter()
def charge(self, randomizer, user, key):
    if spent[user] + randomizer.epsilon > self.cap:
        raise CapReached(randomizer.epsilon, 0.0, self.cap)
    spent[user] += randomizer.epsilon
    with self._transaction("BEGIN IMMEDIATE") as connection:
        row = (user, key, randomizer.epsilon, True, "")
        connection.execute("INSERT INTO dptune_replies VALUES (?, ?, ?, ?, ?)", row)
UserLedger._charge = charge
"""


def audit_race(path: Path, bug: str = "") -> None:
    """Two processes charge the same eight users: together they never pass the cap, and they use all of it."""
    ledger = UserLedger(path, cap=3.0)
    command = [sys.executable, "-c", RACER.format(bug=bug), str(path)]
    racers = [
        subprocess.Popen([*command, name], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in "xy"
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:  # both go before either is waited for
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    paid = sum(int(racer.communicate()[0]) for racer in racers)
    assert [ledger.spent(user) for user in "abcdefgh"] == [3.0] * 8, "a user paid more than the cap, or not all of it"
    assert paid == 8 * 6


def test_two_racing_processes_never_pass_the_cap(fast_path: Path) -> None:
    audit_race(fast_path / "replies.db")


def test_the_race_audit_finds_a_sum_kept_in_each_process(fast_path: Path) -> None:
    with pytest.raises(AssertionError):
        audit_race(fast_path / "replies.db", COUNTED_IN_MEMORY)


@pytest.fixture
def ledger(fast_path: Path) -> UserLedger:
    return UserLedger(fast_path / "replies.db", cap=2.0)


def test_k_replies_cost_k_epsilon_and_the_cap_holds(ledger: UserLedger) -> None:
    randomizer = LocalRandomizer(0.5, 1.0)
    for k in range(4):
        assert ledger.spent("ann") == 0.5 * k
        ledger.reply(randomizer, 0.2, user="ann", key=str(k))
    measured: list[int] = []
    with pytest.raises(CapReached) as refused:
        ledger.reply(randomizer, lambda: measured.append(1), user="ann", key="4")
    assert (refused.value.asked, refused.value.left, refused.value.cap) == (0.5, 0.0, 2.0)
    assert measured == []
    assert ledger.remaining("ann") == 0.0
    assert ledger.remaining("bob") == 2.0
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_retry_returns_the_same_reply_at_no_cost(ledger: UserLedger) -> None:
    randomizer = LocalRandomizer(1.0, 1.0)
    first = ledger.reply(randomizer, 0.2, user="ann", key="k")
    again = UserLedger(ledger._path)
    assert again.reply(LocalRandomizer(1.0, 1.0), -0.9, user="ann", key="k") == first
    assert again.spent("ann") == 1.0
    with pytest.raises(KeyConflict):
        ledger.reply(LocalRandomizer(1.5, 1.0), 0.2, user="ann", key="k")


def test_the_charge_is_committed_before_the_value_is_read(ledger: UserLedger) -> None:
    class Crash(BaseException):
        pass

    def measure() -> float:
        assert ledger.spent("ann") == 1.0
        raise Crash

    with pytest.raises(Crash):
        ledger.reply(LocalRandomizer(1.0, 1.0), measure, user="ann", key="k")
    assert ledger.spent("ann") == 1.0  # no refund
    assert math.isfinite(ledger.reply(LocalRandomizer(1.0, 1.0), 0.1, user="ann", key="k"))
    assert ledger.spent("ann") == 1.0


def test_of_two_answers_to_one_charge_the_first_recorded_is_the_only_one(ledger: UserLedger) -> None:
    first: list[float] = []

    def measure() -> float:  # another process answers the same charge meanwhile
        first.append(ledger.reply(LocalRandomizer(1.0, 1.0), 0.5, user="ann", key="k"))
        return 0.5

    assert ledger.reply(LocalRandomizer(1.0, 1.0), measure, user="ann", key="k") == first[0]
    assert ledger.spent("ann") == 1.0


def test_a_failed_measurement_is_a_reply_like_any_other(ledger: UserLedger) -> None:
    def broken() -> float:
        raise RuntimeError("secret")

    assert math.isfinite(ledger.reply(LocalRandomizer(1.0, 1.0), broken, user="ann", key="k"))


def test_thirds_fit_and_tiny_prices_do_not_slip_through(fast_path: Path) -> None:
    ledger = UserLedger(fast_path / "a.db", cap=0.3)
    for k in range(3):
        ledger.reply(LocalRandomizer(0.1, 1.0), 0.0, user="ann", key=str(k))
    with pytest.raises(CapReached):
        ledger.reply(LocalRandomizer(1e-8, 1.0), 0.0, user="ann", key="more")
    large = UserLedger(fast_path / "b.db", cap=1e6)
    large.reply(LocalRandomizer(1e6, 1.0), 0.0, user="ann", key="all")
    for k in range(200):
        try:
            large.reply(LocalRandomizer(1e-8, 1.0), 0.0, user="ann", key=str(k))
        except CapReached:
            break
    assert large.spent("ann") <= 1e6 * (1 + 2e-12)
    assert k < 199


def test_seeded_noise_is_remembered(ledger: UserLedger) -> None:
    ledger.reply(LocalRandomizer(0.5, 1.0), 0.0, user="ann", key="1")
    assert ledger.private("ann")
    ledger.reply(InsecureRandomizer(0.5, 1.0, insecure_seed=0), 0.0, user="ann", key="2")
    assert not ledger.private("ann")
    with pytest.raises(KeyConflict):
        ledger.reply(InsecureRandomizer(0.5, 1.0, insecure_seed=0), 0.0, user="ann", key="1")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM dptune_replies",
        "UPDATE dptune_replies SET epsilon = 0",
        "INSERT OR REPLACE INTO dptune_replies VALUES ('ann', 'k', 0.0, 1, '')",
        "UPDATE dptune_values SET value = 0",
        "UPDATE dptune_local SET cap = 100",
    ],
)
def test_the_file_is_append_only(ledger: UserLedger, statement: str) -> None:
    ledger.reply(LocalRandomizer(0.5, 1.0), 0.0, user="ann", key="k")
    with closing(sqlite3.connect(ledger._path)) as connection, pytest.raises(sqlite3.IntegrityError, match="append"):
        connection.execute(statement)


def test_the_cap_is_fixed_and_the_file_is_a_file(ledger: UserLedger, fast_path: Path) -> None:
    with pytest.raises(BudgetMismatch):
        UserLedger(ledger._path, cap=3.0)
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
    with pytest.raises(InputError, match="outlive"):
        UserLedger(":memory:", cap=1.0)
    copy: Any = pickle.loads(pickle.dumps(ledger))
    assert copy.cap == 2.0
    assert "cap=2.0" in repr(copy)
