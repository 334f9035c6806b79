"""What each user has paid: a durable count of replies, in one SQLite file. Standard library only.

Life of a reply (charge, then read, then noise)::

    one transaction (BEGIN IMMEDIATE): look up (user, key), check the user's sum against the cap, insert, commit
    ... measure the value, clamp, draw the noise ...
    record: one insert; the first writer wins and everybody gets its value

A crash between the two leaves the charge standing. A retry with the same key pays nothing and gets the recorded
value, or, if none was recorded, records one before anybody sees it: each charge is answered by at most one value.
Pure epsilon adds up (basic composition), so a user with k replies has paid the sum of their k prices.

The cap and the identity are the file's: every transaction reads both, and refuses another file in its place. Copies
and pickles are views of the same file; only ``UserLedger(path, cap)`` creates one.
"""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import SupportsFloat

from dptune._checks import place, positive
from dptune.errors import BudgetMismatch, CapReached, InputError, KeyConflict, LedgerError
from dptune.local.randomizer import Randomizer
from dptune.local.statement import Account, Device, LocalStatement

VERSION = 2
_FORGIVEN = 1e-12  # rounding of k replies of cap/k; the noise carries a slack a million times larger
_TABLES = """
CREATE TABLE IF NOT EXISTS dptune_local (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, cap REAL NOT NULL, identity TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS dptune_replies (
    user TEXT NOT NULL, key TEXT NOT NULL, epsilon REAL NOT NULL, private INTEGER NOT NULL, mechanism TEXT NOT NULL,
    PRIMARY KEY (user, key));
CREATE TABLE IF NOT EXISTS dptune_values (
    user TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (user, key));
"""
_NO_CHANGE = """CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""
_NO_REPLACE = """CREATE TRIGGER IF NOT EXISTS {table}_no_REPLACE BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {same})
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""  # INSERT OR REPLACE fires no DELETE trigger
_KEYS = {
    "dptune_local": "id = NEW.id",
    "dptune_replies": "user = NEW.user AND key = NEW.key",
    "dptune_values": "user = NEW.user AND key = NEW.key",
}
_Charge = tuple[str, str, float, bool, str]  # user, key, epsilon, private, mechanism


