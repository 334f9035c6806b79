"""Memory of a choice among checkpoints of Tune: 64 of 100 MB, in units of a model, above what was there before.

Each trial saves an array of this size, and ``load`` reads it. A thread adds up the memory of this process and of all
processes that it has started, 20 times a second. Proportional set sizes count shared pages once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import tune

import dptune
import dptune_ray

ROWS, PEOPLE = 100, 400
MB = 2**20


class Model:
    """A large array, and a slope."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.classes_ = weights, np.array([0, 1])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-self.weights[0] * X[:, 0]))
        return np.column_stack([1 - p, p])


def load(checkpoint: tune.Checkpoint) -> Model:
    with checkpoint.as_directory() as folder:
        return Model(np.load(Path(folder, "weights.npy")))


def memory(pid: int) -> int:
    """Return the proportional set size of a process, in bytes; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def descendants() -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


class Peaks(threading.Thread):
    """Records the largest memory of this process, and of all its processes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.mine = self.all = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.05):
            each = [memory(pid) for pid in descendants()]
            self.mine, self.all = max(self.mine, each[0]), max(self.all, sum(each))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--trials", type=int, default=64)
    asked.add_argument("--mb", type=int, default=100, help="size of a checkpoint")
    options = asked.parse_args()
    size = options.mb * MB

    def trainable(config: dict[str, Any]) -> None:
        weights = np.full(size // 8, config["slope"])
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder, "weights.npy"), weights)
            tune.report({"loss": -config["slope"]}, checkpoint=tune.Checkpoint(folder))

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=6 * size)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS + PEOPLE, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    public, people = (X[:ROWS].copy(), y[:ROWS].copy()), (X[ROWS:].copy(), y[ROWS:].copy())
    with tempfile.TemporaryDirectory() as folder:
        space = {"slope": tune.grid_search(np.linspace(0.1, 3, options.trials).tolist())}
        about = tune.TuneConfig(metric="loss", mode="min", reuse_actors=True, max_concurrent_trials=1)
        run = tune.RunConfig(name="nets", storage_path=folder, verbose=0)
        results = tune.Tuner(trainable, param_space=space, tune_config=about, run_config=run).fit()
        ledger = dptune.PrivacyLedger(Path(folder, "ledger.db"), dptune.Budget.gdp(mu=4.0))
        before, peaks, start = [memory(pid) for pid in descendants()], Peaks(), time.perf_counter()
        peaks.start()
        choice = dptune_ray.choose(results, load=load, loss="log_loss", data=people, public=public, ledger=ledger)
        seconds = time.perf_counter() - start
        peaks.ended.set()
        peaks.join()
    print(f"{options.trials} checkpoints of {options.mb} MB, {choice.selection.finalists} finalists, {seconds:.0f} s")
    print(f"driver: peak {(peaks.mine - before[0]) / size:.2f} models above its start")
    print(f"driver, object store and workers: peak {(peaks.all - sum(before)) / size:.2f} models above the start")


if __name__ == "__main__":
    main()
