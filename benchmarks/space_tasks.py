"""Tuning tasks with categories and conditions on scikit-learn's digits: models, boosting, pipelines, networks.

1797 images of 8 x 8, in an order drawn for each seed: 200 are public for training, of the next 1000 the first n are the
private validation people, and 597 are the judge's. A fit takes some 10 to 60 ms.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from benchmarks.data import Array
from benchmarks.mixed_space import Categorical, Space
from dptune import Float, Int

N_TRAIN, N_VALIDATION = 200, 1000
RARE = 0.01  # least probability of a class in a loss

Fit = Callable[[Mapping[str, Any], Array, Array], Callable[[Array], Array]]  # parameters, X, y -> (X -> probabilities)


@dataclass
class SpaceTask:
    """People's log losses of a public classifier whose whole configuration is tuned.

    Attributes:
        fit: trains it; what it returns gives probabilities (r, classes).
        default: the library's own settings.
        n: number of validation people.
        clip: of a loss, in nats.
    """

    name: str
    space: Space
    default: Mapping[str, Any]
    fit: Fit
    target: Callable[[Array], Array]
    clip: tuple[float, float]
    n: int
    seed: int
    _known: dict[str, tuple[Array, float]] = field(default_factory=dict)

    def losses(self, parameters: Mapping[str, Any]) -> Array:
        """Clipped losses (n,)."""
        return self._both(parameters)[0]

    def test_loss(self, parameters: Mapping[str, Any]) -> float:
        """Mean clipped loss of the judge's people."""
        return self._both(parameters)[1]

    def _both(self, parameters: Mapping[str, Any]) -> tuple[Array, float]:
        key = json.dumps(dict(parameters), sort_keys=True)
        if key not in self._known:
            X, y = _digits()
            order = np.random.default_rng([44, self.seed]).permutation(len(y))
            X, y = X[order] / 16, self.target(y[order]).astype(int)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.fit(parameters, X[:N_TRAIN], y[:N_TRAIN])
                held = model(X[N_TRAIN:])
            P = np.clip(held, RARE, None)
            found = -np.log(P / P.sum(axis=1, keepdims=True))[np.arange(len(P)), y[N_TRAIN:]]
            clipped = np.clip(found, *self.clip)
            self._known[key] = clipped[: self.n], float(clipped[N_VALIDATION:].mean())
        return self._known[key]


@cache
def _digits() -> tuple[Array, Array]:
    return load_digits(return_X_y=True)


def _binary(margins: Array) -> Array:
    p = 1 / (1 + np.exp(-np.clip(margins, -30, 30)))
    return np.column_stack([1 - p, p])


# ---- model choice ---------------------------------------------------------------------------------

MODELS = Space(
    {
        "model": Categorical(["svc", "forest", "logistic"]),
        "scaler": Categorical(["none", "standard", "root"]),
        "kernel": Categorical(["rbf", "poly", "linear"]),
        "C": Float(1e-3, 1e3, log=True),
        "gamma": Float(1e-3, 10.0, log=True),
        "degree": Int(2, 5),
        "depth": Int(1, 12),
        "features": Float(0.05, 1.0, log=True),
        "leaf": Int(1, 10),
        "penalty": Float(1e-4, 1e2, log=True),
    },
    when={
        "kernel": {"model": ["svc"]},
        "C": {"model": ["svc"]},
        "gamma": {"kernel": ["rbf", "poly"]},
        "degree": {"kernel": ["poly"]},
        "depth": {"model": ["forest"]},
        "features": {"model": ["forest"]},
        "leaf": {"model": ["forest"]},
        "penalty": {"model": ["logistic"]},
    },
)


def _scaled(p: Mapping[str, Any], X: Array) -> Callable[[Array], Array]:
    middle, width = X.mean(axis=0), X.std(axis=0) + 0.01
    return {"none": lambda Z: Z, "standard": lambda Z: (Z - middle) / width, "root": np.sqrt}[p["scaler"]]


def _models(p: Mapping[str, Any], X: Array, y: Array) -> Callable[[Array], Array]:
    scale = _scaled(p, X)
    if p["model"] == "svc":
        shape = {"gamma": p.get("gamma", "scale"), "degree": p.get("degree", 3)}
        svc = SVC(C=p["C"], kernel=p["kernel"], max_iter=20000, **shape).fit(scale(X), y)
        return lambda Z: _binary(2 * svc.decision_function(scale(Z)))
    if p["model"] == "forest":
        model = ExtraTreesClassifier(
            30, max_depth=p["depth"], max_features=p["features"], min_samples_leaf=p["leaf"], random_state=0
        )
    else:
        model = LogisticRegression(C=p["penalty"], max_iter=100)
    model.fit(scale(X), y)
    return lambda Z: model.predict_proba(scale(Z))


