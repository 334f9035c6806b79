"""Functions and samplers for LocalObjective, which stand for a user's code on a user's device."""

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

import dptune
from dptune.local import InsecureRandomizer, LaplaceReplies, LDPSettings, LocalRandomizer, UserLedger
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler, LocalObjective

SECRET = 0.123456789
SPACE = {"x": FloatDistribution(0.0, 1.0)}
KINDS = {"tgp": LDPTGPSampler, "ata": LDPATASampler, "moma": LDPMoMASampler}


def open_sampler(kind="tgp", replies=None, **more):
    if kind == "tpe":
        return optuna.samplers.TPESampler(seed=2)
    if kind == "wrapped":
        return optuna.samplers.PartialFixedSampler({}, open_sampler("tgp", replies))
    settings = LDPSettings(replies or LaplaceReplies(1.0, B=0.8, R=0.2), plays=2)
    return KINDS[kind](**{"space": SPACE, "settings": settings, "count": 16, "seed": 1, **more})


def usual():
    return LocalRandomizer(1.0, 1.0, invalid=1.0)


def almost_exact(bound=1.0, invalid=1.0):
    return InsecureRandomizer(1e6, bound, invalid=invalid, insecure_seed=0)


def paid(folder, cap=10.0):
    """What a LocalObjective takes of a user with a ledger."""
    return {"ledger": UserLedger(folder / "u.db", cap=cap), "user": "me"}


def at_x(trial, value):
    """A value measured at the trial's x."""
    trial.suggest_float("x", 0, 1)
    return value


ERRORS = {"raise": ValueError, "prune": optuna.TrialPruned, "exit": SystemExit, "input error": dptune.InputError}


def users_function(kind):
    """The user's code on somebody's device; ``kind`` says whose."""

    def measure(trial):
        x = trial.suggest_float("x", 0, 1)
        if kind in ERRORS:
            raise ERRORS[kind](f"the value is {SECRET}")
        odd = {"none": None, "text": str(SECRET), "nan": np.nan, "inf": np.inf, "array": np.array([SECRET, 2.0])}
        return odd[kind] if kind in odd else SECRET * x

    return measure


def counted(randomizer, **whose):
    """An objective and the trials in which its function was called."""
    calls = []
    return LocalObjective(lambda trial: calls.append(trial.number) or at_x(trial, 0.5), randomizer, **whose), calls
