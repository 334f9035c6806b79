"""The models of the new tasks: a space, the library's own defaults in it, and losses of people.

Every model trains on 300 public rows. Defaults are those of the named library; a default that lies outside the space
(no depth limit, no regularisation) is the nearest point of it. `constant` predicts the training rows' mean or share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.people import People, frame
from benchmarks.mixed_space import Categorical, Space
from benchmarks.tasks import train_kernel_ridge
from dptune import Float, Int

Parameters = Mapping[str, Any]
Predict = Callable[[Any], Array]  # inputs of people (r rows) -> means, or probabilities of class 1, (r,)
Train = Callable[[Parameters, Any, Array], Predict]
Loss = Callable[[Array, Array], Array]  # predictions, targets -> losses


def log_loss(p: Array, y: Array) -> Array:
    """Log losses in nats, cut where they are clipped: test losses are means of the same."""
    q = np.clip(np.where(y == 1, p, 1 - p), 1e-12, None)
    return np.asarray(np.minimum(-np.log(q), NATS[1]))


def brier(p: Array, y: Array) -> Array:
    """Squared distance of the probability from what happened."""
    return np.asarray((p - y) ** 2)


NATS, UNIT, SQUARES = (0.0, 4.0), (0.0, 1.0), (0.0, 3.0)  # clips of log losses, Brier scores, standardised squares


@dataclass(frozen=True)
class Model:
    """What is tuned.

    Attributes:
        space: of a table with so many inputs.
        default: the library's own, likewise.
        train: on public rows.
        inputs: a frame of people to what is trained on.
        loss: of a person.
        clip: of a loss.
        classes: whether the target is 0 or 1; else it is standardised with the training rows.
        standardised: whether the inputs are, likewise.
    """

    space: Callable[[int], Space]
    default: Callable[[int], Parameters]
    train: Train
    inputs: Callable[[Any], Any]
    loss: Loss
    clip: tuple[float, float]
    classes: bool = True
    standardised: bool = False


class Trained:
    """A model on one choice of rows.

    Attributes:
        space: of its parameters.
        default: the library's own.
        clip: of a loss.
    """

    def __init__(self, model: Model, people: People, train: Array) -> None:
        X, y = frame(people)
        inputs = len(people.inputs)
        self.space, self.default, self.clip = model.space(inputs), model.default(inputs), model.clip
        self._model, self._train = model, train
        X = model.inputs(X)
        if not model.classes:
            y = (y - y[train].mean()) / y[train].std()
        if model.standardised:
            X = _standardised(X, train)
        self._y, self._take = y, X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__

    def losses(self, parameters: Parameters, rows: Array) -> Array:
        """Losses of people (r,), not clipped."""
        return self.of_predictions(self.predictions(parameters, rows), rows)

    def predictions(self, parameters: Parameters, rows: Array) -> Array:
        """What a model predicts for people (r,): means, or probabilities of class 1."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict = self._model.train(parameters, self._take(self._train), self._y[self._train])
            return predict(self._take(rows))

    def of_predictions(self, predicted: Array, rows: Array) -> Array:
        """Losses of people (..., r) under predictions (..., r), not clipped."""
        return self._model.loss(predicted, self._y[rows])

    def constant(self, rows: Array) -> Array:
        """Losses of the mean of the training rows (r,)."""
        return self._model.loss(np.full(len(rows), self._y[self._train].mean()), self._y[rows])


def _numbers(X: Any) -> Array:
    """Columns as numbers: words by their place in the alphabet."""
    return np.column_stack([c.cat.codes if str(c.dtype) == "category" else c for _, c in X.items()]).astype(float)


def _standardised(X: Array, train: Array) -> Array:
    scale = X[train].std(axis=0)
    return np.asarray((X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0))


# ---- kernel ridge, a length-scale for each input ----------------------------------------------------------------


def _kernel_space(inputs: int) -> Space:
    unit = sqrt(inputs)
    scales = {f"length_scale_{j}": Float(unit * exp(-2), unit * exp(2), log=True) for j in range(inputs)}
    return Space({**scales, "alpha": Float(1e-3, 1e2, log=True)})


