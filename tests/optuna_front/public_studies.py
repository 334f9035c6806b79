"""A finished study of public rows, for tests of the choice."""

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression

import dptune_optuna
from harness import open_ledger

ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
SPACE = {"C": FloatDistribution(1e-5, 1e3, log=True)}
CS = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def study_of(parameters=None, values=None, directions=("minimize",), storage=None):
    """A finished study with these trials; by default the strength of a logistic regression."""
    study = optuna.create_study(directions=list(directions), study_name="logit", storage=storage)
    parameters = [{"C": C} for C in CS] if parameters is None else parameters
    values = [abs(np.log(C)) for C in CS] if values is None else values
    for params, value in zip(parameters, values, strict=True):
        value = {"values" if isinstance(value, list) else "value": value}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=SPACE, **value))
    return study


def logit(trial, X, y):
    return LogisticRegression(C=trial.suggest_float("C", 1e-5, 1e3, log=True)).fit(X, y)


def chosen(folder, study=None, train=logit, **about):
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "progress": False, "cv": 3, **about}
    if "privatizer" not in about:
        about.setdefault("ledger", open_ledger(folder))
    return dptune_optuna.choose(study_of() if study is None else study, train, **about)
