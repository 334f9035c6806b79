"""Early stopping holds out a part of the training rows and reads no other rows."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import RandomizedSearchCV

import dptune
from dptune_sklearn import StopsEarly
from sklearn_tools import PRIVATE, PUBLIC, VAL, search_in

SETTINGS = {
    "xgboost": ("XGBClassifier", {"early_stopping_rounds": 3, "n_estimators": 30, "n_jobs": 1}, {"verbose": False}),
    "lightgbm": ("LGBMClassifier", {"early_stopping_round": 3, "n_estimators": 30, "n_jobs": 1, "verbose": -1}, {}),
}


class Seen(BaseEstimator):
    def fit(self, X, y, eval_set=None):
        self.seen_ = X, eval_set[0][0]
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_the_rows_to_stop_on_are_held_out_of_those_that_train():
    fitted = StopsEarly(Seen(), fraction=0.25).fit(*PUBLIC)
    train, stop = fitted.estimator_.seen_
    assert (len(train), len(stop)) == (30, 10)
    assert sorted(map(tuple, np.concatenate([train, stop]))) == sorted(map(tuple, PUBLIC[0]))
    assert not hasattr(fitted, "predict_proba")
    assert clone(fitted).get_params()["fraction"] == 0.25
    with pytest.raises(dptune.InputError, match="fraction"):
        StopsEarly(Seen(), fraction=2.0).fit(*PUBLIC)
    with pytest.raises(dptune.InputError, match=r"^random_state must be a whole number >= 0; got a ndarray of shape"):
        StopsEarly(Seen(), random_state=PUBLIC[1]).fit(*PUBLIC)


@pytest.mark.parametrize("form", [np.asarray, list, pd.Series])
def test_an_option_with_an_entry_for_each_row_is_divided_like_the_rows(form):
    class Weighted(Seen):
        def fit(self, X, y, eval_set=None, sample_weight=None, names=None):
            self.given_ = sample_weight, names
            return super().fit(X, y, eval_set)

    fitted = StopsEarly(Weighted(), fraction=0.25).fit(*PUBLIC, sample_weight=form(PUBLIC[0][:, 0]), names=["a", "b"])
    weights, names = fitted.estimator_.given_
    assert np.asarray(weights).tolist() == fitted.estimator_.seen_[0][:, 0].tolist()
    assert names == ["a", "b"]


@pytest.mark.parametrize("library", SETTINGS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # LightGBM's, of arrays
def test_boosting_that_stops_early_is_searched(fast_path, library):
    name, settings, options = SETTINGS[library]
    booster = getattr(import_module(library), name)(**settings, learning_rate=0.3)
    public = RandomizedSearchCV(StopsEarly(booster), {"estimator__learning_rate": loguniform(0.1, 1.0)}, n_iter=3, cv=2)
    search = search_in(fast_path, public, default={"estimator__learning_rate": 0.3})
    search.fit(*PUBLIC, **VAL, **options)
    stopped = search.best_estimator_.estimator_
    assert stopped.learning_rate == search.best_params_["estimator__learning_rate"]
    assert (stopped.best_iteration if library == "xgboost" else stopped.best_iteration_) < 30
    assert search.predict_proba(PRIVATE[0]).shape == (60, 2)
