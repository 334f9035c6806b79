"""Files that outlive their process: rows that vouch for one another, tables that only grow, transactions that are kept.

Standard library only: a user's device keeps such a file, too. ::

    hash_n = sha256(hash_{n-1}, content of row n)

Whoever remembers one row's number and hash, a :class:`Mark`, notices if an older copy of the file is put back, or a row
is lost or changed. It guards against accidents; who may write the file can also compute hashes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptune._checks import at_least, shown
from dptune.errors import InputError, LedgerError


@dataclass(frozen=True)
class SqliteFile:
    """An SQLite file of several processes. Each transaction opens it anew, so that no connection outlives a fork.

    Attributes:
        path: of the file; it is made if there is none.
        tables: what creates its tables, run before each transaction.
        name: what it is, for an error.
    """

    path: str | Path
    tables: Sequence[str] = ()
    name: str = "file"

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[sqlite3.Connection]:
        """Commit at the end, on the disk; take everything back if the block raises.

        Args:
            write: take the lock before reading, so that check and insert are one step.
            create: make the file if there is none.

        Raises:
            LedgerError: the file cannot be used.
        """
        uri = f"{Path(self.path).absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        try:
            with closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as connection:
                connection.execute("PRAGMA synchronous=EXTRA")  # a commit has reached the disk, directory included
                connection.execute("PRAGMA fullfsync=ON")  # macOS: through the disk's own cache, too
                for table in self.tables:
                    connection.execute(table)
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(f"the {self.name} {self.path} cannot be used: {error}") from None


_NO_CHANGE = """CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""
_NO_REPLACE = """CREATE TRIGGER IF NOT EXISTS {table}_no_REPLACE BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {same})
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""  # INSERT OR REPLACE fires no DELETE trigger


def append_only(table: str, keys: Iterable[Sequence[str]]) -> list[str]:
    """Return the triggers with which SQLite refuses to change a table's rows; ``keys`` are its unique columns."""
    same = " OR ".join("(" + " AND ".join(f"{name} = NEW.{name}" for name in key) + ")" for key in keys)
    changes = [_NO_CHANGE.format(table=table, verb=verb) for verb in ("UPDATE", "DELETE")]
    return [*changes, _NO_REPLACE.format(table=table, same=same)]


def check_pages(execute: Callable[[str], Any], name: str) -> None:
    """Let SQLite compare its tables with their indexes.

    Raises:
        LedgerError: they contradict each other: a part of the file is older than the rest.
    """
    found = str(execute("PRAGMA integrity_check(1)").fetchone()[0])
    if found != "ok":
        raise damaged(name, found.partition("\n")[0])


@dataclass(frozen=True)
class Mark:
    """The last row that somebody has seen.

    Attributes:
        seq: its number, from 1, without gaps; 0 before the first row.
        hash: of this row and all before it.
    """

    seq: int = 0
    hash: str = ""

    def link(self, content: object) -> Mark:
        """Return the mark after one more row; ``content`` is JSON data."""
        text = json.dumps([self.hash, content], sort_keys=True, allow_nan=False)
        return Mark(self.seq + 1, hashlib.sha256(text.encode()).hexdigest())

    def to_json(self, identity: str) -> dict[str, object]:
        """Return the mark in the ledger ``identity``, to be kept elsewhere."""
        return {"ledger": identity, "seq": self.seq, "hash": self.hash}

    @classmethod
    def from_json(cls, mark: object, identity: str, name: str) -> Mark:
        """Return a mark that was kept elsewhere.

        Raises:
            InputError: it is not one.
            LedgerError: it is of another ledger than ``identity``, which lies at ``name``.
        """
        if not (isinstance(mark, Mapping) and {"ledger", "seq", "hash"} <= mark.keys()):
            raise InputError(f"a mark is what ledger.mark() returned, with ledger, seq and hash; got {shown(mark)}.")
        if mark["ledger"] != identity:
            raise LedgerError(
                f"{name} is another ledger than the one this study was begun with, so the budget of that one does not "
                "hold here. Open the ledger of the study (check the path and the working directory), or begin a new "
                "study."
            )
        return cls(at_least("seq of a mark", mark["seq"], 0), str(mark["hash"]))


def behind(name: str, mark: Mark) -> LedgerError:
    """Return the refusal of a ledger that does not hold a row which was seen."""
    return LedgerError(
        f"the ledger {name} is behind: it does not hold its row {mark.seq}, which was seen before. An older copy was "
        "put back, or a part of the file was lost. What was spent since is in the newest file: put that one back."
    )


def damaged(name: str, what: str) -> LedgerError:
    """Return the refusal of a ledger that contradicts itself."""
    return LedgerError(
        f"the ledger {name} is damaged ({what}); nothing was charged. Put the newest intact copy back. What was spent "
        "since then is not in it: count it as spent."
    )
