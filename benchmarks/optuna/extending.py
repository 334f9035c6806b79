"""Extending a run beside planning it at once: `python -m benchmarks.optuna.extending [--seeds 24]`, docs/optuna.md.

n = 300. "planned" is one run of all trials with mu = 1; "extended" is one of half the trials with mu = 1/sqrt(2), which
is then extended to all of them and mu = 1; "half" is where it stood before. Both spend mu = 1 in all. Seeded
simulation, see `benchmarks.loops`; the data come with scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.curator import Curator
from benchmarks.loops import begin, result, without_values
from benchmarks.measurements.private import make_task
from benchmarks.report import DOCS, machine, markdown, mean_and_error, run_missing
from benchmarks.tasks import Task
from dptune.search.algorithms.centred_plan import CENTRED
from dptune.search.algorithms.gibo_plan import GIBO
from dptune.search.run import SearchRun

N, MU = 300, 1.0
TASKS = ("svc-breast-cancer", "elastic-digits")
METHODS = {"centred CMA-ES": CENTRED, "DP-GIBO": GIBO}
TRIALS = (40,)
WAYS = ("half", "planned", "extended")


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        task, method, trials, way: see the module.
        seed: of split, search and noise.
    """

    task: str
    method: str
    trials: int
    way: str
    seed: int


def test_loss(cell: Cell) -> float:
    """The test loss of what a run recommends."""
    task = make_task(cell.task, N, cell.seed)
    whole = cell.way == "planned"
    mu, trials = (MU, cell.trials) if whole else (MU / math.sqrt(2), cell.trials // 2)
    method = without_values(METHODS[cell.method])
    curator = Curator(task.n, task.clip, seed=cell.seed, private=True, mu=mu)
    run = begin(method, task, mu, cell.seed, curator=curator, trials=trials)
    to_the_end(run, task)
    if cell.way == "extended":
        run = run.extend(trials=cell.trials, mu=MU)
        to_the_end(run, task)
    return result(task, run).test_loss


def to_the_end(run: SearchRun, task: Task) -> None:
    """Make the trials that the run has planned."""
    for trial in range(run.plan.trials):
        parameters = run.ask()
        run.finish(str(trial), parameters, task.losses(np.array(list(parameters.values()))))


def table(results: list[dict[str, object]], cells: list[Cell]) -> str:
    """Mean test loss ± standard error of the mean, and the mean paired difference ± its standard error."""
    found = {tuple(r[name] for name in vars(cells[0])): float(str(r["test_loss"])) for r in results}
    rows = []
    for task, method, trials in dict.fromkeys((c.task, c.method, c.trials) for c in cells):
        seeds = sorted({c.seed for c in cells})
        losses = {way: np.array([found[task, method, trials, way, seed] for seed in seeds]) for way in WAYS}
        more = mean_and_error(losses["extended"] - losses["planned"], 4)
        name = f"{trials // 2} to {trials}"
        rows.append([task, method, name, *(mean_and_error(losses[way], 4) for way in WAYS), more])
    return markdown(["task", "method", "trials", *WAYS, "extended less planned"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    cells = [
        Cell(task, method, trials, way, seed)
        for seed in range(asked.seeds)
        for task in TASKS
        for method in METHODS
        for trials in TRIALS
        for way in WAYS
    ]
    results = run_missing(test_loss, cells, jobs=asked.jobs, name="extending", out=asked.out)
    print(json.dumps(machine()))
    print(table(results, cells))


if __name__ == "__main__":
    main()