def _kernel_default(inputs: int) -> Parameters:
    """scikit-learn's KernelRidge(kernel="rbf"): alpha 1 and gamma 1 / inputs."""
    return {**{f"length_scale_{j}": sqrt(inputs / 2) for j in range(inputs)}, "alpha": 1.0}


def _kernel_ridge(p: Parameters, X: Array, y: Array) -> Predict:
    scales = [p[f"length_scale_{j}"] for j in range(X.shape[1])]  # by name: a space sorts its names
    return train_kernel_ridge(X, y, np.array([*scales, p["alpha"]]))


def _kernel_classifier(p: Parameters, X: Array, y: Array) -> Predict:
    """Kernel ridge on 0 and 1 about their mean; what it predicts, cut to [0, 1], is a probability."""
    predict = _kernel_ridge(p, X, y - y.mean())
    return lambda Z: np.clip(predict(Z) + y.mean(), 0.0, 1.0)


# ---- trees and boosting ---------------------------------------------------------------------------------------------

_BOOSTING = {
    "learning_rate": Float(0.01, 0.5, log=True),
    "n_estimators": Int(10, 200, log=True),
    "num_leaves": Int(2, 63, log=True),
    "min_child_samples": Int(2, 100, log=True),
    "colsample_bytree": Float(0.1, 1.0),
    "reg_lambda": Float(1e-3, 100.0, log=True),
}
_BOOSTED = {
    "learning_rate": 0.1, "n_estimators": 100, "num_leaves": 31, "min_child_samples": 20, "colsample_bytree": 1.0,
    "reg_lambda": 1e-3,
}  # fmt: skip


def _boosting(p: Parameters, X: Any, y: Array) -> Predict:
    """LightGBM's LGBMClassifier; columns of words are its categories."""
    import lightgbm

    settings = dict(p)
    rounds = settings.pop("n_estimators")
    fixed = {"objective": "binary", "num_threads": 1, "verbosity": -1, "seed": 0, "bagging_freq": 1}
    data = lightgbm.Dataset(X, y, params={"verbosity": -1, "num_threads": 1, "max_bin": settings.get("max_bin", 255)})
    model = lightgbm.train({**fixed, **settings}, data, num_boost_round=rounds)
    return lambda Z: np.asarray(model.predict(Z, num_threads=1))


_ALL_OF_LIGHTGBM = Space(
    {
        **_BOOSTING,
        "min_child_weight": Float(1e-3, 10.0, log=True),
        "feature_fraction_bynode": Float(0.1, 1.0),
        "subsample": Float(0.3, 1.0),
        "reg_alpha": Float(1e-3, 10.0, log=True),
        "min_split_gain": Float(1e-3, 10.0, log=True),
        "path_smooth": Float(1e-3, 100.0, log=True),
        "max_bin": Int(15, 255, log=True),
    }
)
_BOOSTED_BY_ALL = {
    **_BOOSTED, "min_child_weight": 1e-3, "feature_fraction_bynode": 1.0, "subsample": 1.0, "reg_alpha": 1e-3,
    "min_split_gain": 1e-3, "path_smooth": 1e-3, "max_bin": 255,
}  # fmt: skip
_ALL_OF_XGBOOST = Space(
    {
        "eta": Float(0.01, 0.5, log=True),
        "n_estimators": Int(10, 200, log=True),
        "max_depth": Int(1, 10),
        "min_child_weight": Float(0.1, 20.0, log=True),
        "subsample": Float(0.3, 1.0),
        "colsample_bytree": Float(0.1, 1.0),
        "colsample_bylevel": Float(0.1, 1.0),
        "colsample_bynode": Float(0.1, 1.0),
        "lambda": Float(1e-2, 100.0, log=True),
        "alpha": Float(1e-3, 10.0, log=True),
        "gamma": Float(1e-3, 10.0, log=True),
    }
)
_BOOSTED_BY_XGBOOST = {
    "eta": 0.3, "n_estimators": 100, "max_depth": 6, "min_child_weight": 1.0, "subsample": 1.0,
    "colsample_bytree": 1.0, "colsample_bylevel": 1.0, "colsample_bynode": 1.0, "lambda": 1.0, "alpha": 1e-3,
    "gamma": 1e-3,
}  # fmt: skip


