"""PrivateSearch beside scikit-learn's searches: `python -m benchmarks.sklearn [--seeds 4] [--show] [--out docs]`

Four real data sets, the same training, validation and test rows for everybody, the same number of fits. Searches
without privacy see the validation rows exactly, through a ``PredefinedSplit``. The private ones spend mu = 1; their
noise is real, so a second run differs. Test losses are clipped like the objective. A run that was stopped goes on, from
``<out>/results/sklearn_search.jsonl``. Prints the table of docs/sklearn.md.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from scipy.stats import loguniform, randint, uniform
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - scikit-learn's switch
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import HalvingRandomSearchCV, PredefinedSplit, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from tqdm import tqdm

import dptune
from benchmarks.data import Array, load_table
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from dptune.losses.estimator import estimator_losses
from dptune_sklearn import PrivateSearch

TRIALS, MU = 60, 1.0


@dataclass(frozen=True)
class Task:
    """An estimator with what is searched, and rows in three parts: training, validation (private), test."""

    estimator: Any
    space: dict[str, Any]
    loss: str
    clip: tuple[float, float]
    X: tuple[Array, Array, Array]
    y: tuple[Array, Array, Array]

    def test_loss(self, model: Any) -> float:
        """Mean clipped loss of the test rows."""
        return self._loss(model, self.X[2], self.y[2])

    def score(self, model: Any, X: Array, y: Array) -> float:
        """Minus the mean clipped loss: what a search without privacy maximises."""
        return -self._loss(model, X, y)

    def _loss(self, model: Any, X: Array, y: Array) -> float:
        losses = np.nan_to_num(estimator_losses(self.loss, model, X, y), nan=self.clip[1])
        return float(np.clip(losses, *self.clip).mean())

    def both(self) -> tuple[Array, Array]:
        """Training and validation rows, for searches that split by themselves."""
        return np.concatenate(self.X[:2]), np.concatenate(self.y[:2])

    def split(self) -> PredefinedSplit:
        """The one split of :meth:`both`."""
        return PredefinedSplit([-1] * len(self.y[0]) + [0] * len(self.y[1]))


def _task(X: Array, y: Array, sizes: tuple[int, int, int], seed: int, **about: Any) -> Task:
    rows = np.random.default_rng([80, seed]).permutation(len(X))[: sum(sizes)]
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    if about["loss"] == "squared_error":
        y = (y - y[parts[0]].mean()) / y[parts[0]].std()
    return Task(X=tuple(X[part] for part in parts), y=tuple(y[part] for part in parts), **about)


def _breast_cancer(seed: int) -> Task:
    X, y = load_breast_cancer(return_X_y=True)
    space = {"svc__C": loguniform(1e-3, 1e3), "svc__gamma": loguniform(1e-5, 1e1)}
    model = make_pipeline(StandardScaler(), SVC())
    return _task(X, y, (119, 300, 150), seed, estimator=model, space=space, loss="hinge", clip=(0.0, 3.0))


def _digits(seed: int) -> Task:
    X, y = load_digits(return_X_y=True)
    space = {
        "learning_rate": loguniform(1e-3, 1.0),
        "n_estimators": randint(5, 101),
        "max_depth": randint(1, 7),
        "subsample": uniform(0.3, 0.7),
        "max_features": uniform(0.02, 0.98),
        "min_samples_leaf": randint(1, 30),
    }
    model = GradientBoostingClassifier(random_state=0)
    return _task(X, y >= 5, (300, 300, 1000), seed, estimator=model, space=space, loss="log_loss", clip=(0.0, 2.0))


def _diabetes(seed: int) -> Task:
    X, y = load_diabetes(return_X_y=True)
    space = {"kernelridge__alpha": loguniform(1e-3, 1e2), "kernelridge__gamma": loguniform(1e-4, 1e1)}
    model = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    return _task(X, y, (100, 200, 142), seed, estimator=model, space=space, loss="squared_error", clip=(0.0, 4.0))


def _parkinsons(seed: int) -> Task:
    table = load_table("parkinsons")
    space = {"svr__C": loguniform(1e-2, 1e3), "svr__gamma": loguniform(1e-4, 1e1), "svr__epsilon": loguniform(1e-3, 3)}
    model = make_pipeline(StandardScaler(), SVR())
    sizes = (300, 300, 1000)
    X, y = table[:, :-1], table[:, -1]
    return _task(X, y, sizes, seed, estimator=model, space=space, loss="squared_error", clip=(0.0, 3.0))


TASKS: dict[str, Callable[[int], Task]] = {
    "SVC, breast cancer": _breast_cancer,
    "boosting, digits": _digits,
    "kernel ridge, diabetes": _diabetes,
    "SVR, parkinsons": _parkinsons,
}


# ---- the searches: what a user writes, and the lines that are counted ----------------------------------------


def defaults(task: Task, seed: int, ledger: Path) -> Any:
    """The estimator as it is; private, for it learns nothing."""
    return task.estimator.fit(task.X[0], task.y[0])


def randomized(task: Task, seed: int, ledger: Path) -> Any:
    """RandomizedSearchCV, without privacy."""
    search = RandomizedSearchCV(
        task.estimator, task.space, n_iter=TRIALS, scoring=task.score, cv=task.split(), refit=False, random_state=seed
    )
    search.fit(*task.both())
    return task.estimator.set_params(**search.best_params_).fit(task.X[0], task.y[0])


def halving(task: Task, seed: int, ledger: Path) -> Any:
    """HalvingRandomSearchCV, without privacy; 41 candidates on a ninth of the rows, 14 on a third, 5 on all: 60."""
    search = HalvingRandomSearchCV(
        task.estimator, task.space, n_candidates=41, min_resources=sum(map(len, task.y[:2])) // 9, scoring=task.score,
        cv=task.split(), refit=False, random_state=seed,
    )  # fmt: skip
    search.fit(*task.both())
    return task.estimator.set_params(**search.best_params_).fit(task.X[0], task.y[0])


def optuna_search(task: Task, seed: int, ledger: Path) -> Any:
    """OptunaSearchCV (TPE), without privacy."""
    from optuna_integration.sklearn import OptunaSearchCV

    search = OptunaSearchCV(
        task.estimator, as_distributions(task.space), n_trials=TRIALS, scoring=task.score, cv=task.split(), refit=False,
        random_state=seed,
    )  # fmt: skip
    search.fit(*task.both())
    return task.estimator.set_params(**search.best_params_).fit(task.X[0], task.y[0])


def private(task: Task, seed: int, ledger: Path, method: Any) -> Any:
    """PrivateSearch; its defaults."""
    account = dptune.PrivacyLedger(ledger / "ledger.db", dptune.Budget.gdp(MU))
    search = PrivateSearch(
        task.estimator, task.space, ledger=account, loss=task.loss, clip=task.clip, n_trials=TRIALS, method=method,
        cv=None, random_state=seed,
    )  # fmt: skip
    return search.fit(task.X[0], task.y[0], X_val=task.X[1], y_val=task.y[1])


def centred(task: Task, seed: int, ledger: Path) -> Any:
    """PrivateSearch(method="centred")."""
    return private(task, seed, ledger, "centred")


def selection(task: Task, seed: int, ledger: Path) -> Any:
    """PrivateSearch(method="selection")."""
    return private(task, seed, ledger, "selection")


def private_tpe(task: Task, seed: int, ledger: Path) -> Any:
    """PrivateSearch(method=TPESampler()): privatised values."""
    return private(task, seed, ledger, optuna.samplers.TPESampler(seed=seed))


SEARCHES: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {  # search, whose lines count, privacy
    "untuned": (defaults, defaults, "nothing learned"),
    "RandomizedSearchCV": (randomized, randomized, "none"),
    "HalvingRandomSearchCV": (halving, halving, "none"),
    "OptunaSearchCV": (optuna_search, optuna_search, "none"),
    'PrivateSearch, "centred"': (centred, private, "mu = 1"),
    'PrivateSearch, "selection"': (selection, private, "mu = 1"),
    "PrivateSearch, TPE": (private_tpe, private, "mu = 1"),
}


def as_distributions(space: dict[str, Any]) -> dict[str, Any]:
    """The space as Optuna says it."""
    from dptune_optuna.spaces import to_distributions
    from dptune_sklearn.spaces import UserSpace

    return to_distributions(UserSpace(space).space)


def lines(function: Callable[..., Any]) -> int:
    """Statements' lines of a search as written here, without its name and docstring."""
    source = inspect.getsource(function).splitlines()
    return sum(bool(line.strip()) for line in source) - 2


