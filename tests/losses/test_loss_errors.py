"""Invalid losses, models and rows are refused by errors that name only public things and what is allowed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dptune.errors import InputError, UnsupportedMetric
from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import hinge_loss, huber_loss, log_loss, squared_error, zero_one_loss
from dptune.losses.models import BoosterModel
from dptune.losses.named import NamedLoss, per_example_loss
from dptune.losses.rows import Rows, read_rows
from dptune.losses.user_function import losses_function
from one_row import LABELS, TRAIN, N, Raises, X, Y, mixed

RIDGE = Ridge().fit(TRAIN, LABELS)


class Unreadable(Raises):
    def __repr__(self) -> str:
        return "the answer of person 7"


class Shaped:
    """Answers probabilities of this shape."""

    classes_ = np.array([0, 1])

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def predict_proba(self, rows: Any) -> np.ndarray:
        return np.zeros(self.shape)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: squared_error([1.0, 2.0], [1.0]), r"y has shape \(2,\) and prediction has shape \(1,\)"),
        (lambda: squared_error(Unreadable(), [1.0]), "y cannot be read as an array.*Unreadable"),
        (lambda: huber_loss([1.0], [1.0], c=0.0), "c must be .* got 0.0"),
        (lambda: log_loss([1], np.array([[0.5, 0.5]]), labels=[0, 1, 2]), r"proba has shape \(1, 2\) for 3 labels"),
        (lambda: hinge_loss([1], [0.5], labels=[0, 1, 2]), "exactly two"),
        (lambda: zero_one_loss([1, 2], [1]), "same people"),
        (lambda: per_example_loss("roc_auc_ovr_weighted"), "'roc_auc_ovr_weighted' cannot be released.* log_loss"),
        (lambda: per_example_loss("f1"), "'f1' cannot be released.* accuracy"),
        (lambda: per_example_loss("neg_root_mean_squared_error"), "cannot be released.* take the root of the released"),
        (lambda: per_example_loss("acuracy"), r"Did you mean 'accuracy'\?.* neg_log_loss"),
        (lambda: per_example_loss(squared_error), r"a function is not .* a loss\. Did you mean 'squared_error'"),
        (lambda: per_example_loss("pinball"), "quantile="),
        (lambda: per_example_loss("log_loss")([1], [0.5]), "labels="),
        (lambda: NamedLoss("own", len, "transform"), "output must be one of .*predict_proba.* got 'transform'"),
        (lambda: estimator_losses(NamedLoss("own", lambda *_: [0.5, 0.5]), RIDGE, X, Y), "one loss per"),
        (lambda: estimator_losses("mse", RIDGE, X, Y[1:]), r"X has 40 rows and y has shape \(39,\)"),
        (lambda: estimator_losses("mse", RIDGE, X, Unreadable()), "cannot be read as an array.*Unreadable"),
        (lambda: estimator_losses("mse", RIDGE, X[:, :2], Y), "fitted on 3 columns"),
        (lambda: estimator_losses("mse", LinearRegression(), X.tolist(), Y), "fitted"),
        (lambda: estimator_losses("mse", make_pipeline(StandardScaler(), Ridge()), sparse.csr_array(X), Y), "fitted"),
        (lambda: estimator_losses("log_loss", Shaped(N, 2, 1), X, Y), r"public row with shape .* needs \(1, 2\)"),
        (lambda: losses_function(len, "mse", (X, Y), rows=N, training="secret"), '"public" or "private"'),
        (lambda: BoosterModel({}), "a booster of XGBoost or LightGBM is expected; got dict"),
    ],
)
def test_errors_name_public_things_only(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert isinstance(caught.value, UnsupportedMetric) is ("cannot be released" in words)
    assert not isinstance(caught.value.__context__, NotFittedError)
    assert "person 7" not in str(caught.value)


FRAME, PEOPLE, DAY = pd.DataFrame(X), mixed(TRAIN), pd.Timestamp("2020-01-01")
VERSIONS = pd.DataFrame({"version": ["1.1", "1.10"] * (N // 2)})


@pytest.mark.parametrize(
    ("held", "like", "says"),
    [
        (FRAME, None, "like=X_train"),
        (X, FRAME, "like=X_train"),
        (FRAME, FRAME.copy().rename(columns=str), "same columns"),
        (["a"] * N, None, "n_features_in_"),
        (X, TRAIN[:, :2], r"allowed: \(n, 2\)"),
        (mixed(X), PEOPLE.assign(age=DAY), "neither numbers, text nor categories"),
        (mixed(X), PEOPLE.assign(age=pd.Series(["x", DAY], dtype=object)), "neither numbers, text nor categories"),
        (VERSIONS, VERSIONS.iloc[::-1], "column 'version' of like= holds different values that are one number"),
    ],
)
def test_what_cannot_be_known_is_refused_before_anything_is_trained(held: Any, like: Any, says: str) -> None:
    class Unasked:
        def predict(self, rows: Any) -> Any:
            raise AssertionError("it was asked")

    in_a_trial = partial(losses_function, lambda _: None, "mse", Rows(held, Y, like), rows=N)
    for asked in (partial(estimator_losses, "mse", Unasked(), held, Y, like=like), in_a_trial):
        if not (asked is in_a_trial and says == "n_features_in_"):  # of a list the model says it, once it is trained
            with pytest.raises(InputError, match=says):
                asked()


def test_public_values_that_are_one_number_may_be_free_text() -> None:
    free = pd.DataFrame({"id": ["1e999", "2e999", "77ab", "8c"]})
    assert len(read_rows(free, free)) == 4
