"""A small private problem and the transcript of a study: everything a framework could show."""

import logging
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import dptune
from dptune_optuna import CentredSampler, DPGIBOSampler, PrivateObjective
from every_logger import every_logger, set_level

N = 60
SPACE = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}


def people(seed=0):
    """Return one private centre per person, (N, 2)."""
    return np.random.default_rng(seed).normal([0.3, -0.4], 0.2, size=(N, 2))


def losses_at(data, x, y):
    """Return each person's squared distance from (x, log10 y / 2), (N,)."""
    return (x - data[:, 0]) ** 2 + (np.log10(y) / 2 - data[:, 1]) ** 2


def point(trial):
    """Suggest the parameters of SPACE."""
    return trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True)


def people_s_losses(trial):
    return losses_at(people(), *point(trial))


RAISED = {"raise": ValueError, "prune": optuna.TrialPruned, "array": dptune.InputError}


def users_function(data, kind):
    """The user's code. That it fails is public (assumption 1 of docs/privacy.md); what it raises is not."""

    def losses(trial):
        x, y = point(trial)
        if kind in RAISED and trial.number % 3 == 1:
            raise RAISED[kind](f"loss of person 7 is {data[7]}")
        with np.errstate(all="ignore"):
            return losses_at(data, x, y)

    return losses


def open_ledger(folder, mu=1.0):
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def open_privatizer(folder, *, mu=1.0, **sources):
    return dptune.LossPrivatizer(open_ledger(folder, mu), **{"n": N, "clip": (0.0, 4.0), **sources})


def open_sampler(privatizer, **settings):
    return DPGIBOSampler(privatizer, SPACE, **{"n_trials": 24, "seed": 1, **settings})


def open_centred(privatizer, **settings):
    return CentredSampler(privatizer, SPACE, **{"n_trials": 24, "seed": 1, **settings})


OPEN: dict[str, Callable[..., Any]] = {"gibo": open_sampler, "centred": open_centred}
FRONTS = (*OPEN, "values")


def front(kind, privatizer, function=people_s_losses, about=None, **settings):
    """A sampler and the objective of its studies: one of ours, or for "values" any sampler with a PrivateObjective."""
    about = about or {}
    if kind == "values":
        settings = {"n_trials": 24, **settings}
        return RandomSampler(seed=0), PrivateObjective(function, privatizer, **settings, **about)
    sampler = OPEN[kind](privatizer, **settings)
    return sampler, sampler.objective(**about)(function)


def begun(kind, folder, *function_and_about, storage=None, **settings):
    """A sampler, its study without a trial, and their objective."""
    sampler, objective = front(kind, open_privatizer(folder), *function_and_about, **settings)
    return sampler, create(storage, sampler), objective


def ran(kind, folder, trials=None, **settings):
    """A sampler, its study after so many trials, by default those of its plan, and their objective."""
    sampler, study, objective = begun(kind, folder, **settings)
    study.optimize(objective, n_trials=sampler.n_trials if trials is None else trials)
    return sampler, study, objective


def objective_of(sampler):
    return sampler.objective(people_s_losses)


def keys(folder, prefix=""):
    return [charge.key for charge in open_ledger(folder).charges(prefix=prefix)]


def spend_elsewhere(privatizer, mu):
    """Another run pays for a release of its own."""
    privatizer.observe("other", np.zeros(privatizer.n))
    privatizer.release(privatizer.mean_query("other", mu), scope="other", key="all")


def stored(folder, name="s"):
    """Open a storage that outlives its process; a trial in it takes a tenth of what it takes in SQLite."""
    return JournalStorage(JournalFileBackend(str(folder / f"{name}.log")))


def transcript(folder, run, *, sqlite=False):
    """Run a study on a fresh storage; return storage, ledger, all log lines and a returned text, without clocks."""
    folder.mkdir()
    with every_logger() as lines:
        set_level(logging.getLogger("sqlalchemy"), logging.WARNING)  # what a statement holds is in the dump below
        shown = run(f"sqlite:///{folder}/study.db" if sqlite else stored(folder, "study"))
    lines.append(shown if isinstance(shown, str) else "")
    for path in sorted(folder.glob("*.db")):
        with sqlite3.connect(path) as connection:
            lines.extend(connection.iterdump())
        connection.close()
    lines.extend(path.read_text() for path in folder.glob("*.log"))
    text = "\n".join(lines).replace(str(folder), "<folder>")
    for pattern, instead in MASKED.items():
        text = re.sub(pattern, instead, text)
    return text


MASKED = {
    r"\b[0-9a-f]{32}\b": "<identity>",  # of the ledger; what is longer is a digest, of what was charged
    r"\d{4}-\d\d-\d\d/[0-9a-f]{12}(?=/)": "<day>/<identity>",  # of a choice that a study has kept
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\b": "<worker>",  # of the journal
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(\+00:00)?": "<time>",
}


def create(storage, sampler, name="study", **more):
    return optuna.create_study(storage=storage, study_name=name, sampler=sampler, load_if_exists=True, **more)


SECRET = 4711.25
MARK = str(SECRET)


def seen_in(error):
    """Return all that hangs on an exception: texts and the local variables of frames, of its causes, too."""
    found = []
    while error is not None:
        found.append(repr(error))
        traceback = error.__traceback__
        while traceback is not None:
            found.append(repr(traceback.tb_frame.f_locals))
            traceback = traceback.tb_next
        assert error.__cause__ is None or error.__cause__ is error.__context__
        error = error.__context__
    return "\n".join(found)
