"""Scikit-learn's stock estimators and pipelines of them, fitted on public rows; private rows of neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
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

M, N, D, WHO = 240, 40, 5, 7  # public rows, private rows, columns, and who is replaced
_rng = np.random.default_rng(0)
X = np.abs(_rng.normal(size=(M + N, D)))
Y = (X.sum(axis=1) + _rng.normal(0, 0.5, len(X)) > X.sum(axis=1).mean()).astype(int)
X_TRAIN, Y_TRAIN, X_VAL, Y_VAL = X[:M], Y[:M], X[M:], Y[M:]

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


def neighbours() -> dict[str, Any]:
    """The private rows (N, D), and the same with one person replaced."""
    cells = {"far": np.full(D, 9.0), "missing": np.full(D, np.nan)}
    made = {"same": X_VAL}
    for kind, row in cells.items():
        made[kind] = X_VAL.copy()
        made[kind][WHO] = row
    return made


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
