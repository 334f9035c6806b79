"""The values of a run's trials, on disk: what a searcher knows, whatever Tune remembers of it.

For local privacy the values are users' replies, which are public; for an agent of a federation its own observations,
which are the agent's. One SQLite file on the driver's node holds any number of runs; each trial has one value.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dptune
from dptune.space import Value

_TABLES = (
    """CREATE TABLE IF NOT EXISTS dptune_ray_trials (
    run TEXT NOT NULL, number INTEGER NOT NULL, trial TEXT NOT NULL, parameters TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (run, number), UNIQUE (run, trial))""",
    """CREATE TABLE IF NOT EXISTS dptune_ray_facts (
    run TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, name))""",
    """CREATE TABLE IF NOT EXISTS dptune_ray_draws (
    run TEXT NOT NULL, trial TEXT NOT NULL, number INTEGER NOT NULL, draw TEXT NOT NULL,
    PRIMARY KEY (run, trial, number), UNIQUE (run, trial, draw))""",
)


@dataclass(frozen=True)
class Logged:
    """One trial's value."""

    number: int  # 0, 1, ... in the order of recording
    trial: str  # Tune's identifier
    parameters: Mapping[str, Value]  # by path, where it was measured
    value: float  # the first one that was recorded


@dataclass(frozen=True)
class TrialLog:
    """The values of one run.

    Attributes:
        path: of the SQLite file; its folder must exist.
        run: name of the run.

    Raises:
        InputError: the folder does not exist.
    """

    path: str
    run: str

    def __post_init__(self) -> None:
        if not Path(self.path).parent.is_dir():
            raise dptune.InputError(f"the folder of {self.path} does not exist; create it first.")

    def find(self, trial: str) -> Logged | None:
        """Return what is known of the trial, or None."""
        return next(iter(self._select("trial = ?", trial)), None)

    def since(self, number: int) -> list[Logged]:
        """Return the values with larger numbers, in their order."""
        return self._select("number > ?", number)

    def record(self, trial: str, parameters: Mapping[str, Value], value: float) -> Logged:
        """Store the trial's value, and return the one that is stored: the first."""
        row = (self.run, trial, json.dumps(dict(parameters)), value)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            number = "(SELECT COUNT(*) FROM dptune_ray_trials WHERE run = ?1)"
            query = f"INSERT INTO dptune_ray_trials VALUES (?1, {number}, ?2, ?3, ?4)"
            connection.execute(query + " ON CONFLICT (run, trial) DO NOTHING", row)
        return self._select("trial = ?", trial)[0]

    def draws(self, trial: str) -> list[str]:
        """Return the names of the draws that may have left the trial's device, in their order."""
        query = "SELECT draw FROM dptune_ray_draws WHERE run = ? AND trial = ? ORDER BY number"
        with self._transaction("BEGIN") as connection:
            return [str(row[0]) for row in connection.execute(query, (self.run, trial))]

    def add_draw(self, trial: str, number: int, draw: str) -> None:
        """Store that a draw may leave the device, as the trial's ``number``-th, unless there is such a one."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            query = "INSERT INTO dptune_ray_draws VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            connection.execute(query, (self.run, trial, number, draw))

    def fix(self, name: str, value: object) -> Any:
        """Store a public fact of the run, unless it is stored; return the one that is stored: the first."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            query = "INSERT INTO dptune_ray_facts VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            connection.execute(query, (self.run, name, json.dumps(value)))
        return self.fact(name)

    def fact(self, name: str) -> Any:
        """Return a fact of the run, or None."""
        with self._transaction("BEGIN") as connection:
            query = "SELECT value FROM dptune_ray_facts WHERE run = ? AND name = ?"
            row = connection.execute(query, (self.run, name)).fetchone()
        return None if row is None else json.loads(row[0])

    def agree_on_mode(self, mode: str) -> None:
        """Fix whether small or large values are good, or refuse another answer than the run was begun with.

        Raises:
            InputError: it was begun with the other mode.
        """
        if self.fix("mode", mode) != mode:
            raise dptune.InputError(
                f"the run {self.run!r} was begun with the other mode; give a new search a new name."
            )

    def mode(self) -> str | None:
        """Return the mode the run was begun with, or None."""
        mode = self.fact("mode")
        return None if mode is None else str(mode)

    def _select(self, where: str, value: str | int) -> list[Logged]:
        query = f"SELECT number, trial, parameters, value FROM dptune_ray_trials WHERE run = ? AND {where}"
        with self._transaction("BEGIN") as connection:
            rows = connection.execute(query + " ORDER BY number", (self.run, value)).fetchall()
        return [Logged(number, trial, json.loads(parameters), value) for number, trial, parameters, value in rows]

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=EXTRA")
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise dptune.LedgerError(f"the file {self.path} cannot be used: {error}") from None
