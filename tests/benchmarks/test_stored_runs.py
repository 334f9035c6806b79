"""Pages say what the stored runs say; the arithmetic of their tables."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from benchmarks.frontier import report as frontier
from benchmarks.frontier.losses import Losses
from benchmarks.measurements import clips, many_numbers
from benchmarks.measurements.tails import report as tails
from benchmarks.optuna import pruning
from benchmarks.public import report, searches
from benchmarks.public.measure import PEOPLE, read
from benchmarks.report import DOCS


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCS / "results" / f"{name}.jsonl").read_text().splitlines()]


def missing(page: str, *texts: str) -> list[str]:
    """The lines of these texts that a page lacks."""
    shown = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    return [line for text in texts for line in text.splitlines() if " ".join(line.split()) not in shown]


def test_the_page_of_the_frontier_and_the_readme() -> None:
    names = ("public.jsonl", "frontier.jsonl", searches.KEPT)
    found = report.Results(*(read(DOCS / "results" / name) for name in names))
    sentences = report.sentences(found)
    tables = report.same(found, PEOPLE[:1]), report.shifted(found, PEOPLE[:1]), report.verdicts(found)
    assert missing("frontier.md", *tables, sentences) == []
    assert missing("../README.md", sentences) == []
    losses = Losses(stored("frontier"))
    assert missing("frontier.md", *(frontier.headline(losses, new=new) for new in (True, False))) == []


@pytest.mark.parametrize(
    ("name", "table"), [("many_numbers", many_numbers.table), ("tails", tails.comparison), ("clips", clips.report)]
)
def test_the_page_of_measurements(name: str, table: Any) -> None:
    assert missing("research/measurements.md", table(stored(name))) == []


def test_the_page_of_choices_says_how_often_a_search_with_tails_does_harm() -> None:
    assert missing("choose.md", tails.harm(stored("tails"))) == []


def test_the_page_of_pruning_has_the_table_and_savings_and_ratios_of_the_two_ways_to_prune() -> None:
    page, measured = (DOCS / "research/optuna.md").read_text(encoding="utf-8"), stored("pruning")
    assert pruning.table(measured) in page
    seen = " ".join(page.partition("**What was seen.**")[2].partition("The rule was chosen")[0].split())
    for task in pruning.TASKS:
        runs = {(one["search"], one["seed"]): one for one in measured if one["task"] == task}
        for search in ("private, private rungs", "private, MedianPruner on 100 public images"):
            pairs = [(runs["private, no pruning", seed], one) for (name, seed), one in runs.items() if name == search]
            ratios = [one["path"][-1][1] / usual["path"][-1][1] for usual, one in pairs]
            error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
            assert f"{1 - np.mean([one['epochs'] / usual['epochs'] for usual, one in pairs]):.0%}" in seen
            assert f"{np.mean(ratios):.2f} ± {error:.2f}".replace("0.", ".") in seen


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def result(method: str, loss: float, task: str = "tree") -> dict[str, Any]:
    about = {"task": task, "n": 300, "mu": 1.0, "seed": 0, "method": method}
    return {**about, "test_loss": {"own": loss, "best value": loss}}


def test_a_run_is_worse_from_half_a_percent_above_the_default_on() -> None:
    runs = [result("start", 1.0, task) for task in ("tree", "bowl")]
    runs += [result("package", 1.006), result("package", 1.004, "bowl")]
    runs += [result("values, TPE", 2.0, task) for task in ("tree", "bowl")]
    assert tails.harm(runs) == (
        "On 2 kinds of loss the search ends more than .5% worse than the library's default in 50% of runs, TPE in "
        "100%. For the worst kind of loss it is 100% of runs."
    )


def test_ratios_are_over_the_search_without_a_choice_and_harm_is_counted_from_the_default() -> None:
    losses = dict.fromkeys((*many_numbers.VARIANTS, many_numbers.ALONE, "default"), 1.0) | {many_numbers.NONE: 1.25}
    about = {"task": "LightGBM, nwtco", "n": 300, "mu": 0.5, "test_loss": losses}
    (row,) = many_numbers.table([{**about, "seed": seed} for seed in range(3)]).splitlines()[2:]
    assert row.split(" | ")[3:5] == ["3 of 3 worse", "0.80 ± 0.00, 0 of 3 worse"]


def test_an_automatic_clip_is_compared_with_fixed_ones_by_split() -> None:
    fixed = {"0.01": (8, 8), "0.03": (4, 4), "0.1": (1, 4), "0.3": (1, 1), "1.0": (2, 4.5), "3.0": (6, 6)}
    about = {"task": "tree, log", "n": 300, "mu": 1.0, "default": 2.0}
    runs = [
        {**about, "method": method, "seed": seed, "test_loss": losses[seed], "clip": (4.0, 0.3)[seed]}
        for method, losses in {**fixed, clips.AUTOMATIC: (1, 1.21)}.items()
        for seed in (0, 1)
    ]
    text = clips.report(runs)
    # geometric means 8, 4, 2, 1, 3, 6 of fixed clips: best 1, median sqrt(3 * 4), worst 8; sqrt(1 * 1.21) automatic
    assert "| tree, log | 300 | 1 | 1.100 | 3.464 | 8.000 | 0.500 | 0.3 | 2.15 |" in text
    error = 1.1 * np.std([0.0, math.log(1.21)], ddof=1) / math.sqrt(2)
    assert f"automatic 1.100 ± {error:.3f}, median guess 3.464 ±" in text
