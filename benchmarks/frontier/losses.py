"""What was measured, by place (task and n) and method, and the comparisons that the design fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.design import CONSTANT, EXTERNAL
from benchmarks.frontier.methods import BEST, GP, KEEPING, MODEL, OWN, SELECTION, START
from benchmarks.frontier.tasks import TASKS

Place = tuple[str, int]  # task, n
Reading = tuple[str, str]  # method, recommendation
BySplit = dict[int, float]

RESAMPLED = 2000


def readings(methods: Iterable[str]) -> list[Reading]:
    """The recommendations of these methods: searches on values have two."""
    one = (GP, SELECTION, KEEPING, START)
    return [(name, read) for name in methods for read in ((OWN,) if name in one else (BEST, MODEL))]


class Losses:
    """Test losses by cell and recommendation; comparisons are made on the splits that both sides have."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self._of: dict[tuple[Any, ...], BySplit] = {}
        for r in results:
            for read, loss in r["test_loss"].items():
                self._of.setdefault((r["task"], r["n"], r["mu"], r["method"], read), {})[r["seed"]] = loss

    def at(self, place: Place, mu: float | None, reading: Reading) -> BySplit:
        """Losses by split."""
        return self._of.get((*place, mu, *reading), {})

    def places(self, n: int, *, new: bool) -> list[Place]:
        """The new tasks with so many people, or the old ones."""
        return [(task, n) for task, kind in TASKS.items() if n in kind.people and kind.new == new]

    def best(self, place: Place, mu: float | None, methods: Iterable[str]) -> tuple[Reading, BySplit] | None:
        """The reading with the smallest mean loss, on the splits that all of them have."""
        found = {reading: of for reading in readings(methods) if (of := self.at(place, mu, reading))}
        if not found:
            return None
        both = set.intersection(*map(set, found.values()))
        reading = min(found, key=lambda of: mean(found[of], both))
        return reading, found[reading]

    def external(self, place: Place) -> BySplit:
        """The best external search without privacy."""
        found = self.best(place, None, EXTERNAL)
        return found[1] if found else {}

    def baseline(self, place: Place) -> BySplit:
        """The library's default or the constant prediction, whichever is better in the mean."""
        two = [self.at(place, None, (START, read)) for read in (OWN, CONSTANT)]
        return min(two, key=lambda of: mean(of, of.keys())) if all(two) else {}


def mean(losses: BySplit, splits: Iterable[int]) -> float:
    """Mean loss of these splits; nan of none."""
    found = [losses[split] for split in splits]
    return float(np.mean(found)) if found else math.nan


def interval(logs: dict[str, Array], seed: int = 0) -> tuple[float, float, float]:
    """exp of the mean over tasks, and of the ends of its 95% interval; nan without data.

    By a bootstrap of tasks and of splits within them. Tasks have equal weight.
    """
    if not logs:
        return math.nan, math.nan, math.nan
    rng, groups = np.random.default_rng(seed), list(logs.values())
    k = len(groups)
    means = np.stack(
        [rng.choice(group, (RESAMPLED, k, len(group))).mean(axis=2) for group in groups]
    )  # (k, RESAMPLED, k)
    chosen = rng.integers(k, size=(RESAMPLED, k))  # which task takes each place
    drawn = means[chosen, np.arange(RESAMPLED)[:, None], np.arange(k)].mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return float(np.exp(np.mean([group.mean() for group in groups]))), float(low), float(high)
