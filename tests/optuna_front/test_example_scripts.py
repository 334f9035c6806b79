"""What scripts for Optuna do beside losses: each is refused before anything is charged, or works on released values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import cross_val_score

import dptune
from harness import FRONTS, N, create, front, open_ledger, open_privatizer, people_s_losses, point

X = np.random.default_rng(0).normal(size=(2 * N, 2))
Y = (X[:, 0] > 0).astype(int)
PRIVATE = {"loss": "zero_one", "data": (X[N:].copy(), Y[N:].copy())}
TRAIN = X[:N].copy(), Y[:N].copy()  # public


def trained(trial: Any) -> LogisticRegression:
    return LogisticRegression(C=0.5 + abs(sum(point(trial)))).fit(*TRAIN)


def two(trial: Any) -> tuple[float, float]:
    return sum(point(trial)), 0.5


def reports(trial: Any) -> LogisticRegression:
    trial.report(0.3, 1)
    return trained(trial)


def attributes(trial: Any) -> LogisticRegression:
    trial.set_user_attr("accuracy", 0.8)
    return trained(trial)


SCRIPTS = {
    "cross_val_score": lambda trial: cross_val_score(trained(trial), *TRAIN, cv=3).mean(),
    "accuracy": lambda trial: accuracy_score(TRAIN[1], trained(trial).predict(TRAIN[0])),
    "AUC": lambda trial: roc_auc_score(TRAIN[1], trained(trial).decision_function(TRAIN[0])),
    "several objectives": two,
    "a report per step": reports,
    "trial attributes": attributes,
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", FRONTS)
def test_what_is_no_model_and_no_loss_is_refused_at_once_and_costs_nothing(
    tmp_path: Path, kind: str, script: str
) -> None:
    sampler, objective = front(kind, open_privatizer(tmp_path), SCRIPTS[script], PRIVATE)
    study = create(None, sampler)
    with pytest.raises(dptune.DptuneError):
        study.optimize(objective)
    assert len(study.trials) == 1
    assert study.trials[0].user_attrs == {}
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize("directions", [["maximize"], ["minimize", "minimize"]])
@pytest.mark.parametrize("kind", FRONTS)
def test_other_directions_are_refused_untrained(tmp_path: Path, kind: str, directions: list[str]) -> None:
    calls: list[int] = []

    def counting(trial: Any) -> np.ndarray:
        calls.append(trial.number)
        return people_s_losses(trial)

    sampler, objective = front(kind, open_privatizer(tmp_path), counting)
    study = optuna.create_study(sampler=sampler, directions=directions)
    with pytest.raises(dptune.DptuneError):
        study.optimize(objective)
    assert calls == []
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize("kind", FRONTS)
def test_ask_and_tell_before_optimize_stores_released_values(tmp_path: Path, kind: str) -> None:
    sampler, objective = front(kind, open_privatizer(tmp_path))
    study = create(None, sampler)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, objective(trial))
    study.optimize(objective)
    assert objective.run_of(study).complete
    values = {charge.value[0] for charge in open_ledger(tmp_path).charges(prefix="value/") if charge.value}
    shown = {trial.value for trial in study.trials if trial.value < np.inf}
    assert len(shown) > len(study.trials) / 2
    assert kind == "centred" or shown == values
