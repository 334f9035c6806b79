"""The tables of docs/frontier.md, README's sentences and its picture, from the stored results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frontier.losses import Losses, interval
from benchmarks.frontier.methods import OURS as CENTRED
from benchmarks.frontier.methods import OWN, TPE
from benchmarks.public import picture, searches
from benchmarks.public.measure import BUDGETS, CONSTANT, CV, DEFAULT, EXACT, EXACT_ALL, OURS, PEOPLE, RANDOM, read

Logs = dict[str, list[float]]  # task -> log ratios
Key = tuple[bool, int, str]  # shifted, n, budget

NAMES = {
    DEFAULT: "the library's default", CV: "cross-validation on public rows alone (epsilon 0)",
    RANDOM: "one private choice among 100 random models", CENTRED: "`CentredSampler`", TPE: "TPE on noisy scores",
    OURS: "**public rows propose, private people decide**",
    EXACT: "exact choice among TPE's trials (no privacy)",
    EXACT_ALL: "exact choice among all candidates (no privacy)",
}  # fmt: skip
FIRST = "| n | budget | way to choose | loss over the best search without privacy | share kept: median, least |"


class Results:
    """Losses by task, split and way to choose."""

    def __init__(
        self, results: list[dict[str, Any]], frontier: list[dict[str, Any]], searched: Iterable[dict[str, Any]] = ()
    ) -> None:
        self.rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for one in results:
            self.rows[one["shifted"], one["n"], one["budget"]].append(one)
        self.frontier = Losses(frontier)
        self.searched = list(searched)

    def losses(self, key: Key, way: str) -> dict[str, dict[int, float]]:
        """Mean loss over draws: task -> split -> loss."""
        if way in (CENTRED, TPE):
            return self._stored(key, way)
        drawn: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for one in self.rows[key]:
            drawn[one["task"]][one["split"]].append(one["loss"] if way == OURS else one["rivals"][way])
        return {task: {split: float(np.mean(x)) for split, x in splits.items()} for task, splits in drawn.items()}

    def _stored(self, key: Key, way: str) -> dict[str, dict[int, float]]:
        shifted, n, budget = key
        if not budget.startswith("mu"):
            return {}
        mu, tasks = float(budget.split("= ")[1]), {one["task"] for one in self.rows[key]}
        searched = {task: self._searched((task, n, mu, shifted), way) for task in tasks}
        if not shifted:
            for task in tasks:
                if way == CENTRED:
                    searched[task] |= self.frontier.at((task, n), mu, (CENTRED, OWN))
                elif best := self.frontier.best((task, n), mu, (TPE,)):
                    searched[task] |= best[1]
        return {task: splits for task, splits in searched.items() if splits}

    def _searched(self, place: tuple[str, int, float, bool], way: str) -> dict[int, float]:
        """Losses of a private search by split, read in the way that is the best for the task in hindsight."""
        found: dict[str, dict[int, float]] = defaultdict(dict)
        for one in self.searched:
            if (one["task"], one["n"], one["mu"], one["shifted"]) == place and one["method"] == way:
                for reading, loss in one["test_loss"].items():
                    found[reading][one["split"]] = loss
        return min(found.values(), key=lambda splits: float(np.mean(list(splits.values()))), default={})

    def limits(self, key: Key) -> dict[str, dict[int, float]]:
        """The best external search without privacy, of the same population; else the exact choice."""
        if key[0]:
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


def whole(results: list[dict[str, Any]], out: Path) -> str:
    """Return all tables and sentences."""
    stored = (read(out / "results" / name) for name in ("frontier.jsonl", searches.KEPT))
    found = Results(results, *stored)
    picture.draw(found, out / "figures")
    parts = ["### One population", same(found), "### Another population", shifted(found), "### Verdicts"]
    return "\n\n".join([*parts, verdicts(found), "### README", sentences(found)])


def same(found: Results) -> str:
    """Ways to choose where public rows and private people are of one population."""
    lines = [FIRST, "|---|---|---|---|---|"]
    for n in PEOPLE:
        for budget in BUDGETS:
            key = (False, n, budget)
            if found.rows[key]:
                lines += [f"| {n} | {budget} | {name} | {_row(found, key, way)} |" for way, name in _ways(found, key)]
    return "\n".join(lines)


def _ways(found: Results, key: Key) -> Iterable[tuple[str, str]]:
    return ((way, name) for way, name in NAMES.items() if found.losses(key, way))


def _row(found: Results, key: Key, way: str) -> str:
    shares = found.shares(key, way)
    tasks = len(found.losses(key, way))
    kept = f"{np.median(shares):.2f}, {min(shares):.2f}" if shares else ""
    return f"{_words(found.ratio(key, way, found.limits(key)))}{'' if tasks == 10 else f' ({tasks} tasks)'} | {kept}"


def _words(ratio: tuple[float, float, float]) -> str:
    return f"{ratio[0]:.3f} [{ratio[1]:.3f}, {ratio[2]:.3f}]"


def shifted(found: Results) -> str:
    """The same where public rows are from another population: loss over that of the exact choice among TPE's trials."""
    lines = ["| n | budget | way to choose | loss over the exact choice among TPE's trials |", "|---|---|---|---|"]
    for n in PEOPLE:
        for budget in BUDGETS:
            key = (True, n, budget)
            limits = found.limits(key)
            lines += [
                f"| {n} | {budget} | {name} | {_words(found.ratio(key, way, limits))} |"
                for way, name in _ways(found, key)
                if way != EXACT
            ]
    return "\n".join(lines)


