"""A small run of DP-GIBO: a start, a few steps, twenty people."""

from __future__ import annotations

from typing import Any

import numpy as np
from run_harness import begin, losses_of

from dptune import GIBO, PrivacyLedger, SearchRun
from dptune.algorithms import AdaGradNorm

N, STEPS, BATCH, STARTS = 20, 4, 3, 4
TRIALS = STARTS + STEPS * BATCH
SETTINGS: dict[str, Any] = {
    "steps": STEPS,
    "batch": BATCH,
    "starts": STARTS,
    "start_clip": 1.0,
    "clip": 0.5,
    "rule": AdaGradNorm(0.1),
    "lengthscale": 0.3,
    "noise_variance": 1e-4,
    "memory": 1,
    "average": 1,
}


def start(ledger: PrivacyLedger, **change: Any) -> SearchRun:
    return begin(GIBO, ledger, N, **{**SETTINGS, **change})


def losses(x: dict[str, Any]) -> np.ndarray:
    return losses_of(x, N)
