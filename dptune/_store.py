"""Durable files, and locks that survive a fork: rows chained by hashes, append-only tables, durable transactions.

Standard library only, because a user's device keeps such a file, too. ::

    hash_n = sha256(hash_{n-1}, content of row n)

A :class:`Mark`, one row's number and hash, reveals if an older copy of the file is put back, or a row is lost or
changed. This guards against accidents: anyone who may write the file can also compute hashes.

A file of SQLite has one name and one writer:

SQLite names a transaction's journal after the path that opened the file. Under a second name (a hard link, or a mount
of the file alone), SQLite does not find the journal of a killed process. A later rollback under the first name may undo
published rows, so such a file is refused.

SQLite locks the file for the process. POSIX drops all locks of a process on a file when the process closes any
descriptor of it: a thread that copies the file is enough. So every transaction also locks a second file,
``<name>.lock``, by flock, which belongs to one open descriptor. The lock file is empty and stays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakSet

from dptune._checks import at_least, shown
from dptune.errors import InputError, LedgerError

try:
    import fcntl
except ImportError:  # Windows, whose locks belong to the open file
    fcntl = None  # type: ignore[assignment]

SECONDS = 60.0  # that a transaction waits for others
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")  # how a mount table escapes a space
_POLL = 0.001, 0.05  # seconds between two tries: at first, at most


@dataclass(frozen=True)
class SqliteFile:
    """An SQLite file that processes share. Each transaction opens its own connection, so none outlives a fork."""

    path: str | Path
    tables: Sequence[str] = ()  # statements that create them, run before each transaction
    name: str = "file"  # what an error calls the file

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[sqlite3.Connection]:
        """Commit durably at the end; roll back if the block raises.

        With ``write`` the lock is taken before reading, so that check and insert are one step.
        """
        path = Path(self.path).resolve()
        uri = f"{path.as_uri()}?mode={'rwc' if create else 'rw'}"
        name = f"the {self.name} {self.path}"
        refuse_second_name(path, name)
        try:
            with (
                locked(path, name, write=write),
                closing(sqlite3.connect(uri, timeout=SECONDS, isolation_level=None, uri=True)) as connection,
            ):
                connection.execute("PRAGMA synchronous=EXTRA")  # a commit has reached the disk, directory included
                connection.execute("PRAGMA fullfsync=ON")  # macOS: through the disk's own cache, too
                for table in self.tables:
                    connection.execute(table)
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(f"{name} cannot be used: {error}{no_right_to_read(path)}") from None


NO_SEARCH = "this process may not search its folder. Let the owner of the folder allow that."


def size_of(path: str | Path, name: str) -> int | None:
    """Return the size of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except PermissionError:
        raise LedgerError(f"{name} cannot be used: {NO_SEARCH}") from None
    except OSError:
        return None
    return status.st_size if S_ISREG(status.st_mode) else None


def no_right_to_read(path: str | Path) -> str:
    """Return advice on a file that this process may not read; "" if it may, or if the file is not found."""
    denied = os.path.exists(path) and not os.access(path, os.R_OK)
    return ". This process may not read the file: let its owner allow that" if denied else ""


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
    """Compare SQLite's tables with their indexes."""
    verdict = str(execute("PRAGMA integrity_check(1)").fetchone()[0])
    if verdict != "ok":
        raise damaged(name, verdict.partition("\n")[0])


@dataclass(frozen=True)
class Mark:
    """The last row that a reader has seen."""

    seq: int = 0  # its number, from 1, without gaps; 0 before the first row
    hash: str = ""  # covers this row and all before it

    def link(self, content: object) -> Mark:
        """Return the mark after one more row; ``content`` is JSON data."""
        text = json.dumps([self.hash, content], sort_keys=True, allow_nan=False)
        return Mark(self.seq + 1, hashlib.sha256(text.encode()).hexdigest())

    def to_json(self, identity: str) -> dict[str, object]:
        """Return the mark of the ledger ``identity`` as JSON, to store elsewhere."""
        return {"ledger": identity, "seq": self.seq, "hash": self.hash}

    @classmethod
    def from_json(cls, mark: object, identity: str, name: str) -> Mark:
        """Return a mark that was stored elsewhere."""
        if not (isinstance(mark, Mapping) and {"ledger", "seq", "hash"} <= mark.keys()):
            raise InputError(f"a mark is what ledger.mark() returned, with ledger, seq and hash; got {shown(mark)}.")
        if mark["ledger"] != identity:
            raise LedgerError(
                f"{name} is another ledger than the one that this study started with, so its budget does not "
                "hold here. Open the ledger of the study (check the path and the working directory), or start a new "
                "study."
            )
        return cls(at_least("seq of a mark", mark["seq"], 0), str(mark["hash"]))


class AskedQuestion(NamedTuple):
    """One charged question of a ledger, for its certificate."""

    study: str
    key: str
    question: str  # in words
    day: str  # date of the charge; "" if the ledger stores none
    value: Sequence[float] | str | None  # released, or a table's digest; None if lost, or if the ledger shows none


