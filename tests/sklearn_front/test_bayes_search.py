"""A search of scikit-optimize's kind proposes: the package's own where it is installed, and one with its interface."""

from collections import OrderedDict
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection._search import BaseSearchCV

import dptune
from dptune_sklearn import PrivateSearch
from harness import open_ledger

_rng = np.random.default_rng(0)
X = _rng.normal(size=(140, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=140) > 0).astype(int)
PUBLIC, VAL = (X[:60].copy(), Y[:60].copy()), {"X_val": X[60:].copy(), "y_val": Y[60:].copy()}
del X, Y


class StandIn(BaseSearchCV):
    """Like ``BayesSearchCV``: named ``search_spaces``, one point at a time, parameters in an ``OrderedDict``."""

    def __init__(self, estimator, search_spaces, n_iter=50, cv=None, refit=True, n_jobs=1, random_state=None):
        super().__init__(estimator, cv=cv, refit=refit, n_jobs=n_jobs)
        self.search_spaces, self.n_iter, self.random_state = search_spaces, n_iter, random_state

    def _run_search(self, evaluate_candidates):
        draw = np.random.RandomState(self.random_state)
        for _ in range(self.n_iter):
            spaces = sorted(self.search_spaces.items())
            evaluate_candidates([OrderedDict((name, draw.uniform(low, high)) for name, (low, high, *_) in spaces)])


KINDS = [StandIn, *([import_module("skopt").BayesSearchCV] if find_spec("skopt") else [])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [None, 3])
def test_bayes_search_proposes_and_a_rerun_finds_its_answer(tmp_path, kind, seed):
    ledger = open_ledger(tmp_path)
    space = {"C": (1e-2, 1e2, "log-uniform")}
    with pytest.raises(dptune.InputError, match="BayesSearchCV"):
        PrivateSearch(LogisticRegression(), ledger=ledger, loss="log_loss").fit(*PUBLIC, **VAL)
    found = []
    for _ in range(2):
        search = kind(LogisticRegression(), space, n_iter=4, cv=3, random_state=seed)
        private = PrivateSearch(search, ledger=ledger, loss="log_loss", default={"C": 1.0}).fit(*PUBLIC, **VAL)
        found.append((private.best_params_, private.selection_.index, private.name_, ledger.spent()))
    assert found[0] == found[1]
    assert private.selection_.candidates == 5
    assert 1e-2 <= private.best_params_["C"] <= 1e2
