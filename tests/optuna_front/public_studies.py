"""A finished study of public rows, for tests of the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.linear_model import LogisticRegression

import dptune
import dptune_optuna

ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
CS = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def study_of(parameters: Any = None, values: Any = None, directions: Any = ("minimize",), storage: Any = None) -> Any:
    """A finished study with these trials; by default the strength of a logistic regression."""
    study = optuna.create_study(directions=list(directions), study_name="logit", storage=storage)
    parameters = [{"C": C} for C in CS] if parameters is None else parameters
    values = [abs(np.log(C)) for C in CS] if values is None else values
    for params, value in zip(parameters, values, strict=True):
        space = {
            name: FloatDistribution(1e-5, 1e3, log=True) if name == "C" else CategoricalDistribution(["good", "bad"])
            for name in params
        }
        value = {"values" if isinstance(value, list) else "value": value}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, **value))
    return study


def logit(trial: Any, X: Any, y: Any) -> Any:
    return LogisticRegression(C=trial.suggest_float("C", 1e-5, 1e3, log=True)).fit(X, y)


def ledger_in(folder: Path, mu: float = 1.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def chosen(folder: Path, study: Any = None, train: Any = logit, **about: Any) -> Any:
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "progress": False, "cv": 3, **about}
    if "privatizer" not in about:
        about.setdefault("ledger", ledger_in(folder))
    return dptune_optuna.choose(study_of() if study is None else study, train, **about)
