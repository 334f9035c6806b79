"""Trials that stop early: `python -m benchmarks.optuna.pruning [--seeds 10] [--show] [--out docs]`

Two real training curves on scikit-learn's digits, 500 images to train on, 1000 private ones, 297 to test: an MLP, epoch
by epoch, and boosting, stage by stage. The private searches spend mu = 1 in all; their noise is real, so a second run
differs. Computing is counted in epochs (stages) of all trials together; the loss is the mean clipped log loss on the
test rows of a model that is trained to its end at the recommendation so far, without noise and for the table only. A
run that was stopped goes on, from ``<out>/results/pruning.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from tqdm import tqdm

import dptune
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from dptune_optuna import CentredSampler

Array = np.ndarray[Any, np.dtype[np.float64]]
TRIALS, MU, EPOCHS, CLIP = 42, 1.0, 27, (0.0, 3.0)
TOLERANCE = 1.02  # "equal": at most so much of the loss without pruning
SIZES = (500, 1000, 297)  # training, private validation, test


def log_losses(probabilities: Array, y: Array) -> Array:
    """Return the clipped log losses (rows,)."""
    return np.clip(-np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-12)), *CLIP)


def mlp(parameters: dict[str, Any], X: Array, y: Array) -> Iterator[Callable[[Array], Array]]:
    """Yield the network after each epoch."""
    rate, decay = parameters["rate"], parameters["decay"]
    net = MLPClassifier(parameters["width"], learning_rate_init=rate, alpha=decay, batch_size=50, random_state=0)
    for _ in range(EPOCHS):
        net.partial_fit(X, y, classes=range(10))
        yield net.predict_proba


def boosting(parameters: dict[str, Any], X: Array, y: Array) -> Iterator[Callable[[Array], Array]]:
    """Yield the ensemble after each stage; digits from 5 on against the others."""
    settings = {name: parameters[name] for name in ("learning_rate", "max_depth", "subsample", "max_features")}
    model = GradientBoostingClassifier(n_estimators=1, warm_start=True, random_state=0, **settings)
    for stage in range(1, EPOCHS + 1):
        yield model.set_params(n_estimators=stage).fit(X, y).predict_proba


def _log(low: float, high: float) -> FloatDistribution:
    return FloatDistribution(low, high, log=True)


TASKS: dict[str, tuple[Any, dict[str, BaseDistribution], Callable[[Array], Array]]] = {
    "MLP, digits": (
        mlp,
        {"rate": _log(1e-4, 1e-1), "decay": _log(1e-6, 1e1), "width": IntDistribution(4, 128, log=True)},
        lambda y: y,
    ),
    "boosting, digits": (
        boosting,
        {
            "learning_rate": _log(1e-2, 1.0),
            "max_depth": IntDistribution(1, 6),
            "subsample": FloatDistribution(0.3, 1.0),
            "max_features": FloatDistribution(0.05, 1.0),
        },
        lambda y: (y >= 5).astype(int),
    ),
}
SEARCHES = {  # name -> (private, what a trial reports, pruner)
    "private, no pruning": (True, "nothing", None),
    "private, MedianPruner on 100 public images": (True, "public", optuna.pruners.MedianPruner),
    "no privacy, TPE, no pruning": (False, "nothing", None),
    "no privacy, TPE, MedianPruner": (False, "public", optuna.pruners.MedianPruner),
    "no privacy, TPE, SuccessiveHalvingPruner (ASHA)": (False, "public", optuna.pruners.SuccessiveHalvingPruner),
}


class Problem:
    """One task with one split of the rows; counts the epochs of the search's trials."""

    def __init__(self, task: str, seed: int) -> None:
        self.train, self.space, labels = TASKS[task]
        X, y = load_digits(return_X_y=True)
        rows = np.random.default_rng([170, seed]).permutation(len(X))
        parts = np.split(rows, np.cumsum(SIZES)[:-1])
        self.X, self.y = [X[part] / 16 for part in parts], [labels(y[part]) for part in parts]
        self.epochs = 0
        self.test_loss = lru_cache(maxsize=None)(self._test_loss)

    def trial(self, trial: Any, reports: str, *, public: int) -> Array:
        """Train; the first ``public`` training images are kept for the public reports."""
        parameters = {name: suggest(trial, name, d) for name, d in self.space.items()}
        X, y = self.X[0][public:], self.y[0][public:]
        for epoch, predict in enumerate(self.train(parameters, X, y), 1):
            self.epochs += 1
            if epoch < EPOCHS and self.report(trial, reports, predict, epoch, public) and trial.should_prune():
                raise optuna.TrialPruned
        return self.private(predict)

    def report(self, trial: Any, reports: str, predict: Any, epoch: int, public: int) -> bool:
        """Report what the search looks at; tell whether it was anything."""
        if reports == "public" and public:
            trial.report_public(float(log_losses(predict(self.X[0][:public]), self.y[0][:public]).mean()), epoch)
        elif reports == "public":
            trial.report(float(self.private(predict).mean()), epoch)
        return reports == "public"

    def private(self, predict: Callable[[Array], Array]) -> Array:
        """Losses of the private images."""
        return log_losses(predict(self.X[1]), self.y[1])

    def _test_loss(self, parameters: tuple[tuple[str, Any], ...]) -> float:
        for predict in self.train(dict(parameters), self.X[0], self.y[0]):
            last = predict
        return float(log_losses(last(self.X[2]), self.y[2]).mean())


