"""Searches that differ in one thing each, and what their default names are; as a program, it prints the second ones."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from scipy.sparse import csr_array
from scipy.stats import loguniform, rv_continuous, rv_discrete, rv_histogram, uniform
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from xgboost import XGBClassifier

import dptune
from dptune.losses.named import NamedLoss
from dptune_sklearn import PrivateSearch, private_search
from sklearn_tools import PRIVATE, PUBLIC, VAL

SCALE = {"a": 1.0}  # a global that a function reads


class Reached(Exception):
    """The search has its name."""


@functools.cache
def _ledger() -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(Path(tempfile.mkdtemp()) / "ledger.db", dptune.Budget.gdp(mu=1.0))


def name_of_search(train: tuple[Any, Any] = PUBLIC, fit: dict[str, Any] | None = None, **given: Any) -> str:
    """Return the default name of a search with these settings."""
    usual = {"estimator": LogisticRegression(), "param_distributions": {"C": loguniform(1e-3, 1e3)}, "loss": "log_loss"}

    def stop(*_: Any) -> None:
        raise Reached

    kept = {name: getattr(private_search, name) for name in ("strategy", "decide")}
    private_search.strategy, private_search.decide = (lambda method: stop), stop
    usual |= {"clip": (0.0, 2.0), "n_trials": 8, "cv": None}
    if "search" in given:
        usual = {"estimator": given.pop("search"), "loss": "log_loss"}
    search = PrivateSearch(**{**usual, **given, "ledger": _ledger()})
    try:
        search.fit(*train, **{**VAL, **(fit or {})})
    except Reached:
        return str(search.name_)
    finally:
        for name, function in kept.items():
            setattr(private_search, name, function)
    raise AssertionError("the search was not reached")


def through(function: Any, **options: Any) -> dict[str, Any]:
    pipeline = make_pipeline(FunctionTransformer(function, **options), LogisticRegression())
    return {"estimator": pipeline, "param_distributions": {"logisticregression__C": loguniform(1e-3, 1e3)}}


def columns(selector: Any) -> dict[str, Any]:
    pipeline = make_pipeline(ColumnTransformer([("n", StandardScaler(), selector)]), LogisticRegression())
    frame, other = (pd.DataFrame(rows, columns=list("abc")) for rows in (PUBLIC[0], PRIVATE[0]))
    space = {"logisticregression__C": loguniform(1e-3, 1e3)}
    return {"estimator": pipeline, "param_distributions": space, "train": (frame, PUBLIC[1]), "fit": {"X_val": other}}


def times(a: Any) -> Any:
    def multiply(X: Any) -> Any:
        return X * a

    return multiply


def with_default(a: float) -> Any:
    def multiply(X: Any, a: float = a, *, b: float = 1.0) -> Any:
        return X * a * b

    return multiply


def scaled(X: Any) -> Any:
    return X * SCALE["a"]


def reading(a: float) -> dict[str, Any]:
    SCALE["a"] = a
    return through(scaled)


def own(sign: float = 1.0, *, threshold: float = 0.0, base: str = "X") -> Any:
    """Return an estimator of a class with the same name whose attribute, method or base was changed."""

    class Above(ClassifierMixin, BaseEstimator):
        prepared = (lambda self, X: X) if base == "X" else (lambda self, X: X**2)

    class Own(Above):
        SIGN = sign

        def __init__(self, C: float = 1.0) -> None:
            self.C = C

        def fit(self, X: Any, y: Any) -> Any:
            return self

        def predict(self, X: Any) -> Any:
            return (self.prepared(X)[:, 0] * self.SIGN > threshold).astype(int)

    return Own()


class Shaped(rv_continuous):  # type: ignore[misc]
    """A distribution of the user's own."""

    def _pdf(self, x: Any) -> Any:
        return 0 * x + 1 / (self.b - self.a)


def fitted(seed: int) -> Any:
    search = RandomizedSearchCV(LogisticRegression(), {"C": loguniform(0.1, 10)}, n_iter=2, cv=2, random_state=seed)
    return search.fit(*PUBLIC).set_params(random_state=None)


class Ruled(optuna.samplers.RandomSampler):
    """A sampler of the user's own, with a function."""

    def __init__(self, rule: Callable[[int], int]) -> None:
        super().__init__(seed=0)
        self.rule = rule


def frozen(seed: int) -> Any:
    return FrozenEstimator(StandardScaler().fit(np.random.default_rng(seed).normal(size=(9, 3))))


def scaled_by(scaler: Any) -> dict[str, Any]:
    space = {"logisticregression__C": loguniform(1e-3, 1e3)}
    return {"estimator": make_pipeline(scaler, LogisticRegression()), "param_distributions": space}


