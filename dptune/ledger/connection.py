"""A ledger's only connection to its database, opened when needed and used by one thread at a time.

It is closed before a fork, so that parent and child each open their own, and when the ledger is freed. A signal handler
may fork in the middle of a transaction. The child then gets an error. In the parent a server's transaction continues,
and that of a file is rolled back and restarts. A connection that was lost, or a file that was replaced, is noticed at
the beginning of the next transaction.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa

from dptune._checks import shown
from dptune._store import (
    NO_SEARCH,
    ForkSafeLock,
    charged,
    locked,
    no_right_to_read,
    refuse_links,
    refuse_second_name,
)
from dptune.errors import DptuneError, LedgerError
from dptune.ledger import schema

_REMEDIES = {  # part of the database's message -> advice
    "unable to open": "It must be a file, in a folder where this process may write",
    "readonly": "This process must be allowed to write the file and its folder",
    "not a database": "Another file lies there: check the path",
    "malformed": "It is damaged: put the newest intact copy back",
    "unique constraint": "It is damaged: put the newest intact copy back",
    "append-only": "It is damaged: put the newest intact copy back",
    "is full": "Make room on the disk and go on: a charge that could not be written was not charged",
    "locked": "Another process has held it for a minute: see what that one does",
}
_FORKS = 100  # retries of one act because a signal handler forked in its transaction
_File = tuple[int, int] | None
_T = TypeVar("_T")


class _Forked(LedgerError):
    """A fork closed the connection in the middle of its thread's transaction."""


class Database:
    """A database's URL, engine and at most one open connection; ``name`` is the path, or the URL without a password.

    Args:
        url: the place of the database.
        met: whether the URL is known to be right: a server that does not answer is then retried.
    """

    def __init__(self, url: sa.URL, *, met: bool = False) -> None:
        self.url = url
        self._path = str(url.database) if url.get_backend_name() == "sqlite" else None
        self.name = self._path or url.render_as_string(hide_password=True)  # SQLAlchemy encodes the path in a URL
        self.engine = schema.connect(url)
        self._lock = ForkSafeLock()
        self._met = met
        self._held: list[sa.Connection] = []  # at most one
        self._inside = self._cut = False  # whether the lock's thread is in a transaction, and whether that forked
        self._orphaned = False  # whether this process was forked there
        self._opened: _File = None
        weakref.finalize(self, _close, self._held)
        _ALL.add(self)

    @property
    def missing(self) -> bool:
        return self._path is not None and self._file() is None

    @property
    def folder_missing(self) -> bool:
        return self._path is not None and not Path(self._path).parent.is_dir()

    def repeat(self, work: Callable[[], _T]) -> _T:
        """Return the result of the work; repeat it while a server is away (:mod:`dptune.ledger.server`).

        Inside a transaction of this thread, only the whole transaction is repeated.
        """
        with self._lock:
            inside = self._inside
        if inside:
            return work()
        for _ in range(_FORKS):
            with suppress(_Forked):
                if self._path is not None:
                    return work()
                from dptune.ledger import server  # a file needs none of it

                return server.persistently(work, self.name)
        raise LedgerError(f"the ledger {self.name} cannot be used: a signal handler forks in each transaction.")

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """Open a transaction that commits at the end. A reading one may be nested in another of the same thread.

        A writing one may not: a rollback of the outer one would undo a charge whose answer was seen.
        """
        with self._lock, self._explained():
            if self._orphaned:
                raise LedgerError(
                    f"this process was forked in the middle of a transaction of the ledger {self.name}, by a signal "
                    "handler: nothing was charged. Use the ledger in a process that was started outside of handlers."
                )
            if self._inside:
                if not self._held:
                    raise _Forked
                if write:
                    raise LedgerError(
                        f"the ledger {self.name} is in the middle of another transaction of this thread (a signal "
                        "handler, or a plan that releases): nothing was charged. Release outside of it."
                    )
                yield self._held[0]
                return
            self._inside, self._cut = True, False
            try:
                with self._alone(write), self._begin(write) as begun:
                    yield begun.connection
            except Exception:
                if not self._cut:
                    raise
            finally:
                self._inside = False
            if self._cut:  # SQLAlchemy may not report a connection that was closed before the commit
                self.close()
                raise _Forked

    @contextmanager
    def _alone(self, write: bool) -> Iterator[None]:
        """Hold the lock file of an SQLite file; a server has its own locks."""
        if self._path is None:
            yield
            return
        with locked(self._path, f"the ledger {self.name}", write=write):
            yield

    def _begin(self, write: bool) -> sa.RootTransaction:
        if self._held and self._file() != self._opened:
            self.close()
        try:
            return self._connection().execution_options(dptune_write=write).begin()
        except sa.exc.DBAPIError as error:
            if not (error.connection_invalidated and self._held):
                raise
        self.close()  # the server was restarted; nothing was done yet, so retry
        return self._connection().execution_options(dptune_write=write).begin()

    def _connection(self) -> sa.Connection:
        if not self._held:
            if self._path is not None:
                refuse_second_name(self._path, f"the ledger {self.name}")
                self._held.append(self.engine.connect())
            else:
                from dptune.ledger import server

                self._held.append(server.connected(self.engine, self.name, met=self._met))
            self._met = True
            self._opened = self._file()
        return self._held[0]

    def _file(self) -> _File:
        if self._path is None:
            return None
        try:
            file = os.stat(self._path)
        except PermissionError:
            raise LedgerError(f"the ledger {self.name} cannot be used: {NO_SEARCH}") from None
        except OSError:
            return None
        refuse_links(file, f"the ledger {self.name}")
        return file.st_dev, file.st_ino

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        _close(self._held)

    def cut(self) -> None:
        """Close a file's connection in the middle of a transaction.

        A server's stays open, as its driver may be at work on it: the child loses the socket (:func:`_in_child`).
        """
        if self._path is None and self._held:
            return
        self._cut = True
        for connection in self._held:
            for each in gc.get_referrers(connection.connection.dbapi_connection):
                if isinstance(each, sqlite3.Cursor):  # SQLite keeps its lock while a cursor is open
                    each.close()
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DptuneError:
            raise
        except sa.exc.SQLAlchemyError as error:
            self.close()
            if self._path is None:
                from dptune.ledger import server

                raise server.explained(error, self.name) from None
            reason = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
        except BaseException:  # after an interrupt at any point, the next transaction opens a new connection
            self.close()
            raise
        else:
            return
        remedy = next((f". {remedy}" for words, remedy in _REMEDIES.items() if words in reason), "")
        remedy = no_right_to_read(self._path) or remedy
        raise LedgerError(f"the ledger {self.name} cannot be used: {reason}{remedy}") from None


