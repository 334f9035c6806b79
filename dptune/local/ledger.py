"""What each user has paid: a durable count of replies, in one SQLite file. Standard library only.

Life of a reply (charge, then read, then noise)::

    one transaction (BEGIN IMMEDIATE): look up (user, key), check the user's sum against the cap, insert, commit
    ... measure the value, clamp, draw the noise ...
    record: one insert; the first writer wins and everybody gets its value

A crash between the two leaves the charge standing. A retry with the same key pays nothing and gets the recorded
value, or, if none was recorded, records one before anybody sees it: each charge is answered by at most one value.
Pure epsilon adds up (basic composition), so a user with k replies has paid the sum of their k prices.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import SupportsFloat

from dptune.errors import BudgetMismatch, CapReached, InputError, KeyConflict, LedgerError
from dptune.local.randomizer import Randomizer

VERSION = 1
_FORGIVEN = 1e-12  # rounding of k replies of cap/k; the noise carries a slack a million times larger
_TABLES = """
CREATE TABLE IF NOT EXISTS dptune_local (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, cap REAL NOT NULL);
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
        if str(path) == ":memory:" or str(path).startswith("file:"):
            raise InputError("a ledger must outlive its process; give the path of a file.")
        if cap is not None and not (math.isfinite(cap) and cap > 0):
            raise InputError(f"cap must be positive and finite; got {cap!r}.")
        self._path = Path(path).resolve()
        if cap is not None:
            self._create(float(cap))
        self.cap = self._open()
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
                that raises counts as a value that is no number.
            user: whose value it is.
            key: of this reply among the user's; the same key is never paid twice.

        Raises:
            CapReached: it does not fit; nothing was written or measured.
            KeyConflict: the key was used with other settings.
        """
        recorded = self._charge(randomizer, user, key)
        if recorded is not None:
            return recorded
        return self._record(user, key, randomizer.randomize(_measure(value)))

    def spent(self, user: str) -> float:
        """Return the epsilon the user has paid."""
        with self._transaction("BEGIN") as connection:
            return _spent(connection, user)

    def remaining(self, user: str) -> float:
        """Return the epsilon the user has left; 0 where only rounding is left."""
        return _left(self.spent(user), self.cap)

    def private(self, user: str) -> bool:
        """Return False if any of the user's replies was made with insecure, seeded noise."""
        with self._transaction("BEGIN") as connection:
            query = "SELECT COUNT(*) FROM dptune_replies WHERE user = ? AND NOT private"
            return int(connection.execute(query, (user,)).fetchone()[0]) == 0

    def _charge(self, randomizer: Randomizer, user: str, key: str) -> float | None:
        """Return the recorded reply, or None after making sure that this one is paid."""
        mechanism = json.dumps(randomizer.describe(), sort_keys=True)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            query = "SELECT mechanism FROM dptune_replies WHERE user = ? AND key = ?"
            paid = connection.execute(query, (user, key)).fetchone()
            if paid is None:
                self._pay(connection, (user, key, randomizer.epsilon, randomizer.private, mechanism))
            elif paid[0] != mechanism:
                raise KeyConflict(f"the reply {key!r} of this user was made with other settings; use a new key.")
            return _value(connection, user, key)

    def _pay(self, connection: sqlite3.Connection, row: tuple[str, str, float, bool, str]) -> None:
        spent = _spent(connection, row[0])
        if spent + row[2] > self.cap * (1 + _FORGIVEN):
            raise CapReached(row[2], _left(spent, self.cap), self.cap)
        connection.execute("INSERT INTO dptune_replies VALUES (?, ?, ?, ?, ?)", row)

    def _record(self, user: str, key: str, value: float) -> float:
        with suppress(sqlite3.IntegrityError), self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute("INSERT INTO dptune_values VALUES (?, ?, ?)", (user, key, value))
        with self._transaction("BEGIN") as connection:
            recorded = _value(connection, user, key)
        if recorded is None:
            raise LedgerError(f"the ledger {self._path} lost a record; do not go on with it.")
        return recorded

    def _create(self, cap: float) -> None:
        if not self._path.parent.is_dir():
            raise LedgerError(f"the folder of the ledger {self._path} does not exist; create it first.")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
            for table, same in _KEYS.items():
                for verb in ("UPDATE", "DELETE"):
                    connection.execute(_NO_CHANGE.format(table=table, verb=verb))
                connection.execute(_NO_REPLACE.format(table=table, same=same))
            if connection.execute("SELECT id FROM dptune_local").fetchone() is None:
                connection.execute("INSERT INTO dptune_local VALUES (1, ?, ?)", (VERSION, cap))

    def _open(self) -> float:
        if not self._path.is_file():
            raise LedgerError(f"there is no ledger at {self._path}; give cap= to create one.")
        with self._transaction("BEGIN") as connection:
            row = connection.execute("SELECT version, cap FROM dptune_local").fetchone()
        if row is None or row[0] != VERSION:
            raise LedgerError(f"the ledger {self._path} has another format than {VERSION}.")
        return float(row[1])

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as connection:
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

    def __reduce__(self) -> tuple[type[UserLedger], tuple[str, float]]:
        return type(self), (str(self._path), self.cap)

    def __repr__(self) -> str:
        return f"UserLedger({str(self._path)!r}, cap={self.cap!r})"


def _measure(value: SupportsFloat | Callable[[], SupportsFloat | None] | None) -> SupportsFloat | None:
    if not callable(value):
        return value
    try:
        return value()
    except Exception:  # noqa: BLE001  whether measuring failed is private
        return None


def _spent(connection: sqlite3.Connection, user: str) -> float:
    rows = connection.execute("SELECT epsilon FROM dptune_replies WHERE user = ?", (user,))
    return math.fsum(row[0] for row in rows)


def _left(spent: float, cap: float) -> float:
    return cap - spent if cap - spent > cap * _FORGIVEN else 0.0


def _value(connection: sqlite3.Connection, user: str, key: str) -> float | None:
    row = connection.execute("SELECT value FROM dptune_values WHERE user = ? AND key = ?", (user, key)).fetchone()
    return None if row is None else float(row[0])
