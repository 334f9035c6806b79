"""The last release in the front ends: an error of the ledger is made up for, and nothing is paid twice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

import dptune
from dptune_optuna import CentredSampler, SelectionObjective
from dptune_sklearn import PrivateSearch

N, CLIP, DEFAULT = 80, (0.0, 4.0), {"x": 0.9}
SPACE = {"x": FloatDistribution(-1.0, 1.0)}
PEOPLE = np.random.default_rng(0).normal(0.0, 0.1, N)
PUBLIC = np.random.default_rng(1).normal(size=(40, 3))
PRIVATE = np.random.default_rng(2).normal(size=(N, 3))
WEIGHTS = np.array([1.0, 2.0, -1.0])


def ledger_in(folder: Path) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(30.0))


@contextmanager
def failing(key: str, method: str) -> Iterator[None]:
    """Every charge, or record, of this key fails as with a full disk."""
    true = getattr(dptune.PrivacyLedger, method)

    def fails(self: Any, *asked: Any, **options: Any) -> Any:
        if (asked[1] if method == "charge" else asked[0].key) == key:
            raise dptune.LedgerError("disk full")
        return true(self, *asked, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dptune.PrivacyLedger, method, fails)
        yield


def one_answer_each(ledger: dptune.PrivacyLedger, *keys: str) -> None:
    charges = [charge for charge in ledger.charges() if charge.key in keys]
    assert sorted(charge.key for charge in charges) == sorted(keys)
    assert all(charge.value is not None for charge in charges)


both = pytest.mark.parametrize("method", ["charge", "record"])


def losses(trial: Any) -> np.ndarray:
    return (trial.suggest_float("x", -1.0, 1.0) - 0.2 + PEOPLE) ** 2


def study_in(folder: Path) -> tuple[CentredSampler, optuna.Study, Any]:
    privatizer = dptune.LossPrivatizer(ledger_in(folder), n=N, clip=CLIP)
    sampler = CentredSampler(privatizer, SPACE, n_trials=8, population=4, default=DEFAULT, seed=1)
    storage = f"sqlite:///{folder}/study.db"
    study = optuna.create_study(storage=storage, study_name="s", sampler=sampler, load_if_exists=True)
    return sampler, study, sampler.objective(losses)


@pytest.mark.parametrize(
    ("key", "method", "then"),
    [
        ("generation/2", "charge", "optimize"),
        ("generation/2", "record", "restart"),
        ("choice", "charge", "restart"),
        ("choice", "record", "recommend"),
        ("final", "charge", "recommend"),
        ("final", "record", "optimize"),
    ],
)
def test_an_optuna_study(fast_path: Path, key: str, method: str, then: str) -> None:
    sampler, study, objective = study_in(fast_path)
    with failing(key, method), pytest.raises(dptune.LedgerError, match="disk full"):
        study.optimize(objective)
    run = sampler.run_of(study)
    assert run is not None
    assert not run.complete
    if then == "restart":
        sampler, study, objective = study_in(fast_path)
    if then != "recommend":
        study.optimize(objective, timeout=120)
    best = sampler.recommend(study)
    assert best.improvement is not None
    assert best.improvement.verdict == "better"
    run = sampler.run_of(study)
    assert run is not None
    assert run.complete
    one_answer_each(run.ledger, "choice", "final")
    lost = then == "restart" and (key, method) == ("generation/2", "record")  # its draw died with its process
    assert run.progress()["generations_lost"] == lost
    assert run.ledger.spent() == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("key", "method"),
    [
        *(("generation/2", "charge"), ("choice", "record"), ("final", "charge")),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("generation/2", "record"), ("choice", "charge"), ("final", "record"))
        ),
    ],
)
def test_a_scikit_learn_search(fast_path: Path, key: str, method: str) -> None:
    def fit() -> PrivateSearch:
        about = {"ledger": ledger_in(fast_path), "loss": "mse", "clip": (0.0, 40.0), "n_trials": 8, "cv": None}
        settings = {"population": 4}
        search = PrivateSearch(Ridge(alpha=90.0), {"alpha": [0.1, 1.0, 90.0, 1000.0]}, settings=settings, **about)
        return search.fit(PUBLIC, PUBLIC @ WEIGHTS, X_val=PRIVATE, y_val=PRIVATE @ WEIGHTS)

    with failing(key, method), pytest.raises(dptune.LedgerError, match="disk full"):
        fit()
    search = fit()
    assert search.best_params_.improvement is not None
    assert search.best_params_["alpha"] < 90
    one_answer_each(search.ledger, "choice", "final")
    assert search.ledger.spent() == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("method", "restarted"),
    [
        *(("charge", False), ("record", True)),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("charge", True), ("record", False))),
    ],
)
def test_a_selection_of_optuna_s_trials_and_of_models(fast_path: Path, method: str, restarted: bool) -> None:
    def begin() -> tuple[Any, optuna.Study]:
        privatizer = dptune.LossPrivatizer(ledger_in(fast_path), n=N, clip=CLIP)
        storage = f"sqlite:///{fast_path}/study.db"
        sampler = optuna.samplers.RandomSampler(seed=0)
        study = optuna.create_study(storage=storage, study_name="s", sampler=sampler, load_if_exists=True)
        return SelectionObjective(losses, privatizer, mu=10.0), study

    objective, study = begin()
    study.optimize(objective, n_trials=6)
    key = charged_key(fast_path)
    with failing(key, method), pytest.raises(dptune.LedgerError, match="disk full"):
        objective.select(study, name="mine")
    if restarted:
        objective, study = begin()
    chosen = objective.select(study, name="mine")
    assert objective.select(study, name="mine") == chosen
    assert [charge.value is not None for charge in ledger_in(fast_path).charges("mine")] == [True]
    assert ledger_in(fast_path).spent() == pytest.approx(np.hypot(10.0, 5.0))


def charged_key(folder: Path) -> str:
    """The key of a choice, from one that is made."""
    privatizer = dptune.LossPrivatizer(ledger_in(folder), n=N, clip=CLIP)
    dptune.select(np.ones((2, N)), privatizer, mu=5.0, name="other")
    (charge,) = ledger_in(folder).charges("other")
    return charge.key


@both
def test_a_choice_among_losses(fast_path: Path, method: str) -> None:
    key = charged_key(fast_path)
    candidates = np.vstack([np.full(N, level) for level in (3.0, 0.5, 2.0)])
    for _ in range(2):
        with failing(key, method), pytest.raises(dptune.LedgerError, match="disk full"):
            dptune.select(candidates, dptune.LossPrivatizer(ledger_in(fast_path), n=N, clip=CLIP), mu=9.0, name="mine")
    privatizer = dptune.LossPrivatizer(ledger_in(fast_path), n=N, clip=CLIP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dptune.select(candidates, privatizer, mu=9.0, name="mine").index == 1
    assert len(ledger_in(fast_path).charges("mine")) == 1
    assert ledger_in(fast_path).spent() == pytest.approx(np.hypot(9.0, 5.0))
