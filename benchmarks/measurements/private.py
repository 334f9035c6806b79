"""Which tuner at equal privacy: `python -m benchmarks.measurements.private [--seeds 10] [--methods ...] [--out docs]`.

Tasks x people x mu x trials x seeds, each under the centred search, DP-GIBO, and privatised values with
Random, TPE and CMA-ES; and CMA-ES without privacy. Results are kept in `<out>/results/private.jsonl` line by line, and
a run that was stopped goes on from there. Prints the tables of
docs/research/measurements.md and draws docs/figures/private.png.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.data import load_split
from benchmarks.digits_tasks import elastic_net_task, gradient_boosting_task
from benchmarks.loops import SAMPLERS, run
from benchmarks.report import DOCS, drawing, machine, markdown, run_missing, save
from benchmarks.small_tasks import breast_cancer_task
from benchmarks.tasks import Task, kernel_ridge_task, svr_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "centred"
VALUES = "CMA-ES"
METHODS = (VALUES, OURS, *(sampler for sampler in SAMPLERS if sampler != VALUES), "DP-GIBO")
BUDGETS = (0.5, 1.0, 2.0)
TRIALS = (100, 400)
PEOPLE = {
    "krr-parkinsons": (300, 1000, 4000),
    "krr-pumadyn32nm": (300, 1000, 4000),
    "svr-parkinsons": (300, 1000, 4000),
    "svr-pumadyn32nm": (300, 1000, 4000),
    "svc-breast-cancer": (300,),
    "gbm-digits": (300, 1000),
    "elastic-digits": (300, 1000),
}
DATA = {task: task.split("-", 1)[1] for task in PEOPLE}  # several tasks are of one data set


@dataclass(frozen=True)
class Cell:
    """One run; mu None is without privacy."""

    task: str
    n: int
    trials: int
    mu: float | None
    method: str
    seed: int


def cells(seeds: int, methods: tuple[str, ...] = METHODS) -> Iterator[Cell]:
    """Every combination, seed by seed."""
    for seed in range(seeds):
        for task, people in PEOPLE.items():
            for n in people:
                for trials in TRIALS:
                    if VALUES in methods:
                        yield Cell(task, n, trials, None, VALUES, seed)
                    yield from (Cell(task, n, trials, mu, method, seed) for mu in BUDGETS for method in methods)


@lru_cache(4)
def make_task(name: str, n: int, seed: int) -> Task:
    """A task on one public split; kernel machines train on 300 rows."""
    if name == "svc-breast-cancer":
        return breast_cancer_task(n=n, seed=seed)
    if name == "gbm-digits":
        return gradient_boosting_task(n=n, seed=seed)
    if name == "elastic-digits":
        return elastic_net_task(n=n, seed=seed)
    kind, data = name.split("-")
    split = load_split(data, n=n, seed=seed, n_train=300, n_test=1000)
    return kernel_ridge_task(split) if kind == "krr" else svr_task(split)


def measure(cell: Cell) -> float:
    """The test loss of one cell."""
    return run(make_task(cell.task, cell.n, cell.seed), cell.method, cell.mu, cell.trials, cell.seed).test_loss


def _key(result: dict[str, object]) -> tuple[object, ...]:
    return tuple(result[name] for name in ("task", "n", "trials", "mu", "method", "seed"))


# ---- tables --------------------------------------------------------------------------------------------------


class Losses:
    """Test losses by cell; every comparison is made on the seeds that both sides have."""

    def __init__(self, results: list[dict[str, object]]) -> None:
        self._of = {_key(result): float(result["test_loss"]) for result in results}
        self.seeds = sorted({int(result["seed"]) for result in results})

    def of(self, task: str, n: int, trials: int, mu: float | None, methods: tuple[str, ...]) -> np.ndarray:
        """Losses (methods, seeds) of the seeds all the methods have; "none" is CMA-ES without privacy."""
        keys = [[self._place(task, n, trials, mu, m, seed) for m in methods] for seed in self.seeds]
        return np.array([[self._of[k] for k in row] for row in keys if all(k in self._of for k in row)]).T

    @staticmethod
    def _place(task: str, n: int, trials: int, mu: float | None, method: str, seed: int) -> tuple[object, ...]:
        none = method == "none"
        return (task, n, trials, None if none else mu, VALUES if none else method, seed)


def table(results: list[dict[str, object]]) -> str:
    """Mean test loss ± standard error of each cell, the best private one bold."""
    losses, rows = Losses(results), []
    for task, n, trials, mu in _places():
        found = {m: losses.of(task, n, trials, mu, (m,)) for m in (*METHODS, "none")}
        if not (seeds := losses.of(task, n, trials, mu, (VALUES, OURS, "none"))).size:
            continue
        best = min(L.mean() for m, L in found.items() if L.size and m != "none")
        shown = [_shown(L[0], bold=m != "none" and L.mean() == best) if L.size else "" for m, L in found.items()]
        rows.append([task, str(n), str(trials), f"{mu:g}", *shown, str(seeds.shape[1])])
    heads = ["task", "n", "trials", "mu", *METHODS, "CMA-ES, no privacy", "seeds"]
    return markdown(heads, rows)


def summary(results: list[dict[str, object]]) -> str:
    """The cells where ours is not the best private one."""
    losses, worse = Losses(results), []
    for place in _places():
        for other in METHODS:
            both = losses.of(*place, (OURS, other))
            if other == OURS or not both.size or both.shape[1] < 2:
                continue
            difference = both[0] - both[1]
            error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
            if difference.mean() > 0:
                significant = "yes" if difference.mean() > 2 * error else "no"
                worse.append([*map(str, place), other, f"{difference.mean():.4f} ± {error:.4f}", significant])
    return markdown(["task", "n", "trials", "mu", "better than ours", "by", "more than 2 errors"], worse)


def headline(results: list[dict[str, object]]) -> str:
    """Geometric mean of ours over two others' mean test loss, data sets of equal weight, with a jackknife over seeds.

    "best of values" is in each cell whichever of the samplers on privatised values has the smallest mean there, chosen
    in hindsight: nobody has it, and nobody can say that the wrong peer was picked.
    """
    losses = Losses(results)
    peers = tuple(m for m in METHODS if m not in (OURS, "DP-GIBO"))

    def ratios(kept: slice | np.ndarray, n: tuple[int, ...]) -> np.ndarray:
        logs: dict[str, list[list[float]]] = {}
        for place in _places():
            found = losses.of(*place, (OURS, "none", *peers))
            if found.shape[1:] == (len(losses.seeds),) and place[1] in n:
                ours, none, *values = found[:, kept].mean(axis=1)
                logs.setdefault(DATA[place[0]], []).append([np.log(ours / min(values)), np.log(ours / none)])
        return np.mean([np.mean(rows, axis=0) for rows in logs.values()], axis=0)

    seeds, rows = len(losses.seeds), []
    for name, n in {"all cells": (300, 1000, 4000), "n = 300": (300,)}.items():
        left_out = np.array([ratios(np.delete(np.arange(seeds), i), n) for i in range(seeds)])
        errors = np.sqrt((seeds - 1) / seeds * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
        means = np.exp(ratios(slice(None), n))
        rows.append([name, *(f"{mean:.2f} ± {mean * error:.2f}" for mean, error in zip(means, errors, strict=True))])
    return markdown(["test loss of the centred search over", "best of values", "CMA-ES without privacy"], rows)


def centres(seeds: int) -> str:
    """Mean test loss ± standard error at the centre of the box, where the searches start."""
    tasks = {name: [make_task(name, min(people), seed) for seed in range(seeds)] for name, people in PEOPLE.items()}
    rows = [
        [name, str(of[0].d), _shown(np.array([task.test_loss(np.full(task.d, 0.5)) for task in of]), bold=False)]
        for name, of in tasks.items()
    ]
    return markdown(["task", "d", "test loss at the centre"], rows)


def _places() -> Iterator[tuple[str, int, int, float]]:
    for task, people in PEOPLE.items():
        yield from ((task, n, trials, mu) for n in people for trials in TRIALS for mu in BUDGETS)


def _shown(losses: np.ndarray, *, bold: bool) -> str:
    error = losses.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else float("nan")
    text = f"{losses.mean():.3f} ± {error:.3f}"
    return f"**{text}**" if bold else text


def figure(results: list[dict[str, object]], out: Path) -> Path:
    """Mean test loss of every private method in every cell, divided by that of CMA-ES without privacy."""
    path = out / "figures" / "private.png"
    with drawing(path, 11, 6.5) as canvas:
        _draw(Losses(results), canvas)
    return path


MARKERS = "svD^<>pX*Ph"  # so that methods differ without colour, too


def _draw(losses: Losses, canvas: Figure) -> None:
    panels = canvas.subplots(len(TRIALS), 1, sharex=True)
    cells_of = [(task, n, mu) for task, people in PEOPLE.items() for n in people for mu in BUDGETS]
    firsts = [next(i for i, cell in enumerate(cells_of) if cell[0] == task) for task in PEOPLE]
    for trials, axes in zip(TRIALS, panels, strict=True):
        for j, method in enumerate(METHODS):
            pairs = [losses.of(task, n, trials, mu, (method, "none")) for task, n, mu in cells_of]
            shown = [(i, pair[0].mean() / pair[1].mean()) for i, pair in enumerate(pairs) if pair.size]
            style = (
                {"color": "black", "ms": 5, "zorder": 3, "marker": "o"}
                if method == OURS
                else {"color": f"C{j}", "ms": 4, "alpha": 0.8, "marker": MARKERS[j]}
            )
            if shown:
                axes.plot(
                    *zip(*shown, strict=True),
                    ls="",
                    label=method if method in (OURS, "DP-GIBO") else f"values, {method}",
                    **style,
                )
        for first in firsts[1:]:
            axes.axvline(first - 0.5, color="0.8", lw=0.8)
        axes.axhline(1.0, color="0.6", lw=0.8)
        axes.set_yscale("log", subs=(2, 5))
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which("{x:g}")
        axes.set(ylabel="test loss / that without privacy", title=f"{trials} trials")
    ends = [*firsts[1:], len(cells_of)]
    panels[-1].set_xticks(
        [(a + b - 1) / 2 for a, b in zip(firsts, ends, strict=True)],
        [task.replace("-", "\n", 1) for task in PEOPLE],
        fontsize="small",
    )
    panels[-1].set_xlabel("in each task: n = 300, 1000, 4000 where available, and mu = 0.5, 1, 2 within n")
    canvas.legend(
        *panels[0].get_legend_handles_labels(), fontsize="small", loc="outside upper center", ncols=len(METHODS)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="+", choices=list(PEOPLE), default=list(PEOPLE))
    parser.add_argument("--people", nargs="+", type=int, choices=(300, 1000, 4000), default=[300, 1000, 4000])
    parser.add_argument("--show", action="store_true", help="print the tables of what is there, and run nothing")
    parser.add_argument("--centres", action="store_true", help="print the test losses where searches start, only")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    if asked.centres:
        print(centres(asked.seeds))
        return
    every = () if asked.show else cells(asked.seeds, tuple(asked.methods))
    wanted = [cell for cell in every if cell.task in asked.tasks and cell.n in asked.people]
    results = run_missing(measure, wanted, jobs=asked.jobs, name="private", out=asked.out)
    if not asked.show:
        save("private", {"seeds": asked.seeds, "runs": len(results)}, asked.out)
    print(json.dumps(machine()))
    print(headline(results), table(results), summary(results), sep="\n\n")
    figure(results, asked.out)


if __name__ == "__main__":
    main()
