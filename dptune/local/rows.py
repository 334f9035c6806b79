"""The tables of a ledger of users, append-only by trigger, and its rows. Standard library only.

Each reply's row carries its number, the number and sum of its user's replies so far, and a hash of itself and all
rows before it (:mod:`dptune._store`).
"""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from dptune._numbers import EXACT
from dptune._store import Mark, append_only, behind, damaged
from dptune.errors import CapReached
from dptune.local.statement import Account

VERSION = 1  # version of these tables
_FORGIVEN = Decimal("1e-12")  # relative rounding of k replies of cap/k; the noise's slack is a million times larger
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
_KEYS = {
    "dptune_local": [["id"]],
    "dptune_replies": [["seq"], ["user", "key"], ["user", "nth"]],
    "dptune_values": [["user", "key"]],
}
_COLUMNS = "user, key, epsilon, private, mechanism, nth, epsilon_so_far"
Charge = tuple[str, str, float, bool, str]  # user, key, epsilon, private, mechanism


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether the file has a table of this name."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def create(connection: sqlite3.Connection, cap: float) -> None:
    """Create missing tables, triggers and header."""
    for statement in _TABLES.split(";")[:-1]:
        connection.execute(statement)
    for table, keys in _KEYS.items():
        for trigger in append_only(table, keys):
            connection.execute(trigger)
    if connection.execute("SELECT id FROM dptune_local").fetchone() is None:
        row = (VERSION, cap, secrets.token_hex(16))
        connection.execute("INSERT INTO dptune_local VALUES (1, ?, ?, ?)", row)


def header(connection: sqlite3.Connection) -> tuple[str, float, int]:
    """Return identity, cap and version of a file."""
    row = connection.execute("SELECT identity, cap, version FROM dptune_local").fetchone()
    return ("", 0.0, 0) if row is None else (str(row[0]), float(row[1]), int(row[2]))


def follow(connection: sqlite3.Connection, seen: Mark, path: Path) -> Mark:
    """Return the mark of the last reply, after recomputing the totals of the rows after ``seen``."""
    stored = connection.execute("SELECT hash FROM dptune_replies WHERE seq = ?", (seen.seq,)).fetchone()
    if seen.seq and (stored is None or stored[0] != seen.hash):
        raise behind(str(path), seen, other=stored is not None)
    query = f"SELECT seq, hash, {_COLUMNS} FROM dptune_replies WHERE seq > ? ORDER BY seq"
    for number, link, *row in connection.execute(query, (seen.seq,)):
        seen = seen.link(row)
        user, _, epsilon, *_, nth, so_far = row
        total = EXACT.add(_so_far(connection, user, nth - 1), Decimal(epsilon))
        if (number, link, so_far) != (seen.seq, seen.hash, str(total)):
            raise damaged(str(path), f"reply {number} does not follow from those before it")
    return seen


def pay(connection: sqlite3.Connection, row: Charge, cap: float) -> Mark:
    """Insert a charge, if the user's sum allows it; return its mark."""
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
    connection.execute(query, (mark.seq, mark.hash, *content))
    return mark


def _so_far(connection: sqlite3.Connection, user: str, nth: int) -> Decimal:
    query = "SELECT epsilon_so_far FROM dptune_replies WHERE user = ? AND nth = ?"
    row = connection.execute(query, (user, nth)).fetchone()
    return Decimal(0) if row is None else Decimal(row[0])


def accounts(connection: sqlite3.Connection, user: str | None = None) -> Iterator[Account]:
    """Yield the account of each user, or of one, by name."""
    one, names = ("", ()) if user is None else ("WHERE user = ?", (user,))
    rows = connection.execute(f"SELECT user, epsilon, private FROM dptune_replies {one} ORDER BY user", names)
    for name, paid in groupby(rows, key=itemgetter(0)):
        _, prices, private = zip(*paid, strict=True)
        yield Account(name, len(prices), math.fsum(prices), all(private))


def left(spent: float, cap: float) -> float:
    """Return the rest of a cap; 0 if only rounding is left."""
    return cap - spent if cap - spent > cap * float(_FORGIVEN) else 0.0


def paid(connection: sqlite3.Connection, user: str, key: str) -> Charge | None:
    """Return the user's charge under this key, or None."""
    query = "SELECT user, key, epsilon, private, mechanism FROM dptune_replies WHERE user = ? AND key = ?"
    row = connection.execute(query, (user, key)).fetchone()
    return None if row is None else (str(row[0]), str(row[1]), float(row[2]), bool(row[3]), str(row[4]))


def value(connection: sqlite3.Connection, user: str, key: str) -> float | None:
    """Return the recorded reply under this key, or None."""
    row = connection.execute("SELECT value FROM dptune_values WHERE user = ? AND key = ?", (user, key)).fetchone()
    return None if row is None else float(row[0])