def measure(task_name: str, search: str, seed: int) -> dict[str, object]:
    """Test loss and seconds of processor time of one search."""
    task = TASKS[task_name](seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = SEARCHES[search][0](task, seed, Path(folder))
        seconds = time.process_time() - start
    found = getattr(model, "best_estimator_", model)
    return {"task": task_name, "search": search, "seed": seed, "test_loss": task.test_loss(found), "seconds": seconds}


def table(results: list[dict[str, Any]]) -> str:
    """A row for each search: test losses, seconds of processor time for all tasks together, lines."""
    rows = []
    for search, (_, counted, privacy) in SEARCHES.items():
        mine = [result for result in results if result["search"] == search]
        losses = [mean_and_error(r["test_loss"] for r in mine if r["task"] == task) for task in TASKS]
        seconds = sum(r["seconds"] for r in mine) / max(len({r["seed"] for r in mine}), 1)
        rows.append([search, privacy, *losses, f"{seconds:.1f}", str(lines(counted))])
    return markdown(["search", "privacy", *TASKS, "seconds", "lines"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--show", action="store_true", help="print the table of what is stored")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    results = Stored("sklearn_search", asked.out)
    known = {(r["task"], r["search"], r["seed"]) for r in results}
    cells = [(task, search, seed) for seed in range(asked.seeds) for task in TASKS for search in SEARCHES]
    for cell in tqdm([] if asked.show else [cell for cell in cells if cell not in known]):
        results.add(measure(*cell))
    print(json.dumps(machine()))
    print(table([result for result in results if result["seed"] < asked.seeds]))


if __name__ == "__main__":
    main()