# ---- boosting ---------------------------------------------------------------------------------------

XGBOOST = Space(
    {
        "booster": Categorical(["gbtree", "dart"]),
        "rate_drop": Float(0.01, 0.5, log=True),
        "grow_policy": Categorical(["depthwise", "lossguide"]),
        "max_depth": Int(1, 8),
        "max_leaves": Int(2, 32, log=True),
        "eta": Float(0.01, 1.0, log=True),
        "trees": Int(5, 100, log=True),
        "min_child_weight": Float(0.1, 10.0, log=True),
        "subsample": Float(0.3, 1.0),
        "colsample_bytree": Float(0.1, 1.0),
        "lambda": Float(1e-2, 100.0, log=True),
    },
    when={"rate_drop": {"booster": ["dart"]}, "max_leaves": {"grow_policy": ["lossguide"]}},
)


def _xgboost(p: Mapping[str, Any], X: Array, y: Array) -> Callable[[Array], Array]:
    import xgboost

    settings = {name: value for name, value in p.items() if name != "trees"}
    fixed = {"objective": "binary:logistic", "nthread": 1, "tree_method": "hist", "max_bin": 32, "verbosity": 0}
    model = xgboost.train({**fixed, **settings}, xgboost.DMatrix(X, y, nthread=1), num_boost_round=p["trees"])
    return lambda Z: np.column_stack([1 - (q := model.predict(xgboost.DMatrix(Z, nthread=1))), q])


LIGHTGBM = Space(
    {
        "boosting": Categorical(["gbdt", "dart"]),
        "drop_rate": Float(0.01, 0.5, log=True),
        "data_sample_strategy": Categorical(["bagging", "goss"]),
        "bagging_fraction": Float(0.3, 1.0),
        "extra_trees": Categorical([False, True]),
        "num_leaves": Int(2, 63, log=True),
        "learning_rate": Float(0.01, 1.0, log=True),
        "trees": Int(5, 100, log=True),
        "min_data_in_leaf": Int(1, 50, log=True),
        "feature_fraction": Float(0.1, 1.0),
        "lambda_l2": Float(1e-3, 100.0, log=True),
    },
    when={"drop_rate": {"boosting": ["dart"]}, "bagging_fraction": {"data_sample_strategy": ["bagging"]}},
)


def _lightgbm(p: Mapping[str, Any], X: Array, y: Array) -> Callable[[Array], Array]:
    import lightgbm

    settings = {name: value for name, value in p.items() if name != "trees"}
    fixed = {"objective": "binary", "num_threads": 1, "max_bin": 31, "verbosity": -1, "bagging_freq": 1, "seed": 0}
    data = lightgbm.Dataset(X, y, params={"max_bin": 31, "verbosity": -1})
    model = lightgbm.train({**fixed, **settings}, data, num_boost_round=p["trees"])
    return lambda Z: np.column_stack([1 - (q := model.predict(Z, num_threads=1)), q])


# ---- pipelines and networks ---------------------------------------------------------------------------

PIPELINE = Space(
    {
        "scaler": Categorical(["none", "standard", "minmax"]),
        "selector": Categorical(["none", "pca", "best"]),
        "components": Int(2, 40, log=True),
        "kept": Int(4, 60),
        "classifier": Categorical(["logistic", "neighbours", "bayes", "discriminant"]),
        "C": Float(1e-3, 1e3, log=True),
        "neighbours": Int(1, 30, log=True),
        "weights": Categorical(["uniform", "distance"]),
        "smoothing": Float(1e-9, 1.0, log=True),
        "shrinkage": Float(0.0, 1.0),
    },
    when={
        "components": {"selector": ["pca"]},
        "kept": {"selector": ["best"]},
        "C": {"classifier": ["logistic"]},
        "neighbours": {"classifier": ["neighbours"]},
        "weights": {"classifier": ["neighbours"]},
        "smoothing": {"classifier": ["bayes"]},
        "shrinkage": {"classifier": ["discriminant"]},
    },
)


