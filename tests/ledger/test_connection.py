"""Each process opens one connection late, shares it among threads only, and writes durably and append-only."""

import contextlib
import gc
import json
import os
import pickle
import signal
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from dptune import Budget, InputError, LedgerError, PrivacyLedger
from dptune._store import ForkSafeLock, SqliteFile
from dptune.ledger import schema
from ledger_tools import Urls, listening, pay
from refusals import refused


@pytest.fixture
def connects() -> Iterator[list[str]]:
    """The connections that engines make from now on, and close; an earlier test's may close at any time."""
    seen: list[str] = []
    mine: set[int] = set()

    def opened(connection: object, _: object) -> None:
        mine.add(id(connection))
        seen.append("open")

    def closed(connection: object, _: object) -> None:
        if id(connection) in mine:
            mine.remove(id(connection))
            seen.append("close")

    with listening("connect", opened), listening("close", closed):
        yield seen


def pay_all(ledger: PrivacyLedger) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: ledger.record(pay(ledger, str(i), 0.1), [0.5]), range(20)))


def test_an_open_ledger_holds_one_connection(url: str, connects: list[str]) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(9.0))
    pay_all(ledger)
    assert ledger.count() == 20
    assert connects == ["open"]
    del ledger
    gc.collect()
    assert connects == ["open", "close"]


def in_child(act: Callable[[], object]) -> bool:
    """Whether the act succeeds in a fork of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
        child = os.fork()
    if child == 0:
        done = 1
        try:
            act()
            done = 0
        finally:
            os._exit(done)
    return os.waitpid(child, 0)[1] == 0


def test_a_parent_and_its_child_have_a_connection_each(url: str, connects: list[str]) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    pay(ledger, "parent", 0.5)

    def act() -> None:
        pay(ledger, "child", 0.5)
        assert connects == ["open", "close", "open"]

    assert in_child(act)
    pay(ledger, "parent again", 0.5)
    assert [charge.key for charge in ledger.charges()] == ["parent", "child", "parent again"]
    assert connects == ["open", "close", "open"]


def test_a_fork_waits_for_the_transactions_of_other_threads(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(100.0))
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(lambda: [pay(ledger, str(i), 0.1) for i in range(60)])
        for number in range(3):
            assert in_child(lambda key=f"child {number}": pay(ledger, key, 0.1))
        busy.result()
    assert ledger.count() == PrivacyLedger(fast_path / "x.db").count() == 63


def test_a_signal_handler_may_fork_in_the_middle_of_a_charge(url: str) -> None:
    """At any call of a charge and its record, the parent loses nothing, and the child charges nothing."""
    ledger, calls, child, here = PrivacyLedger(url, Budget.gdp(100.0)), 0, 0, os.getpid()

    def interrupted(at: int) -> object:
        nonlocal calls, child

        def handler(_: object, event: str, __: object) -> None:
            nonlocal calls, child
            calls += event == "call"
            child = os.fork() if event == "call" and calls == at else child

        calls = child = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
            warnings.simplefilter("ignore", sa.exc.SAWarning)  # of a connection that was closed
            sys.setprofile(handler)
            try:
                return ledger.record(pay(ledger, str(at), 0.1), [8.0]).value
            except LedgerError:
                return os._exit(0) if os.getpid() != here else None
            finally:
                sys.setprofile(None)
                if os.getpid() != here:
                    os._exit(1)

    interrupted(0)
    interrupted(0)  # on a connection that is open
    forks = range(1, calls, max(1, calls // 40))
    refused = 0
    for at in forks:
        assert interrupted(at) == (8.0,), at
        refused += bool(child) and os.waitpid(child, 0)[1] == 0  # others had ended their transaction, or not begun it
    assert refused > 20
    assert ledger.count() == len(forks) + 1
    pay(ledger, "afterwards", 0.1)


def test_a_lock_that_another_thread_holds_does_not_block_a_fork_nor_a_copy() -> None:
    lock, held, done = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(600)

    def take() -> None:
        signal.alarm(600)
        with lock, lock, pickle.loads(pickle.dumps(lock)):
            pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        held.wait(600)
        assert in_child(take)
        done.set()


def test_the_password_is_not_shown_but_travels_with_a_pickle(postgresql: Urls) -> None:
    url = postgresql().replace("dptune@", "dptune:hunter2@")
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert "hunter2" not in repr(ledger)
    assert pickle.loads(pickle.dumps(ledger)) == ledger
    assert PrivacyLedger(url.replace("postgresql://", "postgresql+psycopg://")) == ledger
    assert ledger != PrivacyLedger(postgresql(), Budget.gdp(1.0)), "two schemas are two budgets"


# ---- durability ---------------------------------------------------------------------------------------------


def audit_durability(ledger: PrivacyLedger) -> None:
    """What the ledger's own connection has set when a charge is committed."""
    found: list[list[object]] = []

    def look(connection: sa.Connection) -> None:
        postgresql = connection.dialect.name == "postgresql"
        names = ("synchronous_commit",) if postgresql else ("synchronous", "fullfsync", "foreign_keys")
        words = "SHOW" if postgresql else "PRAGMA"
        found.append([connection.exec_driver_sql(f"{words} {name}").scalar() for name in names])

    with listening("commit", look):
        pay(ledger, "a", 0.1)
    assert found[-1] in (["on"], [3, 1, 1]), f"a committed charge may be lost: {found}"


