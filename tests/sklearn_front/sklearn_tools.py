"""A small private problem for searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression

import dptune
from dptune_sklearn import PrivateSearch

SPACE = {"C": loguniform(1e-3, 1e3)}


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 3) and labels (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


PUBLIC, PRIVATE = rows(40, seed=1), rows(60, seed=2)
VAL = {"X_val": PRIVATE[0], "y_val": PRIVATE[1]}


def ledger_in(folder: Path, mu: float = 4.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def search_in(folder: Path, **settings: Any) -> PrivateSearch:
    """Return a search of eight trials; with ``mu`` the ledger has no more."""
    estimator = settings.pop("estimator", LogisticRegression())
    usual = {"loss": "log_loss", "clip": (0.0, 2.0), "n_trials": 8, "param_distributions": SPACE}
    if "ledger" not in settings:
        settings["ledger"] = ledger_in(folder)
    return PrivateSearch(estimator, **{**usual, **settings})
