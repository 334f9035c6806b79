"""A copy of the user's model predicts the private rows, never the model that the user keeps."""

import threading
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import dptune
from dptune.losses.estimator import estimator_losses
from dptune.losses.models import BoosterModel
from dptune.losses.steady import copied
from dptune.losses.user_function import call_guarded, losses_function
from dptune_sklearn import StopsEarly

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :6]
TRAIN, VAL = slice(0, 150), slice(150, 450)
N, DATA = 300, (X[VAL], Y[VAL])


class Remembers:
    """Keeps every row that it answers, in a list of its own."""

    classes_, n_features_in_ = np.array([0, 1]), 6

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.rows.extend(rows)
        return np.zeros(len(rows), dtype=int)


def test_every_way_to_ask_leaves_the_users_model_as_it_was(ledger: dptune.PrivacyLedger) -> None:
    models = [Remembers(), Remembers()]
    function = losses_function(lambda place: models[place], "accuracy", DATA, rows=N)
    function.try_out(models[0])
    private = losses_function(lambda place: models[place], "accuracy", DATA, rows=N, training="private")
    for each in (function, private):
        call_guarded(each, 0, np.asarray)
    dptune.select(models, dptune.LossPrivatizer(ledger, n=N, clip=(0, 1)), mu=0.5, name="c", loss="accuracy", data=DATA)
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
    assert estimator_losses("accuracy", model, *DATA).tolist() == Y[VAL].tolist()
    assert model.rows == model.inner.rows == []


def test_a_copied_booster_keeps_the_iteration_at_which_it_was_stopped() -> None:
    """`copy.deepcopy` of LightGBM's does not."""
    usual: dict[str, Any] = {"n_estimators": 200, "learning_rate": 1.0, "n_jobs": 1}
    xgboost, lightgbm = import_module("xgboost"), import_module("lightgbm")
    for kind, fit, booster_of in (
        (xgboost.XGBClassifier(**usual, early_stopping_rounds=2), {"verbose": False}, lambda m: m.get_booster()),
        (lightgbm.LGBMClassifier(**usual, early_stopping_round=2, verbose=-1), {}, lambda m: m.booster_),
    ):
        model = StopsEarly(kind).fit(X[TRAIN], Y[TRAIN], **fit).estimator_
        native = BoosterModel(booster_of(model), labels=[0, 1])
        for each in (model, native):
            assert each.predict_proba(X[VAL]).tolist() == copied(each).predict_proba(X[VAL]).tolist()
        assert copied(native)._booster is not native._booster


class Locked(Remembers):
    """As a session on a device, it has something that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_model_that_cannot_be_copied_is_refused_before_it_is_asked(ledger: dptune.PrivacyLedger) -> None:
    models, privatizer = [Locked(), Locked()], dptune.LossPrivatizer(ledger, n=N, clip=(0, 1))
    function = losses_function(lambda _: models[0], "accuracy", DATA, rows=N)
    for ask in (
        lambda: estimator_losses("accuracy", models[0], *DATA),
        lambda: function.try_out(models[0]),
        lambda: dptune.select(models, privatizer, mu=0.5, name="c", loss="accuracy", data=DATA),
    ):
        with pytest.raises(dptune.InputError) as refused:
            ask()
        for words in ("this Locked cannot be copied (TypeError: cannot pickle", "pickle can store", "Nothing was"):
            assert words in str(refused.value)
    assert "cannot be copied" in str(call_guarded(function, None, np.asarray).error)
    private = losses_function(lambda _: Locked(), "accuracy", DATA, rows=N, training="private")
    outcome = call_guarded(private, None, np.asarray)
    assert (outcome.losses, outcome.error) == (None, None)  # a training on private people does not say why
    assert ledger.charges() == []
    assert models[0].rows == models[1].rows == []


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


def test_a_model_that_does_not_answer_row_by_row_is_refused_in_public() -> None:
    for model, like in ((DrawsAtRandom(), None), (Standardises(), X[TRAIN]), (Counts(), None), (Texts(), X[TRAIN])):
        with pytest.raises(dptune.InputError, match=r"answers a public row differently.*Nothing was charged"):
            estimator_losses("accuracy" if isinstance(model, Texts) else "log_loss", model, *DATA, like=like)
