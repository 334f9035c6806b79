"""What was measured, by place (task and n) and method, and the comparisons that the design fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.design import CONSTANT, EXTERNAL, LEAST_GAIN, VALUES
from benchmarks.frontier.methods import BEST, GP, KEEPING, MODEL, OURS, OWN, SELECTION, START
from benchmarks.frontier.tasks import TASKS

Place = tuple[str, int]  # task, n
Reading = tuple[str, str]  # method, recommendation
BySplit = dict[int, float]

RESAMPLED = 2000


def readings(methods: Iterable[str]) -> list[Reading]:
    """The recommendations of these methods: searches on values have two."""
    one = (OURS, GP, SELECTION, KEEPING, START)
    return [(name, read) for name in methods for read in ((OWN,) if name in one else (BEST, MODEL))]


class Losses:
    """Test losses by cell and recommendation; comparisons are made on the splits that both sides have."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self._of: dict[tuple[Any, ...], BySplit] = {}
        for r in results:
            for read, loss in r["test_loss"].items():
                self._of.setdefault((r["task"], r["n"], r["mu"], r["method"], read), {})[r["seed"]] = loss

    def at(self, place: Place, mu: float | None, reading: Reading = (OURS, OWN)) -> BySplit:
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

    def values(self, place: Place, mu: float, methods: Iterable[str] = VALUES) -> BySplit:
        """The best of these on privatised values."""
        found = self.best(place, mu, methods)
        return found[1] if found else {}

    def baseline(self, place: Place) -> BySplit:
        """The library's default or the constant prediction, whichever is better in the mean."""
        two = [self.at(place, None, (START, read)) for read in (OWN, CONSTANT)]
        return min(two, key=lambda of: mean(of, of.keys())) if all(two) else {}

    def gain(self, place: Place) -> float:
        """What the best external search takes off the baseline, a share of it."""
        base, best = self.baseline(place), self.external(place)
        both = base.keys() & best.keys()
        return 1 - mean(best, both) / mean(base, both) if both else math.nan

    def share_kept(self, place: Place, mu: float | None, reading: Reading = (OURS, OWN)) -> float:
        """The share of the achievable improvement over the baseline kept; nan where nothing can be tuned."""
        base, best, ours = self.baseline(place), self.external(place), self.at(place, mu, reading)
        both = base.keys() & best.keys() & ours.keys()
        if not both or self.gain(place) < LEAST_GAIN:
            return math.nan
        return (mean(base, both) - mean(ours, both)) / (mean(base, both) - mean(best, both))

    def shares(self, places: Iterable[Place], mu: float, methods: Iterable[str] = (OURS,)) -> Array:
        """Shares kept where something can be tuned; of a method's two readings the one with the larger median."""
        found = [[self.share_kept(place, mu, reading) for place in places] for reading in readings(methods)]
        kept = [np.array([share for share in shares if not math.isnan(share)]) for shares in found]
        return max(kept, key=lambda shares: np.median(shares) if len(shares) else -math.inf)

    def logs(
        self, places: Iterable[Place], one: Callable[[Place], BySplit], other: Callable[[Place], BySplit]
    ) -> dict[str, Array]:
        """log(one / other) of each split, by task."""
        found = {}
        for place in places:
            ours, theirs = one(place), other(place)
            if both := sorted(ours.keys() & theirs.keys()):
                found[place[0]] = np.array([math.log(ours[seed] / theirs[seed]) for seed in both])
        return found


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