class UserLedger:
    """The replies of one or many users and what they cost; survives processes and crashes.

    Args:
        path: of the SQLite file; its folder must exist.
        cap: epsilon that one user may spend in all; required to create the file, fixed for good.

    Raises:
        BudgetMismatch: the file was created with another cap.
        LedgerError: there is no file and no cap was given, or the file cannot be used.
        InputError: the cap is not positive and finite, or the path is not a file.
    """

    def __init__(self, path: str | Path, cap: float | None = None) -> None:
        text = place("path", path)
        if text == ":memory:" or text.startswith("file:"):
            raise InputError("a ledger must outlive its process; give the path of a file.")
        cap = None if cap is None else positive("cap", cap)
        self._path = Path(text).resolve()
        if cap is not None and not self._exists():
            self._create(cap)
        self._identity, self.cap = self._open()
        if cap is not None and cap != self.cap:
            raise BudgetMismatch(f"this ledger was created with cap={self.cap!r}, not {cap!r}; it is fixed for good.")

    def reply(
        self,
        randomizer: Randomizer,
        value: SupportsFloat | Callable[[], SupportsFloat | None] | None,
        *,
        user: str,
        key: str,
    ) -> float:
        """Charge the user, then read the value and return its reply; a retry returns the recorded reply.

        Args:
            randomizer: of the reply; its epsilon is the price.
            value: the private value, or a function that measures it, called only after the charge. A function
                that raises, whatever it raises, counts as a value that is no number; only KeyboardInterrupt passes,
                as a new one.
            user: whose value it is.
            key: of this reply among the user's; the same key is never paid twice.

        Raises:
            CapReached: it does not fit; nothing was written or measured.
            KeyConflict: the key was used with other settings.
            InputError: the user or the key is no text, or the randomiser's epsilon no price.
            LedgerError: the file cannot be used or is another one; nothing more is sent.
        """
        mechanism = json.dumps(randomizer.describe(), sort_keys=True)
        row = (_text("user", user), _text("key", key), _price(randomizer), bool(randomizer.private), mechanism)
        recorded = self._charge(row)
        if recorded is not None:
            return recorded
        return self._record(row, randomizer.randomize(_measure(value)))

    def spent(self, user: str) -> float:
        """Return the epsilon the user has paid."""
        with self._transaction("BEGIN") as (connection, _):
            return _spent(connection, user)

    def remaining(self, user: str) -> float:
        """Return the epsilon the user has left; 0 where only rounding is left."""
        with self._transaction("BEGIN") as (connection, cap):
            return _left(_spent(connection, user), cap)

    def private(self, user: str) -> bool:
        """Return False if any of the user's replies was made with insecure, seeded noise."""
        with self._transaction("BEGIN") as (connection, _):
            query = "SELECT COUNT(*) FROM dptune_replies WHERE user = ? AND NOT private"
            return int(connection.execute(query, (user,)).fetchone()[0]) == 0

    def accounts(self) -> list[Account]:
        """Return what each user has paid, by name."""
        query = "SELECT user, epsilon, private FROM dptune_replies ORDER BY user"
        with self._transaction("BEGIN") as (connection, _):
            users = [(user, list(rows)) for user, rows in groupby(connection.execute(query), key=itemgetter(0))]
        return [
            Account(user, len(rows), math.fsum(row[1] for row in rows), all(row[2] for row in rows))
            for user, rows in users
        ]

    def statement(self) -> LocalStatement:
        """Return the local privacy statement, to print or to publish. It names no user."""
        query = "SELECT mechanism, epsilon, COUNT(*) FROM dptune_replies GROUP BY 1, 2 ORDER BY MIN(rowid)"
        with self._transaction("BEGIN") as (connection, _):
            made = connection.execute(query).fetchall()
        accounts = self.accounts()
        return LocalStatement(
            cap=self.cap,
            spent=max((account.epsilon for account in accounts), default=0.0),
            users=len(accounts),
            devices=tuple(Device(json.loads(text, parse_constant=str), price, count) for text, price, count in made),
            private=all(account.private for account in accounts),
        )

    def _charge(self, row: _Charge) -> float | None:
        """Return the recorded reply, or None after making sure that this one is paid."""
        user, key, *_, mechanism = row
        with self._transaction("BEGIN IMMEDIATE") as (connection, cap):
            paid = _mechanism(connection, user, key)
            if paid is None:
                _pay(connection, row, cap)
            elif paid != mechanism:
                raise KeyConflict(f"the reply {key!r} of this user was made with other settings; use a new key.")
            return _value(connection, user, key)

    def _record(self, row: _Charge, value: float) -> float:
        """Store the value of a charge that stands in this file, and return the one that is stored."""
        user, key, *_, mechanism = row
        with suppress(sqlite3.IntegrityError), self._transaction("BEGIN IMMEDIATE") as (connection, _):
            if _mechanism(connection, user, key) != mechanism:
                raise LedgerError(f"the ledger {self._path} lost a charge; nothing was sent. Put the newest file back.")
            connection.execute("INSERT INTO dptune_values VALUES (?, ?, ?)", (user, key, value))
        with self._transaction("BEGIN") as (connection, _):
            recorded = _value(connection, user, key)
        if recorded is None:
            raise LedgerError(f"the ledger {self._path} lost a record; do not go on with it.")
        return recorded

    # ---- the file ------------------------------------------------------------------------------------

    @classmethod
    def is_at(cls, path: str | Path) -> bool:
        """Tell whether the file is a ledger of users; False where there is none, or something else."""
        ledger = cls.__new__(cls)
        ledger._path = Path(path).resolve()
        try:
            return ledger._exists()
        except LedgerError:
            return False

    def _exists(self) -> bool:
        """Tell whether the file holds a ledger; an empty one is what a crash in :meth:`_create` leaves."""
        if not self._path.is_file() or self._path.stat().st_size == 0:
            return False
        with self._connected("BEGIN", "rw") as connection:
            query = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'dptune_local'"
            return int(connection.execute(query).fetchone()[0]) == 1

    def _create(self, cap: float) -> None:
        if not self._path.parent.is_dir():
            raise LedgerError(f"the folder of the ledger {self._path} does not exist; create it first.")
        with self._connected("BEGIN IMMEDIATE", "rwc") as connection:  # two processes may create it together
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'dptune_ledger'").fetchone() is not None:
                raise LedgerError(f"{self._path} is the ledger of a curator; give the users a file of their own.")
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
            for table, same in _KEYS.items():
                for verb in ("UPDATE", "DELETE"):
                    connection.execute(_NO_CHANGE.format(table=table, verb=verb))
                connection.execute(_NO_REPLACE.format(table=table, same=same))
            if connection.execute("SELECT id FROM dptune_local").fetchone() is None:
                row = (VERSION, cap, secrets.token_hex(16))
                connection.execute("INSERT INTO dptune_local VALUES (1, ?, ?, ?)", row)

    def _open(self) -> tuple[str, float]:
        """Return identity and cap of the file."""
        if not self._path.is_file():
            raise LedgerError(f"there is no ledger at {self._path}; give cap= to create one.")
        with self._connected("BEGIN", "rw") as connection:
            version = connection.execute("SELECT version FROM dptune_local").fetchone()
            if version is None or version[0] != VERSION:
                raise LedgerError(f"the ledger {self._path} has another format than {VERSION}.")
            return _identity_and_cap(connection)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[tuple[sqlite3.Connection, float]]:
        """A transaction on the ledger that was opened, and the cap that stands in it."""
        with self._connected(begin, "rw") as connection:
            identity, cap = _identity_and_cap(connection)
            if identity != self._identity:
                raise _replaced(self._path)
            yield connection, cap

    @contextmanager
    def _connected(self, begin: str, mode: str) -> Iterator[sqlite3.Connection]:
        uri = f"{self._path.as_uri()}?mode={mode}"  # only "rwc" makes a file where there is none
        try:
            with closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as connection:
                connection.execute("PRAGMA synchronous=EXTRA")  # a commit has reached the disk, directory included
                connection.execute(begin)
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self._path} cannot be used: {error}") from None

    # ---- copies are views, never forks -----------------------------------------------------------------

    @classmethod
    def _reopen(cls, path: str, identity: str, cap: float) -> UserLedger:
        """Reopen the very ledger that was copied; never create one."""
        ledger = cls(path)
        if (ledger._identity, ledger.cap) != (identity, cap):
            raise _replaced(ledger._path)
        return ledger

    def __reduce__(self) -> tuple[Callable[[str, str, float], UserLedger], tuple[str, str, float]]:
        return type(self)._reopen, (str(self._path), self._identity, self.cap)

    def __repr__(self) -> str:
        return f"UserLedger({str(self._path)!r}, cap={self.cap!r})"


