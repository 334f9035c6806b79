"""Losses of the benchmark's candidates: on public rows by cross-validation, on private people, and on the judge's.

A split of a task has 300 public rows, 1,000 private people and the judge's people. An Optuna study searches on the
five-fold cross-validated loss of the public rows: 100 trials of TPE, then 99 random ones. For every configuration a
file keeps what the models predict, so that every way to choose, and every average, is compared on the same models.

In the form ANSWER the public rows are drawn from the lowest 35% of one column, and the private people and the judge's
from the rest, so that models extrapolate. It is the number whose ranks best predict the answer, on 900 rows that are
used for nothing else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from scipy.stats import spearmanr

from benchmarks.data import Array
from benchmarks.frontier.headroom import kept, taken
from benchmarks.frontier.models import MODELS, Trained
from benchmarks.frontier.people import (
    MOST_TEST,
    N_PRIVATE,
    N_TRAIN,
    RESERVED,
    SLOTS,
    People,
    frame,
    reserved,
    rows,
)  # fmt: skip
from benchmarks.mixed_space import suggest
from dptune.choice.averages import SIZES, groups_of

TRIALS, FOLDS, LOWEST = 100, 5, 0.35
ONE, ANSWER = FORMS = ("one", "answer")
WEIGHTS = (1.0, 0.5)  # of a public row
AVERAGES = (*SIZES, "half")  # of the best on public rows; they are the first averages of a table


@dataclass(frozen=True)
class Table:
    """Losses of the candidates of one split: the default, 99 trials of TPE, 99 random configurations.

    Attributes:
        public: (m, 300) cross-validated losses of the public rows.
        private: (m, 1000) losses of the private people.
        judge: (m,) mean losses of the judge's people.
        clip: the task's public range of a loss.
        constant: mean loss of the judge's people under a constant prediction.
        averages: the same of the averages that `averages=True` makes candidates, by the weight of a public row.
    """

    public: Array
    private: Array
    judge: Array
    clip: tuple[float, float]
    constant: float
    averages: dict[float, Table] = field(default_factory=dict)

    def with_averages(self, weight: float = 1.0) -> Table:
        """Return the table of the default and the averages, among which `averages=True` chooses."""
        return self.joined(slice(1), weight)

    def joined(self, singles: slice = slice(None), weight: float = 1.0) -> Table:
        """Return the table of single candidates and the averages."""
        averages = self.averages[weight]
        parts = (np.concatenate([getattr(self, name)[singles], getattr(averages, name)]) for name in CANDIDATES)
        return Table(*parts, self.clip, self.constant)


CANDIDATES = ("public", "private", "judge")  # what a table has of each candidate
SEARCHED = np.arange(TRIALS)  # the default and TPE's trials
RANDOM = np.r_[0, TRIALS : 2 * TRIALS - 1]  # the default and the random configurations


def slots() -> dict[str, tuple[str, People]]:
    """Return the ten tasks: name -> (model, people)."""
    found = taken(kept())
    return {
        f"{slot.split(',')[0]}: {people.name}": (SLOTS[slot][0], people)
        for slot, people in found.items()
        if people is not None
    }


@cache
def predictive(people: People) -> str:
    """The numeric column whose ranks have the largest correlation with the answer's, on the reserved rows."""
    (X, y), left = frame(people), reserved(people)
    strength = {
        column: abs(spearmanr(X[column].iloc[left], y[left], nan_policy="omit").statistic)
        for column in people.inputs
        if X[column].dtype.kind == "f" and X[column].nunique() > 2
    }
    return max(strength, key=strength.__getitem__)


