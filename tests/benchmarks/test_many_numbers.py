"""The comparison of choices at the end with eleven numbers or more: its arithmetic, and what the page says of it."""

from __future__ import annotations

import json

from benchmarks.measurements.many_numbers import ALONE, NONE, PACKAGE, VARIANTS, table
from benchmarks.report import DOCS


def test_ratios_are_over_the_search_without_a_choice_and_harm_is_counted_from_the_default() -> None:
    losses = dict.fromkeys((*VARIANTS, ALONE), 1.0) | {"default": 1.0}
    runs = [
        {
            "task": "LightGBM, nwtco",
            "n": 300,
            "mu": 0.5,
            "seed": seed,
            "test_loss": {**losses, NONE: 1.25, PACKAGE: 1.0},
        }
        for seed in range(3)
    ]
    (row,) = table(runs).splitlines()[2:]
    assert row.split(" | ")[3:5] == ["3 of 3 worse", "0.80 ± 0.00, 0 of 3 worse"]


def test_the_page_has_the_table_of_the_stored_runs() -> None:
    stored = [json.loads(line) for line in (DOCS / "results" / "many_numbers.jsonl").read_text().splitlines()]
    page = (DOCS / "research/measurements.md").read_text()
    assert all(row in page for row in table(stored).splitlines())