def behind(name: str, mark: Mark, *, other: bool) -> LedgerError:
    """Return the error for a ledger that lacks a row which was seen, or holds an ``other`` one in its place."""
    if other:
        return LedgerError(
            f"the ledger {name} holds another row {mark.seq} than the one that was seen before. Either two copies of "
            "the ledger were charged apart: their prices add up, and neither file has all of them. Or the record of "
            "that row was altered. `dptune show --releases` lists what each copy has released."
        )
    return LedgerError(
        f"the ledger {name} is behind: it does not hold its row {mark.seq}, which was seen before. An older copy was "
        "restored, or a part of the file was lost. Restore the newest file: it has all charges."
    )


def charged(error: LedgerError, what: str) -> LedgerError:
    """Return the error for an answer that was not recorded: its charge stands."""
    words = re.sub(r"(; |: |\. )[Nn]othing was charged", "", str(error)).removesuffix(".")
    return LedgerError(
        f"{words}. {what} is charged, and its answer was not recorded. Run it again when the ledger can be used: it is "
        "answered at no further cost."
    )


def damaged(name: str, what: str) -> LedgerError:
    """Return the error for a ledger that contradicts itself."""
    return LedgerError(
        f"the ledger {name} is damaged ({what}); nothing was charged. Restore the newest intact copy. It lacks later "
        "charges: count them as spent."
    )


# ---- one file, one name, one writer ----------------------------------------------------------


def refuse_second_name(path: str | Path, name: str) -> None:
    """Refuse a file that may be known under another name, here or on the machine that mounts it.

    The path has no symbolic links; the file need not exist.
    """
    with suppress(OSError):
        refuse_links(os.stat(path), name)
    if os.path.realpath(path) in _mount_points():
        raise _refusal(
            name,
            "is mounted as a single file, as by `docker -v .../ledger.db:/ledger.db`, and has another name outside",
            "Mount the folder of the file instead",
        )


def refuse_links(status: os.stat_result, name: str) -> None:
    """Refuse a directory, and a file with several hard links."""
    if S_ISDIR(status.st_mode):
        raise LedgerError(f"{name} is a directory. Give the path of a file. Nothing was charged.")
    if status.st_nlink > 1:
        raise _refusal(
            name,
            f"has {status.st_nlink} names (hard links)",
            "Find them with `find <folder> -samefile <file>` and delete all but one; if one has a -journal file beside "
            "it, that is the one to keep",
        )


def _refusal(name: str, what: str, remedy: str) -> LedgerError:
    return LedgerError(
        f"{name} {what}. SQLite keeps one journal for each name, so a crash could lose a charge or publish two draws. "
        f"Nothing was charged. {remedy}."
    )


def _mount_points() -> set[str]:
    """Return where file systems and single files are mounted; empty where the system does not say so."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return {_OCTAL.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in mounts}
    except (OSError, IndexError):
        return set()


@contextmanager
def locked(path: str | Path, name: str, *, write: bool) -> Iterator[None]:
    """Hold the lock of a file: exclusive to write, shared to read.

    A reader creates no lock file: before the first writer creates it, SQLite's own locks suffice.
    """
    descriptor = None if fcntl is None else _opened(f"{path}.lock", name, write)
    if descriptor is None:
        yield
        return
    try:
        _wait(descriptor, name, write)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a child that was forked meanwhile and has the descriptor, too
        os.close(descriptor)


def _opened(lock: str, name: str, write: bool) -> int | None:
    """Return a descriptor of the lock file; a read-only one suffices if another user created the file."""
    wanted: list[Any] = [os.O_RDWR | os.O_CREAT] if write else []
    error: OSError | None = None
    for flags in (*wanted, os.O_RDONLY):
        try:
            return os.open(lock, flags | os.O_CLOEXEC, 0o666)
        except OSError as each:
            error = error or each
    if not write and isinstance(error, FileNotFoundError):
        return None
    reason = error.strerror if error is not None else ""
    raise LedgerError(
        f"{name} cannot be used: its lock {lock} cannot be opened ({reason}); nothing was charged. This process must "
        f"be allowed to {'write the file and its folder' if write else 'read the file and its lock'}."
    )


def _wait(descriptor: int, name: str, write: bool) -> None:
    how = (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB
    pause, longest = _POLL
    end = time.monotonic() + SECONDS
    while True:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            if time.monotonic() > end:
                raise LedgerError(
                    f"{name} is locked: another process has held it for a minute; nothing was charged. See what that "
                    "one does."
                ) from None
        except OSError as error:
            raise LedgerError(
                f"{name} cannot be locked ({error.strerror}); nothing was charged. Keep it on a local disk, or in "
                "PostgreSQL."
            ) from None
        else:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, longest)


class ForkSafeLock:
    """A re-entrant lock for ``with``; its pickles and copies are new locks.

    A lock held by another thread at the time of a fork does not block the child, which starts with its own.
    """

    def __init__(self) -> None:
        self._renew()
        _ALL.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # a child forked inside the block has a new lock
            self._lock.release()

    def __reduce__(self) -> tuple[type[ForkSafeLock], tuple[()]]:
        return ForkSafeLock, ()


_ALL: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in _ALL:
        lock._renew()


if hasattr(os, "register_at_fork"):  # the child has one thread at this moment, so nothing can race
    os.register_at_fork(after_in_child=_renew_all)