def calibrated(folds: Any) -> dict[str, Any]:
    estimator = CalibratedClassifierCV(LogisticRegression(), cv=folds)
    return {"estimator": estimator, "param_distributions": {"estimator__C": loguniform(1e-3, 1e3)}}


def objective(scale: float) -> dict[str, Any]:
    def log_odds(y: Any, p: Any) -> Any:
        q = 1 / (1 + np.exp(-p))
        return scale * (q - y), q * (1 - q)

    model = XGBClassifier(n_estimators=3, objective=log_odds)
    return {"estimator": model, "param_distributions": {"max_depth": [1, 2]}}


def own_loss(power: int) -> NamedLoss:
    return NamedLoss("own", lambda y, p: np.abs(y - p) ** power)


def sparse(place: int) -> dict[str, Any]:
    """The same numbers, in another column."""
    X = np.zeros((40, 3))
    X[:, 0] = PUBLIC[0][:, 0]
    X[5, 0], X[5, place] = 0.0, 7.0
    return {"train": (csr_array(X), PUBLIC[1]), "fit": {"X_val": csr_array(PRIVATE[0])}}


def framed(**changed: Any) -> dict[str, Any]:
    about = {"names": list("abc"), "order": ["x", "y", "z"], "dtype": np.float64, "index": 0, **changed}
    frames = [pd.DataFrame(rows, columns=about["names"]).astype(about["dtype"]) for rows in (PUBLIC[0], PRIVATE[0])]
    for frame in frames:
        frame["kind"] = pd.Categorical(["x", "y"] * (len(frame) // 2), categories=about["order"])
        frame.index = range(about["index"], about["index"] + len(frame))
    return {"train": (frames[0], PUBLIC[1]), "fit": {"X_val": frames[1]}}


def randomly(seed: int) -> LogisticRegression:
    return LogisticRegression(random_state=np.random.RandomState(seed))


def _changed(a: np.ndarray, value: Any) -> np.ndarray:
    return np.concatenate([[value], a.ravel()[1:]]).reshape(a.shape).astype(a.dtype)


X, y = PUBLIC
R, T, CMA = optuna.samplers.RandomSampler, optuna.samplers.TPESampler, optuna.samplers.CmaEsSampler
WEIGHTS = np.ones(len(y))
Pair = tuple[Callable[[], dict[str, Any]], Callable[[], dict[str, Any]]]


def of(name: str, first: Callable[[], Any], second: Callable[[], Any]) -> Pair:
    """Two values of one setting, made anew at each call."""
    return lambda: {name: first()}, lambda: {name: second()}


def ranges(first: Callable[[], Any], second: Callable[[], Any]) -> Pair:
    return of("param_distributions", lambda: {"C": first()}, lambda: {"C": second()})


def grid(space: Any = None, *, C: float = 1.0, **settings: Any) -> GridSearchCV:
    return GridSearchCV(LogisticRegression(C=C), space or {"C": [1, 2]}, **settings)


def odds(*of_two: float) -> rv_discrete:
    return rv_discrete(values=([1, 2], of_two))


def training(*rows: Any) -> dict[str, Any]:
    return {"train": rows}


# what is varied -> how the two searches are made, anew at each call
PAIRS: dict[str, Pair] = {
    "an estimator's parameter": (dict, lambda: {"estimator": LogisticRegression(max_iter=50)}),
    "its class": (lambda: {"loss": "hinge"}, lambda: {"estimator": SVC(), "loss": "hinge"}),
    "its random_state": of("estimator", lambda: randomly(0), lambda: randomly(1)),
    "what its transformer returns": (
        lambda: scaled_by(StandardScaler()),
        lambda: scaled_by(StandardScaler().set_output(transform="pandas")),
    ),
    "a column selector": (lambda: columns(make_column_selector("a")), lambda: columns(make_column_selector("b"))),
    "a lambda": (lambda: through(lambda X: X), lambda: through(lambda X: 0 * X)),
    "a constant in a lambda": (lambda: through(lambda X: 2 * X), lambda: through(lambda X: 3 * X)),
    "a partial": (
        lambda: through(functools.partial(np.clip, a_min=-9, a_max=9)),
        lambda: through(functools.partial(np.clip, a_min=0, a_max=0.1)),
    ),
    "a closed-over array": (lambda: through(times(np.ones(3))), lambda: through(times(np.array([1, 1, 2.0])))),
    "a function's default": (lambda: through(with_default(1.0)), lambda: through(with_default(2.0))),
    "a global": (lambda: reading(1.0), lambda: reading(2.0)),
    "a NumPy function": (lambda: through(np.tanh), lambda: through(np.arctan)),
    "keywords of a function": (lambda: through(np.clip, kw_args={"a_min": 0}), lambda: through(np.clip)),
    "a class attribute": of("estimator", own, lambda: own(-1.0)),
    "what a method closes over": of("estimator", own, lambda: own(threshold=1.0)),
    "a method of a base class": of("estimator", own, lambda: own(base="X**2")),
    "an objective of XGBoost": (lambda: objective(-1.0), lambda: objective(1.0)),
    "a fitted part": (lambda: scaled_by(frozen(0)), lambda: scaled_by(frozen(1))),
    "folds of an estimator": (lambda: calibrated(KFold(3)), lambda: calibrated(KFold(4))),
    "an end of a range": ranges(lambda: loguniform(1e-3, 1e3), lambda: loguniform(1e-3, 1e2)),
    "another distribution": ranges(lambda: loguniform(1e-3, 1e3), lambda: uniform(1e-3, 1e3)),
    "odds of values": ranges(lambda: odds(0.5, 0.5), lambda: odds(0.4, 0.6)),
    "a histogram": ranges(lambda: rv_histogram(np.histogram([1, 2, 2])), lambda: rv_histogram(np.histogram([1, 1, 2]))),
    "the range of one's own distribution": ranges(lambda: Shaped(a=1, b=2), lambda: Shaped(a=1, b=3)),
    "a value of a list": ranges(lambda: [1, 2], lambda: [1, 3]),
    "the loss": (dict, lambda: {"loss": "brier"}),
    "code of one's own loss": of("loss", lambda: own_loss(1), lambda: own_loss(2)),
    "the clip": (dict, lambda: {"clip": (0.0, 3.0)}),
    "the number of trials": (dict, lambda: {"n_trials": 9}),
    "the method": (dict, lambda: {"method": "selection"}),
    "the budget": (dict, lambda: {"mu": 0.5}),
    "the seed": (dict, lambda: {"random_state": 1}),
    "a setting": (dict, lambda: {"settings": {"final_share": 0.2}}),
    "a sampler": of("method", lambda: R(seed=0), lambda: T(seed=0)),
    "a sampler's seed": of("method", lambda: R(seed=0), lambda: R(seed=1)),
    "a sampler's setting": of("method", lambda: T(seed=0), lambda: T(seed=0, n_startup_trials=1)),
    "a sampler's function": of("method", lambda: Ruled(lambda n: 3), lambda: Ruled(lambda n: 4)),
    "how a sampler begins": of("method", lambda: CMA(seed=0), lambda: CMA(seed=0, n_startup_trials=2)),
    "one number": (dict, lambda: training(_changed(X, 9.0), y)),
    "one label": (dict, lambda: training(X, _changed(y, 1 - y[0]))),
    "precision": (dict, lambda: training(X.astype(np.float32), y)),
    "the order of rows": (dict, lambda: training(X[::-1], y[::-1])),
    "a place of a sparse entry": (lambda: sparse(1), lambda: sparse(2)),
    "sparse and dense": (lambda: sparse(1), dict),
    "a column's name": (framed, lambda: framed(names=list("abd"))),
    "a column's type": (framed, lambda: framed(dtype=np.float32)),
    "the order of categories": (framed, lambda: framed(order=["y", "x", "z"])),
    "the index": (framed, lambda: framed(index=1)),
    "the default": (dict, lambda: {"default": {"C": 2.0}}),
    "public rows that propose": (dict, lambda: {"cv": 5}),
    "the number of folds": (lambda: {"cv": 5}, lambda: {"cv": 4}),
    "the folds": (lambda: {"cv": KFold(5)}, lambda: {"cv": KFold(5, shuffle=True, random_state=0)}),
    "a public score": (lambda: {"cv": 5}, lambda: {"cv": 5, "scoring": "accuracy"}),
    "whose a training row is": (
        lambda: {"cv": 5, "fit": {"train_groups": np.arange(40) // 2}},
        lambda: {"cv": 5, "fit": {"train_groups": np.arange(40) // 4}},
    ),
    "another public search": of("search", grid, lambda: RandomizedSearchCV(LogisticRegression(), {"C": [1, 2]})),
    "the grid of a public search": of("search", grid, lambda: grid({"C": [1, 3]})),
    "its model": of("search", grid, lambda: grid(C=2.0)),
    "its folds": of("search", grid, lambda: grid(cv=3)),
    "its score": of(
        "search", lambda: grid(scoring=make_scorer(accuracy_score)), lambda: grid(scoring=make_scorer(f1_score))
    ),
    "what a fitted search has found": of("search", lambda: fitted(0), lambda: fitted(1)),
    "fit's options": (dict, lambda: {"fit": {"sample_weight": WEIGHTS}}),
    "one weight": of("fit", lambda: {"sample_weight": WEIGHTS}, lambda: {"sample_weight": _changed(WEIGHTS, 2.0)}),
    "the name of an option": of("fit", lambda: {"a": WEIGHTS}, lambda: {"b": WEIGHTS}),
}


if __name__ == "__main__":
    for what, (_, second) in PAIRS.items():
        print(what, name_of_search(**second()))
