"""Noise off, real answers: replacing one person moves a value by at most what the noise covers.

The non-interference audit cans the answers, so it cannot see a person who moves *everybody's* loss. Here the
answers are real and the noise is off.
"""

from __future__ import annotations

import contextlib
import time
import warnings

import numpy as np
import optuna
import pandas
import pytest
from noises import NoNoise
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import dptune
from dptune_optuna import PrivateObjective
from harness import create

N, RANGE = 300, 3.0


def value_on(folder, X, y, model, *, opaque: bool, like=None) -> float:
    folder.mkdir()
    ledger = dptune.PrivacyLedger(folder / "l.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, RANGE), noise=NoNoise())
    if opaque:

        def losses(trial):
            if trial.number == 0:  # nothing counts before one trial has succeeded
                return np.zeros(N)
            return -np.log(model.predict_proba(X)[np.arange(N), y])

        objective = PrivateObjective(losses, privatizer, n_trials=2)
    else:
        data = dptune.Rows(X, y, like)
        objective = PrivateObjective(lambda trial: model, privatizer, n_trials=2, loss="log_loss", data=data)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=2)
    return float(study.trials[1].value)


@pytest.fixture(params=["linear", "network"], scope="module")
def fitted(request):
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X[N:].mean(axis=0)) / X[N:].std(axis=0)).astype(np.float32)
    model = LogisticRegression(max_iter=500) if request.param == "linear" else MLPClassifier((32,), max_iter=60)
    with pytest.warns() if request.param == "network" else contextlib.nullcontext():
        model.fit(X[N:], y[N:])
    return X[:N], y[:N], model


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_a_person_the_model_fails_on_moves_the_value_by_one_share(tmp_path, fitted, bad):
    X, y, model = fitted
    neighbour = X.copy()
    neighbour[7, 3] = bad
    moved = value_on(tmp_path / "b", neighbour, y, model, opaque=False)
    moved -= value_on(tmp_path / "a", X, y, model, opaque=False)
    assert abs(moved) <= RANGE / N * (1 + 1e-6)


class Panic(BaseException):
    """No Exception, as what Rust extensions raise."""


class Panicking:
    """Fails on a batch with a row beyond 100, and on that row alone."""

    classes_ = np.array([0, 1])

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def predict_proba(self, X):
        if (X > 100).any():
            raise self.error(f"row with {X.max()}")
        return np.full((len(X), 2), [0.9, 0.1])


@pytest.mark.parametrize("error", [ValueError, Panic, SystemExit, GeneratorExit])
def test_whatever_the_model_raises_about_a_person_moves_the_value_by_one_share(tmp_path, error):
    X, y = np.ones((N, 1)), np.zeros(N, dtype=int)
    neighbour = X.copy()
    neighbour[17] = 1000.0
    a = value_on(tmp_path / "a", X, y, Panicking(error), opaque=False)
    b = value_on(tmp_path / "b", neighbour, y, Panicking(error), opaque=False)
    assert a < 0.5  # not everybody failed
    assert 0 < b - a <= RANGE / N * (1 + 1e-6)


def test_an_opaque_function_that_one_person_can_make_raise_breaks_the_promise(tmp_path, fitted):
    """The documented limit (docs/privacy.md): this is why loss= and data= are the first choice."""
    X, y, model = fitted
    neighbour = X.copy()
    neighbour[7, 3] = np.nan
    moved = value_on(tmp_path / "b", neighbour, y, model, opaque=True)
    moved -= value_on(tmp_path / "a", X, y, model, opaque=True)
    assert abs(moved) > 50 * RANGE / N


CONTAINERS = {
    "array": np.asarray,
    "list": lambda X: [list(row) for row in X],
    "rows of unequal length": lambda X: [list(row)[: 29 if np.isnan(row).any() else 30] for row in X],
    "frame": lambda X: pandas.DataFrame(X),
    "csr": sparse.csr_array,
    "csc matrix": sparse.csc_matrix,
    "coo": sparse.coo_matrix,
    "dia": sparse.dia_matrix,
    "bsr": sparse.bsr_matrix,
    "lil": sparse.lil_matrix,
}


@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
@pytest.mark.parametrize("container", CONTAINERS)
def test_whatever_holds_the_rows_a_failing_one_fails_alone(tmp_path, container):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X[N:].mean(axis=0)) / X[N:].std(axis=0)
    model = LogisticRegression(max_iter=500).fit(X[N:], y[N:])
    neighbour = X[:N].copy()
    neighbour[7, 3] = np.nan
    held = [CONTAINERS[container](data) for data in (X[:N], neighbour)]
    like = CONTAINERS[container](X[N:]) if container == "frame" else None
    a, b = (value_on(tmp_path / str(i), data, y[:N], model, opaque=False, like=like) for i, data in enumerate(held))
    assert a < 0.5  # not everybody failed
    assert abs(a - b) <= RANGE / N * (1 + 1e-6)


def test_threads_do_not_let_a_warning_about_one_person_out_nor_silence_the_users(tmp_path, capfd):
    """The filters of warnings belong to the process; scikit-learn warns of what it is given to predict."""

    class Warns:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            time.sleep(0.001)
            warnings.warn(f"row {X[0, 0]} is odd", UserWarning, stacklevel=1)
            return np.full((len(X), 2), 0.5)

    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=4, clip=(0.0, RANGE))
    data = (np.full((4, 1), 123456.5), np.array([0, 1, 0, 1]))
    objective = PrivateObjective(lambda trial: Warns(), privatizer, n_trials=60, loss="log_loss", data=data)
    before = list(warnings.filters)
    create(None, optuna.samplers.RandomSampler(seed=0)).optimize(objective, n_trials=60, n_jobs=6)
    assert warnings.filters == before
    assert "123456" not in "".join(capfd.readouterr())