def rows_of(people: People, split: int, form: str) -> tuple[Array, Array, Array]:
    """Public rows, private people and the judge's; where the form is not ONE from two parts of a column."""
    if form == ONE:
        return rows(people, split)
    X, y = frame(people)
    left = np.random.default_rng([81]).permutation(len(y))[RESERVED:]
    rng = np.random.default_rng([82, split])
    covariate = np.nan_to_num(X[predictive(people)].to_numpy(dtype=float)[left])
    order = left[np.argsort(covariate + 1e-6 * rng.random(len(covariate)))]  # ties are broken at random
    cut = max(N_TRAIN, int(LOWEST * len(order)))
    drawn = rng.permutation(order[cut:])[: N_PRIVATE + MOST_TEST]
    return rng.permutation(order[:cut])[:N_TRAIN], drawn[:N_PRIVATE], drawn[N_PRIVATE:]


def collect(task: str, split: int, form: str) -> dict[str, Any]:
    """Search on the public rows of a split, train every configuration on all of them, and keep what models predict."""
    name, people = slots()[task]
    train, private, judge = rows_of(people, split, form)
    model, asked = MODELS[name], np.concatenate([private, judge])
    folds = np.array_split(np.arange(len(train)), FOLDS)
    halves = [(Trained(model, people, np.delete(train, fold)), train[fold]) for fold in folds]
    full = Trained(model, people, train)
    tried: list[Any] = []
    public: list[list[Array]] = []

    def losses_of(parameters: Any) -> Array:
        tried.append(dict(parameters))
        public.append([half.predictions(tried[-1], fold) for half, fold in halves])
        return np.concatenate(
            [half.of_predictions(p, fold) for (half, fold), p in zip(halves, public[-1], strict=True)]
        )

    def value(trial: optuna.Trial) -> float:
        losses = losses_of(suggest(trial, full.space))
        return float(np.nan_to_num(losses, nan=full.clip[1]).clip(*full.clip).mean())

    rng = np.random.default_rng([split, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=split, multivariate=True, group=True))
        study.enqueue_trial(dict(full.default))
        study.optimize(value, n_trials=TRIALS)
        for _ in range(TRIALS - 1):
            losses_of(full.space.decode(rng.random(full.space.d)))
    return {
        "public": np.array([np.concatenate(each) for each in public], dtype=np.float32),
        "asked": np.array([full.predictions(parameters, asked) for parameters in tried], dtype=np.float32),
        "constant": full.constant(judge).mean(),
    }


def table(task: str, split: int, form: str, kept: dict[str, Any]) -> Table:
    """Return the losses of a split, by what its models predict."""
    name, people = slots()[task]
    train, private, judge = rows_of(people, split, form)
    model = MODELS[name]
    halves = [
        (Trained(model, people, np.delete(train, fold)), fold) for fold in np.array_split(np.arange(len(train)), FOLDS)
    ]
    full, n = Trained(model, people, train), len(private)

    def losses(public: Array, asked: Array) -> Table:
        V = np.concatenate([half.of_predictions(public[:, fold], train[fold]) for half, fold in halves], axis=1)
        L = full.of_predictions(asked, np.concatenate([private, judge]))
        return Table(V, L[:, :n].astype(np.float32), L[:, n:].mean(axis=1), full.clip, float(kept["constant"]))

    public, asked = kept["public"].astype(float), kept["asked"].astype(float)
    singles = losses(public, asked)
    for weight in WEIGHTS:
        groups = groups_of(np.where(np.isfinite(singles.public), singles.public.clip(*full.clip), np.nan), weight)
        shares = np.zeros((len(groups), len(public)))
        for row, group in zip(shares, groups, strict=True):
            row[list(group)] = list(group.values())
        singles.averages[weight] = losses(*(np.tensordot(shares, np.nan_to_num(each), 1) for each in (public, asked)))
    return singles


def stored(folder: Path, task: str, split: int, form: str) -> Table:
    """Return a split's table, whose predictions are collected once and stored in ``folder``."""
    path = folder / f"{task.replace(': ', '--').replace(' ', '-')}-{split}-{form}.npz"
    if not path.exists():
        np.savez_compressed(path.with_suffix(".part.npz"), **collect(task, split, form))
        path.with_suffix(".part.npz").rename(path)
    with np.load(path) as found:
        return table(task, split, form, {name: found[name] for name in found.files})
