"""Invalid losses, models and rows are refused by errors that name only public things and what is allowed."""

from functools import partial
from typing import Any

import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.rows import Rows, read_rows
from dptune.losses.user_function import losses_function
from one_row import LABELS, TRAIN, N, Raises, X, Y, mixed

RIDGE = Ridge().fit(TRAIN, LABELS)


class Unreadable(Raises):
    def __repr__(self) -> str:
        return "the answer of person 7"


@pytest.mark.parametrize(
    ("model", "rows", "answers", "words"),
    [
        (RIDGE, X, Unreadable(), "cannot be read as an array.*Unreadable"),
        (LinearRegression(), X.tolist(), Y, "fitted"),
        (make_pipeline(StandardScaler(), Ridge()), sparse.csr_array(X), Y, "fitted"),
    ],
)
def test_errors_name_public_things_only(model: Any, rows: Any, answers: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        estimator_losses("mse", model, rows, answers)
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
