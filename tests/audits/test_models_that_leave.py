"""Models and choices that leave the package are equal byte by byte on neighbouring private rows.

Answers are constants, so any difference between neighbours exists without noise. The planted bug predicts with the
user's own model: then about twenty of a hundred stock estimators differ between neighbours.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    KNeighborsTransformer,
    LocalOutlierFactor,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import all_estimators

import dptune
from audit_tools import dump, planted
from dptune.losses import estimator
from every_logger import without_clocks
from noises import CannedNoise

M, N, D, WHO = 240, 40, 5, 7  # public rows, private rows, columns, and who is replaced
_rng = np.random.default_rng(0)
X = np.abs(_rng.normal(size=(M + N, D)))
Y = (X.sum(axis=1) + _rng.normal(0, 0.5, len(X)) > X.sum(axis=1).mean()).astype(int)
X_TRAIN, Y_TRAIN, X_VAL, Y_VAL = X[:M], Y[:M], X[M:], Y[M:]
FAR = X_VAL.copy()  # of a neighbour
FAR[WHO] = 9.0

Model = Callable[[], Any]
TREE: dict[str, Any] = {"algorithm": "kd_tree", "leaf_size": 2}  # each query visits other nodes
SEVERAL_ANSWERS = {"ClassifierChain", "MultiOutputClassifier", "MultiOutputRegressor", "RegressorChain"}
SEVERAL_ANSWERS |= {f"MultiTask{kind}{cv}" for kind in ("Lasso", "ElasticNet") for cv in ("", "CV")}
ONE_COLUMN = {"IsotonicRegression"}
SMALL = {"n_estimators": 5, "max_iter": 50, "n_jobs": 1, "random_state": 0}
SMALL |= {"cv": 2, "thresholds": 5, "max_subpopulation": 50, "n_components": 1, "radius": 3.0}


class Density(TransformerMixin, BaseEstimator):
    """The log-density of a kernel, and whether a row is an outlier, as columns."""

    def fit(self, X: Any, y: Any = None) -> Density:
        self.kernel_ = KernelDensity(leaf_size=2, atol=0.01).fit(X)
        self.outliers_ = LocalOutlierFactor(5, novelty=True, **TREE).fit(X)
        return self

    def transform(self, X: Any) -> Any:
        return np.column_stack([self.kernel_.score_samples(X), self.outliers_.score_samples(X)])


class Draws(ClassifierMixin, BaseEstimator):
    """A generator of its own, drawn from as often as rows are large; what it draws decides nothing."""

    def fit(self, X: Any, y: Any) -> Draws:
        self.classes_, self.generator_ = np.unique(y), np.random.default_rng(0)
        return self

    def predict(self, X: Any) -> Any:
        self.generator_.random(int((X > 1).sum()))
        return np.zeros(len(X), dtype=int)


PIPELINES: dict[str, Model] = {
    "KernelDensity": lambda: make_pipeline(Density(), LogisticRegression()),
    "KNeighborsTransformer": lambda: make_pipeline(
        KNeighborsTransformer(n_neighbors=8, **TREE), KNeighborsClassifier(metric="precomputed")
    ),
    "KNNImputer": lambda: make_pipeline(KNNImputer(), KNeighborsClassifier(**TREE)),
    "a union": lambda: make_pipeline(
        make_union(Density(), make_column_transformer(("passthrough", [0, 1]))), KNeighborsClassifier(**TREE)
    ),
    "bagged neighbours": lambda: BaggingClassifier(KNeighborsClassifier(**TREE), 3, random_state=0),
    "Draws": Draws,
}


def stock() -> Iterator[tuple[str, Model]]:
    """Classifiers and regressors of one answer a row, small; those around another one are around neighbours."""
    for kind, inner in (("classifier", KNeighborsClassifier(**TREE)), ("regressor", KNeighborsRegressor(**TREE))):
        for name, cls in all_estimators(type_filter=kind):
            if name not in SEVERAL_ANSWERS | ONE_COLUMN:
                yield name, lambda cls=cls, inner=inner: made(cls, inner)


def made(cls: type, inner: Any) -> Any:
    """The estimator with small settings, around neighbours where it is around another one."""
    known = inspect.signature(cls).parameters
    usual = {name: value for name, value in {**SMALL, **TREE}.items() if name in known}
    usual = {
        name: value for name, value in usual.items() if name != "max_iter" or known[name].default not in (-1, None)
    }
    if usual.get("algorithm") and "leaf_size" not in known:
        del usual["algorithm"]
    for name, value in (("estimator", inner), ("regressor", inner), ("estimators", [("a", inner), ("b", inner)])):
        if name in known and not cls.__name__.startswith(("AdaBoost", "RANSAC")):
            usual[name] = value
    return cls(**usual)


# ---- what a choice among two of them leaves ----------------------------------------------------------------

REMEMBER = ["KNeighborsClassifier", "RadiusNeighborsRegressor", "StackingClassifier", *PIPELINES]
MAKERS = {**dict(stock()), **PIPELINES}
pytestmark = pytest.mark.filterwarnings("ignore")  # of fits to few rows


def by_choice(pickled: bytes, rows: np.ndarray, folder: Path) -> list[bytes | str]:
    """Two models are compared, and one is chosen."""
    models = [pickle.loads(pickled) for _ in range(2)]
    folder.mkdir(parents=True)
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(4.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), noise=CannedNoise(answer=0.25))
    about: dict[str, Any] = {"name": "c", "estimate_share": 0.1, "data": (rows, Y_VAL)}
    loss = "zero_one" if hasattr(models[0], "classes_") else "mse"
    chosen = dptune.select(models, privatizer, mu=0.5, loss=loss, **about)
    return [*map(pickle.dumps, models), pickle.dumps(chosen), *without_clocks([repr(dump(ledger))], folder)]


def audit(name: str, folder: Path) -> None:
    """What leaves is the same bytes for neighbours."""
    y = Y_TRAIN + 1 if name == "GammaRegressor" else Y_TRAIN
    pickled = pickle.dumps(MAKERS[name]().fit(X_TRAIN, y))
    mine, theirs = (by_choice(pickled, rows, folder / name) for name, rows in (("same", X_VAL), ("far", FAR)))
    differ = [place for place, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    assert differ == [], f"{name} tells neighbours apart, in {[mine[place][:200] for place in differ]}"


ASKS_THE_USERS_MODEL = planted(estimator, "copied", lambda _: lambda model: model)


def audit_finds_it(name: str, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        ASKS_THE_USERS_MODEL(patch)
        with pytest.raises(AssertionError, match=f"{name} tells neighbours apart, in .b'"):
            audit(name, folder / "planted")


@pytest.mark.parametrize("name", ["RadiusNeighborsRegressor", "Draws", "a union"])  # of neighbours, density, columns
def test_models_that_remember_were_never_asked_and_one_that_was_is_found(fast_path: Path, name: str) -> None:
    audit(name, fast_path)
    audit_finds_it(name, fast_path)


@pytest.mark.slow
def test_no_stock_estimator_distinguishes_neighbouring_data(fast_path: Path) -> None:
    """The audit finds estimators that remember their rows."""
    for name in MAKERS:
        audit(name, fast_path / name)
    for name in REMEMBER:
        audit_finds_it(name, fast_path / name)
    print(f"{len(MAKERS)} estimators; left out: {sorted(SEVERAL_ANSWERS | ONE_COLUMN)}")
    assert len(MAKERS) > 95
