"""Overhead of vault and searchers in Ray Tune, against random search with the same trainable, in one run.

Every fit runs the same user's function, which costs almost nothing, so that a trial's time is Tune's and dptune's own.
The order of the four kinds rotates; each has a new ledger in memory-backed storage (TMPDIR). Times are per trial.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import optuna
import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

import dptune
from dptune_ray import DPGIBOSearch, PrivateSearcher

SPACE = {"x": tune.uniform(-1.0, 1.0), "y": tune.loguniform(1e-3, 1e1)}
KINDS = ("random, raw", "random, vault", "DP-GIBO, vault")


def losses_of(n: int) -> Callable[[dict[str, Any]], np.ndarray]:
    def losses(config: dict[str, Any]) -> np.ndarray:
        people = np.random.default_rng(0).normal(0.3, 0.2, size=n)
        return (config["x"] - people) ** 2 + np.log10(config["y"]) ** 2 / 4

    return losses


def raw_trainable(function: Callable[[dict[str, Any]], np.ndarray]) -> type[tune.Trainable]:
    class Raw(tune.Trainable):  # what a user without privacy would write
        def setup(self, config: dict[str, Any]) -> None: ...

        def step(self) -> dict[str, Any]:
            return {"loss": float(function(self.config).mean()), "done": True}

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            return True

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:  # Tune asks for one at the end
            return {}

    return Raw


def random_search() -> OptunaSearch:
    return OptunaSearch(sampler=optuna.samplers.RandomSampler(seed=0))


def one_fit(kind: str, trials: int, n: int) -> float:
    """Return seconds per trial of one Tune run, without the start of its workers' first trials."""
    with tempfile.TemporaryDirectory() as folder:
        function, search = losses_of(n), None
        if kind == "random, raw":
            trainable, algorithm = raw_trainable(function), random_search()
        else:
            ledger = dptune.PrivacyLedger(f"{folder}/ledger.db", dptune.Budget.gdp(mu=1.0))
            privatizer = dptune.LossPrivatizer(ledger, n=n, clip=(0.0, 4.0))
            gibo = DPGIBOSearch(privatizer, SPACE, n_trials=trials, seed=0) if kind.startswith("DP") else None
            search = gibo or PrivateSearcher(random_search(), privatizer, n_trials=trials)
            trainable, algorithm = search.trainable(function), search
        clock = Clock(skip=4)
        tuning = tune.TuneConfig(
            metric="loss",
            mode="min",
            search_alg=algorithm,
            num_samples=trials,
            max_concurrent_trials=2,
            reuse_actors=True,
        )
        run = tune.RunConfig(name="run", storage_path=folder, verbose=0, callbacks=[clock])
        results = tune.Tuner(trainable, param_space=SPACE, tune_config=tuning, run_config=run).fit()
        if results.num_errors:
            raise RuntimeError(f"{results.num_errors} trials of {kind!r} failed; their time means nothing.")
        return clock.per_trial()


class Clock(tune.Callback):
    """When trials' results reached the driver; the first ones wait for workers to start."""

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self.times: list[float] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.times.append(time.perf_counter())

    def per_trial(self) -> float:
        late = self.times[self.skip :]
        return (late[-1] - late[0]) / (len(late) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--people", type=int, nargs="+", default=[1_000, 100_000])
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
    rows = []
    for n in options.people:
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for repeat in range(options.repeats):
            for kind in KINDS[repeat % len(KINDS) :] + KINDS[: repeat % len(KINDS)]:
                times[kind].append(1000 * one_fit(kind, options.trials, n))
        rows += [f"| {n} | {k} | {median(v):.0f} | {min(v):.0f} | {max(v):.0f} |" for k, v in times.items()]
    print(f"Ray {ray.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {options.trials} trials")
    print("| people | kind | ms a trial, median | least | most |\n|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