KINDS = {  # kind of ledger -> what it holds, and what opens it
    "budget": "a budget in GDP: open it with PrivacyLedger",
    "rounds": "a plan of subsampled releases: open it with PlanLedger",
    "trainings": "a plan of trainings: open it with TrainingLedger",
}


def stored_row(database: Database) -> dict[str, Any] | None:
    """Return the row with which a database's ledger was created, or None without a ledger."""
    return database.repeat(lambda: _first_row(database))


def _first_row(database: Database) -> dict[str, Any] | None:
    if database.missing:
        if database.folder_missing:
            raise LedgerError(f"the folder of the ledger {database.name} does not exist; create it first.")
        return None
    with database.transaction(write=False) as connection:
        tables = sa.inspect(connection)
        if tables.has_table("dptune_local"):
            raise LedgerError(f"{database.name} is a ledger of users: open it with dptune.local.UserLedger(path).")
        if not tables.has_table(schema.ledger.name):
            return None
        version = connection.execute(sa.select(schema.ledger.c.version)).scalar()
        if version not in (None, schema.VERSION):
            raise LedgerError(
                f"the ledger {database.name} has format {version}; this dptune reads format {schema.VERSION}. Open it "
                "with the dptune that made it."
            )
        row = connection.execute(sa.select(schema.ledger)).mappings().first()
    return None if row is None else dict(row)


def known_row(database: Database) -> dict[str, Any]:
    """Return the row with which a database's ledger was created."""
    row = stored_row(database)
    if row is None:
        remedy = "check the path" if database.missing else "what lies there holds none; check the path"
        raise LedgerError(f"no ledger exists at {database.name}: {remedy}. In Python, budget= or plan= creates it.")
    if row["kind"] not in KINDS:
        raise LedgerError(
            f"the ledger {database.name} is of a kind that this dptune does not know: {shown(row['kind'])}. Open it "
            "with the dptune that made it."
        )
    return row


_P = ParamSpec("_P")


class _Kept(Protocol):
    _database: Database


_L = TypeVar("_L", bound=_Kept)


def repeated(method: Callable[Concatenate[_L, _P], _T]) -> Callable[Concatenate[_L, _P], _T]:
    """Repeat a ledger's method while its server is away; the method must recognise what it already did."""

    @wraps(method)
    def persistent(ledger: _L, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        return ledger._database.repeat(lambda: method(ledger, *arguments, **named))

    return persistent


def _close(held: list[sa.Connection]) -> None:
    while held:
        with suppress(sa.exc.SQLAlchemyError):  # the connection may be lost already
            held.pop().close()


_ALL: weakref.WeakSet[Database] = weakref.WeakSet()
_waiting: list[Database] = []  # databases locked from before a fork until after it


def _before_fork() -> None:
    """Wait for other threads' transactions; a connection must not live in two processes."""
    for database in list(_ALL):
        database._lock.__enter__()
        database.cut() if database._inside else database.close()
        _waiting.append(database)


def _after_fork() -> None:
    while _waiting:
        _waiting.pop()._lock.__exit__(None, None, None)


def _in_child() -> None:
    """Mark ledgers unusable in a child that was forked in the middle of their transaction: its frames hold cursors.

    What these frames still send to a server goes nowhere, and they read the end of the stream.
    """
    held: list[sa.Connection] = []
    while _waiting:
        database = _waiting.pop()
        database._orphaned |= database._inside
        held += database._held if database._inside else ()
    for connection in held:  # when all are marked: a driver may raise
        driver: Any = connection.connection.dbapi_connection
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, driver.fileno())
        os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def after_a_charge(record: Callable[Concatenate[_L, Any, _P], _T]) -> Callable[Concatenate[_L, Any, _P], _T]:
    """Say in the error of a method that records an answer that its charge stands."""

    @wraps(record)
    def told(ledger: _L, charge: Any, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return record(ledger, charge, *arguments, **named)
        except LedgerError as error:
            failed = charged(error, f"The release {charge.key!r} of {charge.scope!r}")
        raise failed

    return told
