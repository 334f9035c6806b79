"""Does the search improve the mean? `python -m benchmarks.measurements.tails [--minutes 45] [--show]`

Test losses of the package as its users get it (`default=`, its own share for the final estimate), of TPE, CMA-ES,
random search and our own search on privatised values, which spend nothing on an estimate, of one exponential mechanism
over random candidates, and of the library's defaults, on the tasks of `tails.tasks`. The *best of values* is the method
on privatised values whose mean over all splits is smallest for a family, n and mu: chosen in hindsight.

`--calibration`: as many runs of the package as `--runs` says, a family, n and mu taking turns, with what it says of
its own result beside the truth about the same people.

**A simulation**: the package's run, plan and algorithm, seeded noise and a ledger in memory (`benchmarks.curator`).
Results are kept in `<out>/results/tails.jsonl` and `tails_calibration.jsonl`: what was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.frontier.methods import KEEPING, METHODS, OWN
from benchmarks.frontier.tasks import FrontierTask
from benchmarks.measurements.tails import report
from benchmarks.measurements.tails.tasks import FAMILIES, NAMES, kept, make, people
from benchmarks.report import DOCS, Stored, machine
from dptune import CENTRED, SearchRun
from dptune.search.answer import Recommendation

BUDGETS, TRIALS, SEEDS, RUNS = (0.5, 1.0), 100, 10, 400
OURS = "package"
RIVALS = ("start", "values, TPE", "values, CMA-ES", "values, random", "values, ours", "selection", KEEPING)


def recommended(
    task: FrontierTask, mu: float, trials: int, seed: int, *, rest: float | None = None, **settings: Any
) -> Recommendation:
    """What the package ends with, with its defaults; each family, n and mu has noise of its own.

    A run has ``rest`` of mu, where something else was paid before; default all.
    """
    noise = zlib.crc32(repr((task.name, task.n, mu, seed)).encode())
    curator = Curator(task.n, task.clip, seed=noise, private=True, mu=mu if rest is None else rest)
    about = {"trials": trials, "default": task.default, **settings}
    run = SearchRun(CENTRED, curator, scope="t", space=task.space.numbers, seed=seed, **about)
    for trial in range(run.plan.trials):
        parameters = run.ask()
        run.finish(str(trial), parameters, task.losses(parameters))
    found = run.recommend()
    run.estimate(found, task.losses(found), default=None if found == task.default else task.losses(task.default))
    return run.recommend()


def measure(task: FrontierTask, method: str, mu: float, trials: int, seed: int) -> dict[str, float]:
    """Test losses of a method's recommendations, by name."""
    if method == OURS:
        return {OWN: task.judge(recommended(task, mu, trials, seed))}
    return {name: task.judge(found) for name, found in METHODS[method](task, mu, trials, seed).items()}


def said(task: FrontierTask, mu: float, trials: int, seed: int) -> dict[str, Any]:
    """What the package says of its result, and the truth about the same people."""
    found = recommended(task, mu, trials, seed)
    truth = float(task.losses(task.default).mean() - task.losses(found).mean())
    if found.improvement is None:
        return {"verdict": None, "truth": truth}
    low, high = found.improvement.interval()
    return {"verdict": found.improvement.verdict, "truth": truth, "low": low, "high": high}


def comparison(seeds: int, trials: int) -> list[dict[str, Any]]:
    """The cells of the comparison, seed by seed."""
    return [
        {"task": name, "n": n, "mu": mu, "trials": trials, "method": method, "seed": seed}
        for seed in range(seeds)
        for name in NAMES
        for n in people(name)
        for mu in BUDGETS
        for method in (OURS, *RIVALS)
    ]


def calibration(runs: int, trials: int, splits: int = SEEDS) -> list[dict[str, Any]]:
    """The cells of the calibration: n and mu take turns, then splits, then noise."""
    places = {name: [(n, mu) for n in people(name) for mu in BUDGETS] for name in NAMES}
    return [
        {
            "task": name,
            "n": places[name][i % len(places[name])][0],
            "mu": places[name][i % len(places[name])][1],
            "trials": trials,
            "split": i // len(places[name]) % splits,
            "seed": 1000 + i,
        }
        for split in range(splits)
        for name in NAMES
        for i in range(runs)
        if i // len(places[name]) % splits == split
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="the first so many splits")
    parser.add_argument("--runs", type=int, default=RUNS, help="of the calibration, a family")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--calibration", action="store_true")
    parser.add_argument("--part", default="0/1", help="i/k: every k-th split, from the i-th on, in a file of its own")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after so many")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    name = "tails_calibration" if asked.calibration else "tails"
    results = Stored(f"{name}{'' if parts == 1 else f'-{part}'}", asked.out)
    keys = ("task", "n", "mu", "trials", "method", "split", "seed")
    done = {tuple(result.get(key) for key in keys) for result in results}
    cells = calibration(asked.runs, asked.trials) if asked.calibration else comparison(asked.seeds, asked.trials)
    wanted = [cell for cell in cells if tuple(cell.get(key) for key in keys) not in done]
    wanted = [cell for cell in wanted if cell.get("split", cell["seed"]) % parts == part]
    end = time.monotonic() + 60 * asked.minutes
    before = None
    for cell in tqdm([] if asked.show else wanted, smoothing=0.02):
        split = cell.get("split", cell["seed"])
        if before not in (None, (cell["task"], split)) and before[0] in FAMILIES:
            kept(*before).save()
        before = cell["task"], split
        if time.monotonic() > end:
            break
        task = make(cell["task"], cell["n"], split)
        about = task, cell["mu"], cell["trials"], cell["seed"]
        found = said(*about) if asked.calibration else {"test_loss": measure(task, cell["method"], *about[1:])}
        results.add({**cell, **found})
    print(
        json.dumps(machine()),
        *([report.calibration(results)] if asked.calibration else [report.comparison(results), report.harm(results)]),
        sep="\n\n",
    )


if __name__ == "__main__":
    main()