def _measure(value: SupportsFloat | Callable[[], SupportsFloat | None] | None) -> SupportsFloat | None:
    if not callable(value):
        return value
    try:
        return value()
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001  whether and how measuring failed is private, SystemExit included
        return None
    raise KeyboardInterrupt  # a new one: the other's frames hold private values


def _text(name: str, value: str) -> str:
    if not (isinstance(value, str) and value):
        raise InputError(f"{name} must be a text that is not empty; got {value!r}.")
    return value


def _price(randomizer: Randomizer) -> float:
    return positive("epsilon, a reply's price,", randomizer.epsilon)


def _pay(connection: sqlite3.Connection, row: _Charge, cap: float) -> None:
    spent = _spent(connection, row[0])
    if spent + row[2] > cap * (1 + _FORGIVEN):
        raise CapReached(row[2], _left(spent, cap), cap)
    connection.execute("INSERT INTO dptune_replies VALUES (?, ?, ?, ?, ?)", row)


def _replaced(path: Path) -> LedgerError:
    return LedgerError(
        f"the ledger {path} was replaced by another one since it was opened. What users have paid is in the old one: "
        "put it back."
    )


def _identity_and_cap(connection: sqlite3.Connection) -> tuple[str, float]:
    row = connection.execute("SELECT identity, cap FROM dptune_local").fetchone()
    return ("", 0.0) if row is None else (str(row[0]), float(row[1]))


def _mechanism(connection: sqlite3.Connection, user: str, key: str) -> str | None:
    """The mechanism that the user paid for under this key, or None."""
    query = "SELECT mechanism FROM dptune_replies WHERE user = ? AND key = ?"
    row = connection.execute(query, (user, key)).fetchone()
    return None if row is None else str(row[0])


def _spent(connection: sqlite3.Connection, user: str) -> float:
    rows = connection.execute("SELECT epsilon FROM dptune_replies WHERE user = ?", (user,))
    return math.fsum(row[0] for row in rows)


def _left(spent: float, cap: float) -> float:
    return cap - spent if cap - spent > cap * _FORGIVEN else 0.0


def _value(connection: sqlite3.Connection, user: str, key: str) -> float | None:
    row = connection.execute("SELECT value FROM dptune_values WHERE user = ? AND key = ?", (user, key)).fetchone()
    return None if row is None else float(row[0])
