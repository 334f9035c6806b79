"""Losses of a fitted estimator: its scores, and a row that breaks the model costs its own entry only."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loss_data import RNG, UNUSUAL, Y, anything
from sklearn import metrics
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC

from dptune.errors import InputError, UnsupportedMetric
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import per_example_loss, pinball_loss

X2, Y2 = make_classification(60, 5, random_state=0)
NAMES2 = np.where(Y2 == 1, "sick", "healthy")


@pytest.mark.parametrize("y", [Y2, NAMES2, 1 - Y2], ids=["numbers", "text", "swapped"])
def test_classifier_losses_average_to_the_scores(y: np.ndarray) -> None:
    model = LogisticRegression().fit(X2, y)
    proba = model.predict_proba(X2)
    for name, score in {
        "neg_log_loss": metrics.log_loss(y, proba, labels=model.classes_),
        "accuracy": 1 - model.score(X2, y),
        "brier": metrics.brier_score_loss(y, proba[:, 1], pos_label=model.classes_[1]),
        "hinge": metrics.hinge_loss(y, model.decision_function(X2), labels=model.classes_),
    }.items():
        assert estimator_losses(name, model, X2, y).mean() == pytest.approx(score, rel=1e-9)
        np.testing.assert_array_equal(estimator_losses(name, model, X2, list(y)), estimator_losses(name, model, X2, y))


def test_regressor_losses() -> None:
    X = RNG.normal(size=(40, 2))
    model = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(estimator_losses("mse", model, X, Y), (Y - model.predict(X)) ** 2)
    loss = per_example_loss("pinball", quantile=0.3)
    np.testing.assert_array_equal(estimator_losses(loss, model, X, Y), pinball_loss(Y, model.predict(X), quantile=0.3))


def test_a_label_the_model_has_not_seen_is_nan() -> None:
    model = LogisticRegression().fit(X2, NAMES2)
    y = NAMES2.astype(object)
    y[3] = "dead"
    for name in ("log_loss", "brier", "hinge", "accuracy"):
        assert np.flatnonzero(np.isnan(estimator_losses(name, model, X2, y))).tolist() == [3]


def test_one_answer_of_another_type_in_a_list_does_not_fail_the_trial() -> None:
    y: list[Any] = Y2.tolist()
    y[3] = "dead"
    losses = estimator_losses("log_loss", LogisticRegression().fit(X2, Y2), X2, y)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [3]


class Fragile:
    """Fails, loudly and with the value in its message, on any row that holds the number 7."""

    classes_ = np.array([0, 1])

    def predict(self, X: np.ndarray) -> np.ndarray:
        warnings.warn(f"a private value: {X[0]}", stacklevel=1)
        if (X == 7).any():
            raise ValueError(f"secret row {X}")
        return (X[:, 0] > 0).astype(int)


def test_a_row_that_breaks_the_model_costs_its_own_entry_only() -> None:
    X = np.array([[1.0], [7.0], [-1.0]])
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        losses = estimator_losses("accuracy", Fragile(), X, np.array([1, 1, 1]))
    np.testing.assert_array_equal(losses, [0.0, np.nan, 1.0])
    assert stream.getvalue() == ""


@pytest.mark.parametrize("error", UNUSUAL)
def test_a_row_fails_alone_whatever_the_model_raises(error: type[BaseException]) -> None:
    class Panicking(Fragile):
        decision_function = predict_proba = None

        def predict(self, X: np.ndarray) -> np.ndarray:
            if (X == 7).any():
                raise error(f"secret row {X}")
            return np.ones(len(X))

    rows = np.array([[1.0], [7.0], [-1.0]])
    np.testing.assert_array_equal(estimator_losses("accuracy", Panicking(), rows, [1, 1, 0]), [0.0, np.nan, 1.0])


def test_an_interrupt_passes_without_the_frames_of_the_model() -> None:
    class Interrupted(Fragile):
        def predict(self, X: np.ndarray) -> np.ndarray:
            raise KeyboardInterrupt(f"secret row {X}")

    with pytest.raises(KeyboardInterrupt) as caught:
        estimator_losses("accuracy", Interrupted(), np.array([[1.0]]), [1])
    assert not caught.value.args
    assert caught.value.__context__ is None
    assert "predict" not in [frame.name for frame in caught.traceback]


def test_a_missing_cell_in_a_real_model_does_not_fail_the_trial() -> None:
    model = LogisticRegression().fit(X2, Y2)
    X = X2.copy()
    X[5, 2] = np.nan
    before, after = (estimator_losses("log_loss", model, rows, Y2) for rows in (X2, X))
    assert np.flatnonzero(np.isnan(after)).tolist() == [5]
    np.testing.assert_allclose(np.delete(after, 5), np.delete(before, 5), rtol=1e-9)


class Frame:
    """What this package asks of a data frame: a shape, and rows by position through iloc only."""

    def __init__(self, rows: np.ndarray) -> None:
        self.iloc, self.shape = rows, rows.shape


class OfFrames(Fragile):
    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X.iloc if isinstance(X, Frame) else X)


def test_a_data_frame_is_read_by_position() -> None:
    frame = Frame(np.array([[1.0], [7.0], [-1.0]]))
    np.testing.assert_array_equal(estimator_losses("accuracy", OfFrames(), frame, [1, 1, 1]), [0.0, np.nan, 1.0])


def test_estimator_errors_are_public() -> None:
    model = LogisticRegression().fit(X2, Y2)
    with pytest.raises(InputError, match="needs predict_proba"):
        estimator_losses("log_loss", SVC().fit(X2, Y2), X2, Y2)
    with pytest.raises(InputError, match="no classes_"):
        estimator_losses("accuracy", LinearRegression().fit(X2, Y2), X2, Y2)
    with pytest.raises(InputError, match="not fitted") as caught:
        estimator_losses("mse", LinearRegression(), X2, Y2)
    assert not isinstance(caught.value.__context__, NotFittedError)
    with pytest.raises(InputError, match="fitted on 5 columns"):
        estimator_losses("accuracy", model, X2[:, :2], Y2)
    with pytest.raises(InputError, match=r"X has 60 rows and y has shape \(59,\)"):
        estimator_losses("accuracy", model, X2, Y2[1:])
    with pytest.raises(UnsupportedMetric):
        estimator_losses("roc_auc", model, X2, Y2)


@settings(max_examples=20)
@given(row=hnp.arrays(float, 5, elements=anything), i=st.integers(0, 59))
def test_replacing_one_person_changes_one_entry(row: np.ndarray, i: int) -> None:
    model = LogisticRegression().fit(X2, Y2)
    X = X2.copy()
    X[i] = row
    before, after = (estimator_losses("log_loss", model, rows, Y2) for rows in (X2, X))
    np.testing.assert_allclose(np.delete(after, i), np.delete(before, i), rtol=1e-9)
