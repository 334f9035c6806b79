"""The model that a user keeps is never asked about private rows: its copy is."""

from __future__ import annotations

import pickle
import threading
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dptune
from dptune import Rows
from dptune.losses.estimator import estimator_losses
from dptune.losses.models import BoosterModel
from dptune.losses.user_function import call_guarded, losses_function
from dptune.privacy.seal.copied import copied
from dptune_sklearn import StopsEarly

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :6]
TRAIN, VAL = slice(0, 150), slice(150, 450)
N = 300


class Remembers:
    """Keeps every row that it answers, in a list of its own."""

    classes_, n_features_in_ = np.array([0, 1]), 6

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.rows.extend(rows)
        return np.zeros(len(rows), dtype=int)


def test_neighbours_count_no_query_in_the_model_that_is_kept() -> None:
    model = KNeighborsClassifier().fit(X[TRAIN], Y[TRAIN])
    before = pickle.dumps(model)
    losses = estimator_losses("accuracy", model, X[VAL], Y[VAL])
    piped = make_pipeline(FunctionTransformer(lambda rows: rows), model)  # pickle cannot store a lambda
    estimator_losses("log_loss", piped, X[VAL], Y[VAL], like=X[TRAIN])
    assert pickle.dumps(model) == before
    assert model._tree.get_n_calls() == 0
    model.predict(X[VAL])  # the counter that would have left
    assert model._tree.get_n_calls() > 0
    assert losses.tolist() == (model.predict(X[VAL]) != Y[VAL]).tolist()


def test_every_way_to_ask_leaves_the_users_model_as_it_was(ledger: dptune.PrivacyLedger) -> None:
    data, models = (X[VAL], Y[VAL]), [Remembers(), Remembers()]
    function = losses_function(lambda place: models[place], "accuracy", data, rows=N)
    call_guarded(function, 0, np.asarray)
    function.try_out(models[0])
    private = losses_function(lambda place: models[place], "accuracy", data, rows=N, training="private")
    call_guarded(private, 0, np.asarray)
    dptune.select(models, dptune.LossPrivatizer(ledger, n=N, clip=(0, 1)), mu=0.5, name="c", loss="accuracy", data=data)
    assert [model.rows for model in models] == [[], []]


def test_a_model_without_an_importable_class_is_copied_with_what_it_holds() -> None:
    class Local(Remembers):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.shift = Remembers(), lambda rows: rows + 1

        def predict(self, rows: np.ndarray) -> np.ndarray:
            return super().predict(self.shift(rows)) + self.inner.predict(rows)

    model = Local()
    copy = copied(model)
    assert type(copy) is Local
    assert copy.shift is model.shift  # code is shared
    assert estimator_losses("accuracy", model, X[VAL], Y[VAL]).tolist() == Y[VAL].tolist()
    assert model.rows == model.inner.rows == []


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_copied_booster_keeps_the_iteration_at_which_it_was_stopped(library: str) -> None:
    """`copy.deepcopy` of LightGBM's does not."""
    module = import_module(library)
    kind = module.XGBClassifier if library == "xgboost" else module.LGBMClassifier
    usual: dict[str, Any] = {"n_estimators": 200, "learning_rate": 1.0, "n_jobs": 1}
    usual |= {"early_stopping_rounds": 2} if library == "xgboost" else {"early_stopping_round": 2, "verbose": -1}
    model = StopsEarly(kind(**usual)).fit(X[TRAIN], Y[TRAIN], **quiet(library)).estimator_
    assert model.predict_proba(X[VAL]).tolist() == copied(model).predict_proba(X[VAL]).tolist()
    booster = model.get_booster() if library == "xgboost" else model.booster_
    native = BoosterModel(booster, labels=[0, 1])
    assert native.predict_proba(X[VAL]).tolist() == copied(native).predict_proba(X[VAL]).tolist()
    assert copied(native)._booster is not booster


def quiet(library: str) -> dict[str, Any]:
    return {"verbose": False} if library == "xgboost" else {}


class Locked(Remembers):
    """As a session on a device, it has something that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_model_that_cannot_be_copied_is_refused_before_it_is_asked(ledger: dptune.PrivacyLedger) -> None:
    models, data, privatizer = [Locked(), Locked()], (X[VAL], Y[VAL]), dptune.LossPrivatizer(ledger, n=N, clip=(0, 1))
    said = r"this Locked cannot be copied \(TypeError: cannot pickle.*pickle can store.*return the losses yourself"
    with pytest.raises(dptune.InputError, match=said):
        estimator_losses("accuracy", models[0], *data)
    with pytest.raises(dptune.InputError, match=said):
        losses_function(lambda _: models[0], "accuracy", data, rows=N).try_out(models[0])
    outcome = call_guarded(losses_function(lambda _: models[0], "accuracy", data, rows=N), None, np.asarray)
    assert "cannot be copied" in str(outcome.error)
    with pytest.raises(dptune.InputError, match="Nothing was charged"):
        dptune.select(models, privatizer, mu=0.5, name="c", loss="accuracy", data=data)
    assert ledger.charges() == []
    assert models[0].rows == models[1].rows == []


def test_a_training_on_private_people_does_not_say_why_it_cannot_be_copied() -> None:
    function = losses_function(lambda _: Locked(), "accuracy", (X[VAL], Y[VAL]), rows=N, training="private")
    outcome = call_guarded(function, None, np.asarray)
    assert outcome.losses is None
    assert outcome.error is None


class DrawsAtRandom(Remembers):
    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return np.random.default_rng().random(len(rows))


class Standardises(Remembers):
    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-StandardScaler().fit_transform(rows)[:, 0]))


class Counts(Remembers):
    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        self.rows.append(1)
        return np.full(len(rows), 1 / (1 + len(self.rows)))


class Texts(Remembers):
    classes_ = np.array(["0", "1"])

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return np.where(rows[:, 0] > rows[:, 0].mean(), "1", "0")


@pytest.mark.parametrize(
    ("model", "like"), [(DrawsAtRandom(), None), (Standardises(), X[TRAIN]), (Counts(), None), (Texts(), X[TRAIN])]
)
def test_a_model_that_does_not_answer_row_by_row_is_refused_in_public(model: Any, like: Any) -> None:
    loss = "accuracy" if isinstance(model, Texts) else "log_loss"
    with pytest.raises(dptune.InputError, match=r"answers a public row differently.*Nothing was charged"):
        estimator_losses(loss, model, X[VAL], Y[VAL], like=like)


@pytest.mark.parametrize("draws", [True, False])
def test_an_imputer_that_draws_is_refused_and_one_that_does_not_is_not(draws: bool) -> None:
    import_module("sklearn.experimental.enable_iterative_imputer")  # scikit-learn's switch
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import LogisticRegression

    some = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = np.where(np.random.default_rng(0).random(some.shape) < 0.1, np.nan, some)
    imputer = IterativeImputer(sample_posterior=draws, max_iter=3, tol=10.0, random_state=0)
    model = make_pipeline(imputer, LogisticRegression()).fit(rows[TRAIN], Y[TRAIN])
    few = slice(150, 200)
    data = (rows[few], Y[few]) if draws else Rows(rows[few], Y[few], like=rows[TRAIN])
    outcome = call_guarded(losses_function(lambda _: model, "log_loss", data, rows=50), None, np.asarray)
    assert (outcome.losses is None) is draws
    assert ("answers a public row differently" in str(outcome.error)) is draws
