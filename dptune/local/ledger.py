"""The durable ledger of each user's charges, in one SQLite file. Standard library only.

Life of a reply (charge, then read, then noise)::

    one transaction (BEGIN IMMEDIATE): look up (user, key), check the user's sum against the cap, insert, commit
    ... measure the value, clamp, draw the noise ...
    record: one insert; the first writer wins and everybody gets its value

A crash between the two leaves the charge in place. A retry with the same key is not charged: it gets the recorded
value, or records one before returning it. So each charge has at most one value. Pure epsilon adds up (basic
composition), so a user with k replies has spent the sum of their k prices.

The file stores the cap and the identity: every transaction reads both, and refuses another file or an older copy.
Copies and pickles are views of the same file; only ``UserLedger(path, cap)`` creates one.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import SupportsFloat

from dptune._checks import at_home, attempt, boolean, kind, place, positive, shown, text
from dptune._store import AskedQuestion, Mark, SqliteFile, charged, check_pages, size_of
from dptune.errors import BudgetMismatch, InputError, KeyConflict, LedgerError
from dptune.local import rows
from dptune.local.randomizer import Randomizer
from dptune.local.statement import Account, Device, LocalStatement, local_statement


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
        where = place("path", path)
        if where == ":memory:" or where.startswith("file:") or "://" in where:
            raise InputError("a ledger must outlive its process; give the path of a file, not a URL.")
        cap = None if cap is None else positive("cap", cap)
        self.path = at_home(where).resolve()
        self._seen = Mark()
        self._file = SqliteFile(self.path, name="ledger")
        if cap is not None and not _holds_ledger(self._file):
            self._create(cap)
        self.identity, self.cap = self._open()
        if cap is not None and cap != self.cap:
            raise BudgetMismatch(
                f"this ledger was created with cap={shown(self.cap)}, not {shown(cap)}; it is fixed for good."
            )

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
            randomizer: its epsilon is the price.
            value: the private value, or a function that measures it, called only after the charge. A function
                that raises, whatever it raises, counts as a value that is not a number; only KeyboardInterrupt passes,
                as a new one.
            key: key of this reply among the user's; the same key is never charged twice.

        Raises:
            CapReached: it does not fit; nothing was written or measured.
            KeyConflict: the key was used with other settings.
            InputError: the user or the key is not text, or the randomiser's epsilon is not a price.
            LedgerError: the file cannot be used or is another one; nothing more is sent.
        """
        mechanism = json.dumps(randomizer.describe(), sort_keys=True)
        price = positive("epsilon, a reply's price,", randomizer.epsilon)
        row = (text("user", user, kind), text("key", key), price, boolean("private", randomizer.private), mechanism)
        recorded = self._charge(row)
        if recorded is not None:
            return recorded
        answer = randomizer.randomize(attempt(value, failed=None) if callable(value) else value)
        try:
            return self._record(row, answer)
        except LedgerError as error:
            failed = charged(error, f"The reply {shown(key)}")
        raise failed

    def spent(self, user: str) -> float:
        """Return the epsilon that the user has spent."""
        return self._account(user)[0].epsilon

    def remaining(self, user: str) -> float:
        """Return the epsilon the user has left; 0 where only rounding is left."""
        account, cap = self._account(user)
        return rows.left(account.epsilon, cap)

    def private(self, user: str) -> bool:
        """Return False if any of the user's replies was made with insecure, seeded noise."""
        return self._account(user)[0].private

    def _account(self, user: str) -> tuple[Account, float]:
        """Return the user's account, and the cap in the file."""
        user = text("user", user, kind)
        with self._transaction(write=False) as (connection, cap):
            return next(rows.accounts(connection, user), Account(user, 0, 0.0, True)), cap

    def accounts(self) -> list[Account]:
        """Return each user's spent epsilon, by name."""
        with self._transaction(write=False) as (connection, _):
            return list(rows.accounts(connection))

    def statement(self) -> LocalStatement:
        """Return the local privacy statement, to print or to publish. It names no user."""
        query = "SELECT mechanism, epsilon, COUNT(*) FROM dptune_replies GROUP BY 1, 2 ORDER BY MIN(rowid)"
        with self._transaction(write=False) as (connection, _):
            made = connection.execute(query).fetchall()
        devices = tuple(Device(json.loads(text, parse_constant=str), price, count) for text, price, count in made)
        return local_statement(self.accounts(), devices, self.cap)

    def asked(self, rows: int) -> list[AskedQuestion]:
        """Return the questions of the first replies, for a certificate. It names no user."""
        query = "SELECT mechanism, epsilon FROM dptune_replies WHERE seq <= ? ORDER BY seq"
        with self._transaction(write=False) as (connection, _):
            made = connection.execute(query, (rows,)).fetchall()
        words = {row: str(Device(json.loads(row[0], parse_constant=str), row[1], 1)) for row in {*made}}
        return [AskedQuestion("", "", words[row], "", None) for row in made]

    def mark(self) -> dict[str, object]:
        """Return what this object has seen of the file, as JSON data to keep elsewhere."""
        return self._seen.to_json(self.identity)

    def check_mark(self, mark: object) -> None:
        """Refuse with a `LedgerError` a file that is not the one of a :meth:`mark`, or an older copy of it."""
        kept = Mark.from_json(mark, self.identity, str(self.path))
        with self._transaction(write=False) as (connection, _):
            rows.follow(connection, kept, self.path)

    def _charge(self, row: rows.Charge) -> float | None:
        """Return the recorded reply, or None after charging this one if necessary."""
        user, key, *_ = row
        with self._transaction(write=True) as (connection, cap):
            paid = rows.paid(connection, user, key)
            if paid == row:
                return rows.value(connection, user, key)
            if paid is not None:
                raise KeyConflict(f"the reply {shown(key)} of this user was made with other settings; use a new key.")
            mark = rows.pay(connection, row, cap)
        self._see(mark)
        return None

    def _record(self, row: rows.Charge, value: float) -> float:
        """Store the value of a charge in this file, and return the stored one."""
        user, key, *_ = row
        with self._transaction(write=True) as (connection, _):
            if rows.paid(connection, user, key) != row:
                raise LedgerError(f"the ledger {self.path} lost a charge; nothing was sent. Put the newest file back.")
            recorded = rows.value(connection, user, key)
            if recorded is None:
                if not math.isfinite(value):
                    raise LedgerError(
                        f"the ledger {self.path} cannot record a reply that is not finite; nothing was sent."
                    )
                connection.execute("INSERT INTO dptune_values VALUES (?, ?, ?)", (user, key, value))
        return value if recorded is None else recorded

    @staticmethod
    def is_at(path: str | Path) -> bool:
        """Return whether the file is a ledger of users; False where there is none, or something else."""
        try:
            return _holds_ledger(SqliteFile(at_home(path)))
        except LedgerError:
            return False

    def _create(self, cap: float) -> None:
        if not self.path.parent.is_dir():
            raise LedgerError(f"the folder of the ledger {self.path} does not exist; create it first.")
        with self._file.transaction(write=True) as connection:  # two processes may create it together
            if rows.has_table(connection, "dptune_ledger"):
                raise LedgerError(f"{self.path} is the ledger of a curator; give the users a file of their own.")
            rows.create(connection, cap)

    def _open(self) -> tuple[str, float]:
        """Return identity and cap of the file, after checking all of it."""
        if size_of(self.path, f"the ledger {self.path}") is None:
            raise LedgerError(f"no ledger exists at {self.path}; give cap= to create one.")
        with self._file.transaction(write=False, create=False) as connection:
            identity, cap, version = rows.header(connection)
            if version != rows.VERSION:
                raise LedgerError(
                    f"the ledger {self.path} has format {version}; this dptune reads format {rows.VERSION}. Open it "
                    "with the dptune that made it."
                )
            check_pages(connection.execute, str(self.path))
            self._seen = rows.follow(connection, self._seen, self.path)
            return identity, cap

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[tuple[sqlite3.Connection, float]]:
        """Open a transaction on the ledger, and return the cap in it."""
        with self._file.transaction(write=write, create=False) as connection:
            identity, cap, _ = rows.header(connection)
            if identity != self.identity:
                raise _replaced(self.path)
            self._see(rows.follow(connection, self._seen, self.path))
            yield connection, cap

    def _see(self, mark: Mark) -> None:
        if mark.seq > self._seen.seq:
            self._seen = mark

    @classmethod
    def _reopen(cls, path: str, mark: Mapping[str, object]) -> UserLedger:
        """Reopen the ledger that was copied; never create one."""
        ledger = cls(path)
        if ledger.identity != mark["ledger"]:
            raise _replaced(ledger.path)
        ledger.check_mark(mark)
        return ledger

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._reopen, (str(self.path), self.mark())

    def __repr__(self) -> str:
        return f"UserLedger({str(self.path)!r}, cap={self.cap!r})"


def _replaced(path: Path) -> LedgerError:
    return LedgerError(
        f"the ledger {path} was replaced by another one since it was opened. What users have paid is in the old one: "
        "put it back."
    )


def _holds_ledger(file: SqliteFile) -> bool:
    """Return whether the file holds a ledger of users; a crash during creation leaves an empty file."""
    if not size_of(file.path, f"the ledger {file.path}"):
        return False
    with file.transaction(write=False, create=False) as connection:
        return rows.has_table(connection, "dptune_local")
