"""The design's tasks: ten new ones on people's tables (`benchmarks.frontier.people`), and eleven of before.

One form for all: a `dptune.Space`, the library's defaults in it, clipped losses of n private people, the judge's test
loss. New models train on 300 public rows, the others on 200 (kernel machines on parkinsons and pumadyn32nm on 300).
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.data import Array, split_table
from benchmarks.frontier.headroom import kept, taken
from benchmarks.frontier.models import MODELS, Model, Trained
from benchmarks.frontier.people import SLOTS, People, rows
from benchmarks.frontier.tables import table
from benchmarks.measurements.private import make_task
from benchmarks.mixed_space import Space
from benchmarks.small_tasks import isotropic_ridge_task, plain_svr_task
from benchmarks.space_tasks import BINARY, KINDS, N_VALIDATION, RARE, space_task
from benchmarks.tasks import KernelTask, MarginTask, Task, kernel_ridge_task
from dptune import Float

Parameters = Mapping[str, Any]
N_TRAIN, MOST_TEST = 200, 2000


@dataclass
class FrontierTask:
    """A private objective in any space.

    Attributes:
        default: the library's own configuration, or None: then the centre of the space is what one begins with.
        clip: (low, high) of a loss.
        constant: the judge's loss of predicting the training rows' mean or shares.
        known: the losses of what was trained.
    """

    space: Space
    default: Parameters | None
    n: int
    clip: tuple[float, float]
    fit: Callable[[Parameters], Array]  # -> losses (n,), not clipped
    judge: Callable[[Parameters], float]
    name: str = "task"
    constant: float = math.nan
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
    """A task of the unit cube; its default is scikit-learn's KernelRidge, SVR or SVC with standardised inputs."""
    names = [f"u{j:02}" for j in range(task.d)]
    if isinstance(task, KernelTask):
        inputs, constant = task.split.X_train.shape[1], float(np.mean(task.split.y_test**2))
    else:
        assert isinstance(task, MarginTask)
        inputs = task.split.X_train.shape[1]
        constant = _shares(task.split.y_train, task.split.y_test, task.clip)
    own = {"ridge": 1.0, "epsilon": 0.1, "C": 1.0, "gamma": 1 / inputs, "slope": 1.0}
    default = {
        name: parameter.inverse(own.get(parameter.name, math.sqrt(inputs / 2)))
        for name, parameter in zip(names, task.parameters, strict=True)
    }

    def at(parameters: Parameters) -> Array:
        return np.array([parameters[name] for name in names])

    space = Space({name: Float(0.0, 1.0) for name in names})
    return FrontierTask(
        space, default, task.n, task.clip, lambda p: task.losses(at(p)), lambda p: task.test_loss(at(p)),
        constant=constant,
    )  # fmt: skip


def _shares(train: Array, test: Array, clip: tuple[float, float]) -> float:
    """The log loss of the classes' shares in the training rows."""
    kinds, counts = np.unique(train, return_counts=True)
    share = dict(zip(kinds.tolist(), (counts / counts.sum()).tolist(), strict=True))
    return float(np.mean([np.clip(-math.log(share.get(y, RARE)), *clip) for y in test.tolist()]))


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
        constant=_shares(train_y, test_y, BINARY),
    )


def _mixed_digits(n: int, seed: int) -> FrontierTask:
    task = space_task("models-digits", n, seed)
    y = np.random.default_rng([44, seed]).permutation(load_digits(return_X_y=True)[1] % 2)  # as the task orders them
    return FrontierTask(
        task.space, task.default, n, task.clip, task.losses, task.test_loss,
        constant=_shares(y[:N_TRAIN], y[N_TRAIN + N_VALIDATION :], task.clip),
    )  # fmt: skip


