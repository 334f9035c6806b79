"""Training rows are public and validation rows are private. Groups work, and mixtures are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, roc_auc_score

import dptune
from sklearn_tools import PRIVATE, PUBLIC, VAL, Never, grid, rows, search_in


def test_groups_of_validation_rows_are_people_and_their_names_may_be_long(fast_path):
    groups = np.array([f"patient-{i // 3:03}" for i in range(60)], dtype=object)
    assert search_in(fast_path).fit(*PUBLIC, **VAL, groups=groups).ledger.n == 20


def frames(X_val):
    return {"X": pd.DataFrame(PUBLIC[0], columns=list("abc")), "X_val": X_val, "y_val": PRIVATE[1]}


def with_missing(missing):
    y = pd.Series(PUBLIC[1].astype(object))
    y[[7, 9]] = missing
    return {**VAL, "y": y}


FRAME = pd.DataFrame(PRIVATE[0], columns=list("abc"))
FRAMES = r"both as data frames, or both as arrays.* Put the steps before it into the estimator"  # as a Pipeline does
MISSING = r"y has 2 missing answers, the first in row 7.* omit these rows from X"
SHARES = "X_val or y_val shares memory with"
MISTAKES = [
    ({}, {"X_val": FRAME, "y_val": PRIVATE[1]}, FRAMES),
    ({}, frames(FRAME[["b", "a", "c"]]), r"order differs: give X_val\[X.columns\]. Nothing"),
    ({"loss": None}, VAL, "is not the name of a loss"),
    ({"loss": make_scorer(roc_auc_score)}, VAL, "log_loss or brier .*dptune.report"),
    ({}, {**VAL, "eval_set": [PRIVATE]}, f"{SHARES} an option of fit: eval_set.*early stop"),
    ({}, {**VAL, "X": PRIVATE[0], "y": PRIVATE[1]}, f"{SHARES} [Xy], which is public: .* give copies"),
    ({}, with_missing(np.nan), MISSING),
    ({}, with_missing(None), MISSING),
]


@pytest.mark.parametrize(("settings", "fit", "message"), MISTAKES)
def test_mistakes_are_refused_with_a_remedy_before_training_and_charge(fast_path, settings, fit, message):
    search = search_in(fast_path, grid(Never()), **settings)
    with pytest.raises(dptune.InputError, match=message) as refused:
        search.fit(**{"X": PUBLIC[0], "y": PUBLIC[1], **fit})
    assert search.ledger.count() == 0
    for private in (f"{abs(PRIVATE[0][0, 0]):.4f}", str(PRIVATE[1])[1:12]):
        assert private not in str(refused.value)


def test_answers_in_a_column_are_a_vector(fast_path):
    X, y = rows(40)[0], rows(40)[0][:, 0]
    private = rows(60, seed=3)[0]
    search = search_in(fast_path, grid(Ridge(), {"alpha": [0.1, 10]}), loss="mse", clip=(0, 4))
    with pytest.warns(DataConversionWarning):
        search.fit(X, y, X_val=private, y_val=private[:, :1])
    assert search.predict(private).shape == (60,)
