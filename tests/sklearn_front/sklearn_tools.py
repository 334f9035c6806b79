"""A small private problem for searches."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from optuna.samplers import RandomSampler
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression

import dptune
from dptune_sklearn import PrivateSearch

SPACE = {"C": loguniform(1e-3, 1e3)}
METHODS = ("centred", "dp-gibo", "selection", "sampler")


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 3) and labels (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


PUBLIC, PRIVATE = rows(40, seed=1), rows(60, seed=2)
VAL = {"X_val": PRIVATE[0], "y_val": PRIVATE[1]}


def ledger_in(folder: Path, mu: float = 4.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def search_in(folder: Path, method: Any = "centred", estimator: Any = None, **settings: Any) -> PrivateSearch:
    """Return a search of eight trials; "sampler" is another library's, which is told noisy values."""
    usual = {"loss": "log_loss", "clip": (0.0, 2.0), "n_trials": 8, "param_distributions": SPACE, "cv": None}
    settings = {**usual, "method": RandomSampler(seed=0) if method == "sampler" else method, **settings}
    if "ledger" not in settings:
        settings["ledger"] = ledger_in(folder)
    return PrivateSearch(estimator or LogisticRegression(), **settings)


class Never(LogisticRegression):
    """Whose training would show that something was not refused before."""

    def fit(self, X, y):
        raise KeyboardInterrupt


FITS = Path(tempfile.gettempdir()) / f"dptune-fits-{os.getpid()}"  # a file: what a class holds decides a search's name


class Counted(LogisticRegression):
    """Writes down each training."""

    stops_at = 0

    def fit(self, X, y):
        with FITS.open("a") as file:  # one write: threads train at once
            file.write(f"{self.C} {self.class_weight}\n")
        if len(trained()) == self.stops_at:
            raise KeyboardInterrupt
        return super().fit(X, y)


class Stopped(Counted):
    """Stops its process at the sixth training of all."""

    stops_at = 6


def forget_trained() -> None:
    """Count trainings from 0 on."""
    FITS.write_text("")


def trained() -> list[str]:
    """Return what :class:`Counted` wrote down."""
    return FITS.read_text().splitlines()
