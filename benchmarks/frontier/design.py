"""Which runs the comparison consists of, in the order in which they are made: fixed before any was.

A *cell* is one method on one split (a seed) of one task. The order is that of importance, then seed by seed, so that a
file that was stopped holds whole seeds of what matters most:

1. main: n = 300 and 1000, mu = 1, 100 trials, every method, and the limits without privacy;
2. mu = .5 with these n;
3. clip: .3 and .1 of the loss's range, n = 300, mu = 1, the methods that a tighter clip helps;
4. trials: 50 and 400 beside 100;
5. size: mu = .25 and 2, n = 4000;
6. GP limit: Optuna's sampler by Gaussian processes without privacy, up to a minute a run;
7. GP: the same on values;
8. HEBO limit: HEBO without privacy, minutes a run; added when all others had begun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from benchmarks.frontier.methods import LIMITS, METHODS, NUMBERS_ONLY, OURS
from benchmarks.frontier.tasks import TASKS, make

SEEDS = 20
TRIALS = 100
HEBO_LIMIT = "HEBO limit"
GP, HEBO = SLOW = ("values, GP", "values, HEBO")
PRIVATE, PUBLIC = (tuple(name for name in names if name not in SLOW) for names in (METHODS, LIMITS))
CLIPPED = (OURS, "values, ours", "values, TPE")


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        mu: GDP budget; None: without privacy.
        clip: upper end of a loss, in units of the task's own range.
    """

    task: str
    n: int
    trials: int
    mu: float | None
    clip: float
    method: str
    seed: int


def blocks(seeds: int = SEEDS) -> dict[str, list[Cell]]:
    """The cells by block, each block seed by seed."""
    usual = (300, 1000)
    return {
        "main": [*_cells(seeds, usual, (1.0,), PRIVATE), *_cells(seeds, usual, (None,), PUBLIC)],
        "mu = .5": _cells(seeds, usual, (0.5,), PRIVATE),
        "clip": [cell for clip in (0.3, 0.1) for cell in _cells(seeds, (300,), (1.0,), CLIPPED, clip=clip)],
        "trials": [
            cell
            for trials in (50, 400)
            for mu in (None, 1.0, 0.5)
            for cell in _cells(seeds, usual, (mu,), PUBLIC if mu is None else (OURS, "values, TPE"), trials=trials)
        ],
        "size": [
            *_cells(seeds, usual, (0.25, 2.0), PRIVATE),
            *_cells(seeds, (4000,), (0.25, 0.5, 1.0, 2.0), PRIVATE),
            *_cells(seeds, (4000,), (None,), PUBLIC),
        ],
        "GP limit": _cells(seeds, usual, (None,), (GP,)),
        "GP": _cells(seeds, usual, (1.0, 0.5), (GP,)),
        HEBO_LIMIT: _cells(seeds, usual, (None,), (HEBO,)),
    }


def in_order(seeds: int = SEEDS, chosen: Collection[str] = ()) -> Iterator[Cell]:
    """The cells of the chosen blocks, or of all: block by block, and within one all tasks of a seed before the next."""
    for cells in (cells for name, cells in blocks(seeds).items() if not chosen or name in chosen):
        yield from sorted(cells, key=lambda cell: (cell.seed, cell.n, list(TASKS).index(cell.task)))


def measure(cell: Cell) -> dict[str, float]:
    """The test losses of a cell's recommendations, by name."""
    task = make(cell.task, cell.n, cell.seed)
    low, high = task.clip
    tight = replace(task, clip=(low, low + cell.clip * (high - low)))  # what was trained is known to both
    found = METHODS[cell.method](tight, cell.mu, cell.trials, cell.seed)
    return {name: task.judge(parameters) for name, parameters in found.items()}


def _cells(
    seeds: int,
    people: tuple[int, ...],
    budgets: tuple[float | None, ...],
    methods: tuple[str, ...],
    *,
    trials: int = TRIALS,
    clip: float = 1.0,
) -> list[Cell]:
    return [
        Cell(name, n, trials, mu, clip, method, seed)
        for seed in range(seeds)
        for name, kind in TASKS.items()
        for n in people
        if n in kind.people
        for mu in budgets
        for method in methods
        if kind.numbers or method not in NUMBERS_ONLY
    ]
