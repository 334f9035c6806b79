"""Losses of a fitted estimator: its scores, and what is wrong with a model."""

from __future__ import annotations

import numpy as np
import pytest
from loss_data import RNG, Y
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
