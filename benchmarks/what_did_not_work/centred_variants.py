"""Variants of the centred search: `python -m benchmarks.what_did_not_work.centred_variants [--seeds 10]`.

Tables of docs/research/what-did-not-work.md.

Results are kept in `<out>/results/centred_variants.jsonl`; what is there is not run again.
The search without saturation and with half of the people clipped ("plain") beside variants of it, the package's own
among them, all at the same n, mu and trials, on the tasks its constants were chosen on (none of those kept aside).
Seeded simulation, see `benchmarks.loops`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Array, split_table
from benchmarks.frontier.tables import table as rows
from benchmarks.frontier.tasks import MOST_TEST, N_TRAIN, FrontierTask
from benchmarks.loops import plain, result, run_centred, run_gibo, simulate
from benchmarks.measurements.private import PEOPLE, make_task
from benchmarks.measurements.tails.tasks import NAMES
from benchmarks.measurements.tails.tasks import make as make_with_tails
from benchmarks.report import DOCS, machine, markdown, run_missing
from benchmarks.tasks import Task, kernel_ridge_task
from benchmarks.what_did_not_work.posterior_paths import Paths
from benchmarks.what_did_not_work.variants import (
    TPE,
    AsksItsAnswer,
    LearningRate,
    LongScaled,
    RawLearningRate,
    RawValues,
    Schedule,
    Tried,
    TrustRegion,
    UndoesClipping,
)
from dptune.search.algorithms.centred import Centred
from dptune.search.algorithms.centred_plan import CENTRED, default_population
from dptune.search.algorithms.centred_settings import Tuning

N = 300
TASKS = ("svc-breast-cancer", "krr-parkinsons", "krr-pumadyn32nm")
BUDGETS, TRIALS = (0.5, 1.0, 2.0), (100, 400)
STUCK = 0.5  # test loss of a run that got stuck; about 1 is that of predicting the mean
FIRST_SEED = 100  # other splits than those of `make -C benchmarks private`


def leaping(leap: float) -> type[Paths]:
    """Proposals nearer to tried points, or farther from them."""
    return type("Leaping", (Paths,), {"leap": leap})


def centred(kind: type[Centred], task: Task, mu: float, trials: int, seed: int, **settings: object) -> Array:
    """A run's recommendation, (d,), of the plain search unless told: CMA-ES's generations from the first point on."""
    method, usual = replace(CENTRED, algorithm=kind), plain(task.d, trials)
    names = {each.name for each in fields(Tuning)}
    tuning = {**usual["tuning"], **{name: settings.pop(name) for name in names & settings.keys()}}
    settings = {**usual, **settings, "tuning": {name: value for name, value in tuning.items() if value is not None}}
    return result(task, simulate(method, task, mu, seed, trials=trials, final_share=0.0, **settings)).u


def own(task: Task, mu: float, trials: int, seed: int) -> Array:
    """With all of the package's defaults."""
    return run_centred(task, mu, trials, seed, default=getattr(task, "default", None)).u


def scheduled(ratio: float, task: Task, mu: float, trials: int, seed: int) -> Array:
    """With the package's defaults, the first generation's squared price ``ratio`` times the last one's."""
    method = replace(CENTRED, algorithm=type("Scheduled", (Schedule,), {"ratio": ratio}))
    run = simulate(method, task, mu, seed, trials=trials, final_share=0.0, default=getattr(task, "default", None))
    return result(task, run).u


def large_population(times: int, task: Task, mu: float, trials: int, seed: int) -> Array:
    """``times`` fewer generations."""
    return centred(Centred, task, mu, trials, seed, population=times * default_population(task.d, trials))


