"""The comparison on losses with tails: the pages say what the stored runs say."""

from __future__ import annotations

import json

from benchmarks.measurements.tails import report
from benchmarks.report import DOCS


def result(method: str, loss: float, task: str = "tree") -> dict:
    return {
        "task": task,
        "n": 300,
        "mu": 1.0,
        "seed": 0,
        "method": method,
        "test_loss": {"own": loss, "best value": loss},
    }


def test_a_run_is_worse_from_half_a_percent_above_the_default_on() -> None:
    runs = [result("start", 1.0, task) for task in ("tree", "bowl")]
    runs += [result("package", 1.006), result("package", 1.004, "bowl")]
    runs += [result("values, TPE", 2.0, task) for task in ("tree", "bowl")]
    assert report.harm(runs) == (
        "On 2 kinds of loss the search ends more than .5% worse than the library's default in 50% of runs, TPE in "
        "100%. For the worst kind of loss it is 100% of runs."
    )


def test_the_pages_say_what_the_stored_runs_say() -> None:
    stored = [json.loads(line) for line in (DOCS / "results" / "tails.jsonl").read_text().splitlines()]
    page, choose = ((DOCS / name).read_text() for name in ("research/measurements.md", "choose.md"))
    assert all(row in page for row in report.comparison(stored).splitlines())
    assert report.harm(stored) in " ".join(choose.split())