def _xgboost(p: Parameters, X: Array, y: Array) -> Predict:
    """XGBoost's XGBClassifier."""
    import xgboost

    settings = dict(p)
    rounds = settings.pop("n_estimators")
    fixed = {"objective": "binary:logistic", "nthread": 1, "tree_method": "hist", "verbosity": 0, "seed": 0}
    model = xgboost.train({**fixed, **settings}, xgboost.DMatrix(X, y, nthread=1), num_boost_round=rounds)
    return lambda Z: np.asarray(model.predict(xgboost.DMatrix(Z, nthread=1)))


_WITH_CATEGORIES = Space(
    {
        **_BOOSTING,
        "boosting": Categorical(["gbdt", "dart"]),
        "drop_rate": Float(0.01, 0.5, log=True),
        "extra_trees": Categorical([False, True]),
        "max_cat_to_onehot": Int(1, 16),
        "cat_smooth": Float(0.1, 100.0, log=True),
        "cat_l2": Float(0.1, 100.0, log=True),
    },
    when={"drop_rate": {"boosting": ["dart"]}},
)
_BOOSTED_CATEGORIES = {
    **_BOOSTED, "boosting": "gbdt", "extra_trees": False, "max_cat_to_onehot": 4, "cat_smooth": 10.0, "cat_l2": 10.0
}  # fmt: skip


def _tree(p: Parameters, X: Array, y: Array) -> Predict:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(**p, random_state=0).fit(X, y)
    return lambda Z: _of_one(model, Z)


_TREE = Space(
    {
        "max_depth": Int(1, 20),
        "min_samples_leaf": Int(1, 60, log=True),
        "min_samples_split": Int(2, 100, log=True),
        "max_features": Float(0.1, 1.0),
        "ccp_alpha": Float(1e-5, 0.1, log=True),
    }
)
_GROWN = {"max_depth": 20, "min_samples_leaf": 1, "min_samples_split": 2, "max_features": 1.0, "ccp_alpha": 1e-5}


def _of_one(model: Any, X: Any) -> Array:
    """Probabilities of class 1."""
    return np.asarray(np.nan_to_num(model.predict_proba(X), nan=0.5)[:, list(model.classes_).index(1.0)])


# ---- a choice of model, and a pipeline ----------------------------------------------------------------------------

_MODELS = Space(
    {
        "model": Categorical(["boosting", "logistic", "neighbours", "tree"]),
        **_BOOSTING,
        "C": Float(1e-3, 1e2, log=True),
        "n_neighbors": Int(1, 100, log=True),
        "weights": Categorical(["uniform", "distance"]),
        "max_depth": Int(1, 20),
        "min_samples_leaf": Int(1, 60, log=True),
    },
    when={
        **{name: {"model": ["boosting"]} for name in _BOOSTING},
        "C": {"model": ["logistic"]},
        "n_neighbors": {"model": ["neighbours"]},
        "weights": {"model": ["neighbours"]},
        "max_depth": {"model": ["tree"]},
        "min_samples_leaf": {"model": ["tree"]},
    },
)


def _model(p: Parameters, X: Array, y: Array) -> Predict:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kind, own = p["model"], {name: value for name, value in p.items() if name != "model"}
    if kind == "boosting":
        return _boosting(own, X, y)
    if kind == "tree":
        return _tree(own, X, y)
    last = LogisticRegression(**own, max_iter=200) if kind == "logistic" else KNeighborsClassifier(**own, n_jobs=1)
    model = make_pipeline(StandardScaler(), last).fit(X, y)
    return lambda Z: _of_one(model, Z)