def then_gibo(task: Task, mu: float, trials: int, seed: int) -> Array:
    """Half of trials and budget for centred CMA-ES, the other half for DP-GIBO from there: a global start."""
    start = centred(Centred, task, mu / math.sqrt(2), trials // 2, seed)
    return run_gibo(task, mu / math.sqrt(2), trials // 2, seed, theta0=tuple(start.tolist()), starts=0).u


LESS_CLIPPED: dict[str, Any] = {"saturated": 0.6, "quantile": None}  # None: the package's default
PLAIN = "plain"  # what the others are variants of
VARIANTS: dict[str, Callable[[Task, float, int, int], Array]] = {
    PLAIN: partial(centred, Centred),
    "raw values": partial(centred, RawValues),
    "no surrogate": partial(centred, RawValues, candidates=1),
    "trust-region BO": partial(centred, TrustRegion),
    "TPE": partial(centred, TPE),
    "then DP-GIBO": then_gibo,
    "early budget": partial(centred, Schedule),
    "2 lambda": partial(large_population, 2),
    "4 lambda": partial(large_population, 4),
    "learning rate": partial(centred, LearningRate),
    "learning rate, raw": partial(centred, RawLearningRate),
    "asks its answer": partial(centred, AsksItsAnswer),
    "tried points": partial(centred, Tried),
    "long scales": partial(centred, LongScaled),
    "undoes clipping": partial(centred, UndoesClipping),
    "C follows faster": partial(centred, Centred, rate=2.0),
    "saturated": partial(centred, Centred, saturated=1.0),
    "saturated at first": partial(centred, Centred, saturated=0.15),
    "saturated for longer": partial(centred, Centred, saturated=0.6),
    "less clipped": partial(centred, Centred, **LESS_CLIPPED),
    "small generations": partial(centred, Centred, **LESS_CLIPPED, population=None),
    "explores first": partial(centred, Centred, **LESS_CLIPPED, explored=None),
    "both": partial(centred, Centred, **LESS_CLIPPED, population=None, explored=None),
    "package's": own,
    "package's, early budget": partial(scheduled, 4.0),
    "package's, late budget": partial(scheduled, 1 / 4),
    "package's, very late budget": partial(scheduled, 1 / 16),
    "4 paths": partial(centred, Paths, population=4),
    "6 paths": partial(centred, Paths, population=6),
    "8 paths": partial(centred, Paths, population=8),
    "4 wide paths": partial(centred, Paths, population=4, spread=1.0),
    "4 near paths": partial(centred, leaping(0.15), population=4),
    "4 far paths": partial(centred, leaping(0.5), population=4),
}

USUAL = tuple(VARIANTS)[: list(VARIANTS).index("asks its answer")]  # the later ones where they are asked for


@dataclass(frozen=True)
class Run:
    """One run of a variant."""

    task: str
    n: int
    mu: float
    trials: int
    variant: str
    seed: int


class Cube:
    """One of `benchmarks.measurements.tails.tasks` on the unit cube, with its default."""

    def __init__(self, task: FrontierTask) -> None:
        self._task, self.d, self.n, self.clip, self.name = task, task.space.d, task.n, task.clip, task.name
        self.default = {f"u{j}": float(u) for j, u in enumerate(task.space.encode(task.start))}

    def losses(self, u: Array) -> Array:
        """Clipped losses (n,)."""
        return self._task.losses(self._task.space.decode(u))

    def test_loss(self, u: Array) -> float:
        """The judge's."""
        return self._task.judge(self._task.space.decode(u))


def make(name: str, n: int, seed: int) -> Task | Cube:
    """A task of `measurements.private` or `measurements.tails`, or a kernel ridge of `benchmarks.frontier`."""
    if name in PEOPLE:
        return make_task(name, n, seed)
    if name in NAMES:
        return Cube(make_with_tails(name, n, seed))
    data = rows(name.removeprefix("krr-"))
    n_test = min(len(data) - N_TRAIN - n, MOST_TEST)
    return kernel_ridge_task(split_table(name, data, n=n, seed=seed, n_train=N_TRAIN, n_test=n_test))


def measure(run: Run) -> float:
    """The test loss of one run."""
    task = make(run.task, run.n, run.seed)
    return task.test_loss(VARIANTS[run.variant](task, run.mu, run.trials, run.seed))


def table(results: list[dict[str, object]], runs: list[Run], over: str = PLAIN) -> str:
    """Mean test loss by cell, with the number of runs that got stuck.

    Below, each variant's loss over that of one of them, geometric mean, and the standard error of its logarithm.
    """
    kept = {Run(*(r[field.name] for field in fields(Run))): float(r["test_loss"]) for r in results}
    variants = list(dict.fromkeys(run.variant for run in runs))
    cells = list(dict.fromkeys((run.task, run.n, run.trials, run.mu) for run in runs))
    seeds = list(dict.fromkeys(run.seed for run in runs))
    losses = np.array([[[kept[Run(t, n, m, k, v, s)] for s in seeds] for v in variants] for t, n, k, m in cells])
    rows = [
        [task, str(trials), f"{mu:g}", *(_mean_and_stuck(of) for of in cell)]
        for (task, _, trials, mu), cell in zip(cells, losses, strict=True)
    ]
    base = losses[:, [variants.index(over)]]
    ratios = np.log(losses / base).transpose(1, 0, 2).reshape(len(variants), -1)
    errors = ratios.std(axis=1, ddof=1) / math.sqrt(ratios.shape[1])
    rows.append([f"loss / {over}", "", "", *(f"{math.exp(x):.2f}" for x in ratios.mean(axis=1))])
    rows.append(["± (of its logarithm)", "", "", *(f"{x:.2f}" for x in errors)])
    return markdown(["task", "trials", "mu", *variants], rows)


def _mean_and_stuck(losses: Array) -> str:
    stuck = int(np.sum(losses > STUCK))
    return f"{losses.mean():.3f}" + (f" ({stuck})" if stuck else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=[*PEOPLE, "krr-fair", "krr-budget", *NAMES])
    parser.add_argument("--people", type=int, default=N)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--trials", nargs="+", type=int, default=TRIALS)
    parser.add_argument("--variants", nargs="+", default=USUAL, choices=list(VARIANTS))
    parser.add_argument("--over", default=PLAIN, choices=list(VARIANTS), help="what they are compared with")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    variants = [v for v in VARIANTS if v in {*asked.variants, asked.over}]
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
    print(table(results, runs, asked.over))


if __name__ == "__main__":
    main()
