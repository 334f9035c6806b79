"""Losses of the benchmark's candidates: on public rows by cross-validation, on private people, and on the judge's.

A split of a task has 300 public rows, 1,000 private people and the judge's people. An Optuna study searches on the
five-fold cross-validated loss of the public rows: 100 trials of TPE, then 99 random ones. For every configuration a
table stores what :func:`dptune.select` is given, so that every way to choose is compared on the same models.

In the *shifted* form of a task the public rows are drawn from the lowest 35% of one covariate, mostly age, and the
private people and the judge's from the rest.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from benchmarks.data import Array
from benchmarks.frontier.headroom import kept, taken
from benchmarks.frontier.models import MODELS, Trained
from benchmarks.frontier.people import MOST_TEST, N_PRIVATE, N_TRAIN, RESERVED, SLOTS, People, frame, rows
from benchmarks.measurements.spaces import suggest

TRIALS, FOLDS, LOWEST = 100, 5, 0.35
COVARIATE = {  # the people's column by which public rows differ from private people
    "propublica-recidivism": "age", "healthinsurance": "age", "monica": "age", "benefits": "age",
    "nasscds": "ageOFocc", "cps1988": "experience", "gpa2": "sat", "adult": "age", "credit-data": "Age",
    "flchain": "age",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Losses of the candidates of one split: the default, 99 trials of TPE, 99 random configurations.

    Attributes:
        public: (2 TRIALS - 1, 300) cross-validated losses of the public rows.
        private: (2 TRIALS - 1, 1000) losses of the private people.
        judge: (2 TRIALS - 1,) mean losses of the judge's people.
        clip: the task's public range of a loss.
        constant: mean loss of the judge's people under a constant prediction.
    """

    public: Array
    private: Array
    judge: Array
    clip: tuple[float, float]
    constant: float


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


def shifted_rows(people: People, split: int) -> tuple[Array, Array, Array]:
    """Public rows from the lowest part of a covariate; private and judge's people from the rest."""
    X, y = frame(people)
    left = np.random.default_rng([81]).permutation(len(y))[RESERVED:]
    rng = np.random.default_rng([82, split])
    covariate = np.nan_to_num(X[COVARIATE[people.name]].to_numpy(dtype=float)[left])
    order = left[np.argsort(covariate + 1e-6 * rng.random(len(covariate)))]  # ties are broken at random
    cut = max(N_TRAIN, int(LOWEST * len(order)))
    drawn = rng.permutation(order[cut:])[: N_PRIVATE + MOST_TEST]
    return rng.permutation(order[:cut])[:N_TRAIN], drawn[:N_PRIVATE], drawn[N_PRIVATE:]


def collect(task: str, split: int, *, shifted: bool) -> Table:
    """Search on the public rows of a split, and train every configuration on all of them."""
    name, people = slots()[task]
    train, private, judge = shifted_rows(people, split) if shifted else rows(people, split)
    model, asked = MODELS[name], np.concatenate([private, judge])
    folds = np.array_split(np.arange(len(train)), FOLDS)
    halves = [(Trained(model, people, np.delete(train, fold)), train[fold]) for fold in folds]
    full = Trained(model, people, train)
    tried: list[Any] = []
    public: list[Array] = []

    def losses_of(parameters: Any) -> Array:
        tried.append(dict(parameters))
        public.append(np.concatenate([half.losses(tried[-1], fold) for half, fold in halves]))
        return public[-1]

    def value(trial: optuna.Trial) -> float:
        losses = losses_of(suggest(trial, full))
        return float(np.nan_to_num(losses, nan=full.clip[1]).clip(*full.clip).mean())

    rng = np.random.default_rng([split, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=split, multivariate=True, group=True))
        study.enqueue_trial(dict(full.default))
        study.optimize(value, n_trials=TRIALS)
        for _ in range(TRIALS - 1):
            losses_of(full.space.decode(rng.random(full.space.d)))
    losses = np.array([full.losses(parameters, asked) for parameters in tried])
    return Table(
        np.array(public, dtype=np.float32), losses[:, : len(private)].astype(np.float32),
        losses[:, len(private) :].mean(axis=1), full.clip, float(full.constant(judge).mean()),
    )  # fmt: skip


def stored(folder: Path, task: str, split: int, *, shifted: bool) -> Table:
    """Return a split's table, collected once and stored in ``folder``."""
    path = folder / f"{task.replace(': ', '--').replace(' ', '-')}-{split}{'-shifted' if shifted else ''}.npz"
    if not path.exists():
        table = collect(task, split, shifted=shifted)
        np.savez_compressed(path.with_suffix(".part.npz"), **vars(table))
        path.with_suffix(".part.npz").rename(path)
    with np.load(path) as found:
        values = {name: found[name] for name in found.files}
    return Table(**{**values, "clip": tuple(values["clip"].tolist()), "constant": float(values["constant"])})
