"""A small private problem and the transcript of a study: everything a framework could show."""

from __future__ import annotations

import gc
import logging
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import dptune
from dptune_optuna import CentredSampler, DPGIBOSampler, PrivateObjective

N = 60
SPACE = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}


def people(seed: int = 0) -> np.ndarray:
    """Return one private centre per person, (N, 2)."""
    return np.random.default_rng(seed).normal([0.3, -0.4], 0.2, size=(N, 2))


def losses_at(data: np.ndarray, x: float, y: float) -> np.ndarray:
    """Return each person's squared distance from (x, log10 y / 2), (N,)."""
    return (x - data[:, 0]) ** 2 + (np.log10(y) / 2 - data[:, 1]) ** 2


def point(trial: Any) -> tuple[float, float]:
    """Suggest the parameters of SPACE."""
    return trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True)


def losses_of(data: np.ndarray) -> Callable[[Any], np.ndarray]:
    return lambda trial: losses_at(data, *point(trial))


def people_s_losses(trial: Any) -> np.ndarray:
    return losses_at(people(), *point(trial))


def open_ledger(folder: Path, mu: float = 1.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def open_privatizer(folder: Path, *, mu: float = 1.0, **sources: Any) -> dptune.LossPrivatizer:
    return dptune.LossPrivatizer(open_ledger(folder, mu), **{"n": N, "clip": (0.0, 4.0), **sources})


def open_sampler(privatizer: dptune.LossPrivatizer, **settings: Any) -> DPGIBOSampler:
    return DPGIBOSampler(privatizer, SPACE, **{"n_trials": 24, "seed": 1, **settings})


def open_centred(privatizer: dptune.LossPrivatizer, **settings: Any) -> CentredSampler:
    return CentredSampler(privatizer, SPACE, **{"n_trials": 24, "seed": 1, **settings})


OPEN: dict[str, Callable[..., Any]] = {"gibo": open_sampler, "centred": open_centred}
FRONTS = (*OPEN, "values")


def front(kind: str, privatizer: Any, function: Any = people_s_losses, about: Any = None, **settings: Any) -> Any:
    """A sampler and the objective of its studies: one of ours, or for "values" any sampler with a PrivateObjective."""
    about = about or {}
    if kind == "values":
        settings = {"n_trials": 24, **settings}
        return RandomSampler(seed=0), PrivateObjective(function, privatizer, **settings, **about)
    sampler = OPEN[kind](privatizer, **settings)
    return sampler, sampler.objective(**about)(function)


def ran(kind: str, folder: Path, trials: int | None = None, *, storage: Any = None, **settings: Any) -> Any:
    """A sampler, its study after so many trials, by default those of its plan, and their objective."""
    sampler, objective = front(kind, open_privatizer(folder), **settings)
    study = create(storage, sampler)
    study.optimize(objective, n_trials=sampler.n_trials if trials is None else trials)
    return sampler, study, objective


def objective_of(sampler: Any, data: np.ndarray | None = None) -> Any:
    return sampler.objective(people_s_losses if data is None else losses_of(data))


def keys(folder: Path, prefix: str = "") -> list[str]:
    return [charge.key for charge in open_ledger(folder).charges(prefix=prefix)]


def spend_elsewhere(privatizer: dptune.LossPrivatizer, mu: float) -> None:
    """Another run pays for a release of its own."""
    privatizer.observe("other", np.zeros(N))
    privatizer.release(privatizer.mean_query("other", mu), scope="other", key="all")


def stored(folder: Path, name: str = "s") -> JournalStorage:
    """Open a storage that outlives its process; a trial in it takes a tenth of what it takes in SQLite."""
    return JournalStorage(JournalFileBackend(str(folder / f"{name}.log")))


def storage_of(kind: str, folder: Path) -> Any:
    if kind == "memory":
        return None
    return f"sqlite:///{folder}/s.db" if kind == "sqlite" else stored(folder)


def transcript(folder: Path, run: Callable[[Any], object], *, sqlite: bool = False) -> str:
    """Run a study against a fresh storage; return storage, ledger and log lines without their clocks."""
    folder.mkdir()
    gc.collect()  # studies of earlier tests say now how far they came
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {record.levelname} {self.format(record)}")

    handler, root, library = Collect(), logging.getLogger(), logging.getLogger("optuna")
    root.addHandler(handler)
    library.addHandler(handler)
    try:
        run(f"sqlite:///{folder}/study.db" if sqlite else stored(folder, "study"))
    finally:
        root.removeHandler(handler)
        library.removeHandler(handler)
    for path in sorted(folder.glob("*.db")):
        with sqlite3.connect(path) as connection:
            lines.extend(connection.iterdump())
        connection.close()
    lines.extend(path.read_text() for path in folder.glob("*.log"))
    text = "\n".join(lines).replace(str(folder), "<folder>")
    text = re.sub(r"\b[0-9a-f]{32}\b", "<identity>", text)  # of the ledger
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\b", "<worker>", text)  # of the journal
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "<time>", text)


def create(storage: Any, sampler: Any, name: str = "study", **more: Any) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name=name, sampler=sampler, load_if_exists=True, **more)
