"""The design's tasks: eleven data sets, of which seven were never looked at while algorithms were written.

One form for all: a `dptune.Space`, clipped losses of n private people, the judge's test loss. Models train on 200
public rows (kernel machines on parkinsons and pumadyn32nm on 300), and are standardised with these rows.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.bench_private import make_task
from benchmarks.data import Array, split_table
from benchmarks.frontier.tables import table
from benchmarks.small_tasks import isotropic_ridge_task, plain_svr_task
from benchmarks.space_tasks import BINARY, KINDS, RARE, space_task
from benchmarks.tasks import Task, kernel_ridge_task
from dptune import Float, Space

Parameters = Mapping[str, Any]
N_TRAIN, MOST_TEST = 200, 2000


@dataclass
class FrontierTask:
    """A private objective in any space.

    Attributes:
        default: the library's own configuration, or None: then the centre of the space is what one begins with.
        clip: (low, high) of a loss.
        known: the losses of what was trained.
    """

    space: Space
    default: Parameters | None
    n: int
    clip: tuple[float, float]
    fit: Callable[[Parameters], Array]  # -> losses (n,), not clipped
    judge: Callable[[Parameters], float]
    name: str = "task"
    known: dict[str, Array] = field(default_factory=dict)

    def losses(self, parameters: Parameters) -> Array:
        """Clipped losses (n,); the same model is trained once."""
        key = json.dumps(dict(parameters), sort_keys=True)
        if key not in self.known:
            self.known[key] = np.nan_to_num(self.fit(parameters), nan=self.clip[1])
        return np.clip(self.known[key], *self.clip)

    @property
    def start(self) -> Parameters:
        """What is there without tuning."""
        return self.space.centre() if self.default is None else self.default


def _of_numbers(task: Task) -> FrontierTask:
    names = [f"u{j:02}" for j in range(task.d)]

    def at(parameters: Parameters) -> Array:
        return np.array([parameters[name] for name in names])

    space = Space({name: Float(0.0, 1.0) for name in names})
    return FrontierTask(space, None, task.n, task.clip, lambda p: task.losses(at(p)), lambda p: task.test_loss(at(p)))


def _of_table(name: str, model: Callable[[Any], Task], n: int, seed: int) -> FrontierTask:
    data = table(name)
    n_test = min(len(data) - N_TRAIN - n, MOST_TEST)
    return _of_numbers(model(split_table(name, data, n=n, seed=seed, n_train=N_TRAIN, n_test=n_test)))


def _classifier(name: str, kind: str, n: int, seed: int, positive: Callable[[Array], Array]) -> FrontierTask:
    """A model of benchmarks.space_tasks for two classes on one of the tables."""
    space, default, train, _, _ = KINDS[kind]
    data = table(name)
    split = split_table(name, data, n=n, seed=seed, n_train=N_TRAIN, n_test=min(len(data) - N_TRAIN - n, MOST_TEST))
    train_y, val_y, test_y = (positive(y).astype(int) for y in (split.y_train, split.y_val, split.y_test))
    low, high = split.X_train.min(axis=0), split.X_train.max(axis=0)

    def scaled(X: Array) -> Array:  # as the images are, for which the models' spaces were made
        return np.clip((X - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)

    def losses(parameters: Parameters, X: Array, y: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            P = np.clip(train(parameters, scaled(split.X_train), train_y)(scaled(X)), RARE, None)
        return np.clip(-np.log((P / P.sum(axis=1, keepdims=True))[np.arange(len(y)), y]), *BINARY)

    return FrontierTask(
        space,
        default,
        n,
        BINARY,
        lambda p: losses(p, split.X_val, val_y),
        lambda p: float(losses(p, split.X_test, test_y).mean()),
    )


def _mixed_digits(n: int, seed: int) -> FrontierTask:
    task = space_task("models-digits", n, seed)
    return FrontierTask(task.space, task.default, n, task.clip, task.losses, task.test_loss)


@dataclass(frozen=True)
class Kind:
    """A task of the design.

    Attributes:
        data: its data set.
        people: numbers of private people that it has rows for.
        seen: whether anybody looked at it while algorithms or their constants were chosen.
        make: (n, seed) -> the task on that split.
        numbers: whether its space has numbers only.
    """

    data: str
    people: tuple[int, ...]
    seen: bool
    make: Callable[[int, int], FrontierTask]
    numbers: bool = True


def _earlier(name: str) -> Callable[[int, int], FrontierTask]:
    return lambda n, seed: _of_numbers(make_task(name, n, seed))


ALL = (300, 1000, 4000)
TASKS: dict[str, Kind] = {
    "ridge2-anes96": Kind("anes96", (300,), False, lambda n, s: _of_table("anes96", isotropic_ridge_task, n, s)),
    "svr3-slid": Kind("slid", (300, 1000), False, lambda n, s: _of_table("slid", plain_svr_task, n, s)),
    "krr-budget": Kind("budget", ALL, False, lambda n, s: _of_table("budget", kernel_ridge_task, n, s)),
    "krr-fair": Kind("fair", ALL, False, lambda n, s: _of_table("fair", kernel_ridge_task, n, s)),
    "krr-randhie": Kind("randhie", ALL, False, lambda n, s: _of_table("randhie", kernel_ridge_task, n, s)),
    "models-hdma": Kind(
        "hdma", (300, 1000), False, lambda n, s: _classifier("hdma", "models-digits", n, s, lambda y: y > 0), False
    ),
    "xgboost-star": Kind(
        "star", ALL, False, lambda n, s: _classifier("star", "xgboost-digits", n, s, lambda y: y > 0), False
    ),
    "svc-breast-cancer": Kind("breast-cancer", (300,), True, _earlier("svc-breast-cancer")),
    "models-digits": Kind("digits", (300, 1000), True, _mixed_digits, False),
    "krr-parkinsons": Kind("parkinsons", ALL, True, _earlier("krr-parkinsons")),
    "krr-pumadyn32nm": Kind("pumadyn32nm", ALL, True, _earlier("krr-pumadyn32nm")),
}


@lru_cache(2)
def make(name: str, n: int, seed: int) -> FrontierTask:
    """One of `TASKS`; what was trained for one method is not trained again for the next."""
    task = TASKS[name].make(n, seed)
    task.name = name
    return task