def test_every_engine_waits_for_the_disk(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    if ledger.url.get_backend_name() == "postgresql":
        with schema.connect(ledger.url).connect() as connection:
            role = connection.exec_driver_sql("SELECT current_user").scalar_one()
            connection.exec_driver_sql(f'ALTER ROLE "{role}" SET synchronous_commit = off')
            connection.commit()
        ledger = PrivacyLedger(url)
    audit_durability(ledger)


def audit_weaker(ledger: PrivacyLedger, moment: str, statement: str) -> None:
    """A planted bug: the connection has a weaker setting."""

    def weaken(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statement)

    with listening(moment, weaken):
        refused(AssertionError, "may be lost", lambda: audit_durability(ledger))


@pytest.mark.parametrize("name", ["synchronous=FULL", "fullfsync=OFF", "foreign_keys=OFF"])
def test_the_audit_catches_a_setting_that_is_weaker(fast_path: Path, name: str) -> None:
    audit_weaker(PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0)), "begin", f"PRAGMA {name}")


def test_the_audit_catches_a_server_that_does_not_wait(postgresql: Urls) -> None:
    audit_weaker(PrivacyLedger(postgresql(), Budget.gdp(1.0)), "commit", "SET LOCAL synchronous_commit = off")


@pytest.mark.parametrize("write", [False, True])
def test_the_users_ledger_waits_for_the_disk(fast_path: Path, write: bool) -> None:
    with SqliteFile(fast_path / "u.db").transaction(write=write) as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "fullfsync")]
    assert found == [3, 1]


BAD_PLACES = ["postgresql+asyncpg://u@h/d", "postgresql://u@h:port/d", "mysql://u@h/d", "sqlite:///x.db?nonsense=1"]
IN_MEMORY = ["sqlite:///:memory:", ":memory:", "sqlite:///file:x?mode=memory&uri=true"]


def test_a_place_that_cannot_be_one_is_refused_by_name(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        for words, places in (("ledger", BAD_PLACES), ("in-memory", IN_MEMORY)):
            refused(InputError, words, *(partial(PrivacyLedger, place, Budget.gdp(1.0)) for place in places))
    assert list(tmp_path.iterdir()) == []


# ---- the tables: append-only, whoever writes, and plain for whoever reads -------------------------------------

TABLES = {"dptune_ledger": "mu", "dptune_facts": "value", "dptune_charges": "mu", "dptune_releases": "value"}
REPLACED = {  # the first columns of the row that would take the place of the one that is there
    "dptune_ledger": "id, version, 99.0",
    "dptune_charges": "seq, scope, key, 1e-9",
    "dptune_facts": "scope, name, '{\"is\": 9}'",
    "dptune_releases": "charge, '[9.0]'",
}


def full_ledger(url: str) -> PrivacyLedger:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    ledger.bind_people(7)
    ledger.record(pay(ledger, "a"), [0.5])
    return ledger


def refuse(ledger: PrivacyLedger, change: str) -> None:
    with schema.connect(ledger.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
        connection.execute(sa.text(change))
    assert ledger.spent() == 1.0


def test_no_row_is_changed_or_removed(url: str) -> None:
    ledger = full_ledger(url)
    for table, column in TABLES.items():
        with schema.connect(ledger.url).connect() as connection:  # a row-wise trigger does not see an empty table
            assert connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one() > 0
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):
            refuse(ledger, change)


def test_a_table_of_a_server_is_not_truncated_nor_written_over(postgresql: Urls) -> None:
    ledger = full_ledger(postgresql())
    for table in TABLES:
        refuse(ledger, f"TRUNCATE {table} CASCADE")
    refuse(ledger, "INSERT INTO dptune_ledger SELECT * FROM dptune_ledger ON CONFLICT (id) DO UPDATE SET mu = 99")


@pytest.mark.parametrize("table", TABLES)
def test_no_row_is_replaced_in_sqlite(fast_path: Path, table: str) -> None:
    """INSERT OR REPLACE deletes without firing DELETE triggers."""
    ledger = full_ledger(str(fast_path / "ledger.db"))
    with schema.connect(ledger.url).connect() as connection:
        names = [row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")]
    values = REPLACED[table].split(", ")
    refuse(ledger, f"INSERT OR REPLACE INTO {table} SELECT {', '.join([*values, *names[len(values) :]])} FROM {table}")


def test_any_sqlite_client_can_read_it(fast_path: Path) -> None:
    full_ledger(str(fast_path / "ledger.db"))
    connection = sqlite3.connect(fast_path / "ledger.db")
    kinds = {"integer", "real", "text", "null"}
    for table in TABLES:
        for row in connection.execute(f"SELECT * FROM {table}"):
            assert {connection.execute("SELECT typeof(?)", (v,)).fetchone()[0] for v in row} <= kinds  # no blobs
    assert connection.execute("SELECT key, mu, mu_squared_so_far FROM dptune_spending").fetchall() == [("a", 1.0, 1.0)]
    (value,) = connection.execute("SELECT value FROM dptune_releases").fetchone()
    assert json.loads(value) == [0.5]
    assert connection.execute("SELECT mu, unit FROM dptune_ledger").fetchone() == (2.0, "one person")
    connection.close()
