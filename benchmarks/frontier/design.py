"""Which runs the comparison consists of and how it is read: fixed before any of them was made.

**Primary outcome**: the test loss of the centred search, as its users get it (`default=`, its own share for the final
estimate; 100 trials; the clip of the task), over the test loss of the *best external search without privacy*: Optuna's
TPE and CMA-ES and BoTorch's Gaussian process on exact values, the one with the smallest mean for a task and n, chosen
in hindsight. Ratios are paired by split, the mean of logarithms over tasks of equal weight, 95% by a bootstrap of tasks
and of splits within them. Our own search without noise stands apart.

**Share kept**: (baseline - ours) / (baseline - best external), of mean losses over splits. The *baseline* is the
library's default or the constant prediction, whichever has the smaller mean test loss. A task in which the best
external search gains less than 3% over the baseline is listed apart, as one with nothing to tune, and has no share.

**Rivals on privatised values**, each value with noise R sqrt(trials) / (n mu): BoTorch's Gaussian process, which is
told that noise, TPE, CMA-ES, random search, read as the best value and as the smallest mean of a model; and one
selection by the exponential mechanism among random candidates. The best of the first four, in hindsight, is the
*best of values*.

Every search begins with the default. The order of cells is that of importance, then split by split:

1. new tasks, without privacy and mu = 1 and .5; 12 splits;
2. new tasks, mu = .25 and 2: the centred search and TPE on 12 splits, the Gaussian process on the first 4;
3. the tasks of the earlier comparison: limits without privacy, the centred search and TPE at mu = 1 and .5, split by
   split;
4. new tasks, mu = 1 and .5: one choice that keeps the default (`dptune.select`). **Added later**, when the
   search's results were known: no part of the outcome.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.frontier.methods import (
    CMA,
    GP,
    KEEPING,
    METHODS,
    NUMERIC,
    OURS,
    OWN,
    RANDOM,
    SELECTION,
    START,
    TPE,
)
from benchmarks.frontier.tasks import NEW, OLD, TASKS, make

SPLITS, FEW, TRIALS = 12, 4, 100
CONSTANT = "constant"  # a second reading of "start"
EXTERNAL = (TPE, CMA, GP)  # without privacy: limits
VALUES = (GP, TPE, CMA, RANDOM)
LEAST_GAIN = 0.03


@dataclass(frozen=True)
class Cell:
    """One run; mu None is without privacy."""

    task: str
    n: int
    mu: float | None
    method: str
    seed: int


def in_order(splits: int = SPLITS) -> Iterator[Cell]:
    """The cells, most important first."""
    yield from _cells(list(NEW), splits, {None: (START, *EXTERNAL, OURS), 1.0: _PRIVATE, 0.5: _PRIVATE})
    yield from _cells(list(NEW), splits, {0.25: (OURS, TPE), 2.0: (OURS, TPE)})
    yield from _cells(list(NEW), FEW, {0.25: (GP,), 2.0: (GP,)})
    yield from _cells(list(OLD), splits, {None: (START, *EXTERNAL, OURS), 1.0: (OURS, TPE), 0.5: (OURS, TPE)})
    yield from _cells(list(NEW), splits, {1.0: (KEEPING,), 0.5: (KEEPING,)})


_PRIVATE = (OURS, *VALUES, SELECTION)


def _cells(tasks: list[str], splits: int, wanted: dict[float | None, tuple[str, ...]]) -> Iterator[Cell]:
    for seed in range(splits):
        for task in tasks:
            for n in TASKS[task].people:
                for mu, methods in wanted.items():
                    for method in methods:
                        if method not in NUMERIC or TASKS[task].d is not None:
                            yield Cell(task, n, mu, method, seed)


def measure(cell: Cell) -> dict[str, float]:
    """The test losses of a cell's recommendations, by name; of no tuning also that of the constant prediction."""
    task = make(cell.task, cell.n, cell.seed)
    if cell.method == START:
        return {OWN: task.judge(task.start), CONSTANT: task.constant}
    found = METHODS[cell.method](task, cell.mu, TRIALS, noise_of(cell))
    return {name: task.judge(parameters) for name, parameters in found.items()}


def noise_of(cell: Cell) -> int:
    """The seed of a cell's noise: each place has noise of its own."""
    return zlib.crc32(repr((cell.task, cell.n, cell.mu, cell.seed)).encode())
