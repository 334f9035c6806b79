"""Which runs the comparison consists of: limits without privacy, and rivals on privatised values.

**Without privacy**: Optuna's TPE and CMA-ES and BoTorch's Gaussian process on exact values, the one with the smallest
mean for a task and n, chosen in hindsight: the *best external search*.

**Rivals on privatised values**, each value with noise R sqrt(trials) / (n mu): BoTorch's Gaussian process, which is
told that noise, TPE, CMA-ES, random search, read as the best value and as the smallest mean of a model; and one
selection by the exponential mechanism among random candidates, which may keep the default.

Every search begins with the default. The cells are split by split, new tasks first.
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
    yield from _cells(list(NEW), splits, {None: (START, *EXTERNAL), 1.0: _PRIVATE, 0.5: _PRIVATE})
    yield from _cells(list(NEW), splits, {0.25: (TPE,), 2.0: (TPE,)})
    yield from _cells(list(NEW), FEW, {0.25: (GP,), 2.0: (GP,)})
    yield from _cells(list(OLD), splits, {None: (START, *EXTERNAL), 1.0: (TPE,), 0.5: (TPE,)})
    yield from _cells(list(NEW), splits, {1.0: (KEEPING,), 0.5: (KEEPING,)})


_PRIVATE = (*VALUES, SELECTION)


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
