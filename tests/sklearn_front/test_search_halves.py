"""Who is public and who is private: training rows, validation rows, groups, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import dptune
from sklearn_tools import PRIVATE, PUBLIC, SPACE, VAL, Never, rows, search_in


def test_groups_of_validation_rows_are_people(fast_path):
    search = search_in(fast_path, "selection").fit(*PUBLIC, **VAL, groups=np.arange(60) // 3)
    assert search.ledger.n == 20


def frames(X_val):
    return {"X": pd.DataFrame(PUBLIC[0], columns=list("abc")), "X_val": X_val, "y_val": PRIVATE[1]}


FRAME = pd.DataFrame(PRIVATE[0], columns=list("abc"))
OTHER = "log_loss or brier .*dptune.report"  # instead of an area under a curve
MISTAKES = [
    ({}, {}, "X_val is None: give fit X_val= and y_val=, private rows"),
    ({}, {"X_val": PRIVATE[0], "y_val": PRIVATE[1][:9]}, "as many rows"),
    ({}, {**VAL, "groups": [1, 2]}, "as many rows"),
    ({}, {"X_val": PRIVATE[0]}, "y_val is None: give fit"),
    ({}, {"X_val": FRAME, "y_val": PRIVATE[1]}, "both as data frames, or both as arrays"),
    ({}, frames(FRAME.rename(columns={"c": "d"})), "order: only X has 'c'; only X_val has 'd'. Nothing"),
    ({}, frames(FRAME[["b", "a", "c"]]), r"order differs: give X_val\[X.columns\]. Nothing"),
    ({}, frames(FRAME[["a", "b"]]), "order: only X has 'c'. Nothing"),
    ({}, {"X_val": PRIVATE[0][:, :2], "y_val": PRIVATE[1]}, r"X has 3, X_val has 2\. Nothing"),
    ({"cv": 5, "method": "centred"}, VAL, "method='centred' asks private people .* Leave method= out, or give cv="),
    ({"cv": 5, "settings": {"final_share": 0.1}}, VAL, "no setting 'final_share'; allowed: estimate_share"),
    ({"cv": 5, "warm_start": True}, VAL, "warm_start= needs cv=None"),
    ({"method": "selection", "warm_start": True}, VAL, "made once"),
    ({"method": "selection", "settings": {"final_share": 0.1}}, VAL, "no setting 'final_share'"),
    ({"settings": {"poplation": 4}}, VAL, "no option 'poplation'"),
    ({"report_share": 0.1}, VAL, "report_share= goes with cv="),
    ({"scoring": "roc_auc"}, VAL, "scoring= is refused with cv=None: .* Give loss="),
    ({"method": "grid"}, VAL, "'selection', a dptune.search.Method or an Optuna sampler"),
    ({"param_distributions": {}}, VAL, "param_distributions"),
    ({"param_distributions": {"C": []}}, VAL, "param_distributions"),
    ({"method": "selection", "param_distributions": {"C": []}}, VAL, "is empty: give it a value to try"),
    ({"param_distributions": [SPACE, {"CC": SPACE["C"]}]}, VAL, r"has 'CC', which .* Did you mean 'C'\?"),
    ({"loss": None}, VAL, "needs loss=, what is minimised"),
    ({"loss": "logloss"}, VAL, "not the name of a loss. Did you mean 'log_loss'"),
    ({"loss": "neg_log_los"}, VAL, "Did you mean 'neg_log_loss'"),
    ({"loss": "roc_auc"}, VAL, OTHER),
    ({"loss": roc_auc_score}, VAL, OTHER),
    ({"loss": make_scorer(roc_auc_score)}, VAL, OTHER),
    ({"loss": "f1"}, VAL, "log_loss or accuracy"),
    ({"loss": "r2"}, VAL, "squared_error"),
]


@pytest.mark.parametrize(("settings", "fit", "message"), MISTAKES)
def test_mistakes_are_refused_with_a_remedy_before_anything_is_trained_or_paid(fast_path, settings, fit, message):
    how = {"method": None} if "cv" in settings else {}
    search = search_in(fast_path, estimator=Never(), **how | settings)
    with pytest.raises(dptune.InputError, match=message) as refused:
        search.fit(**{"X": PUBLIC[0], "y": PUBLIC[1], **fit})
    assert search.ledger.count() == 0
    for private in (f"{abs(PRIVATE[0][0, 0]):.4f}", str(PRIVATE[1])[1:12]):
        assert private not in str(refused.value)


def test_a_private_search_is_not_searched_by_another(fast_path):
    outer = search_in(fast_path, None, search_in(fast_path), cv=3, param_distributions={"estimator__C": [1, 2]})
    with pytest.raises(dptune.InputError, match="cannot be searched by another"):
        outer.fit(*PUBLIC, **VAL)


def test_private_rows_within_reach_of_training_are_refused(fast_path):
    X_val, y_val = PRIVATE

    class Peeks(LogisticRegression):
        def fit(self, X, y, eval_set=None):
            return super().fit(X, y)

    shares = "X_val or y_val shares memory with"
    with pytest.raises(dptune.InputError, match=f"{shares} an option of fit: eval_set.*early stopping would show"):
        search_in(fast_path, estimator=Peeks()).fit(*PUBLIC, **VAL, eval_set=[(X_val, y_val)])
    with pytest.raises(dptune.InputError, match=rf"{shares} [Xy], which is public: .* give copies"):
        search_in(fast_path).fit(X_val, y_val, **VAL)


@pytest.mark.parametrize(("missing", "cv"), [(np.nan, None), (None, 3), (pd.NA, None), (pd.NaT, 3)])
def test_missing_public_answers_are_refused_with_a_remedy(fast_path, missing, cv):
    y = pd.Series(PUBLIC[1].astype(object))
    y[[7, 9]] = missing
    how = {"method": None, "cv": cv} if cv else {}
    search = search_in(fast_path, estimator=Never(), **how)
    with pytest.raises(
        dptune.InputError, match=r"y has 2 missing answers, the first in row 7.* omit these rows from X"
    ):
        search.fit(PUBLIC[0], y, **VAL)
    assert search.ledger.count() == 0


def test_missing_private_answers_are_not_refused(fast_path):
    y_val = PRIVATE[1].astype(float)
    y_val[3] = np.nan
    assert search_in(fast_path, "selection").fit(*PUBLIC, X_val=PRIVATE[0], y_val=y_val).best_params_


def test_other_people_need_another_ledger(fast_path):
    search = search_in(fast_path, "selection").fit(*PUBLIC, **VAL)
    with pytest.raises(dptune.errors.BudgetMismatch, match="60"):
        search.fit(*PUBLIC, X_val=PRIVATE[0][:50], y_val=PRIVATE[1][:50])


def test_the_last_step_of_a_pipeline_is_told_to_take_the_others_in(fast_path):
    X, X_val = (pd.DataFrame(rows, columns=["a", "b", "c"]) for rows in (PUBLIC[0], PRIVATE[0]))
    outer = Pipeline([("scale", StandardScaler()), ("s", search_in(fast_path))])
    with pytest.raises(dptune.InputError, match=r"Put the steps before it into the estimator"):
        outer.fit(X, PUBLIC[1], s__X_val=X_val, s__y_val=PRIVATE[1])
    pipeline = Pipeline([("scale", StandardScaler()), ("s", LogisticRegression())])
    inner = search_in(fast_path, "selection", pipeline, param_distributions={"s__C": [0.1, 1.0]})
    assert inner.fit(X, PUBLIC[1], X_val=X_val, y_val=PRIVATE[1]).ledger.n == 60


def test_answers_in_a_column_are_a_vector(fast_path):
    X, y = rows(40)[0], rows(40)[0][:, 0]
    private = rows(60, seed=3)[0]
    settings = {"param_distributions": {"alpha": [0.1, 10]}, "loss": "mse", "clip": (0, 4)}
    search = search_in(fast_path, "selection", Ridge(), **settings)
    with pytest.warns(UserWarning, match="column-vector"):
        search.fit(X, y, X_val=private, y_val=private[:, :1])
    assert search.predict(private).shape == (60,)