def _pipeline(p: Mapping[str, Any], X: Array, y: Array) -> Callable[[Array], Array]:
    scaler = {"none": "passthrough", "standard": StandardScaler(), "minmax": MinMaxScaler()}[p["scaler"]]
    select: Any = "passthrough"
    if p["selector"] == "pca":
        select = PCA(p["components"], random_state=0)
    elif p["selector"] == "best":
        select = SelectKBest(k=p["kept"])
    make: dict[str, Callable[[], Any]] = {
        "logistic": lambda: LogisticRegression(C=p["C"], max_iter=50),
        "neighbours": lambda: KNeighborsClassifier(p["neighbours"], weights=p["weights"]),
        "bayes": lambda: GaussianNB(var_smoothing=p["smoothing"]),
        "discriminant": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=p["shrinkage"]),
    }
    model = make_pipeline(scaler, select, make[p["classifier"]]()).fit(X, y)
    return lambda Z: np.nan_to_num(model.predict_proba(Z), nan=0.1)


NETWORK = Space(
    {
        "layers": Categorical([(100,), (16,), (64, 32), (32, 32, 32)]),
        "activation": Categorical(["relu", "tanh", "logistic"]),
        "solver": Categorical(["adam", "sgd"]),
        "momentum": Float(0.0, 0.99),
        "nesterov": Categorical([True, False]),
        "rate": Float(1e-4, 1.0, log=True),
        "alpha": Float(1e-6, 10.0, log=True),
        "batch": Int(10, 200, log=True),
        "updates": Int(20, 400, log=True),
    },
    when={"momentum": {"solver": ["sgd"]}, "nesterov": {"solver": ["sgd"]}},
)


def _network(p: Mapping[str, Any], X: Array, y: Array) -> Callable[[Array], Array]:
    moves = {"momentum": p["momentum"], "nesterovs_momentum": p["nesterov"]} if p["solver"] == "sgd" else {}
    model = MLPClassifier(
        p["layers"],
        activation=p["activation"],
        solver=p["solver"],
        learning_rate_init=p["rate"],
        alpha=p["alpha"],
        batch_size=p["batch"],
        max_iter=math.ceil(p["updates"] * p["batch"] / N_TRAIN),
        random_state=0,
        **moves,
    )
    try:
        model.fit(X, y)
    except ValueError:  # it diverged
        return lambda Z: np.full((len(Z), 10), 0.1)
    return lambda Z: np.nan_to_num(model.predict_proba(Z), nan=0.1)


# ---- all ------------------------------------------------------------------------------------------------

BINARY, TEN = (0.0, 2.0), (0.0, 3.0)
KINDS: dict[str, tuple[Space, dict[str, Any], Fit, Callable[[Array], Array], tuple[float, float]]] = {
    "models-digits": (
        MODELS,
        {"model": "svc", "scaler": "none", "kernel": "rbf", "C": 1.0, "gamma": 0.1},
        _models,
        lambda y: y % 2,
        BINARY,
    ),
    "xgboost-digits": (
        XGBOOST,
        {"booster": "gbtree", "grow_policy": "depthwise", "max_depth": 6, "eta": 0.3, "trees": 100}
        | {"min_child_weight": 1.0, "subsample": 1.0, "colsample_bytree": 1.0, "lambda": 1.0},
        _xgboost,
        lambda y: y >= 5,
        BINARY,
    ),
    "lightgbm-digits": (
        LIGHTGBM,
        {"boosting": "gbdt", "data_sample_strategy": "bagging", "bagging_fraction": 1.0, "extra_trees": False}
        | {"num_leaves": 31, "learning_rate": 0.1, "trees": 100, "min_data_in_leaf": 20, "feature_fraction": 1.0}
        | {"lambda_l2": 1e-3},
        _lightgbm,
        lambda y: np.isin(y, (0, 6, 8, 9)),
        BINARY,
    ),
    "pipeline-digits": (
        PIPELINE,
        {"scaler": "standard", "selector": "none", "classifier": "logistic", "C": 1.0},
        _pipeline,
        lambda y: y,
        TEN,
    ),
    "mlp-digits": (
        NETWORK,
        {"layers": (100,), "activation": "relu", "solver": "adam", "rate": 1e-3, "alpha": 1e-4, "batch": 200}
        | {"updates": 200},
        _network,
        lambda y: y,
        TEN,
    ),
}


def space_task(name: str, n: int, seed: int) -> SpaceTask:
    """Return one of :data:`KINDS` with n validation people."""
    space, default, fit, target, clip = KINDS[name]
    return SpaceTask(name, space, default, fit, target, clip, n, seed)
