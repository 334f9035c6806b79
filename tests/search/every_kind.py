"""Every method with its small run, and what the tests of all of them do to a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import centred_runs
import gibo_runs
import mixed_runs
import numpy as np
import pytest
import toy_runs
from run_harness import trial

from dptune import LedgerError


@dataclass(frozen=True)
class Kind:
    """One method and its small run."""

    name: str
    start: Callable[..., Any]
    n: int
    trials: int
    first: int  # points of the first question
    first_round: int  # after how many trials it is made
    batch: int
    rounds: int
    last_question: str  # of each round
    state: Callable[[Any], Any]

    @property
    def questions(self) -> list[str]:
        """Keys of the charges that make the rounds."""
        return [f"{self.last_question}/{t}" for t in range(1, self.rounds + 1)]


GIBO = Kind(
    "gibo",
    gibo_runs.start,
    n=gibo_runs.N,
    trials=gibo_runs.TRIALS,
    first=gibo_runs.STARTS,
    first_round=gibo_runs.STARTS + gibo_runs.BATCH,
    batch=gibo_runs.BATCH,
    rounds=gibo_runs.STEPS,
    last_question="step",
    state=lambda run: np.array(run.algorithm.path).tolist(),
)
CENTRED = Kind(
    "centred",
    centred_runs.start,
    n=centred_runs.N,
    trials=centred_runs.TRIALS,
    first=centred_runs.POPULATION,
    first_round=centred_runs.POPULATION,
    batch=centred_runs.POPULATION,
    rounds=centred_runs.GENERATIONS,
    last_question="generation",
    state=lambda run: np.array(run.algorithm.means).tolist(),
)
MIXED = replace(
    CENTRED,
    name="mixed",
    start=mixed_runs.start,
    state=lambda run: [generation.points.tolist() for generation in run.algorithm.generations],
)
TOY = Kind(
    "toy",
    toy_runs.start,
    n=toy_runs.N,
    trials=toy_runs.TRIALS,
    first=toy_runs.BATCH,
    first_round=toy_runs.BATCH,
    batch=toy_runs.BATCH,
    rounds=toy_runs.ROUNDS,
    last_question="round",
    state=lambda run: run.algorithm.winners,
)
KINDS = [GIBO, CENTRED, MIXED, TOY]


def readable(value: object) -> str | None:
    """Return the id of a kind or of a changed option."""
    if isinstance(value, Kind):
        return value.name
    return next(iter(value)) if isinstance(value, dict) else None


def finish(run: Any, name: str = "more ") -> None:
    """Go on until the run is complete; of the plan's trials some may have been lost."""
    for i in range(3 * run.plan.trials):
        if run.complete:
            return
        trial(run, f"{name}{i}")
    assert run.complete


def fails_once(monkeypatch: pytest.MonkeyPatch, run: Any, method: str, key: str) -> None:
    """The ledger of this run fails at the charge, or the record, of a question."""
    true, failed = getattr(run.ledger, method), []

    def full(*args: Any, **options: Any) -> Any:
        named = args[1] if method == "charge" else args[0].key
        if named == key and not failed:
            failed.append(key)
            raise LedgerError("disk full")
        return true(*args, **options)

    monkeypatch.setattr(run.ledger, method, full)
