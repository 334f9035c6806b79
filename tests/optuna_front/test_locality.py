"""Without noise, replacing one person changes a value by at most what the noise covers."""

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from dptune_optuna import PrivateObjective
from harness import create, open_privatizer
from noises import NoNoise

N, RANGE = 300, 3.0


def value_on(folder, X, y, model, *, opaque=False):
    folder.mkdir()
    privatizer = open_privatizer(folder, n=N, clip=(0.0, RANGE), noise=NoNoise())

    def losses(trial):
        if trial.number == 0:  # nothing counts before one trial has succeeded
            return np.zeros(N)
        return -np.log(model.predict_proba(X)[np.arange(N), y])

    about = {} if opaque else {"loss": "log_loss", "data": (X, y)}
    objective = PrivateObjective(losses if opaque else lambda trial: model, privatizer, n_trials=2, **about)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=2)
    return float(study.trials[1].value)


def moved(folder, X, neighbour, y, model, **more):
    """By how much one person moves the value."""
    a, b = (value_on(folder / str(i), data, y, model, **more) for i, data in enumerate((X, neighbour)))
    assert a < 0.5  # not everybody failed
    return abs(b - a)


@pytest.fixture(scope="module")
def fitted():
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X[N:].mean(axis=0)) / X[N:].std(axis=0)).astype(np.float32)
    return X[:N], y[:N], LogisticRegression(max_iter=500).fit(X[N:], y[N:])


@pytest.mark.parametrize("bad", [np.nan, 1e30])
def test_a_person_the_model_fails_on_moves_the_value_by_one_share(tmp_path, fitted, bad):
    X, y, model = fitted
    neighbour = X.copy()
    neighbour[7, 3] = bad
    assert moved(tmp_path, X, neighbour, y, model) <= RANGE / N * (1 + 1e-6)


def test_an_opaque_function_that_one_person_can_crash_is_not_private(tmp_path, fitted):
    """The documented limit (docs/privacy.md): this is why loss= and data= are the first choice."""
    X, y, model = fitted
    neighbour = X.copy()
    neighbour[7, 3] = np.nan
    assert moved(tmp_path, X, neighbour, y, model, opaque=True) > 50 * RANGE / N
