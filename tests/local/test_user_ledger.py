"""A user pays before the value is read, pays once per key, and is refused past the cap, whoever races."""

from __future__ import annotations

import json
import math
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_tools import start_forked

from dptune.errors import InputError, KeyConflict, LedgerError
from dptune.local import CapReached, InsecureRandomizer, LocalRandomizer, UserLedger

ONE = LocalRandomizer(1.0, 1.0)
RACER = """
import os, sys
from dptune.local import CapReached, LocalRandomizer, UserLedger
{bug}
ledger, randomizer, paid = UserLedger(sys.argv[1]), LocalRandomizer(0.5, 1.0), 0
os.read(int(sys.argv[3]), 1)
for k in range(8):
    for user in "abcd":
        try:
            ledger.reply(randomizer, 0.3, user=user, key=f"{{sys.argv[2]}}/{{k}}")
            paid += 1
        except CapReached:
            pass
print(paid)
"""
COUNTED_IN_MEMORY = """
from collections import Counter
from dptune.local import rows
spent = Counter()
def charge(self, row):
    if spent[row[0]] + row[2] > self.cap:
        raise CapReached(row[2], 0.0, self.cap)
    spent[row[0]] += row[2]
    with self._transaction(write=True) as (connection, _):
        rows.pay(connection, row, 1e9)
UserLedger._charge = charge
"""


def audit_race(path: Path, bug: str = "") -> None:
    """Two processes charge the same four users: together they never pass the cap, and they use all of it."""
    ledger, (here, there) = UserLedger(path, cap=3.0), os.pipe()
    racers = [start_forked(RACER.format(bug=bug), str(path), name, str(here)) for name in "xy"]
    os.write(there, b"go")  # a letter for each
    paid = sum(int(racer.wait().stdout) for racer in racers)
    os.close(here)
    os.close(there)
    assert [ledger.spent(user) for user in "abcd"] == [3.0] * 4, "a user paid more than the cap, or not all of it"
    assert paid == 4 * 6


def test_two_racing_processes_never_pass_the_cap_and_a_sum_kept_in_each_is_found(fast_path: Path) -> None:
    audit_race(fast_path / "replies.db")
    with pytest.raises(AssertionError):
        audit_race(fast_path / "planted.db", COUNTED_IN_MEMORY)


def test_k_replies_cost_k_epsilon_and_the_cap_holds(ledger: UserLedger) -> None:
    randomizer = LocalRandomizer(0.5, 1.0)
    for k in range(4):
        assert ledger.spent("ann") == 0.5 * k
        ledger.reply(randomizer, 0.2, user="ann", key=str(k))
    ledger.cap, measured = 1e9, list[int]()  # the file's cap holds, not a memory of it
    with pytest.raises(CapReached) as refused:
        ledger.reply(randomizer, lambda: measured.append(1), user="ann", key="4")
    assert (refused.value.asked, refused.value.left, refused.value.cap) == (0.5, 0.0, 2.0)
    assert measured == []
    assert ledger.remaining("ann") == 0.0
    assert ledger.remaining("bob") == 2.0
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_the_charge_is_committed_before_the_value_is_read(ledger: UserLedger) -> None:
    def measure() -> float:
        assert ledger.spent("ann") == 1.0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.reply(ONE, measure, user="ann", key="k")
    assert ledger.spent("ann") == 1.0  # no refund
    assert math.isfinite(ledger.reply(ONE, 0.1, user="ann", key="k"))
    assert ledger.spent("ann") == 1.0


def test_of_two_answers_to_one_charge_the_first_recorded_is_the_only_one(ledger: UserLedger) -> None:
    first: list[float] = []

    def measure() -> float:  # another process answers the same charge meanwhile
        first.append(ledger.reply(ONE, 0.5, user="ann", key="k"))
        return 0.5

    assert ledger.reply(ONE, measure, user="ann", key="k") == first[0]
    assert ledger.spent("ann") == 1.0


def raising(error: type[BaseException]) -> Callable[[], float]:
    def measure() -> float:
        secret = 0.123456789
        raise error(secret)

    return measure