def verdicts(found: Results) -> str:
    """How often "better" is said, and is false; how often the interval holds the mean difference."""
    lines = [
        "| population | n | budget | better | in half of runs | but is not | holds the cut mean | holds the mean |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for moved in (False, True):
        for n in PEOPLE:
            for budget in BUDGETS:
                if rows := found.rows[moved, n, budget]:
                    told = [one for one in rows if "half" in one]
                    better = [one["verdict"] == "better" for one in rows]
                    false = [one["verdict"] == "better" and one["unclipped"] <= 0 for one in told]
                    by = defaultdict(list)
                    for one, said in zip(rows, better, strict=True):
                        by[one["task"]].append(said)
                    often = sum(np.mean(said) >= 0.5 for said in by.values())
                    which = "another" if moved else "one"
                    lines.append(
                        f"| {which} | {n} | {budget} | {np.mean(better):.0%} | {often} of {len(by)} | "
                        f"{sum(false)} of {len(rows)} | {_holds(told, 'cut'):.1%} | {_holds(told, 'true'):.1%} |"
                    )
    return "\n".join(lines)


def _holds(told: list[dict[str, Any]], what: str) -> float:
    inside = [abs(one["improvement"] - one[what]) <= one["half"] for one in told]
    return float(np.mean(inside)) if inside else math.nan


def sentences(found: Results) -> str:
    """README's table."""
    said: list[Callable[[], str]] = [
        lambda: _sentence(found, 300, "epsilon = 1"),
        lambda: _sentence(found, 300, "epsilon = 4"),
        lambda: _sentence(found, 1000, "epsilon = 1"),
        lambda: _sentence(found, 1000, "epsilon = 4"),
        lambda: _moved(found, 300, "epsilon = 1"),
    ]
    head = (
        "| private people, budget | dptune: test loss above the best search without privacy | cross-validation alone |"
    )
    return "\n".join([head, "|---|---|---|", *(one() for one in said)])


def _sentence(found: Results, n: int, budget: str) -> str:
    key = (False, n, budget)
    limits = found.limits(key)
    ours, cv = (found.ratio(key, way, limits)[0] - 1 for way in (OURS, CV))
    return f"| {n:,}, {budget} | {ours:.1%} | {cv:.1%} |"


def _moved(found: Results, n: int, budget: str) -> str:
    key = (True, n, budget)
    ours, cv, random = (found.ratio(key, way, found.limits(key))[0] - 1 for way in (OURS, CV, RANDOM))
    return (
        f"| {n:,}, {budget}, another population* | {ours:.1%} | {cv:.1%}; a private choice among random models: "
        f"{random:.1%} |"
    )
