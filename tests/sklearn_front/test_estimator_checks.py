"""scikit-learn's own checks of estimators. Each exclusion has its reason, which docs/research/sklearn.md tells."""

from functools import lru_cache
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import dptune
from dptune_sklearn import PrivateSearch

EXCLUDED = {
    "check_dtype_object": "what training raised is shown with its traceback, as an InputError, not as a TypeError",
    "check_estimators_empty_data_messages": "rows without columns are refused in dptune's words, before training",
}


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
        X, X_val, y, y_val = train_test_split(X, y, test_size=0.4, random_state=0)
        return super().fit(X, y, X_val=X_val, y_val=y_val, **options)

    def _ledger(self):
        return ledger_at(Path(self.ledger) / f"{self._people}.db")


@lru_cache(maxsize=2)
def ledger_at(path: Path) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(path, dptune.Budget.gdp(mu=1e4))


def searches() -> list[ManyDataSets]:
    usual = {"ledger": "folder", "mu": 1e3, "cv": None, "method": "selection"}
    return [
        ManyDataSets(LogisticRegression(), {"C": [0.1, 1.0]}, loss="log_loss", clip=(0, 3), **usual),
        ManyDataSets(Ridge(), {"alpha": [0.1, 1.0]}, loss="squared_error", clip=(0, 9), **usual),
    ]


# scikit-learn's data sets, of ten rows or with labels of one kind, warn of themselves
pytestmark = pytest.mark.filterwarnings("ignore")


@parametrize_with_checks(searches()[:1], expected_failed_checks=lambda _: EXCLUDED)
def test_a_check_of_scikit_learn(estimator, check, fast_path):
    estimator.set_params(ledger=str(fast_path))
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(searches()[1:], expected_failed_checks=lambda _: EXCLUDED)
def test_a_check_of_scikit_learn_of_a_regressor(estimator, check, fast_path):
    test_a_check_of_scikit_learn(estimator, check, fast_path)
