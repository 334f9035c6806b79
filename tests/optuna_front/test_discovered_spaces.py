"""Spaces that trials show: studies complete their plan, and every recommendation rebuilds its model."""

from __future__ import annotations

import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FixedTrial, TrialState

import dptune
from dptune.search.view import RunView
from dptune_optuna import CentredSampler

N, TRIALS = 120, 24
PEOPLE = np.random.default_rng(0).normal(0.4, 0.1, N)


def layers(trial: Any) -> np.ndarray:
    n = trial.suggest_int("n_layers", 1, 4)
    units = [trial.suggest_int(f"units_{i}", 4, 64, log=True) for i in range(n)]
    return (n / 4 - PEOPLE) ** 2 + 0.001 * sum(units) / 64


def deep(trial: Any) -> np.ndarray:
    """More layers are better, so the recommendation has many parameters."""
    n = trial.suggest_int("n_layers", 1, 4)
    units = [trial.suggest_int(f"units_{i}", 4, 64, log=True) for i in range(n)]
    return ((5 - n) / 5 - PEOPLE) ** 2 * 0.3 + 0.001 * sum(units) / 64


def boosters(trial: Any) -> np.ndarray:
    booster = trial.suggest_categorical("booster", ["linear", "tree", "dart"])
    penalty, more = trial.suggest_float("lambda", 1e-8, 1.0, log=True), 0.0
    if booster in ("tree", "dart"):
        more += trial.suggest_int("max_depth", 1, 9) / 9 + trial.suggest_float("eta", 1e-8, 1.0, log=True)
    if booster == "dart":
        more += trial.suggest_float("rate_drop", 1e-8, 1.0, log=True)
    return (more / 3 - PEOPLE) ** 2 + 0.01 * penalty


def two(trial: Any) -> np.ndarray:
    svc = trial.suggest_categorical("classifier", ["svc", "forest"]) == "svc"
    time.sleep(0.002)
    value = trial.suggest_float("C", 1e-3, 1e3, log=True) / 1e3 if svc else trial.suggest_int("depth", 2, 32) / 32
    return (value - PEOPLE) ** 2


def models(trial: Any) -> np.ndarray:
    model, value = trial.suggest_categorical("model", ["svc", "lr", "tree", "forest", "boost"]), 0.0
    if model in ("svc", "lr"):
        value += trial.suggest_float("C", 1e-3, 1e3, log=True) / 1e3
    if model in ("tree", "forest", "boost"):
        value += trial.suggest_int("max_depth", 1, 12) / 12
    if model in ("forest", "boost"):
        value += trial.suggest_int("n_estimators", 10, 200) / 200
    return (value / 2 - PEOPLE) ** 2


FUNCTIONS: list[Callable[[Any], np.ndarray]] = [layers, deep, boosters, two, models]


def storage_in(folder: Path, seed: int) -> Any:
    """A database every sixth time, because it takes ten times as long as a journal."""
    if seed % 6 == 0:
        return f"sqlite:///{folder}/study.db"
    return JournalStorage(JournalFileBackend(str(folder / "study.log")))


def begin(folder: Path, seed: int) -> tuple[CentredSampler, optuna.Study]:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 2.0))
    sampler = CentredSampler(privatizer, n_trials=TRIALS, seed=seed)
    about: dict[str, Any] = {"storage": storage_in(folder, seed), "load_if_exists": True, "study_name": "x"}
    return sampler, optuna.create_study(sampler=sampler, **about)


def threads(count: int) -> Callable[..., int]:
    def run(folder: Path, function: Any, seed: int) -> int:
        sampler, study = begin(folder, seed)
        study.optimize(sampler.objective(function), n_jobs=count)
        return count - 1  # under way when the run was complete

    return run


def restarts(folder: Path, function: Any, seed: int) -> int:
    """Three processes one after another; what the second begins is lost with it."""
    for trials in (7, 8, None):
        sampler, study = begin(folder, seed)
        study.optimize(sampler.objective(function), n_trials=trials)
    return 10  # two generations were begun by a process that ended, and a choice has candidates of its own


def workers(folder: Path, function: Any, seed: int) -> int:
    """Two forked processes at once."""
    begin(folder, seed)

    def work() -> None:
        sampler, study = begin(folder, seed)
        study.optimize(sampler.objective(function))

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads, which wait
        for child in children:
            child.start()
    for child in children:
        child.join(300)
    assert [child.exitcode for child in children] == [0, 0]
    return TRIALS  # each makes generations, and at the end candidates, of its own


WAYS = {
    "one": threads(1),
    "two threads": threads(2),
    "four threads": threads(4),
    "restarts": restarts,
    "forks": workers,
}
STUDIES = [
    (way, function, seed) for seed, (_, way, function) in enumerate(itertools.product(range(3), WAYS, FUNCTIONS))
]
FAST = [
    ("one", layers, 2),
    ("four threads", two, 1),
    ("restarts", models, 0),
    ("forks", layers, 5),
]


def check(folder: Path, way: str, function: Callable[[Any], np.ndarray], seed: int) -> None:
    """The plan is complete, in about as many trials as it has, and what is recommended builds its model again."""
    more = WAYS[way](folder, function, seed)
    sampler, study = begin(folder, seed)
    run = sampler.run_of(study)
    assert run is not None
    assert run.complete
    assert not run.missing()
    ended = len(study.get_trials(states=(TrialState.COMPLETE,)))
    assert run.plan.trials <= ended <= run.plan.trials + more
    progress = run.progress()
    rounds = run.algorithm.rounds  # by the parameters of the trial that began the run
    assert (progress["generations_done"], progress["generations_lost"]) == (rounds, 0)
    assert progress.get("chosen", False) is run.replay.chosen is (run.plan.choice_mu > 0)
    generations = run.ledger.charges("x", prefix="generation/")
    assert [charge.key for charge in generations] == [f"generation/{t}" for t in range(1, rounds + 1)]
    assert run.ledger.spent() ** 2 == pytest.approx(1 - run.plan.final_share)
    for found in (sampler.recommend(study), RunView.of(run.ledger, "x").recommend()):  # type: ignore[union-attr]
        fixed = FixedTrial(dict(found))
        assert function(fixed).shape == (N,)
        assert fixed.params == dict(found)  # no parameter that the model has not


@pytest.mark.parametrize(("way", "function", "seed"), FAST, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_study_of_a_space_that_grows_completes_its_plan(tmp_path: Path, way: str, function: Any, seed: int) -> None:
    check(tmp_path, way, function, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "function", "seed"), STUDIES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_many_studies_of_spaces_that_grow_complete_their_plans(
    tmp_path: Path, way: str, function: Any, seed: int
) -> None:
    check(tmp_path, way, function, seed)
