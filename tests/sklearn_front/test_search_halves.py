"""Who is public and who is private: training rows, validation rows, groups, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, roc_auc_score

import dptune
from dptune_sklearn import PrivateSearch
from sklearn_tools import PRIVATE, PUBLIC, SPACE, VAL, Never, rows, search_in


def test_groups_of_validation_rows_are_people_and_their_names_may_be_long(fast_path):
    groups = np.array([f"patient-{i // 3:03}" for i in range(60)], dtype=object)
    search = search_in(fast_path, "selection").fit(*PUBLIC, **VAL, groups=groups)
    assert search.ledger.n == 20


def frames(X_val):
    return {"X": pd.DataFrame(PUBLIC[0], columns=list("abc")), "X_val": X_val, "y_val": PRIVATE[1]}


def with_missing(missing):
    y = pd.Series(PUBLIC[1].astype(object))
    y[[7, 9]] = missing
    return {**VAL, "y": y}


class Peeks(Never):
    def fit(self, X, y, eval_set=None):
        raise KeyboardInterrupt


INNER = PrivateSearch(Never(), SPACE, ledger="ledger.db", loss="log_loss")
FRAME = pd.DataFrame(PRIVATE[0], columns=list("abc"))
FRAMES = r"both as data frames, or both as arrays.* Put the steps before it into the estimator"  # as a Pipeline does
MISSING = r"y has 2 missing answers, the first in row 7.* omit these rows from X"
SHARES = "X_val or y_val shares memory with"
MISTAKES = [
    ({}, {}, "X_val is None: give fit X_val= and y_val=, private rows"),
    ({}, {"X_val": PRIVATE[0], "y_val": PRIVATE[1][:9]}, "as many rows"),
    ({}, {"X_val": FRAME, "y_val": PRIVATE[1]}, FRAMES),
    ({}, frames(FRAME.rename(columns={"c": "d"})), "order: only X has 'c'; only X_val has 'd'. Nothing"),
    ({}, frames(FRAME[["b", "a", "c"]]), r"order differs: give X_val\[X.columns\]. Nothing"),
    ({}, {"X_val": PRIVATE[0][:, :2], "y_val": PRIVATE[1]}, r"X has 3, X_val has 2\. Nothing"),
    ({"cv": 5, "method": "centred"}, VAL, "method='centred' asks private people .* Leave method= out, or give cv="),
    ({"cv": 5, "settings": {"final_share": 0.1}}, VAL, "no setting 'final_share'; allowed: estimate_share"),
    ({"cv": 5, "warm_start": True}, VAL, "warm_start= needs cv=None"),
    ({"method": "selection", "warm_start": True}, VAL, "made once"),
    ({"settings": {"poplation": 4}}, VAL, "no option 'poplation'"),
    ({"report_share": 0.1}, VAL, "report_share= goes with cv="),
    ({"scoring": "roc_auc"}, VAL, "scoring= is refused with cv=None: .* Give loss="),
    ({"method": "grid"}, VAL, "'selection', a dptune.search.Method or an Optuna sampler"),
    ({"method": "selection", "param_distributions": {"C": []}}, VAL, "is empty: give it a value to try"),
    ({"method": "selection", "param_distributions": {"C": [1.0]}}, VAL, "at least two candidates; got 1"),
    ({"param_distributions": [SPACE, {"CC": SPACE["C"]}]}, VAL, r"has 'CC', which .* Did you mean 'C'\?"),
    ({"loss": None}, VAL, "needs loss=, what is minimised"),
    ({"loss": make_scorer(roc_auc_score)}, VAL, "log_loss or brier .*dptune.report"),
    ({"cv": 3, "estimator": INNER, "param_distributions": {"estimator__C": [1, 2]}}, VAL, "be searched by another"),
    ({"estimator": Peeks()}, {**VAL, "eval_set": [PRIVATE]}, f"{SHARES} an option of fit: eval_set.*early stop"),
    ({}, {**VAL, "X": PRIVATE[0], "y": PRIVATE[1]}, f"{SHARES} [Xy], which is public: .* give copies"),
    ({}, with_missing(np.nan), MISSING),
    ({"cv": 3}, with_missing(None), MISSING),
]


@pytest.mark.parametrize(("settings", "fit", "message"), MISTAKES)
def test_mistakes_are_refused_with_a_remedy_before_anything_is_trained_or_paid(fast_path, settings, fit, message):
    how = {"method": None} if "cv" in settings else {}
    search = search_in(fast_path, **{"estimator": Never(), **how, **settings})
    with pytest.raises(dptune.InputError, match=message) as refused:
        search.fit(**{"X": PUBLIC[0], "y": PUBLIC[1], **fit})
    assert search.ledger.count() == 0
    for private in (f"{abs(PRIVATE[0][0, 0]):.4f}", str(PRIVATE[1])[1:12]):
        assert private not in str(refused.value)


def test_answers_in_a_column_are_a_vector(fast_path):
    X, y = rows(40)[0], rows(40)[0][:, 0]
    private = rows(60, seed=3)[0]
    settings = {"param_distributions": {"alpha": [0.1, 10]}, "loss": "mse", "clip": (0, 4)}
    search = search_in(fast_path, "selection", Ridge(), **settings)
    with pytest.warns(DataConversionWarning):
        search.fit(X, y, X_val=private, y_val=private[:, :1])
    assert search.predict(private).shape == (60,)
