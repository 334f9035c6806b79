"""DP-GIBO against privatised values at equal mu and equal trial counts, and all of them without privacy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.data import TABLES, load_split
from benchmarks.loops import SAMPLERS, run
from benchmarks.report import in_parallel, markdown, mean_and_error
from benchmarks.tasks import Task, kernel_ridge_task, svr_task

METHODS = ("DP-GIBO", *SAMPLERS)
BUDGETS = (0.5, 1.0, 2.0, None)  # None: without privacy
PEOPLE = (300, 1000, 4000)
TRIALS = 200


@dataclass(frozen=True)
class Cell:
    """One run; ``test_loss`` is its outcome."""

    machine: str
    data: str
    n: int
    method: str
    mu: float | None
    seed: int
    trials: int = TRIALS


def cells(seeds: int, machines: tuple[str, ...] = ("krr", "svr"), trials: int = TRIALS) -> list[Cell]:
    """Every combination, seed by seed: a run stopped early has complete tables for the first seeds."""
    return [
        Cell(machine, data, n, method, mu, seed, trials)
        for seed in range(seeds)
        for machine in machines
        for data in TABLES
        for n in PEOPLE
        for method in METHODS
        for mu in BUDGETS
    ]


@lru_cache(8)
def make_task(machine: str, data: str, n: int, seed: int) -> Task:
    """Kernel ridge or SVR on one public split."""
    split = load_split(data, n=n, seed=seed)
    return kernel_ridge_task(split) if machine == "krr" else svr_task(split)


def outcome(cell: Cell) -> dict[str, object]:
    """Run one cell."""
    task = make_task(cell.machine, cell.data, cell.n, cell.seed)
    result = run(task, cell.method, cell.mu, cell.trials, cell.seed)
    return {**asdict(cell), "test_loss": result.test_loss, "used": result.trials}


def table(results: list[dict[str, object]]) -> str:
    """Test loss, mean ± standard error; the best private mean of a row is bold, and so is the best without privacy."""
    kept: dict[tuple[object, ...], list[float]] = {}
    for r in results:
        key = (r["machine"], r["data"], r["n"], r["mu"], r["method"])
        kept.setdefault(key, []).append(float(r["test_loss"]))
    rows = []
    for group in dict.fromkeys(key[:4] for key in sorted(kept, key=_order)):
        columns = [kept.get((*group, method), []) for method in METHODS]
        best = min(sum(c) / len(c) for c in columns if c)
        shown = [mean_and_error(c) if c else "" for c in columns]
        shown = [f"**{s}**" if c and sum(c) / len(c) == best else s for s, c in zip(shown, columns, strict=True)]
        mu = "no privacy" if group[3] is None else f"{group[3]:g}"
        rows.append([f"{group[0]}-{group[1]}", str(group[2]), mu, *shown])
    return markdown(["task", "n", "mu", *METHODS], rows)


def _order(key: tuple[object, ...]) -> tuple[object, ...]:
    return (key[0], key[1], key[2], float("inf") if key[3] is None else key[3])


def main(seeds: int, jobs: int, out: Path, trials: int = TRIALS) -> str:
    """Run all cells; return the table."""
    name = "gibo_equal_mu" if trials == TRIALS else f"gibo_equal_mu_{trials}"
    return table(in_parallel(outcome, cells(seeds, trials=trials), jobs=jobs, name=name, out=out))
