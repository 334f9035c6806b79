"""The files between curator and modeler: a noisy table, then row numbers as queries, and outputs as answers.

A folder that both processes can read and write holds all of it::

    table.npy            Z (n, k), float64: the release
    table.json           public facts about Z for the modeler; written after table.npy
    query-000001.json    {"row": 17}, written by the modeler: "evaluate row 17"
    answer-000001.json   {"row": 17, "y": 0.3}, written by the curator

Every file appears whole: it is written under another name and renamed. Nothing is pickled or unpickled. Both halves
import this file, so it knows neither private rows nor ledgers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dptune._arrays import Matrix
from dptune._checks import at_least, place, positive, real, whole
from dptune.errors import InputError

T = TypeVar("T")

_LOOK_EVERY = 0.02  # seconds


@dataclass(frozen=True)
class TableFacts:
    """Public facts about a released table."""

    sigma: float  # standard deviation of the noise of each number in Z
    maximise: bool  # whether large outputs are good
    promise: str  # the privacy promise of the table, in words
    outputs: str  # what protects the outputs, in words
    digest: str  # SHA-256 of table.npy, in hexadecimal digits


@dataclass(frozen=True, eq=False)
class Table:
    """A released table: Z (n, k), read-only, and its facts."""

    values: Matrix
    facts: TableFacts


def to_bytes(values: Matrix) -> bytes:
    """Return the array as the bytes of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(values), allow_pickle=False)
    return buffer.getvalue()


class Exchange:
    """The shared folder, used by both halves; made if it is missing.

    ``timeout`` is how many seconds to wait for the other half. A longer wait raises an `InputError`, and so does a file
    that the other half does not write.
    """

    def __init__(self, folder: str | os.PathLike[str], *, timeout: float = 600.0) -> None:
        self.folder = Path(place("the shared folder", folder))
        self.timeout = positive("timeout", timeout)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"no folder can be made at {str(folder)!r}: {error.strerror}.") from None

    # ---- the curator's half ------------------------------------------------------------------

    def publish(self, data: bytes, facts: TableFacts) -> None:
        """Show a table, or show it again; a folder with another table is refused."""
        self.refuse_other_table(facts.digest)
        self._write("table.npy", data)
        self._write("table.json", _json(asdict(facts)))

    def refuse_other_table(self, digest: str | None) -> None:
        """Refuse a folder with a table of another digest; None: with any table."""
        if (shown := self._read("table.json")) is not None and shown.get("digest") != digest:
            unpaid = "" if digest else " Nothing was charged."
            raise InputError(
                f"{str(self.folder)!r} holds another table; give every export a folder of its own.{unpaid}"
            )

    def query(self, t: int, n: int) -> int:
        """Wait for the modeler's query, one of n rows, in round ``t``, from 1."""
        asked = self._wait(lambda: self._read(_query(t)), f"query {t}", "modeler")
        row = whole(asked.get("row"))
        if row is None or not 0 <= row < n:
            raise InputError(f"{_query(t)} asks for no row of the table: rows are numbered 0 to {n - 1}.")
        return row

    def answer(self, t: int, row: int, y: float) -> None:
        """Answer round ``t``; a second answer is ignored, so that what was shown stays."""
        t = at_least("t", t, 1)
        if self.answered(t) is None:
            self._write(_answer(t), _json({"row": row, "y": y}))

    # ---- the modeler's half ------------------------------------------------------------------

    def table(self) -> Table:
        """Wait for the table."""
        table = self._wait(lambda: self._read("table.json"), "a table", "curator")
        try:
            facts = TableFacts(**table)
            positive("sigma", facts.sigma)
        except (TypeError, InputError):
            raise InputError("table.json does not describe a table of this version of dptune.") from None
        data = (self.folder / "table.npy").read_bytes()
        if hashlib.sha256(data).hexdigest() != facts.digest:
            raise InputError("table.npy is not the file that table.json describes; ask the curator to publish again.")
        values = np.load(io.BytesIO(data), allow_pickle=False)
        values.setflags(write=False)
        return Table(values, facts)

    def ask(self, row: int) -> int:
        """Ask for the output of a row; return the round: of two trials at the same time each gets its own."""
        draft = self._draft(_json({"row": int(row)}))
        t = 1
        while True:
            try:
                os.link(draft, self.folder / _query(t))
            except FileExistsError:
                t += 1
            else:
                draft.unlink()
                return t

    def evaluate(self, row: int) -> float:
        """Ask the curator for the output of a row, and wait for it."""
        t = self.ask(row)
        return self._wait(lambda: self.answered(t), f"an answer to {_query(t)}", "curator")[1]

    def answered(self, t: int) -> tuple[int, float] | None:
        """Return (row, y) of round ``t``, or None if it has no answer yet."""
        answer = self._read(_answer(t))
        if answer is None:
            return None
        row, y = whole(answer.get("row")), real(answer.get("y"))
        if row is None or y is None:
            raise InputError(f"{_answer(t)} must hold a row and a finite number y.")
        return row, y

    def history(self) -> list[tuple[int, float]]:
        """Return the pairs (row, y) answered so far, in order: which a restarted modeler reads first."""
        answers: list[tuple[int, float]] = []
        while (pair := self.answered(len(answers) + 1)) is not None:
            answers.append(pair)
        return answers

    # ---- files -------------------------------------------------------------------------------

    def _wait(self, look: Callable[[], T | None], what: str, who: str) -> T:
        end = time.monotonic() + self.timeout
        while (result := look()) is None:
            if time.monotonic() > end:
                raise InputError(
                    f"{what} did not come within {self.timeout:g} s: is the {who} running on {str(self.folder)!r}? "
                    "timeout= says how long to wait."
                )
            time.sleep(_LOOK_EVERY)
        return result

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise InputError(f"{name} in {str(self.folder)!r} is not a JSON object.")
        return content

    def _write(self, name: str, data: bytes) -> None:
        os.replace(self._draft(data), self.folder / name)

    def _draft(self, data: bytes) -> Path:
        draft = self.folder / f".{secrets.token_hex(8)}"
        draft.write_bytes(data)
        return draft


def _json(data: object) -> bytes:
    return json.dumps(data, allow_nan=False).encode()


def _query(t: int) -> str:
    return f"query-{t:06d}.json"


def _answer(t: int) -> str:
    return f"answer-{t:06d}.json"
