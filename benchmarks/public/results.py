"""The stored results of the benchmark: losses by task, split and way to choose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.frontier.losses import Losses, interval
from benchmarks.frontier.methods import TPE
from benchmarks.public.measure import CONSTANT, DEFAULT, EXACT, OURS
from benchmarks.public.tables import ONE

Key = tuple[str, int, str]  # form, n, budget


class Results:
    """Losses by task, split and way to choose."""

    def __init__(
        self, results: list[dict[str, Any]], frontier: list[dict[str, Any]], searched: Iterable[dict[str, Any]] = ()
    ) -> None:
        self.rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for one in results:
            self.rows[one["form"], one["n"], one["budget"]].append(one)
        self.frontier = Losses(frontier)
        self.searched = list(searched)
        self._means: dict[tuple[Key, str], dict[str, dict[int, float]]] = {}

    def losses(self, key: Key, way: str) -> dict[str, dict[int, float]]:
        """Mean loss over draws: task -> split -> loss."""
        if (key, way) not in self._means:
            self._means[key, way] = self._over_draws(key, way)
        return self._means[key, way]

    def _over_draws(self, key: Key, way: str) -> dict[str, dict[int, float]]:
        if way == TPE:
            return self._stored(key)
        drawn: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for one in self.rows[key]:
            drawn[one["task"]][one["split"]].append(one["loss"] if way == OURS else one["rivals"][way])
        return {task: {split: float(np.mean(x)) for split, x in splits.items()} for task, splits in drawn.items()}

    def _stored(self, key: Key) -> dict[str, dict[int, float]]:
        form, n, budget = key
        if not budget.startswith("mu"):
            return {}
        mu, tasks = float(budget.split("= ")[1]), {one["task"] for one in self.rows[key]}
        searched = {task: self._searched((task, n, mu, form)) for task in tasks}
        if form == ONE:
            for task in tasks:
                if best := self.frontier.best((task, n), mu, (TPE,)):
                    searched[task] |= best[1]
        return {task: splits for task, splits in searched.items() if splits}

    def _searched(self, place: tuple[str, int, float, str]) -> dict[int, float]:
        """Losses of a private search by split, read in the way that is the best for the task in hindsight."""
        found: dict[str, dict[int, float]] = defaultdict(dict)
        for one in self.searched:
            if (one["task"], one["n"], one["mu"], one["form"]) == place:
                for reading, loss in one["test_loss"].items():
                    found[reading][one["split"]] = loss
        return min(found.values(), key=lambda splits: float(np.mean(list(splits.values()))), default={})

    def limits(self, key: Key) -> dict[str, dict[int, float]]:
        """The best external search without privacy, of the same population; else the exact choice."""
        if key[0] != ONE:
            return self.losses(key, EXACT)
        tasks = {one["task"] for one in self.rows[key]}
        return {task: found for task in tasks if (found := self.frontier.external((task, key[1])))}

    def ratio(self, key: Key, way: str, to: dict[str, dict[int, float]]) -> tuple[float, float, float]:
        """Loss over that of ``to``, with a 95% interval by a bootstrap of tasks and splits."""
        logs = {}
        for task, splits in sorted(self.losses(key, way).items()):
            both = sorted(splits.keys() & to.get(task, {}).keys())
            if both:
                logs[task] = np.array([math.log(splits[s] / to[task][s]) for s in both])
        return interval(logs)

    def shares(self, key: Key, way: str) -> list[float]:
        """Shares kept, of mean losses over splits, of what the best external search gains over default or constant."""
        limits, own = self.limits(key), self.losses(key, way)
        default, constant = self.losses(key, DEFAULT), self.losses(key, CONSTANT)
        found = []
        for task, splits in own.items():
            both = sorted(splits.keys() & limits.get(task, {}).keys() & default[task].keys())
            if both:
                base = min(np.mean([of[task][s] for s in both]) for of in (default, constant))
                best = np.mean([limits[task][s] for s in both])
                if 1 - best / base >= 0.03:
                    found.append(float((base - np.mean([splits[s] for s in both])) / (base - best)))
        return found
