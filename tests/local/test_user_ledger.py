"""A user pays before the value is read, pays once per key, and is refused past the cap, also under races."""

import copy
import json
import math
import os
import pickle
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from audit_tools import start_forked
from dptune import Budget, PrivacyLedger
from dptune.errors import BudgetMismatch, InputError, KeyConflict, LedgerError
from dptune.local import CapReached, InsecureRandomizer, LocalRandomizer, UserLedger
from refusals import refused

ONE = LocalRandomizer(1.0, 1.0)


@pytest.fixture
def ledger(fast_path: Path) -> UserLedger:
    return UserLedger(fast_path / "replies.db", cap=2.0)


RACER = """
import os, sys
from dptune.local import CapReached, LocalRandomizer, UserLedger
ledger, randomizer, paid = UserLedger(sys.argv[1]), LocalRandomizer(0.5, 1.0), 0
os.read(int(sys.argv[3]), 1)
for k in range(8):
    for user in "abcd":
        try:
            ledger.reply(randomizer, 0.3, user=user, key=f"{sys.argv[2]}/{k}")
            paid += 1
        except CapReached:
            pass
print(paid)
"""


def test_two_racing_processes_never_pass_the_cap_and_use_all_of_it(fast_path: Path) -> None:
    path = fast_path / "replies.db"
    ledger, (here, there) = UserLedger(path, cap=3.0), os.pipe()
    racers = [start_forked(RACER, str(path), name, str(here)) for name in "xy"]
    os.write(there, b"go")  # a letter for each
    paid = sum(int(racer.wait().stdout) for racer in racers)
    assert [ledger.spent(user) for user in "abcd"] == [3.0] * 4, "a user paid more than the cap, or not all of it"
    assert paid == 4 * 6


def test_k_replies_cost_k_epsilon_and_the_cap_holds(ledger: UserLedger) -> None:
    randomizer = LocalRandomizer(0.5, 1.0)
    for k in range(4):
        assert ledger.spent("ann") == 0.5 * k
        ledger.reply(randomizer, 0.2, user="ann", key=str(k))
    ledger.cap, measured = 1e9, list[int]()  # the file's cap holds, not a memory of it
    with pytest.raises(CapReached) as refusal:
        ledger.reply(randomizer, lambda: measured.append(1), user="ann", key="4")
    assert (refusal.value.asked, refusal.value.left, refusal.value.cap) == (0.5, 0.0, 2.0)
    assert measured == []
    assert (ledger.remaining("ann"), ledger.remaining("bob")) == (0.0, 2.0)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_the_charge_is_committed_before_the_value_is_read(ledger: UserLedger) -> None:
    def measure() -> float:
        assert ledger.spent("ann") == 1.0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.reply(ONE, measure, user="ann", key="k")
    for view in (ledger, UserLedger(ledger.path)):  # no refund
        assert [(account.user, account.epsilon) for account in view.accounts()] == [("ann", 1.0)]
        assert (view.remaining("ann"), view.statement().spent) == (1.0, 1.0)
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


def test_a_failed_measurement_is_a_reply_and_an_interrupt_has_no_frames(ledger: UserLedger) -> None:
    for error in (RuntimeError, SystemExit):
        assert math.isfinite(ledger.reply(ONE, raising(error), user="bob", key=error.__name__))
    with pytest.raises(KeyboardInterrupt) as caught:
        ledger.reply(ONE, raising(KeyboardInterrupt), user="ann", key="k")
    seen = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert seen.__context__ is None
    assert "0.123456789" not in "".join(seen.format())


def test_a_user_or_a_key_that_is_no_text_is_refused(ledger: UserLedger) -> None:
    for bad in (None, ""):
        refused(InputError, "user", partial(ledger.reply, ONE, 0.5, user=bad, key="k"), partial(ledger.spent, bad))
        refused(InputError, "key", partial(ledger.reply, ONE, 0.5, user="ann", key=bad))
    assert ledger.spent("ann") == 0


class Odd(LocalRandomizer):
    """A randomiser of somebody else's."""

    def __init__(self, price: float = 1.0, answer: float = 0.5, **settings: object) -> None:
        super().__init__(1.0, 1.0)
        self.epsilon, self.answer, self.settings = price, answer, settings
        self.private = settings.pop("private", True)

    def randomize(self, value: Any) -> float:
        return self.answer

    def describe(self) -> dict[str, object]:
        return self.settings


def test_an_invalid_price_is_refused_and_an_unrecordable_reply_is_not_sent(ledger: UserLedger) -> None:
    reply = partial(ledger.reply, value=0.5, user="ann", key="k")
    refused(InputError, "epsilon", *(partial(reply, Odd(price)) for price in (-1.0, 0.0, math.nan, math.inf)))
    assert ledger.spent("ann") == 0
    refused(LedgerError, "cannot record", lambda: reply(Odd(answer=math.nan)))
    assert ledger.spent("ann") == 1.0


def test_a_key_that_was_paid_at_another_price_or_stamp_is_not_answered(ledger: UserLedger) -> None:
    reply = partial(ledger.reply, value=0.3, user="a", key="k")
    reply(Odd())
    others = [Odd(1.5), Odd(private=False)]  # whose settings do not tell
    refused(KeyConflict, "other settings", *(partial(reply, other) for other in others))
    assert (ledger.private("a"), ledger.spent("a")) == (True, 1.0)


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


