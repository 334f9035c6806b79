"""Objects and searches that differ in one thing each; as a program, it prints the second one's digest of each pair."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import optuna
import pandas as pd
from scipy.sparse import csr_array
from scipy.stats import loguniform, rv_discrete
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dptune
from dptune.losses.named import NamedLoss
from dptune_sklearn import PrivateSearch
from dptune_sklearn.digest import digest
from sklearn_tools import PUBLIC, VAL

SCALE = {"a": 1.0}  # a global that a function reads
HELPERS = ModuleType("helpers")  # a module of the user's own


class Reached(Exception):
    """The search has its name."""


class Unopened(dptune.PrivacyLedger):
    """Of which a search first asks what its name stands for."""

    def __init__(self) -> None:
        pass

    def fact(self, scope: str, name: str) -> object:
        raise Reached(scope)


def name_of_search(train: tuple[Any, Any] = PUBLIC, fit: dict[str, Any] | None = None, **given: Any) -> str:
    """Return the default name of a search with these settings."""
    usual = {"estimator": LogisticRegression(), "param_distributions": {"C": loguniform(1e-3, 1e3)}, "loss": "log_loss"}
    usual |= {"clip": (0.0, 2.0), "n_trials": 8, "cv": None}
    if "search" in given:
        usual = {"estimator": given.pop("search"), "loss": "log_loss"}
    try:
        PrivateSearch(**{**usual, **given, "ledger": Unopened()}).fit(*train, **{**VAL, **(fit or {})})
    except Reached as reached:
        return str(reached)
    raise AssertionError("the ledger was not reached")


# ---- objects ---------------------------------------------------------------------------------------------------------


def times(a: Any) -> Any:
    return lambda X: X * a


def with_default(a: float) -> Any:
    def multiply(X: Any, a: float = a, *, b: float = 1.0) -> Any:
        return X * a * b

    return multiply


def scaled(X: Any) -> Any:
    return X * SCALE["a"]


def reading(a: float) -> Any:
    SCALE["a"] = a
    return scaled


def helped(a: float) -> Any:
    HELPERS.scale = times(a)
    return lambda X: HELPERS.scale(X)


def own(sign: float = 1.0, *, base: str = "X") -> Any:
    """Return an estimator of a class with the same name whose attribute or base was changed."""

    class Above(ClassifierMixin, BaseEstimator):
        prepared = (lambda self, X: X) if base == "X" else (lambda self, X: X**2)

    class Own(Above):
        SIGN = sign

        def predict(self, X: Any) -> Any:
            return (self.prepared(X)[:, 0] * self.SIGN > 0.0).astype(int)

    return Own()


def mutual(last: int) -> Any:
    """Return one of two functions that call each other."""

    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != last and even(n - 1)

    return even


def frozen(seed: int) -> Any:
    return FrozenEstimator(StandardScaler().fit(np.random.default_rng(seed).normal(size=(9, 3))))


def own_loss(power: int) -> NamedLoss:
    return NamedLoss("own", lambda y, p: np.abs(y - p) ** power)


def odds(*of_two: float) -> rv_discrete:
    return rv_discrete(values=([1, 2], of_two))


def sparse(place: int) -> csr_array:
    """The same numbers, in another column."""
    rows = np.zeros((40, 3))
    rows[5, place] = 7.0
    return csr_array(rows)


def framed(names: str = "abc", order: str = "xyz", dtype: Any = np.float64, index: int = 0) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=list(names)).astype(dtype)
    frame["kind"] = pd.Categorical(["x", "y"] * 20, categories=list(order))
    frame.index = range(index, index + 40)
    return frame


def changed(a: np.ndarray, value: Any) -> np.ndarray:
    return np.concatenate([[value], a.ravel()[1:]]).reshape(a.shape).astype(a.dtype)


X, y = PUBLIC
R, T = optuna.samplers.RandomSampler, optuna.samplers.TPESampler
Pair = tuple[Callable[[], Any], Callable[[], Any]]

# what is varied -> how two objects are made, anew at each call
OBJECTS: dict[str, Pair] = {
    "a random_state": (lambda: np.random.RandomState(0), lambda: np.random.RandomState(1)),
    "what a transformer returns": (StandardScaler, lambda: StandardScaler().set_output(transform="pandas")),
    "a constant in a lambda": (lambda: lambda X: 2 * X, lambda: lambda X: 3 * X),
    "a partial": (lambda: functools.partial(np.clip, a_min=-9), lambda: functools.partial(np.clip, a_min=0)),
    "a closed-over array": (lambda: times(np.ones(3)), lambda: times(np.array([1, 1, 2.0]))),
    "a function's default": (lambda: with_default(1.0), lambda: with_default(2.0)),
    "functions that call each other": (lambda: mutual(0), lambda: mutual(1)),
    "a global": (lambda: reading(1.0), lambda: reading(2.0)),
    "a function of a module": (lambda: helped(1.0), lambda: helped(2.0)),
    "a NumPy function": (lambda: np.tanh, lambda: np.arctan),
    "a class attribute": (own, lambda: own(-1.0)),
    "a method of a base class": (own, lambda: own(base="X**2")),
    "a fitted part": (lambda: frozen(0), lambda: frozen(1)),
    "odds of values": (lambda: odds(0.5, 0.5), lambda: odds(0.4, 0.6)),
    "a sampler's setting": (lambda: T(seed=0), lambda: T(seed=0, n_startup_trials=1)),
    "precision": (lambda: X, lambda: X.astype(np.float32)),
    "the order of rows": (lambda: X, lambda: X[::-1]),
    "a place of a sparse entry": (lambda: sparse(1), lambda: sparse(2)),
    "a column's name": (framed, lambda: framed("abd")),
    "a column's type": (framed, lambda: framed(dtype=np.float32)),
    "the order of categories": (framed, lambda: framed(order="yxz")),
    "the index": (framed, lambda: framed(index=1)),
    "the name of an entry": (lambda: {"a": y}, lambda: {"b": y}),
}


# ---- searches --------------------------------------------------------------------------------------------------------


def grid(space: Any = None, **settings: Any) -> GridSearchCV:
    return GridSearchCV(LogisticRegression(), space or {"C": [1, 2]}, **settings)


def fitted(seed: int) -> Any:
    search = RandomizedSearchCV(LogisticRegression(), {"C": loguniform(0.1, 10)}, n_iter=2, cv=2, random_state=seed)
    return search.fit(*PUBLIC).set_params(random_state=None)


def through(function: Any) -> dict[str, Any]:
    pipeline = make_pipeline(FunctionTransformer(function), LogisticRegression())
    return {"estimator": pipeline, "param_distributions": {"logisticregression__C": loguniform(1e-3, 1e3)}}


WEIGHTS = np.ones(len(y))
GRID: dict[str, Any] = {"search": grid()}
SEARCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an estimator's parameter": ({}, {"estimator": LogisticRegression(max_iter=50)}),
    "a function in it": (through(lambda X: X), through(lambda X: 0 * X)),
    "the space": ({}, {"param_distributions": {"C": loguniform(1e-3, 1e2)}}),
    "the loss": ({}, {"loss": "brier"}),
    "the clip": ({}, {"clip": (0.0, 3.0)}),
    "the number of trials": ({}, {"n_trials": 9}),
    "the method": ({}, {"method": "selection"}),
    "its sampler": ({"method": R(seed=0)}, {"method": R(seed=1)}),
    "the budget": ({}, {"mu": 0.5}),
    "the seed": ({}, {"random_state": 1}),
    "a setting": ({}, {"settings": {"final_share": 0.2}}),
    "a training row": ({}, {"train": (changed(X, 9.0), y)}),
    "its label": ({}, {"train": (X, changed(y, 1 - y[0]))}),
    "the default": ({}, {"default": {"C": 2.0}}),
    "public rows that propose": ({}, {"cv": 5}),
    "the folds": ({"cv": 5}, {"cv": 4}),
    "a public score": ({"cv": 5}, {"cv": 5, "scoring": "accuracy"}),
    "whose a training row is": (
        {"cv": 5, "fit": {"train_groups": np.arange(40) // 2}},
        {"cv": 5, "fit": {"train_groups": np.arange(40) // 4}},
    ),
    "another public search": (GRID, {"search": RandomizedSearchCV(LogisticRegression(), {"C": [1, 2]})}),
    "the grid of a public search": (GRID, {"search": grid({"C": [1, 3]})}),
    "its folds": (GRID, {"search": grid(cv=3)}),
    "its score": (
        {"search": grid(scoring=make_scorer(accuracy_score))},
        {"search": grid(scoring=make_scorer(f1_score))},
    ),
    "what a fitted search has found": ({"search": fitted(0)}, {"search": fitted(1)}),
    "fit's options": ({}, {"fit": {"sample_weight": WEIGHTS}}),
    "one weight": ({"fit": {"sample_weight": WEIGHTS}}, {"fit": {"sample_weight": changed(WEIGHTS, 2.0)}}),
}


def digests(which: int) -> dict[str, str]:
    """Return those of the first or second of each pair."""
    objects = {what: digest(pair[which]()) for what, pair in OBJECTS.items()}
    return objects | {what: name_of_search(**pair[which]) for what, pair in SEARCHES.items()}


if __name__ == "__main__":
    print(digests(1))
