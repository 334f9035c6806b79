"""Losses that wait for their question, encrypted in a file: a killed process finds them when it begins again. ::

    key = PendingLosses.new_key()          # once; keep it where passwords are kept
    privatizer = LossPrivatizer(ledger, n=5000, clip=(0, 1), pending=PendingLosses("pending.db", key))

Without it losses live in memory only, and a kill loses those of the round that is under way.

What the file protects, and what not. It holds private data, encrypted and authenticated with the user's key (Fernet,
AES-128-CBC and HMAC-SHA256, of the ``cryptography`` library). Who has the file and not the key learns from its size how
many trials waited at most, and n: public numbers. Who has both reads losses, as who reads the process's memory does.
Each row is deleted, and overwritten, when the question about it is answered or its trial is given up. Who puts an older
copy of the file back makes a run ask about points again; each question is paid like any other, so no promise breaks.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import place
from dptune.errors import InputError, LedgerError, MissingExtra

Row = npt.NDArray[np.floating[Any]]

_TABLE = "CREATE TABLE IF NOT EXISTS pending (at INTEGER PRIMARY KEY, point TEXT UNIQUE NOT NULL, sealed BLOB NOT NULL)"


@dataclass(frozen=True)
class PendingPoint:
    """What is public about a point whose losses wait, as plain JSON data; and ``failed``, as private as the losses."""

    point: str
    scope: str
    parameters: Mapping[str, Any]
    failed: bool


class PendingLosses:
    """An encrypted file for one process at a time. Give each worker a file of its own.

    Args:
        path: of the file, for example next to the ledger; created if there is none.
        key: of :meth:`new_key`.
        wait: seconds for the file of a process that is just ending.

    Raises:
        InputError: not a Fernet key, or another process has the file open.
        MissingExtra: cryptography is not installed.
    """

    def __init__(self, path: str | Path, key: str | bytes, *, wait: float = 2.0) -> None:
        self._path = Path(place("the path of pending losses", path))
        self._fernet, self._invalid = _fernet(key)
        self._process = os.getpid()
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))  # for its owner only
            self._file = sqlite3.connect(self._path, timeout=wait, isolation_level=None, check_same_thread=False)
            # truncated: a journal that an exclusive lock keeps would hold the pages of what was deleted
            for pragma in ("locking_mode=EXCLUSIVE", "secure_delete=ON", "journal_mode=TRUNCATE"):
                self._file.execute(f"PRAGMA {pragma}")
            self._file.execute("BEGIN EXCLUSIVE")
            self._file.execute(_TABLE)
            self._file.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"the file of pending losses {self._path} cannot be used: {error}. It belongs to one process at a "
                "time; give each worker a path of its own."
            ) from None

    def close(self) -> None:
        """Let another process have the file; what it holds stays."""
        self._file.close()

    @staticmethod
    def new_key() -> str:
        """Return a new key, from the system's generator: 44 characters."""
        return str(_cryptography().Fernet.generate_key().decode())

    def keep(self, waiting: PendingPoint, row: Row, *, whose: Sequence[object]) -> None:
        """Write the row of a point. ``whose`` is JSON data by which ledger and privatizer are recognised; private.

        Raises:
            LedgerError: it cannot be written.
        """
        head = json.dumps([waiting.scope, waiting.parameters, int(waiting.failed), row.dtype.str, whose]).encode()
        sealed = self._fernet.encrypt(len(head).to_bytes(4, "big") + head + row.tobytes())
        self._change("INSERT OR REPLACE INTO pending (point, sealed) VALUES (?, ?)", [(waiting.point, sealed)])

    def drop(self, points: Collection[str]) -> None:
        """Delete the rows of points, where there are any.

        Raises:
            LedgerError: it cannot be written.
        """
        self._change("DELETE FROM pending WHERE point = ?", [(point,) for point in points])

    def rows(self, scope: str, *, whose: Sequence[object]) -> list[tuple[PendingPoint, Row]]:
        """Return the points of a run that wait, and their rows, in the order of arrival.

        Raises:
            InputError: they were written with another key, for another ledger or privatizer, or changed since.
        """
        if os.getpid() != self._process:
            return []
        rows = self._file.execute("SELECT point, sealed FROM pending ORDER BY at").fetchall()
        opened = [self._opened(point, sealed, list(whose)) for point, sealed in rows]
        return [(waiting, row) for waiting, row in opened if waiting.scope == scope]

    def _opened(self, point: str, sealed: bytes, whose: list[object]) -> tuple[PendingPoint, Row]:
        try:
            content = self._fernet.decrypt(sealed)
        except self._invalid:
            raise self._other("the key does not open them, or they were changed") from None
        end = 4 + int.from_bytes(content[:4], "big")
        scope, parameters, failed, dtype, theirs = json.loads(content[4:end])
        if theirs != whose:
            raise self._other("their ledger is another one, or groups, weights, clip, precision or seed were others")
        return PendingPoint(point, scope, parameters, bool(failed)), np.frombuffer(content[end:], dtype=dtype)

    def _other(self, why: str) -> InputError:
        return InputError(
            f"the pending losses in {self._path} cannot be restored: {why}. Give what they were written with, or "
            "delete the file; then its trials are trained again."
        )

    def _change(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        if os.getpid() != self._process:
            return  # a fork: its losses are its own, and the file is its parent's
        try:
            self._file.executemany(statement, rows)
        except sqlite3.Error as error:
            raise LedgerError(f"the file of pending losses {self._path} cannot be written: {error}.") from None

    def __repr__(self) -> str:
        return f"PendingLosses({str(self._path)!r}, <key>)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "pending losses cannot be pickled, because of their key: make them in the process that holds the losses."
        )


def _cryptography() -> Any:
    try:
        from cryptography import fernet
    except ImportError:
        raise MissingExtra('pending losses need cryptography: pip install "dptune[cryptography]".') from None
    return fernet


def _fernet(key: object) -> tuple[Any, type[Exception]]:
    library = _cryptography()
    try:
        return library.Fernet(key), library.InvalidToken
    except (ValueError, TypeError, AttributeError):
        raise InputError("the key of pending losses must be one of PendingLosses.new_key().") from None
