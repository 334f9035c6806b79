"""The searches pass all of scikit-learn's own checks of estimators."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import dptune
from dptune_sklearn import PrivateSearch


class ManyDataSets(PrivateSearch):
    """The checks fit one object to dozens of data sets: each is other people, with a ledger of its own."""

    def __repr__(self, N_CHAR_MAX=700):  # in names of tests, which must be the same in each process: no addresses
        return f"{type(self).__name__}({self.estimator!r})"

    def fit(self, X, y=None, **options):
        """The checks know no private rows: some of those they give are taken for them."""
        settings = {name: str(value) for name, value in self.get_params(deep=False).items()}
        self._people = joblib.hash((X, np.ravel(y) if hasattr(y, "shape") else y, settings))
        if y is None:
            return super().fit(X, y, **options)
        _, X_val, _, y_val = train_test_split(X, y, test_size=0.4, random_state=0)
        X_val, y_val = deepcopy((X_val, y_val))  # some of the lists in a list are the same
        return super().fit(X, y, X_val=X_val, y_val=y_val, **options)

    def _ledger(self):
        return ledger_at(Path(self.ledger) / f"{self._people}.db")


@lru_cache(maxsize=2)
def ledger_at(path: Path) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(path, dptune.Budget.gdp(mu=1e4))


def searches() -> list[ManyDataSets]:
    usual = {"ledger": "folder", "mu": 1e3}
    return [
        ManyDataSets(
            GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), loss="log_loss", clip=(0, 3), **usual
        ),
        ManyDataSets(GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2), loss="squared_error", clip=(0, 9), **usual),
    ]


# scikit-learn's data sets, of ten rows or with labels of one kind, warn of themselves
pytestmark = pytest.mark.filterwarnings("ignore")


@parametrize_with_checks(searches()[:1])
def test_a_check_of_scikit_learn(estimator, check, fast_path):
    estimator.set_params(ledger=str(fast_path))
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(searches()[1:])
def test_a_check_of_scikit_learn_of_a_regressor(estimator, check, fast_path):
    test_a_check_of_scikit_learn(estimator, check, fast_path)