def test_a_randomiser_of_somebody_else_s_is_not_called_ours(ledger: UserLedger) -> None:
    ledger.reply(Odd(mechanism="CTL", low=math.nan), 0.5, user="ann", key="k")
    statement = ledger.statement()
    assert "not one of dptune's; epsilon = 1 a reply" in str(statement)
    assert "OpenDP" not in str(statement)
    json.loads(statement.to_json())


# ---- two users with one key have nothing in common ------------------------------------------------------


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
    half = partial(ledger.reply, LocalRandomizer(0.5, 1.0), 0.5, key="k")
    refused(KeyConflict, None, lambda: half(user="ann"))  # the settings are the user's, too
    half(user="dan")
    assert ledger.spent("dan") == 0.5


# ---- the file --------------------------------------------------------------------------------------------


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
        refused(sqlite3.IntegrityError, "append", *(partial(connection.execute, change) for change in CHANGES))


def test_the_cap_is_fixed_and_the_file_is_a_file(ledger: UserLedger, fast_path: Path) -> None:
    (fast_path / "text.db").write_text("not a database at all, by any means, however long it may be" * 20)
    urls = (":memory:", "sqlite://", "sqlite:///a.db", "postgresql://h/d", "file:a.db")
    refused(BudgetMismatch, "cap=2.0", lambda: UserLedger(ledger.path, cap=3.0))
    refused(LedgerError, "no ledger", lambda: UserLedger(fast_path / "none.db"))
    refused(LedgerError, "folder", lambda: UserLedger(fast_path / "none" / "a.db", cap=1.0))
    refused(LedgerError, "cannot be used", lambda: UserLedger(fast_path / "text.db", cap=1.0))
    refused(InputError, "cap", lambda: UserLedger(fast_path / "x.db", cap=0.0))
    refused(InputError, "outlive", *(partial(UserLedger, url, cap=1.0) for url in urls))


def test_a_copy_is_a_view_of_the_same_file(ledger: UserLedger) -> None:
    reply = reply_of_ann(ledger, "k")
    for twin in (pickle.loads(pickle.dumps(ledger)), copy.copy(ledger), copy.deepcopy(ledger)):
        assert reply_of_ann(twin, "k") == reply
        assert (twin.cap, twin.spent("ann")) == (2.0, 1.0)
    assert "cap=2.0" in repr(ledger)


def test_a_replaced_ledger_is_refused_and_unpickling_never_creates_one(ledger: UserLedger) -> None:
    reply_of_ann(ledger, "k")
    frozen = pickle.dumps(ledger)
    ledger.path.unlink()
    refused(LedgerError, "no ledger", lambda: pickle.loads(frozen))
    assert not ledger.path.exists()
    UserLedger(ledger.path, cap=2.0)
    uses = (lambda: reply_of_ann(ledger, "l"), lambda: ledger.spent("ann"), lambda: ledger.private("ann"))
    refused(LedgerError, "replaced", *uses, lambda: pickle.loads(frozen))
    assert UserLedger(ledger.path).spent("ann") == 0


@pytest.mark.parametrize("content", [None, b""])
def test_a_deleted_ledger_is_missed_and_leaves_no_empty_file(ledger: UserLedger, content: bytes | None) -> None:
    ledger.path.unlink()
    if content is not None:
        ledger.path.write_bytes(content)
    refused(LedgerError, "cannot be used", lambda: reply_of_ann(ledger, "l"), lambda: ledger.remaining("ann"))
    assert ledger.path.exists() == (content is not None)
    assert UserLedger(ledger.path, cap=1.0).cap == 1.0  # what a crash while creating leaves does not stand in the way


def test_a_value_without_its_charge_is_not_sent(ledger: UserLedger) -> None:
    before = ledger.path.read_bytes()

    def measure() -> float:
        ledger.path.write_bytes(before)  # somebody puts an old copy back
        return 0.5

    reply = partial(ledger.reply, LocalRandomizer(1.0, 1.0), measure, user="ann", key="k")
    refused(LedgerError, "An older copy was restored", reply)
    with closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM dptune_values").fetchone() == (0,)


def test_a_ledger_of_users_is_recognised(fast_path: Path) -> None:
    UserLedger(fast_path / "users.db", cap=1.0)
    PrivacyLedger(fast_path / "curator.db", Budget.gdp(1.0))
    (fast_path / "text.db").write_text("this is no database" * 100)
    (fast_path / "empty.db").touch()
    found = {p.name: UserLedger.is_at(p) for p in [*fast_path.iterdir(), fast_path / "none.db", fast_path]}
    assert [name for name, is_one in found.items() if is_one] == ["users.db"]
    users = [partial(PrivacyLedger, fast_path / "users.db", budget) for budget in (None, Budget.gdp(1.0))]
    refused(LedgerError, "UserLedger", *users)
    refused(LedgerError, "curator", lambda: UserLedger(fast_path / "curator.db", cap=1.0))


def test_another_format_is_refused(ledger: UserLedger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("DROP TRIGGER dptune_local_no_UPDATE")
        connection.execute("UPDATE dptune_local SET version = 99")
    refused(LedgerError, "has format 99; this dptune reads format 1", lambda: UserLedger(ledger.path))
