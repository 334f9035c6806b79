"""A small private problem for searches."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import dptune
from dptune_sklearn import PrivateSearch

SPACE = {"C": loguniform(1e-3, 1e3)}
GRID = {"C": [0.001, 0.1, 1.0, 10.0]}
WEAK = LogisticRegression(C=1e-3)


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 3) and labels (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


PUBLIC, PRIVATE = rows(40, seed=1), rows(60, seed=2)
VAL = {"X_val": PRIVATE[0], "y_val": PRIVATE[1]}


def ledger_in(folder: Path, mu: float = 4.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def grid(estimator: Any = WEAK, space: Any = None, **settings: Any) -> GridSearchCV:
    return GridSearchCV(estimator, GRID if space is None else space, **{"cv": 3, **settings})


def search_in(folder: Path, search: Any = None, **settings: Any) -> PrivateSearch:
    ledger = settings.pop("ledger", None) or ledger_in(folder)
    return PrivateSearch(grid() if search is None else search, **{"ledger": ledger, "loss": "log_loss", **settings})


class Never(LogisticRegression):
    """Whose training would show that something was not refused before."""

    def fit(self, X, y, eval_set=None):
        raise KeyboardInterrupt
