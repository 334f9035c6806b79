"""A PostgreSQL server: how long a client waits, what errors advise, and what is retried.

A server is away while it restarts, fails over or has no free connection. An act of a ledger is then repeated from its
beginning, for :data:`RETRY_SECONDS`. Nothing is charged twice, even if the connection was lost during a commit. Each
act first locks the ledger's row, which waits for the end of the lost transaction. The act then looks up what was
written: a charge by its key, a released value by its charge, a fact by its name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool

from dptune.errors import LedgerError, MissingExtra

RETRY_SECONDS = 60.0
CONNECT = {  # defaults of libpq's options; the URL may override them
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_SETTINGS = {  # settings of each transaction
    "synchronous_commit": "on",  # independent of the server's default
    "lock_timeout": "60s",
    "statement_timeout": "90s",
    "idle_in_transaction_session_timeout": "300s",
}
BEGIN = f"SELECT {', '.join(f'''set_config('{name}', '{value}', true)''' for name, value in _SETTINGS.items())}"

_pause = 0.1, 2.0  # seconds between two tries: at first, at most
_SOON = ("starting up", "shutting down", "recovery mode", "not yet accepting", "too many c", "connection slots")
_REMEDIES = {  # part of the server's message -> advice
    "password": "Check the user and the password, in the URL or in ~/.pgpass",
    "resolve host": "Check the host in the URL, and the network",
    "no pg_hba.conf entry": "Let the administrator allow this user, database and host in pg_hba.conf",
    "schema": "Create the schema that search_path names, and grant USAGE on it; CREATE, too, to make a ledger",
    "does not exist": "Check the URL: the user and the database must exist",
    "permission denied": "Grant the user SELECT and INSERT on the ledger's tables, and UPDATE on dptune_ledger",
    "read-only": "Connect to the primary server, as a user who may write",
    "lock timeout": "Another process has held the ledger for a minute: see pg_stat_activity; nothing was charged",
    "statement timeout": "The server is overloaded, or another process holds it up: see pg_stat_activity",
    "too many c": "End other clients, or raise max_connections. Each process holds one connection",
    "connection slots": "End other clients, or raise max_connections. Each process holds one connection",
    "invalid connection option": "Remove the setting from the URL",
    "unique constraint": "It is damaged: restore the newest intact backup",
    "append-only": "It is damaged: restore the newest intact backup",
}
_AWAY = "Check that the server runs and that host and port are right, then rerun: what was charged stays charged"
_T = TypeVar("_T")
_logger = logging.getLogger("dptune.ledger.ledger")


class ServerAway(LedgerError):
    """The server does not answer now; ``reason`` is the server's or the driver's message."""

    def __init__(self, words: str, reason: str) -> None:
        super().__init__(words)
        self.reason = reason


def engine_of(url: sa.URL) -> sa.Engine:
    """Return an engine without a pool, as :func:`dptune.ledger.schema.connect` does for a file."""
    level = "READ COMMITTED"  # a row read after locking must be the last committed one
    waits = {name: value for name, value in CONNECT.items() if name not in url.query}
    try:
        engine = sa.create_engine(
            url, poolclass=NullPool, isolation_level=level, hide_parameters=True, connect_args=waits
        )
    except ImportError:
        raise MissingExtra('a ledger in PostgreSQL needs psycopg: pip install "dptune[postgresql]".') from None
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(BEGIN))
    return engine


def connected(engine: sa.Engine, name: str, *, met: bool) -> sa.Connection:
    """Return a new connection; ``met`` means that host, user and password worked before."""
    driver: type[Exception] = engine.dialect.loaded_dbapi.Error
    try:
        return engine.connect()
    except (sa.exc.SQLAlchemyError, driver) as error:
        raise _refusal(error, name, lost=True, retry=met) from None


def explained(error: sa.exc.SQLAlchemyError, name: str) -> LedgerError:
    """Return dptune's error for an error of a connection: :class:`ServerAway` if the connection was lost."""
    lost = isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
    return _refusal(error, name, lost=lost, retry=True)


def _refusal(error: Exception, name: str, *, lost: bool, retry: bool) -> LedgerError:
    reason = str(getattr(error, "orig", None) or error or type(error).__name__).partition("\n")[0]
    remedy = next((words for phrase, words in _REMEDIES.items() if phrase in reason), _AWAY if lost else "")
    words = f"the ledger {name} cannot be used: {reason}{'. ' * bool(remedy)}{remedy}"
    away = any(each in reason for each in _SOON) or (lost and retry and remedy == _AWAY)
    return ServerAway(words, reason) if away else LedgerError(words)


def persistently(work: Callable[[], _T], name: str) -> _T:
    """Return the result of the work; repeat it while the server is away, for :data:`RETRY_SECONDS`."""
    end = None
    pause, longest = _pause
    while True:
        try:
            return work()
        except ServerAway as away:
            if end is None:
                end = time.monotonic() + RETRY_SECONDS
                _logger.warning(
                    f"the ledger {name} is away ({away.reason}): trying again for {RETRY_SECONDS:g} seconds"
                )
            if (left := end - time.monotonic()) <= 0:
                raise LedgerError(f"{away} (tried for {RETRY_SECONDS:g} seconds).") from None
        time.sleep(min(pause, left))
        pause = min(2 * pause, longest)
