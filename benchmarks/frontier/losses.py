"""What was measured, by cell, and the comparisons that were fixed beforehand.

**Primary outcome**: the logarithm of a private search's test loss over the frontier's, paired by split, data sets of
equal weight, 95% by a bootstrap of data sets and of splits within them. The *frontier* of a task, n and number of
trials is the limit without privacy whose mean test loss is smallest there, chosen in hindsight.

**Share kept**: (start - ours) / (start - frontier) of a data set's mean losses; only where the frontier improves on the
start by more than two standard errors, as a ratio with a denominator near zero says nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.design import TRIALS
from benchmarks.frontier.methods import BEST, LIMITS, METHODS, MODEL, OURS, OWN, PATHS_VALUES
from benchmarks.frontier.tasks import TASKS

Place = tuple[str, int, int]  # task, n, trials
Reading = tuple[str, str]  # method, recommendation

RESAMPLED = 2000
FEWEST = 3  # splits on which the best of several is told: fewer are noise


def readings(methods: Collection[str]) -> tuple[Reading, ...]:
    """The recommendations of these methods."""
    own = ("values, ours", PATHS_VALUES)  # and the same with a followed clip
    two = [name for name in methods if name.startswith("values, ") and not name.startswith(own)]
    return tuple((name, read) for name in methods for read in ((BEST, MODEL) if name in two else (OWN,)))


VALUES = readings([name for name in METHODS if name.startswith("values, ")])


class Losses:
    """Test losses by cell and recommendation; comparisons are made on the splits that both sides have."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self.results = results
        self.first = 0  # split that comparisons begin with; bests are chosen on all
        self._of: dict[tuple[Any, ...], dict[int, float]] = {}
        for r in results:
            for read, loss in r["test_loss"].items():
                key = (r["task"], r["n"], r["trials"], r["mu"], r["clip"], r["method"], read)
                self._of.setdefault(key, {})[r["seed"]] = loss

    def since(self, split: int) -> Losses:
        """The same, compared on later splits only."""
        later = copy.copy(self)
        later.first = split
        return later

    def at(self, place: Place, mu: float | None, reading: Reading, clip: float = 1.0) -> dict[int, float]:
        """Losses by split."""
        return self._of.get((*place, mu, clip, *reading), {})

    def places(self, n: int, trials: int = TRIALS) -> list[Place]:
        """The tasks with so many people."""
        return [(task, n, trials) for task, kind in TASKS.items() if n in kind.people]

    def best(self, place: Place, mu: float | None, among: Iterable[Reading]) -> Reading | None:
        """The reading with the smallest mean loss; one with fewer splits is compared on these, if enough."""
        found = sorted(
            ((reading, of) for reading in among if (of := self.at(place, mu, reading))), key=lambda pair: -len(pair[1])
        )
        if not found:
            return None
        best, losses = found[0]
        for reading, of in found[1:]:
            both = of.keys() & losses.keys()
            if len(both) >= FEWEST and sum(of[seed] for seed in both) < sum(losses[seed] for seed in both):
                best, losses = reading, of
        return best

    def frontier(self, place: Place) -> Reading | None:
        """The best limit without privacy."""
        return self.best(place, None, readings(LIMITS))

    def logs(
        self,
        n: int,
        one: Callable[[Place], dict[int, float]],
        other: Callable[[Place], dict[int, float]],
        trials: int = TRIALS,
    ) -> dict[str, Array]:
        """log(one / other) by data set, over its tasks' splits."""
        found: dict[str, list[float]] = {}
        for place in self.places(n, trials):
            ours, theirs = one(place), other(place)
            both = sorted(seed for seed in ours.keys() & theirs.keys() if seed >= self.first)
            found.setdefault(TASKS[place[0]].data, []).extend(math.log(ours[seed] / theirs[seed]) for seed in both)
        return {data: np.array(logs) for data, logs in found.items() if logs}

    def over_frontier(
        self, n: int, mu: float | None, reading: Reading, clip: float = 1.0, trials: int = TRIALS
    ) -> dict[str, Array]:
        """The primary outcome of a reading."""
        return self.logs(n, lambda p: self.at(p, mu, reading, clip), self.at_frontier, trials)

    def over_values(self, n: int, mu: float, reading: Reading) -> dict[str, Array]:
        """A reading over the best on privatised values."""
        return self.logs(n, lambda p: self.at(p, mu, reading), lambda p: self.at_best_of_values(p, mu))

    def at_frontier(self, place: Place) -> dict[int, float]:
        """The frontier's losses by split."""
        best = self.frontier(place)
        return {} if best is None else self.at(place, None, best)

    def at_best_of_values(self, place: Place, mu: float) -> dict[int, float]:
        """Those of the best method on privatised values, chosen in hindsight."""
        best = self.best(place, mu, VALUES)
        return {} if best is None else self.at(place, mu, best)

    def shares_kept(self, n: int, mu: float, reading: Reading = (OURS, OWN), trials: int = TRIALS) -> dict[str, float]:
        """The share of the achievable improvement kept, by task, where there is any."""
        kept = {}
        for place in self.places(n, trials):
            start, best, ours = (
                found for found in (self._start(place), self.at_frontier(place), self.at(place, mu, reading))
            )
            seeds = sorted(start.keys() & best.keys() & ours.keys())
            gains = np.array([start[seed] - best[seed] for seed in seeds])
            if len(seeds) > 1 and gains.mean() > 2 * gains.std(ddof=1) / math.sqrt(len(seeds)):
                kept[place[0]] = float(np.mean([start[seed] - ours[seed] for seed in seeds]) / gains.mean())
        return kept

    def _start(self, place: Place) -> dict[int, float]:
        return self.at((place[0], place[1], TRIALS), 1.0, ("start", OWN))


def interval(logs: dict[str, Array], seed: int = 0) -> tuple[float, float, float]:
    """exp of the mean over data sets, and of the ends of its 95% interval; nan without data."""
    if not logs:
        return math.nan, math.nan, math.nan
    rng, groups = np.random.default_rng(seed), list(logs.values())
    k = len(groups)
    means = np.stack(
        [rng.choice(group, (RESAMPLED, k, len(group))).mean(axis=2) for group in groups]
    )  # (k, RESAMPLED, k)
    chosen = rng.integers(k, size=(RESAMPLED, k))  # which data set takes each place
    drawn = means[chosen, np.arange(RESAMPLED)[:, None], np.arange(k)].mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return float(np.exp(np.mean([group.mean() for group in groups]))), float(low), float(high)
