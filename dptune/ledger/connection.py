"""Where a ledger lies: the one connection that it holds, opened when it is needed, and used by one thread at a time.

It is closed before a fork, so that parent and child each open their own, and when nobody holds the ledger any more.
A transaction that forks, in a signal handler, is taken back and begins again in the parent; the child is refused.
A connection that was lost, or a file that was replaced, is noticed at the beginning of the next transaction.
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

from dptune._locks import ForkSafeLock
from dptune._store import locked, refuse_links, refuse_second_name
from dptune.errors import DptuneError, LedgerError
from dptune.ledger import schema, server

_REMEDIES = {  # by a part of the database's own words
    "unable to open": "It must be a file, in a folder where this process may write",
    "readonly": "This process must be allowed to write the file and its folder",
    "not a database": "Another file lies there: check the path",
    "malformed": "It is damaged: put the newest intact copy back",
    "unique constraint": "It is damaged: put the newest intact copy back",
    "append-only": "It is damaged: put the newest intact copy back",
    "is full": "Make room on the disk and go on: what failed was not charged",
    "locked": "Another process has held it for a minute: see what that one does",
}
_FORKS = 100  # how often one act is begun again because a signal handler forked in its transaction
_File = tuple[int, int] | None
_T = TypeVar("_T")


class _Forked(LedgerError):
    """A fork has closed the connection in the middle of a transaction of its thread."""


class Database:
    """A place, an engine for it, and at most one open connection; ``name`` is the place without a password.

    Args:
        url: of the place.
        met: whether it is known to be right: a server that does not answer is then away, and tried again.
    """

    def __init__(self, url: sa.URL, *, met: bool = False) -> None:
        self.url = url
        self.name = url.render_as_string(hide_password=True)
        self.engine = schema.connect(url)
        self._path = str(url.database) if url.get_backend_name() == "sqlite" else None
        self._lock = ForkSafeLock()
        self._met = met
        self._held: list[sa.Connection] = []  # one or none
        self._inside = self._cut = False  # is the thread that has the lock in a transaction, and did that one fork?
        self._orphaned = False  # was this process forked there?
        self._opened: _File = None
        weakref.finalize(self, _close, self._held)
        _ALL.add(self)

    @property
    def missing(self) -> bool:
        """Whether nothing lies where the file should be."""
        return self._path is not None and self._file() is None

    @property
    def folder_missing(self) -> bool:
        """Whether there is no folder for the file."""
        return self._path is not None and not Path(self._path).parent.is_dir()

    def repeat(self, work: Callable[[], _T]) -> _T:
        """Return what the work returns; while a server is away, begin it again (:mod:`dptune.ledger.server`).

        A part of a transaction of this thread is not repeated by itself: the whole is.
        """
        with self._lock:
            inside = self._inside
        if inside:
            return work()
        for _ in range(_FORKS):
            with suppress(_Forked):
                return work() if self._path is not None else server.persistently(work, self.name)
        raise LedgerError(f"the ledger {self.name} cannot be used: a signal handler forks in each transaction.")

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """A transaction, committed at the end. One that reads may be a part of another one of the same thread.

        One that writes may not: a charge would be taken back with the other, after its answer was seen.
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
            if self._cut:  # SQLAlchemy may say nothing of it if the connection was closed before the commit
                self.close()
                raise _Forked

    @contextmanager
    def _alone(self, write: bool) -> Iterator[None]:
        """Hold the lock beside an SQLite file; a server has locks of its own."""
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
        self.close()  # the server was restarted since; nothing was done yet, so it can be tried again
        return self._connection().execution_options(dptune_write=write).begin()

    def _connection(self) -> sa.Connection:
        if not self._held:
            if self._path is not None:
                refuse_second_name(self._path, f"the ledger {self.name}")
                self._held.append(self.engine.connect())
            else:
                self._held.append(server.connected(self.engine, self.name, met=self._met))
            self._met = True
            self._opened = self._file()
        return self._held[0]

    def _file(self) -> _File:
        if self._path is None:
            return None
        try:
            file = os.stat(self._path)
        except OSError:
            return None
        refuse_links(file, f"the ledger {self.name}")
        return file.st_dev, file.st_ino

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        _close(self._held)

    def cut(self) -> None:
        """Close the connection in the middle of a transaction; a server's by force, as its driver may hold a lock."""
        self._cut = True
        for connection in self._held:
            if self._path is None:
                connection.invalidate()
                continue
            for each in gc.get_referrers(connection.connection.dbapi_connection):
                if isinstance(each, sqlite3.Cursor):  # SQLite keeps its lock as long as one is open
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
                raise server.explained(error, self.name) from None
            reason = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
        except BaseException:  # an interrupt at any point: the next transaction begins afresh
            self.close()
            raise
        else:
            return
        remedy = next((f". {remedy}" for words, remedy in _REMEDIES.items() if words in reason), "")
        raise LedgerError(f"the ledger {self.name} cannot be used: {reason}{remedy}") from None


KINDS = {  # of ledgers -> what they hold, and what opens it
    "budget": "a budget in GDP: open it with PrivacyLedger",
    "rounds": "a plan of subsampled releases: open it with PlanLedger",
    "trainings": "a plan of trainings: open it with TrainingLedger",
}


def stored_row(database: Database) -> dict[str, Any] | None:
    """Return what the ledger in a database was created with, or None if there is none."""
    return database.repeat(lambda: _first_row(database))


def _first_row(database: Database) -> dict[str, Any] | None:
    if database.folder_missing:
        raise LedgerError(f"the folder of the ledger {database.name} does not exist; create it first.")
    if database.missing:
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
    """Return what the ledger in a database was created with."""
    row = stored_row(database)
    if row is None:
        remedy = "check the path" if database.missing else "what lies there holds none; check the path"
        raise LedgerError(f"no ledger exists at {database.name}: {remedy}. To create a ledger, give budget= or plan=.")
    return row


_P = ParamSpec("_P")


class _Kept(Protocol):
    _database: Database


_L = TypeVar("_L", bound=_Kept)


def repeated(method: Callable[Concatenate[_L, _P], _T]) -> Callable[Concatenate[_L, _P], _T]:
    """Let a ledger's method begin again while its server is away; it must find what it did before."""

    @wraps(method)
    def persistent(ledger: _L, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        return ledger._database.repeat(lambda: method(ledger, *arguments, **named))

    return persistent


def _close(held: list[sa.Connection]) -> None:
    while held:
        with suppress(sa.exc.SQLAlchemyError):  # it may be lost already
            held.pop().close()


_ALL: weakref.WeakSet[Database] = weakref.WeakSet()
_waiting: list[Database] = []  # between the two halves of a fork


def _before_fork() -> None:
    """Wait for the transactions of other threads; a connection must not live in two processes."""
    for database in list(_ALL):
        database._lock.__enter__()
        database.cut() if database._inside else database.close()
        _waiting.append(database)


def _after_fork() -> None:
    while _waiting:
        _waiting.pop()._lock.__exit__(None, None, None)


def _in_child() -> None:
    """Refuse, in a child that was forked in the middle of a transaction, ledgers whose cursors its frames hold."""
    while _waiting:
        database = _waiting.pop()
        database._orphaned |= database._inside


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