def test_a_failed_measurement_is_a_reply_and_an_interrupt_passes_without_its_frames(ledger: UserLedger) -> None:
    for error in (RuntimeError, SystemExit):
        assert math.isfinite(ledger.reply(ONE, raising(error), user="bob", key=error.__name__))
    with pytest.raises(KeyboardInterrupt) as caught:
        ledger.reply(ONE, raising(KeyboardInterrupt), user="ann", key="k")
    seen = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert seen.__context__ is None
    assert "0.123456789" not in "".join(seen.format())


def test_a_user_or_a_key_that_is_no_text_is_refused(ledger: UserLedger) -> None:
    for bad in (None, 7, b"ann", ""):
        for names in ({"user": bad, "key": "k"}, {"user": "ann", "key": bad}):
            with pytest.raises(InputError, match=r"user|key"):
                ledger.reply(ONE, 0.5, **names)
        with pytest.raises(InputError, match="user must be a text"):
            ledger.spent(bad)
    assert ledger.spent("ann") == 0


class Odd(LocalRandomizer):
    """A randomiser of somebody else's."""

    price, answer = 1.0, 0.5

    def __init__(self) -> None:
        super().__init__(1.0, 1.0)
        self.epsilon = self.price

    def randomize(self, value: Any) -> float:
        return self.answer


