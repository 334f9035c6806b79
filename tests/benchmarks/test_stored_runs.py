"""Pages say what the stored runs say; the arithmetic of their tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.measurements import clips, many_numbers
from benchmarks.measurements.tails import report as tails
from benchmarks.report import DOCS

MEASUREMENTS = (DOCS / "research/measurements.md").read_text(encoding="utf-8")


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCS / "results" / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "table"), [("many_numbers", many_numbers.table), ("tails", tails.comparison), ("clips", clips.report)]
)
def test_the_page_of_measurements_has_the_tables_of_the_stored_runs(name: str, table: Any) -> None:
    page = " ".join(MEASUREMENTS.split())
    assert all(" ".join(row.split()) in page for row in table(stored(name)).splitlines())


def test_the_page_of_choices_says_how_often_a_search_with_tails_does_harm() -> None:
    assert tails.harm(stored("tails")) in " ".join((DOCS / "choose.md").read_text().split())


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
