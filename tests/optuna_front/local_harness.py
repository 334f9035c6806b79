"""Functions and samplers for LocalObjective: somebody's code on somebody's device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

import dptune
from dptune.local import InsecureRandomizer, LaplaceReplies, LDPSettings, LocalRandomizer, UserLedger
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler, LocalObjective

SECRET = 0.123456789
SPACE = {"x": FloatDistribution(0.0, 1.0)}
KINDS = {"tgp": LDPTGPSampler, "ata": LDPATASampler, "moma": LDPMoMASampler}


def open_sampler(kind: str = "tgp", replies: LaplaceReplies | None = None, **more: Any) -> Any:
    if kind == "tpe":
        return optuna.samplers.TPESampler(seed=2)
    if kind == "wrapped":
        return optuna.samplers.PartialFixedSampler({}, open_sampler("tgp", replies))
    settings = LDPSettings(replies or LaplaceReplies(1.0, B=0.8, R=0.2), plays=2)
    return KINDS[kind](**{"space": SPACE, "settings": settings, "count": 16, "seed": 1, **more})


def usual() -> LocalRandomizer:
    return LocalRandomizer(1.0, 1.0, invalid=1.0)


def almost_exact(bound: Any = 1.0, invalid: Any = 1.0) -> InsecureRandomizer:
    return InsecureRandomizer(1e6, bound, invalid=invalid, insecure_seed=0)


def paid(folder: Path, cap: float = 10.0) -> dict[str, Any]:
    """What a LocalObjective takes of a user with a ledger."""
    return {"ledger": UserLedger(folder / "u.db", cap=cap), "user": "me"}


def at_x(trial: Any, value: Any) -> Any:
    """A value measured at the trial's x."""
    trial.suggest_float("x", 0, 1)
    return value


def users_function(kind: str) -> Any:
    """The user's code on somebody's device; ``kind`` says whose."""

    def measure(trial):
        x = trial.suggest_float("x", 0, 1)
        if kind == "raise":
            raise ValueError(f"the value is {SECRET}")
        if kind == "prune":
            raise optuna.TrialPruned(f"the value is {SECRET}")
        if kind == "exit":
            sys.exit(f"the value is {SECRET}")
        if kind == "input error":
            raise dptune.InputError(f"the value is {SECRET}")
        odd = {"none": None, "text": str(SECRET), "nan": np.nan, "inf": np.inf, "array": np.array([SECRET, 2.0])}
        return odd[kind] if kind in odd else SECRET * x

    return measure


def counted(randomizer: Any, **whose: Any) -> tuple[LocalObjective, list[int]]:
    """An objective and the trials in which its function was called."""
    calls: list[int] = []
    return LocalObjective(lambda trial: calls.append(trial.number) or at_x(trial, 0.5), randomizer, **whose), calls