class Known:
    """The losses of a split's private people; the same model is trained once."""

    def __init__(self, people: People, model: Model, split: tuple[Array, Array, Array]) -> None:
        train, self._private, self._judge = split
        self.trained = Trained(model, people, train)
        self.constant = float(self.trained.constant(self._judge).mean())
        self._losses: dict[str, Array] = {}

    def losses(self, parameters: Parameters) -> Array:
        key = repr(sorted(parameters.items()))
        if key not in self._losses:
            self._losses[key] = self.trained.losses(parameters, self._private).astype(np.float32)
        return self._losses[key].astype(float)

    def judge(self, parameters: Parameters) -> float:
        return float(self.trained.losses(parameters, self._judge).mean())

    def task(self, n: int) -> FrontierTask:
        """The private people of n = 300 are the first of those of n = 1000; what was trained is trained for both."""
        of = self.trained
        return FrontierTask(
            of.space, of.default, n, of.clip, lambda p: self.losses(p)[:n], self.judge, constant=self.constant
        )


@lru_cache(1)
def _known(slot: str, seed: int) -> Known:
    people = taken(kept())[slot]
    if people is None:
        raise ValueError(f"nobody takes {slot!r}")
    return Known(people, MODELS[SLOTS[slot][0]], rows(people, seed))


def _new(slot: str, n: int, seed: int) -> FrontierTask:
    return _known(slot, seed).task(n)


@dataclass(frozen=True)
class Kind:
    """A task of the design.

    Attributes:
        data: its data set.
        make: (n, seed) -> the task on that split.
        d: numbers of its space; None: it has categories.
        people: numbers of private people that it has rows for.
        new: whether nobody had looked at the data before the search was what it is.
    """

    data: str
    make: Callable[[int, int], FrontierTask]
    d: int | None
    people: tuple[int, ...] = (300, 1000)
    new: bool = False


def _earlier(name: str) -> Callable[[int, int], FrontierTask]:
    return lambda n, seed: _of_numbers(make_task(name, n, seed))


def _slots() -> dict[str, Kind]:
    """The new tasks: who takes the slots, with the numbers of their spaces."""
    found = {}
    for slot, people in taken(kept()).items():
        if people is not None:
            space = MODELS[SLOTS[slot][0]].space(len(people.inputs))
            numbers = None if space.numbers is None else len(space)
            found[f"{slot.split(',')[0]}: {people.name}"] = Kind(people.name, partial(_new, slot), numbers, new=True)
    return found


OLD: dict[str, Kind] = {
    "ridge2-anes96": Kind("anes96", lambda n, s: _of_table("anes96", isotropic_ridge_task, n, s), 2, (300,)),
    "svr3-slid": Kind("slid", lambda n, s: _of_table("slid", plain_svr_task, n, s), 3),
    "krr-budget": Kind("budget", lambda n, s: _of_table("budget", kernel_ridge_task, n, s), 6),
    "krr-fair": Kind("fair", lambda n, s: _of_table("fair", kernel_ridge_task, n, s), 9),
    "krr-randhie": Kind("randhie", lambda n, s: _of_table("randhie", kernel_ridge_task, n, s), 10),
    "models-hdma": Kind("hdma", lambda n, s: _classifier("hdma", "models-digits", n, s, lambda y: y > 0), None),
    "xgboost-star": Kind("star", lambda n, s: _classifier("star", "xgboost-digits", n, s, lambda y: y > 0), None),
    "svc-breast-cancer": Kind("breast-cancer", _earlier("svc-breast-cancer"), 3, (300,)),
    "models-digits": Kind("digits", _mixed_digits, None),
    "krr-parkinsons": Kind("parkinsons", _earlier("krr-parkinsons"), 21),
    "krr-pumadyn32nm": Kind("pumadyn32nm", _earlier("krr-pumadyn32nm"), 33),
}
NEW = _slots()
TASKS = {**NEW, **OLD}


@lru_cache(2)
def make(name: str, n: int, seed: int) -> FrontierTask:
    """One of `TASKS`; what was trained for one method is not trained again for the next."""
    task = TASKS[name].make(n, seed)
    task.name = name
    return task
