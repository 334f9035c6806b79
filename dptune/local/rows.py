"""The tables of a ledger of users, append-only by trigger, and its rows. Standard library only.

Each reply's row carries its number, the number and sum of its user's replies so far, and a hash of itself and all
rows before it (:mod:`dptune._chain`). Version 2 had replies without them.
"""

from __future__ import annotations

import math
import sqlite3
from decimal import Decimal
from pathlib import Path

from dptune._chain import Mark, behind, damaged
from dptune._numbers import EXACT
from dptune.errors import CapReached

VERSION, READ_ONLY = 3, 2  # of new files, and of those that can still be read
_FORGIVEN = Decimal("1e-12")  # rounding of k replies of cap/k; the noise carries a slack a million times larger
_TABLES = """
CREATE TABLE IF NOT EXISTS dptune_local (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, cap REAL NOT NULL, identity TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS dptune_replies (
    seq INTEGER PRIMARY KEY, user TEXT NOT NULL, key TEXT NOT NULL, epsilon REAL NOT NULL, private INTEGER NOT NULL,
    mechanism TEXT NOT NULL, nth INTEGER NOT NULL, epsilon_so_far TEXT NOT NULL, hash TEXT NOT NULL,
    UNIQUE (user, key), UNIQUE (user, nth));
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
    "dptune_replies": "seq = NEW.seq OR (user = NEW.user AND key = NEW.key) OR (user = NEW.user AND nth = NEW.nth)",
    "dptune_values": "user = NEW.user AND key = NEW.key",
}
_COLUMNS = "user, key, epsilon, private, mechanism, nth, epsilon_so_far"
Charge = tuple[str, str, float, bool, str]  # user, key, epsilon, private, mechanism


def create(connection: sqlite3.Connection) -> None:
    """Create what is missing of the tables and triggers."""
    for statement in _TABLES.split(";")[:-1]:
        connection.execute(statement)
    for table, same in _KEYS.items():
        for verb in ("UPDATE", "DELETE"):
            connection.execute(_NO_CHANGE.format(table=table, verb=verb))
        connection.execute(_NO_REPLACE.format(table=table, same=same))


def follow(connection: sqlite3.Connection, seen: Mark, path: Path) -> Mark:
    """Return the mark of the last reply, after recomputing what the rows after ``seen`` say.

    Raises:
        LedgerError: the row that was seen is missing, or one does not follow from those before it.
    """
    found = connection.execute("SELECT hash FROM dptune_replies WHERE seq = ?", (seen.seq,)).fetchone()
    if seen.seq and (found is None or found[0] != seen.hash):
        raise behind(str(path), seen)
    query = f"SELECT seq, hash, {_COLUMNS} FROM dptune_replies WHERE seq > ? ORDER BY seq"
    for number, link, *row in connection.execute(query, (seen.seq,)):
        seen = seen.link(row)
        user, _, epsilon, *_, nth, so_far = row
        if (number, link, so_far) != (*_of(seen), str(EXACT.add(_so_far(connection, user, nth - 1), Decimal(epsilon)))):
            raise damaged(str(path), f"reply {number} does not follow from those before it")
    return seen


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite compare its tables with their indexes.

    Raises:
        LedgerError: they contradict each other: a part of the file is older than the rest.
    """
    found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if found != "ok":
        raise damaged(str(path), found.partition("\n")[0])


def pay(connection: sqlite3.Connection, row: Charge, cap: float) -> Mark:
    """Insert a charge, if the user's sum allows it; return its mark.

    Raises:
        CapReached: it does not.
    """
    user, key, epsilon, private, mechanism = row
    last = connection.execute("SELECT MAX(nth) FROM dptune_replies WHERE user = ?", (user,)).fetchone()[0] or 0
    spent = _so_far(connection, user, last)
    total = EXACT.add(spent, Decimal(epsilon))
    if total > EXACT.multiply(Decimal(cap), 1 + _FORGIVEN):
        raise CapReached(epsilon, left(float(spent), cap), cap)
    content = (user, key, epsilon, int(private), mechanism, last + 1, str(total))
    head = connection.execute("SELECT seq, hash FROM dptune_replies ORDER BY seq DESC LIMIT 1").fetchone()
    mark = Mark(*(head or ())).link(list(content))
    query = f"INSERT INTO dptune_replies (seq, hash, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, (*_of(mark), *content))
    return mark


def _of(mark: Mark) -> tuple[int, str]:
    return mark.seq, mark.hash


def _so_far(connection: sqlite3.Connection, user: str, nth: int) -> Decimal:
    query = "SELECT epsilon_so_far FROM dptune_replies WHERE user = ? AND nth = ?"
    row = connection.execute(query, (user, nth)).fetchone()
    return Decimal(0) if row is None else Decimal(row[0])


def spent(connection: sqlite3.Connection, user: str) -> float:
    """Return the sum of what a user has paid, also in a file of version 2."""
    rows = connection.execute("SELECT epsilon FROM dptune_replies WHERE user = ?", (user,))
    return math.fsum(row[0] for row in rows)


def left(spent: float, cap: float) -> float:
    """Return what is left of a cap; 0 where that is only rounding."""
    return cap - spent if cap - spent > cap * float(_FORGIVEN) else 0.0


def mechanism(connection: sqlite3.Connection, user: str, key: str) -> str | None:
    """Return the mechanism that the user paid for under this key, or None."""
    query = "SELECT mechanism FROM dptune_replies WHERE user = ? AND key = ?"
    row = connection.execute(query, (user, key)).fetchone()
    return None if row is None else str(row[0])


def value(connection: sqlite3.Connection, user: str, key: str) -> float | None:
    """Return the reply that is recorded under this key, or None."""
    row = connection.execute("SELECT value FROM dptune_values WHERE user = ? AND key = ?", (user, key)).fetchone()
    return None if row is None else float(row[0])