def suggest(trial: Any, name: str, d: Any) -> Any:
    """Suggest by a distribution."""
    kind = trial.suggest_int if isinstance(d, IntDistribution) else trial.suggest_float
    return kind(name, d.low, d.high, log=d.log)


def mean_loss(problem: Problem, reports: str, trial: Any) -> float:
    """The validation rows' exact mean loss, for the searches without privacy."""
    return float(problem.trial(trial, reports, public=0).mean())


def measure(task: str, search: str, seed: int) -> dict[str, Any]:
    """Return epochs and test losses of the recommendations as the search goes on."""
    private, reports, pruner = SEARCHES[search]
    problem, path = Problem(task, seed), []
    with tempfile.TemporaryDirectory() as folder:
        if private:
            ledger = dptune.PrivacyLedger(Path(folder) / "ledger.db", dptune.Budget.gdp(MU))
            privatizer = dptune.LossPrivatizer(ledger, n=SIZES[1], clip=CLIP)
            sampler: Any = CentredSampler(privatizer, problem.space, n_trials=TRIALS, seed=seed)
            words = "log loss on 100 public images" if reports == "public" else None
            public = 100 if reports == "public" else 0
            objective = sampler.objective(public=words)(lambda trial: problem.trial(trial, reports, public=public))
        else:
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
            objective = partial(mean_loss, problem, reports)
        study = optuna.create_study(sampler=sampler, pruner=pruner() if pruner else optuna.pruners.NopPruner())

        def note(study: optuna.Study, trial: Any) -> None:
            known = sampler.run_of(study).algorithm.t > 0 if private else study.best_trials
            if known:
                best = sampler.recommend(study) if private else study.best_params
                path.append((problem.epochs, problem.test_loss(tuple(sorted(best.items())))))

        study.optimize(
            objective, n_trials=None if private else TRIALS, callbacks=[note]
        )  # a private run ends by itself
    return {"task": task, "search": search, "seed": seed, "epochs": problem.epochs, "path": path}


def epochs_to(path: list[list[float]], loss: float) -> float:
    """Return the epochs after which the recommendation is as good, and stays so; inf if it never is."""
    reached = math.inf
    for epochs, found in path:
        reached = math.inf if found > loss else min(reached, epochs)
    return reached


def table(results: list[dict[str, Any]]) -> str:
    """Return the table: a row for each search and task."""
    rows = []
    for task in TASKS:
        done = {(r["search"], r["seed"]): r for r in results if r["task"] == task}
        base = {seed: r for (search, seed), r in done.items() if search == "private, no pruning"}
        for search in SEARCHES:
            both = [(base[seed], r) for (name, seed), r in done.items() if name == search and seed in base]
            if not both:
                continue
            ratio = [r["path"][-1][1] / b["path"][-1][1] for b, r in both]
            share = [r["epochs"] / b["epochs"] for b, r in both]
            equal = [epochs_to(r["path"], TOLERANCE * b["path"][-1][1]) / b["epochs"] for b, r in both]
            median, losses = float(np.median(equal)), [r["path"][-1][1] for _, r in both]
            reached = f"{sum(map(math.isfinite, equal))} of {len(both)}"
            cost = [f"{np.mean(share):.2f}", "never" if math.isinf(median) else f"{median:.2f}", reached]
            rows.append([task, search, mean_and_error(losses), mean_and_error(ratio, 2), *cost])
    return markdown(["task", "search", "test loss", "ratio", "epochs", "epochs to equal loss", "reached"], rows)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--show", action="store_true", help="print the table of what was run")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    results = Stored("pruning", asked.out)
    known = {(r["task"], r["search"], r["seed"]) for r in results}
    wanted = [(task, search, seed) for seed in range(asked.seeds) for task in TASKS for search in SEARCHES]
    wanted.sort(key=lambda one: list(SEARCHES).index(one[1]) > 1)  # what is compared first, the others as time allows
    for one in tqdm([] if asked.show else [one for one in wanted if one not in known]):
        results.add(measure(*one))
    print(table(results))
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
