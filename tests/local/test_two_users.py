"""Two users with one key have nothing in common, and every charge counts for who paid it, recorded or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from dptune.errors import KeyConflict
from dptune.local import CapReached, LocalRandomizer, UserLedger

ONE = LocalRandomizer(1.0, 1.0)


def interrupted(ledger: UserLedger, user: str, key: str) -> None:
    """Pay for a reply that is never recorded."""

    def measure() -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.reply(ONE, measure, user=user, key=key)


def test_users_with_one_key_pay_and_answer_each_for_themselves(ledger: UserLedger) -> None:
    measured: list[str] = []

    def by(user: str) -> Callable[[], float]:
        return lambda: measured.append(user) or 0.5

    replies = {user: ledger.reply(ONE, by(user), user=user, key="k") for user in ("ann", "bob", "cy")}
    assert measured == ["ann", "bob", "cy"], "each is measured, whatever the others have replied"
    assert len({*replies.values()}) == 3, "one user's reply was given to another"
    for user, first in replies.items():  # again: everybody's own, at no cost
        assert ledger.reply(ONE, by(user), user=user, key="k") == first
        assert ledger.spent(user) == 1.0
    assert len(measured) == 3
    with pytest.raises(KeyConflict):  # the settings are the user's, too
        ledger.reply(LocalRandomizer(0.5, 1.0), 0.5, user="ann", key="k")
    ledger.reply(LocalRandomizer(0.5, 1.0), 0.5, user="dan", key="k")
    assert ledger.spent("dan") == 0.5


def test_a_key_that_another_has_paid_and_not_recorded_is_nobody_elses(ledger: UserLedger) -> None:
    interrupted(ledger, "ann", "k")
    theirs = ledger.reply(ONE, 0.5, user="bob", key="k")
    assert ledger.reply(ONE, 0.5, user="ann", key="k") != theirs
    assert (ledger.spent("ann"), ledger.spent("bob")) == (1.0, 1.0)


def test_every_account_counts_what_was_never_recorded(ledger: UserLedger) -> None:
    """All views of the ledger against a plain sum over the file's charges."""
    for user, recorded, lost in (("ann", 1, 1), ("bob", 2, 0), ("cy", 0, 2)):
        for i in range(recorded):
            ledger.reply(ONE, 0.1, user=user, key=f"recorded {i}")
        for i in range(lost):
            interrupted(ledger, user, f"lost {i}")
    ledger.reply(LocalRandomizer(0.25, 1.0), 0.1, user="dan", key="k")
    with sqlite3.connect(ledger.path) as file:
        paid = dict(file.execute("SELECT user, SUM(epsilon) FROM dptune_replies GROUP BY user"))
        assert file.execute("SELECT COUNT(*) FROM dptune_values").fetchone() == (4,)
    assert paid == {"ann": 2.0, "bob": 2.0, "cy": 2.0, "dan": 0.25}
    for view in (ledger, UserLedger(ledger.path)):
        assert {account.user: account.epsilon for account in view.accounts()} == paid
        assert [account.replies for account in view.accounts()] == [2, 2, 2, 1]
        assert {user: view.spent(user) for user in paid} == paid
        assert {user: view.cap - view.remaining(user) for user in paid} == paid
        statement = view.statement()
        assert (statement.spent, statement.users, statement.replies) == (2.0, 4, 7)
        with pytest.raises(CapReached):
            view.reply(ONE, 0.1, user="cy", key="one more")