def test_a_price_that_is_none_is_refused_and_a_reply_that_cannot_be_recorded_is_not_sent(
    ledger: UserLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for price in (-1.0, 0.0, math.nan, math.inf):
        monkeypatch.setattr(Odd, "price", price)
        with pytest.raises(InputError, match="epsilon"):
            ledger.reply(Odd(), 0.5, user="ann", key="k")
    assert ledger.spent("ann") == 0
    monkeypatch.setattr(Odd, "price", 1.0)
    monkeypatch.setattr(Odd, "answer", math.nan)
    with pytest.raises(LedgerError, match="cannot record"):
        ledger.reply(Odd(), 0.5, user="ann", key="k")
    assert ledger.spent("ann") == 1.0


def test_thirds_fit_and_tiny_prices_do_not_slip_through(fast_path: Path) -> None:
    ledger = UserLedger(fast_path / "a.db", cap=0.3)
    for k in range(3):
        ledger.reply(LocalRandomizer(0.1, 1.0), 0.0, user="ann", key=str(k))
    for k in range(2):
        with pytest.raises(CapReached):
            ledger.reply(LocalRandomizer(1e-8, 1.0), 0.0, user="ann", key=f"more {k}")
    assert ledger.spent("ann") <= 0.3 * (1 + 2e-12)


# ---- the statement -------------------------------------------------------------------------------------


def test_the_statement_says_what_each_user_has_spent_at_most(fast_path: Path) -> None:
    ledger = UserLedger(fast_path / "a.db", cap=1.0)
    empty = ledger.statement()
    assert (empty.epsilon, empty.spent, empty.users, empty.releases, ledger.accounts()) == (1.0, 0.0, 0, 0, [])
    assert "none so far" in str(empty)
    for user, epsilon, key in [("ann", 0.1, "1"), ("ann", 0.2, "2"), ("ann", 0.1, "3"), ("bob", 0.3, "1")]:
        ledger.reply(LocalRandomizer(epsilon, 1.0), 0.5, user=user, key=key)
    statement = ledger.statement()
    assert statement.spent == ledger.spent("ann") == math.fsum([0.1, 0.2, 0.1])
    assert [(d.epsilon, d.replies) for d in statement.devices] == [(0.1, 2), (0.2, 1), (0.3, 1)]
    assert [(a.user, a.replies, a.epsilon, a.private) for a in ledger.accounts()] == [
        ("ann", 3, ledger.spent("ann"), True),
        ("bob", 1, 0.3, True),
    ]
    told = json.loads(statement.to_json())
    assert told["delta"] == 0.0
    assert told["mechanisms"][0]["settings"] == LocalRandomizer(0.1, 1.0).describe()
    for rendered in (statement.to_text(), statement.to_markdown(), statement.to_json()):
        assert "ann" not in rendered.replace("cannot", "")
        assert "any two values of the user" in rendered
        assert "basic composition" in rendered


def test_a_seeded_reply_is_remembered_and_leaves_no_guarantee(ledger: UserLedger) -> None:
    ledger.reply(LocalRandomizer(0.5, 1.0), 0.0, user="ann", key="1")
    assert ledger.private("ann")
    ledger.reply(InsecureRandomizer(0.5, 1.0, insecure_seed=0), 0.0, user="ann", key="2")
    assert not ledger.private("ann")
    statement, infinite = ledger.statement(), {"epsilon": "infinity"}
    assert statement.epsilon == math.inf
    assert all(words in str(statement) for words in ("NOT PRIVATE", "Guarantee      NONE"))
    told = statement.to_dict()
    assert (told["cap"], told["spent"], told["private"]) == (infinite, infinite, False)


def test_a_randomiser_of_somebody_else_s_is_not_called_ours(
    ledger: UserLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "describe", lambda self: {"mechanism": "CTL", "low": math.nan})
    ledger.reply(Odd(), 0.5, user="ann", key="k")
    assert "not one of dptune's; epsilon = 1 a reply" in str(ledger.statement())
    assert "OpenDP" not in str(ledger.statement())
    json.loads(ledger.statement().to_json())


@pytest.mark.parametrize(("name", "other"), [("price", 1.5), ("private", False)])
def test_a_key_that_was_paid_at_another_price_or_stamp_is_not_answered(
    ledger: UserLedger, monkeypatch: pytest.MonkeyPatch, name: str, other: object
) -> None:
    monkeypatch.setattr(Odd, "describe", lambda self: {"mechanism": "mine"})  # which does not tell
    ledger.reply(Odd(), 0.3, user="a", key="k")
    monkeypatch.setattr(Odd, name, other)
    with pytest.raises(KeyConflict, match="other settings"):
        ledger.reply(Odd(), 0.3, user="a", key="k")
    assert (ledger.private("a"), ledger.spent("a")) == (True, 1.0)


# ---- two users with one key have nothing in common ------------------------------------------------------


def interrupted(ledger: UserLedger, user: str, key: str) -> None:
    """Pay for a reply that is never recorded."""
    with pytest.raises(KeyboardInterrupt):
        ledger.reply(ONE, raising(KeyboardInterrupt), user=user, key=key)


def test_users_with_one_key_pay_and_answer_each_for_themselves(ledger: UserLedger) -> None:
    measured: list[str] = []

    def by(user: str) -> Callable[[], float]:
        return lambda: measured.append(user) or 0.5

    replies = {user: ledger.reply(ONE, by(user), user=user, key="k") for user in ("ann", "bob")}
    assert len({*replies.values()}) == 2, "one user's reply was given to another"
    again = UserLedger(ledger.path)
    for user, first in replies.items():  # everybody's own, at no cost, whatever the value is now
        assert again.reply(LocalRandomizer(1.0, 1.0), by(user), user=user, key="k") == first
        assert ledger.spent(user) == 1.0
    assert measured == ["ann", "bob"], "each is measured once, whatever the others have replied"
    half = LocalRandomizer(0.5, 1.0)
    with pytest.raises(KeyConflict):  # the settings are the user's, too
        ledger.reply(half, 0.5, user="ann", key="k")
    ledger.reply(half, 0.5, user="dan", key="k")
    assert ledger.spent("dan") == 0.5


def test_every_account_counts_what_was_never_recorded(ledger: UserLedger) -> None:
    for i in range(2):
        ledger.reply(ONE, 0.1, user="bob", key=f"recorded {i}")
        interrupted(ledger, "cy", f"lost {i}")
    interrupted(ledger, "ann", "k")
    theirs = ledger.reply(ONE, 0.5, user="dan", key="k")
    assert ledger.reply(ONE, 0.5, user="ann", key="k") != theirs, "it is nobody else's"
    paid = {"ann": 1.0, "bob": 2.0, "cy": 2.0, "dan": 1.0}
    for view in (ledger, UserLedger(ledger.path)):
        assert {account.user: account.epsilon for account in view.accounts()} == paid
        assert {user: view.cap - view.remaining(user) for user in paid} == paid
        assert (view.statement().spent, view.statement().users, view.statement().releases) == (2.0, 4, 6)
        with pytest.raises(CapReached):
            view.reply(ONE, 0.1, user="cy", key="one more")
