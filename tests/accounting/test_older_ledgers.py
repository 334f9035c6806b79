"""Ledgers that older versions have made: they open, and mean what they meant.

Of version 2 (commit 1f7186d) can be read, and nothing is charged to them. Of version 3 (commit 5ccaa28) had no column
that says which kind they are.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from ledger_tools import KINDS, pay

from dptune import LedgerError, PrivacyLedger
from dptune.accounting.plan_ledger import PlanLedger
from dptune.local import LocalRandomizer, UserLedger
from dptune.training import TrainingLedger
from dptune.training.ledger import open_ledger

TESTS = Path(__file__).parents[1]
GDP, PLAN, USERS = (
    TESTS / name
    for name in ("accounting/data/version2.sql", "accounting/data/version2_plan.sql", "local/data/version2.sql")
)
VERSION_3 = {  # -> class, delta, a line of the statement and SHA-256 of all rows, as that version printed them
    "version3": (
        PrivacyLedger,
        1e-6,
        "Spent so far mu = 0.3536 GDP, that is epsilon = 1.544 at delta = 1e-06 in 2 releases",
        "ffd50f92fbf00778b5307270b32083993c32d16adb6eed4206e271c157221ad2",
    ),
    "version3_trainings": (
        TrainingLedger,
        1e-4,
        "Guarantee    epsilon = 0.3437 at delta = 0.0001, for the whole plan",
        "9d287be55141ff5fd2d21d40d6c7c53303a2fdf195253c4b2b579d4a99488355",
    ),
}
Load = Callable[[Path], Path]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that makes a file from SQL text."""

    def make(sql: Path) -> Path:
        path = tmp_path / f"{sql.stem}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(sql.read_text())
        return path

    return make


@pytest.mark.parametrize("name", VERSION_3)
def test_a_ledger_of_version_3_states_what_it_stated_and_is_charged(load: Load, name: str) -> None:
    kind, delta, line, digest = VERSION_3[name]
    ledger = open_ledger(load(TESTS / f"accounting/data/{name}.sql"))
    assert type(ledger) is kind
    assert line in str(ledger.statement(delta=delta))
    assert ledger.state()["sha256"] == digest  # so that receipts hold
    made = ledger.count()
    KINDS[ledger.kind].charge(ledger, made + 7)
    assert ledger.count() == made + 1


def test_everything_can_be_read(load: Load) -> None:
    ledger = open_ledger(load(GDP))
    assert isinstance(ledger, PrivacyLedger)
    assert ledger.spent() == pytest.approx(math.sqrt(0.75), rel=1e-15)
    assert ledger.remaining() == pytest.approx(math.sqrt(4 - 0.75), rel=1e-15)
    assert (ledger.n, ledger.private, ledger.count("study", prefix="value/")) == (5, True, 3)
    assert [charge.value is not None for charge in ledger.charges()] == [True] * 3
    assert ledger.find("study", "value/1").note == {"parameters": {"C": 1.5}}
    assert len(ledger.news("study", after=1).charges) == 2
    assert "old patients" in str(ledger.statement(delta=1e-5))
    assert ledger.rest().left == ledger.remaining()


def test_a_plan_can_be_read(load: Load) -> None:
    ledger = open_ledger(load(PLAN))
    assert isinstance(ledger, PlanLedger)
    assert ledger.round(0).value == (1.0, 2.0)
    assert ledger.statement(delta=1e-5).mechanisms[0][1] == 1


def test_nothing_is_charged_or_written(load: Load) -> None:
    ledger = PrivacyLedger(load(GDP))
    for write in (
        lambda: pay(ledger, "new", 0.1),
        lambda: ledger.check(0.1),
        lambda: ledger.fix("study", "a", 1),
        lambda: ledger.record(ledger.charges()[0], [0.5]),
    ):
        with pytest.raises(LedgerError, match=r"older dptune \(format 2\).*Make a new ledger with what is left"):
            write()
    assert ledger.count() == 3


def test_a_users_ledger_can_be_read_and_not_charged(load: Load) -> None:
    ledger = UserLedger(load(USERS))
    assert [(a.user, a.replies, a.epsilon) for a in ledger.accounts()] == [("ann", 2, 1.0), ("bob", 1, 0.5)]
    assert (ledger.spent("ann"), ledger.remaining("bob"), ledger.statement().replies) == (1.0, 1.5, 3)
    with pytest.raises(LedgerError, match=r"older dptune \(format 2\)"):
        ledger.reply(LocalRandomizer(0.5, 1.0), lambda: pytest.fail("measured"), user="ann", key="3")
