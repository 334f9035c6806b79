"""An error of a database comes with the remedy that helps, and a server that is away is tried again."""

import logging
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from dptune import Budget, PrivacyLedger, errors
from dptune.ledger import schema, server

INTACT = "It is damaged: put the newest intact copy back"
HELP = {
    "unable to open database file": "It must be a file, in a folder where this process may write",
    "attempt to write a readonly database": "This process must be allowed to write the file and its folder",
    "file is not a database": "Another file lies there: check the path",
    "database disk image is malformed": INTACT,
    "unique constraint failed": INTACT,
    "the ledger is append-only": INTACT,
    "database or disk is full": "Make room on the disk and go on: a charge that could not be written was not charged",
    "database is locked": "Another process has held it for a minute: see what that one does",
    "something else": "",
}


@pytest.mark.parametrize("reason", HELP)
def test_an_error_of_a_file_has_its_remedy(reason: str, fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    with pytest.raises(errors.LedgerError) as told, ledger._transaction(write=True):
        raise sa.exc.OperationalError("SELECT 1", {}, sqlite3.OperationalError(f"{reason}\nmore"))
    assert (
        str(told.value)
        == f"the ledger {ledger._name} cannot be used: {reason}{'. ' * bool(HELP[reason])}" + (HELP[reason])
    )
    assert ledger.spent() == 0.0


AWAY = "Check that the server runs and that host and port are right, then rerun: what was charged stays charged"
CROWD = "End other clients, or raise max_connections. Each process holds one connection"
BACKUP = "It is damaged: restore the newest intact backup"
SERVER = {  # what a server says -> what helps, and whether it is tried again
    "password authentication failed": ("Check the user and the password, in the URL or in ~/.pgpass", False),
    "failed to resolve host 'x'": ("Check the host in the URL, and the network", False),
    "no pg_hba.conf entry for host": (
        "Let the administrator allow this user, database and host in pg_hba.conf", False),
    "no schema has been selected": (
        "Create the schema that search_path names, and grant USAGE on it; CREATE, too, to make a ledger", False),
    'role "x" does not exist': ("Check the URL: the user and the database must exist", False),
    "permission denied for table": (
        "Grant the user SELECT and INSERT on the ledger's tables, and UPDATE on dptune_ledger", False),
    "cannot execute in a read-only transaction": ("Connect to the primary server, as a user who may write", False),
    "canceling statement due to lock timeout": (
        "Another process has held the ledger for a minute: see pg_stat_activity; nothing was charged", False),
    "canceling statement due to statement timeout": (
        "The server is overloaded, or another process holds it up: see pg_stat_activity", False),
    "too many clients already": (CROWD, True),
    "remaining connection slots are reserved": (CROWD, True),
    'invalid connection option "x"': ("Remove the setting from the URL", False),
    "duplicate key violates unique constraint": (BACKUP, False),
    "the ledger is append-only": (BACKUP, False),
    "the database system is starting up": (AWAY, True),
    "the database system is shutting down": (AWAY, True),
    "the database system is in recovery mode": (AWAY, True),
    "the database system is not yet accepting connections": (AWAY, True),
    "connection refused": (AWAY, True),
}  # fmt: skip


@pytest.mark.parametrize("reason", SERVER)
def test_an_error_of_a_server_has_its_remedy_and_may_be_retried(reason: str) -> None:
    remedy, again = SERVER[reason]
    for lost in (True, False):
        error = sa.exc.OperationalError("SELECT 1", {}, Exception(f"{reason}\nmore"), connection_invalidated=lost)
        found = server.explained(error, "db")
        advice = "" if remedy == AWAY and not lost else f". {remedy}"
        assert str(found) == f"the ledger db cannot be used: {reason}{advice}"
        assert isinstance(found, server.ServerAway) == (again and (lost or reason != "connection refused"))
    assert getattr(found, "reason", reason) == reason


def test_a_server_is_tried_for_a_minute_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, pauses = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))

    def work() -> None:
        raise server.ServerAway("the ledger db cannot be used: gone", "gone")

    with pytest.raises(errors.LedgerError) as told, caplog.at_level(logging.WARNING):
        server.persistently(work, "db")
    assert type(told.value) is errors.LedgerError
    assert str(told.value) == "the ledger db cannot be used: gone (tried for 60 seconds)."
    assert caplog.messages == ["the ledger db is away (gone): trying again for 60 seconds"]
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert sum(pauses) == pytest.approx(60.0)


def test_a_url_may_set_how_long_a_connection_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(server.sa, "create_engine", lambda url, **more: given.append(more) or sa.pool)
    monkeypatch.setattr(server.event, "listen", lambda *_: None)
    for query in ("", "?keepalives_idle=7"):
        server.engine_of(schema.normalise_url(f"postgresql://host:65535/db{query}"))
    waits = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
    assert given[0]["connect_args"] == waits
    assert given[1]["connect_args"] == {name: value for name, value in waits.items() if name != "keepalives_idle"}
    assert given[0]["isolation_level"] == "READ COMMITTED"
