"""The values of a run's trials on disk: a searcher's knowledge, independent of Tune's state.

For local privacy the values are users' public replies; for an agent of a federation they are its own private
observations. One SQLite file on the driver's node holds any number of runs; each trial has one value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dptune
from dptune._checks import place
from dptune._store import SqliteFile
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
    parameters: Mapping[str, Value]  # by path, at which the value was measured
    value: float  # the first recorded one


@dataclass(frozen=True)
class TrialLog:
    """The values of one run."""

    path: str  # path of the SQLite file
    run: str  # name of the run

    @classmethod
    def at(cls, argument: str, path: str | Path, run: str) -> TrialLog:
        """Return the values of a run in the user's file; ``argument`` names the setting in errors."""
        folder = Path(place(argument, path)).resolve()
        if not folder.parent.is_dir():
            raise dptune.InputError(f"the folder of {folder} does not exist; create it first.")
        return cls(str(folder), run)

    def find(self, trial: str) -> Logged | None:
        return next((one for one in self._select("trial = ?", trial)), None)

    def since(self, number: int) -> list[Logged]:
        """Return the values with larger numbers, in their order."""
        return self._select("number > ?", number)

    def _select(self, where: str, value: str | int) -> list[Logged]:
        query = f"SELECT number, trial, parameters, value FROM dptune_ray_trials WHERE run = ? AND {where}"
        rows = self._rows(query + " ORDER BY number", value)
        return [Logged(number, trial, json.loads(parameters), value) for number, trial, parameters, value in rows]

    def record(self, trial: str, parameters: Mapping[str, Value], value: float) -> float:
        """Store the trial's value, and return the stored one, which is the first."""
        number = "(SELECT COUNT(*) FROM dptune_ray_trials WHERE run = ?1)"
        self._insert(f"dptune_ray_trials VALUES (?1, {number}, ?2, ?3, ?4)", trial, json.dumps(dict(parameters)), value)
        return self._select("trial = ?", trial)[0].value

    def draws(self, trial: str) -> list[str]:
        """Return the names of the draws that may have left the trial's device, in their order."""
        query = "SELECT draw FROM dptune_ray_draws WHERE run = ? AND trial = ? ORDER BY number"
        return [str(row[0]) for row in self._rows(query, trial)]

    def add_draw(self, trial: str, number: int, draw: str) -> None:
        """Store that the trial's ``number``-th draw may leave the device, unless that is stored."""
        self._insert("dptune_ray_draws VALUES (?, ?, ?, ?)", trial, number, draw)

    def fix(self, name: str, value: object) -> Any:
        """Store a public fact of the run, unless one is stored; return the stored one, which is the first."""
        self._insert("dptune_ray_facts VALUES (?, ?, ?)", name, json.dumps(value))
        return self.fact(name)

    def fact(self, name: str) -> Any:
        rows = self._rows("SELECT value FROM dptune_ray_facts WHERE run = ? AND name = ?", name)
        return json.loads(rows[0][0]) if rows else None

    @property
    def mode(self) -> str | None:
        """Return whether small ("min") or large ("max") values are good; None before the run has begun."""
        mode: str | None = self.fact("mode")
        return mode

    def agree_on_mode(self, mode: str) -> None:
        if self.fix("mode", mode) != mode:
            raise dptune.InputError(
                f"the run {self.run!r} was started with the other mode; give a new search a new name."
            )

    def _insert(self, row: str, *values: str | float) -> None:
        """Insert a row of this run, unless one with its keys is there."""
        with SqliteFile(self.path, _TABLES).transaction(write=True) as connection:
            connection.execute(f"INSERT INTO {row} ON CONFLICT DO NOTHING", (self.run, *values))

    def _rows(self, query: str, value: str | int) -> list[Any]:
        with SqliteFile(self.path, _TABLES).transaction(write=False) as connection:
            return connection.execute(query, (self.run, value)).fetchall()
