"""What parts of the centred search are worth: `python -m benchmarks.centred_variants [--seeds 10]`, docs/centred.md.

Results are kept in `<out>/results/centred_variants.jsonl`; what is there is not run again.
The package's algorithm beside variants of it, all at the same n, mu and trials, on the tasks its constants were chosen
on (none of those kept aside). Seeded simulation, see `benchmarks.loops`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.bench_private import PEOPLE, make_task
from benchmarks.data import Array, split_table
from benchmarks.frontier.tables import table as rows
from benchmarks.frontier.tasks import MOST_TEST, N_TRAIN
from benchmarks.loops import result, simulate
from benchmarks.report import DOCS, machine, markdown, run_missing
from benchmarks.surrogate_cma import SurrogateCMA, population, settings_of
from benchmarks.tasks import Task, kernel_ridge_task
from dptune.algorithms.centred import Centred
from dptune.algorithms.centred_plan import CENTRED
from dptune.algorithms.centred_thompson import CentredThompson

N = 300
TASKS = ("svc-breast-cancer", "krr-parkinsons", "krr-pumadyn32nm")
BUDGETS, TRIALS = (0.5, 1.0), (100,)
STUCK = 0.5  # test loss of a run that got stuck, where the target has variance 1; about 1 is that of its mean
FIRST_SEED = 700  # other splits than those of `make bench-private`


class CMAAlone(SurrogateCMA):
    """CMA-ES chooses its proposals without the surrogate, and is told its means."""

    candidates = 1


def centred(kind: type[Centred], task: Task, mu: float, trials: int, seed: int, **settings: object) -> Array:
    """A run's recommendation, (d,)."""
    method = replace(CENTRED, algorithm=kind)
    return result(task, simulate(method, task, mu, seed, trials=trials, final_share=0.0, **settings)).u


def cma(kind: type[Centred], task: Task, mu: float, trials: int, seed: int) -> Array:
    """A search by CMA-ES with the settings that the package had for it."""
    return centred(kind, task, mu, trials, seed, **settings_of(task.d, task.clip, trials))


def large_generations(task: Task, mu: float, trials: int, seed: int) -> Array:
    """4 + 3 log d points a generation, as CMA-ES has."""
    return centred(CentredThompson, task, mu, trials, seed, population=population(task.d))


def half_of_the_random_points(task: Task, mu: float, trials: int, seed: int) -> Array:
    """4 + 3 log d points before the surrogate proposes."""
    return centred(CentredThompson, task, mu, trials, seed, first=population(task.d))


ours = partial(centred, CentredThompson)
VARIANTS: dict[str, Callable[[Task, float, int, int], Array]] = {
    "package's": ours,
    "surrogate + CMA-ES": partial(cma, SurrogateCMA),
    "CMA-ES alone": partial(cma, CMAAlone),
    "half of the random points": half_of_the_random_points,
    "never saturated": partial(ours, saturation=None),
    "always saturated": partial(ours, saturated=1.0),
    "half unclipped": partial(ours, quantile=0.5),
    "C follows slowly": partial(ours, rate=1.0),
    "large generations": large_generations,
    "full spread": partial(ours, spread=1.0),
    "nearer": partial(ours, reach=0.15),
    "farther": partial(ours, reach=0.5),
}


@dataclass(frozen=True)
class Run:
    """One run of a variant."""

    task: str
    n: int
    mu: float
    trials: int
    variant: str
    seed: int


def make(name: str, n: int, seed: int) -> Task:
    """A task of `benchmarks.bench_private`, or a kernel ridge of `benchmarks.frontier`."""
    if name in PEOPLE:
        return make_task(name, n, seed)
    data = rows(name.removeprefix("krr-"))
    n_test = min(len(data) - N_TRAIN - n, MOST_TEST)
    return kernel_ridge_task(split_table(name, data, n=n, seed=seed, n_train=N_TRAIN, n_test=n_test))


def measure(run: Run) -> float:
    """The test loss of one run."""
    task = make(run.task, run.n, run.seed)
    return task.test_loss(VARIANTS[run.variant](task, run.mu, run.trials, run.seed))


def table(results: list[dict[str, object]], runs: list[Run]) -> str:
    """Mean test loss by cell, with the number of runs that got stuck.

    Below, each variant's loss over the package's, geometric mean, and the standard error of its logarithm.
    """
    kept = {Run(*(r[field.name] for field in fields(Run))): float(r["test_loss"]) for r in results}
    variants = list(dict.fromkeys(run.variant for run in runs))
    cells = list(dict.fromkeys((run.task, run.n, run.trials, run.mu) for run in runs))
    seeds = list(dict.fromkeys(run.seed for run in runs))
    losses = np.array([[[kept[Run(t, n, m, k, v, s)] for s in seeds] for v in variants] for t, n, k, m in cells])
    rows = [
        [task, str(n), str(trials), f"{mu:g}", *(_mean_and_stuck(of) for of in cell)]
        for (task, n, trials, mu), cell in zip(cells, losses, strict=True)
    ]
    ratios = np.log(losses / losses[:, :1]).transpose(1, 0, 2).reshape(len(variants), -1)
    errors = ratios.std(axis=1, ddof=1) / math.sqrt(ratios.shape[1])
    rows.append(["loss / package's", "", "", "", *(f"{math.exp(x):.2f}" for x in ratios.mean(axis=1))])
    rows.append(["± (of its logarithm)", "", "", "", *(f"{x:.2f}" for x in errors)])
    return markdown(["task", "n", "trials", "mu", *variants], rows)


def _mean_and_stuck(losses: Array) -> str:
    stuck = int(np.sum(losses > STUCK))
    return f"{losses.mean():.3f}" + (f" ({stuck})" if stuck else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=[*PEOPLE, "krr-fair", "krr-budget"])
    parser.add_argument("--people", type=int, default=N)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--trials", nargs="+", type=int, default=TRIALS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    variants = [v for v in VARIANTS if v in {*asked.variants, "package's"}]
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    runs = [
        Run(task, asked.people, mu, trials, variant, seed)
        for seed in seeds
        for task in asked.tasks
        for trials in asked.trials
        for mu in asked.budgets
        for variant in variants
    ]
    results = run_missing(measure, runs, jobs=asked.jobs, name="centred_variants", out=asked.out)
    print(json.dumps(machine()))
    print(table(results, runs))


if __name__ == "__main__":
    main()
