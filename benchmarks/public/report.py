"""The tables of docs/frontier.md from the stored results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frontier.methods import TPE
from benchmarks.public import picture, searches
from benchmarks.public.measure import BUDGETS, CV, DEFAULT, EXACT, EXACT_ALL, FREE, OURS, PEOPLE, RANDOM, read
from benchmarks.public.results import Key, Results
from benchmarks.public.tables import ANSWER, ONE

NAMES = {
    DEFAULT: "the library's default", CV: "cross-validation on public rows alone (epsilon 0)",
    FREE: "average of the best half on public rows (epsilon 0)",
    RANDOM: "one private choice among 100 random models", TPE: "TPE on noisy scores",
    OURS: "**public rows propose, private people decide**",
    EXACT: "exact choice among TPE's trials (no privacy)",
    EXACT_ALL: "exact choice among all candidates (no privacy)",
}  # fmt: skip
FIRST = "| n | budget | way to choose | loss over the best search without privacy | share kept: median, least |"


def whole(results: list[dict[str, Any]], out: Path) -> str:
    """Return all tables and sentences."""
    stored = (read(out / "results" / name) for name in ("frontier.jsonl", searches.KEPT))
    found = Results(results, *stored)
    picture.draw(found, out / "figures")
    parts = ["### One population", same(found), "### Another population", shifted(found), "### Verdicts"]
    return "\n\n".join([*parts, verdicts(found)])


def same(found: Results, people: Iterable[int] = PEOPLE) -> str:
    """Ways to choose where public rows and private people are of one population."""
    lines = [FIRST, "|---|---|---|---|---|"]
    for n in people:
        for budget in BUDGETS:
            key = (ONE, n, budget)
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


def shifted(found: Results, people: Iterable[int] = PEOPLE) -> str:
    """The same where public rows are from another population: loss over that of the exact choice among TPE's trials."""
    lines = ["| n | budget | way to choose | loss over the exact choice among TPE's trials |", "|---|---|---|---|"]
    for n in people:
        for budget in BUDGETS:
            key = (ANSWER, n, budget)
            limits = found.limits(key)
            lines += [
                f"| {n} | {budget} | {name} | {_words(found.ratio(key, way, limits))} |"
                for way, name in _ways(found, key)
                if way != EXACT
            ]
    return "\n".join(lines)


def verdicts(found: Results) -> str:
    """How often "better" is said, and is false; how often interval and words hold for the mean difference."""
    lines = [
        "| population | n | budget | better | in half of runs | but is not | holds the cut mean | the mean | words |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for form in (ONE, ANSWER):
        for n in PEOPLE:
            for budget in BUDGETS:
                if rows := found.rows[form, n, budget]:
                    told = [one for one in rows if "half" in one]
                    better = [one["verdict"] == "better" for one in rows]
                    false = [one["verdict"] == "better" and one["unclipped"] <= 0 for one in told]
                    by = defaultdict(list)
                    for one, said in zip(rows, better, strict=True):
                        by[one["task"]].append(said)
                    often = sum(np.mean(said) >= 0.5 for said in by.values())
                    which = "one" if form == ONE else "another"
                    lines.append(
                        f"| {which} | {n} | {budget} | {np.mean(better):.0%} | {often} of {len(by)} | "
                        f"{sum(false)} of {len(rows)} | {_holds(told, 'cut'):.1%} | {_holds(told, 'true'):.1%} | "
                        f"{np.mean([one['said'] for one in told]):.1%} |"
                    )
    return "\n".join(lines)


def _holds(told: list[dict[str, Any]], what: str) -> float:
    inside = [abs(one["improvement"] - one[what]) <= one["half"] for one in told]
    return float(np.mean(inside)) if inside else math.nan