_PIPELINE = Space(
    {
        "imputer": Categorical(["mean", "median", "most_frequent"]),
        "indicator": Categorical([False, True]),
        "scaler": Categorical(["standard", "minmax", "rank"]),
        "min_frequency": Int(1, 30, log=True),
        "text": Categorical(["none", "counts", "tfidf"]),
        "ngrams": Int(1, 2),
        "min_df": Int(1, 20, log=True),
        "C": Float(1e-3, 1e2, log=True),
        "balanced": Categorical([False, True]),
    },
    when={"ngrams": {"text": ["counts", "tfidf"]}, "min_df": {"text": ["counts", "tfidf"]}},
)
_PIPELINE_DEFAULT = {
    "imputer": "mean", "indicator": False, "scaler": "standard", "min_frequency": 1, "text": "counts", "ngrams": 1,
    "min_df": 1, "C": 1.0, "balanced": False,
}  # fmt: skip


def _pipeline(p: Parameters, X: Any, y: Array) -> Predict:
    """Numbers imputed and scaled, words one-hot, text counted, then logistic regression."""
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler

    scaler = {"standard": StandardScaler(), "minmax": MinMaxScaler(), "rank": QuantileTransformer(n_quantiles=50)}
    numbers = [name for name in X.columns if X[name].dtype.kind == "f"]
    words = [name for name in X.columns if str(X[name].dtype) == "category"]
    (text,) = set(X.columns) - set(numbers) - set(words)
    parts: list[tuple[Any, Any]] = [
        (
            make_pipeline(SimpleImputer(strategy=p["imputer"], add_indicator=p["indicator"]), scaler[p["scaler"]]),
            numbers,
        ),
        (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=p["min_frequency"]), words),
    ]
    if p["text"] != "none":
        vectorizer = CountVectorizer if p["text"] == "counts" else TfidfVectorizer
        parts.append((vectorizer(ngram_range=(1, p["ngrams"]), min_df=p["min_df"]), text))
    weight = "balanced" if p["balanced"] else None
    last = LogisticRegression(C=p["C"], class_weight=weight, max_iter=200)
    model = make_pipeline(make_column_transformer(*parts), last).fit(X, y)
    return lambda Z: _of_one(model, Z)


def _fixed(space: Space, default: Parameters) -> tuple[Callable[[int], Space], Callable[[int], Parameters]]:
    return lambda inputs: space, lambda inputs: default


def _whole(X: Any) -> Any:
    return X


MODELS: dict[str, Model] = {
    "kernel ridge": Model(
        _kernel_space, _kernel_default, _kernel_ridge, _numbers, lambda p, y: (p - y) ** 2, SQUARES,
        classes=False, standardised=True,
    ),
    "kernel classifier": Model(
        _kernel_space, _kernel_default, _kernel_classifier, _numbers, brier, UNIT, standardised=True
    ),
    "XGBoost, all numbers": Model(*_fixed(_ALL_OF_XGBOOST, _BOOSTED_BY_XGBOOST), _xgboost, _numbers, log_loss, NATS),
    "LightGBM, all numbers": Model(*_fixed(_ALL_OF_LIGHTGBM, _BOOSTED_BY_ALL), _boosting, _numbers, log_loss, NATS),
    "boosting": Model(*_fixed(Space(_BOOSTING), _BOOSTED), _boosting, _numbers, log_loss, NATS),
    "tree": Model(*_fixed(_TREE, _GROWN), _tree, _numbers, brier, UNIT),
    "boosting with categories": Model(
        *_fixed(_WITH_CATEGORIES, _BOOSTED_CATEGORIES), _boosting, _whole, log_loss, NATS
    ),
    "choice of a model": Model(
        *_fixed(_MODELS, {"model": "boosting", **_BOOSTED}), _model, _numbers, log_loss, NATS
    ),
    "pipeline": Model(*_fixed(_PIPELINE, _PIPELINE_DEFAULT), _pipeline, _whole, log_loss, NATS),
}  # fmt: skip
