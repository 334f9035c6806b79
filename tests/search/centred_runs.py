"""A small run of CMA-ES on centred releases: four generations of five trials, fifty people."""

from __future__ import annotations

from typing import Any

import numpy as np
from run_harness import begin, losses_of, trials

from dptune import CENTRED, PrivacyLedger, SearchRun

N, POPULATION, GENERATIONS = 50, 5, 4
TRIALS = POPULATION * GENERATIONS
EVERY = [f"{kind}/{g}" for g in range(1, GENERATIONS + 1) for kind in ("share", "generation")]


def start(ledger: PrivacyLedger, **change: Any) -> SearchRun:
    return begin(CENTRED, ledger, N, **{"trials": TRIALS, "population": POPULATION, **change})


def losses(x: dict[str, Any]) -> np.ndarray:
    return losses_of(x, N)


def a_generation(run: SearchRun, name: str) -> None:
    trials(run, POPULATION, f"{name} ")
