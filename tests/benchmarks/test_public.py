"""The benchmark of the main path: its pages say what the stored runs say, and a run is one of the user's calls."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.frontier.methods import CMA, OWN, START, TPE
from benchmarks.public import report
from benchmarks.public.measure import CV, DEFAULT, EXACT, EXACT_ALL, OURS, RANDOM, Cell, measure, rivals
from benchmarks.public.tables import TRIALS, Table


def table(seed: int = 0) -> Table:
    """The first candidate is bad, and of TPE's trials the last is the best of all people; random ones are like it."""
    rng = np.random.default_rng(seed)
    level = np.r_[np.linspace(0.9, 0.3, TRIALS), rng.uniform(0.3, 0.9, TRIALS - 1)][:, None]
    public, private = (
        np.abs(level + 0.1 * rng.standard_normal((len(level), rows)) + 0.3 * rng.standard_normal(rows))
        for rows in (300, 1000)
    )
    return Table(public, private, level[:, 0], (0.0, 2.0), 0.8)


def test_a_run_is_a_call_of_select_and_its_interval_is_about_these_people() -> None:
    found = measure(Cell("bowl", 0, False, 1000, "epsilon = 4", 0), table())
    assert found["verdict"] == "better"
    assert abs(found["improvement"] - found["cut"]) < 3 * found["half"]
    assert found["loss"] < 0.5
    told = rivals(table(), 1000, "epsilon = 4")
    assert told[EXACT] <= told[CV] + 0.1 <= told[DEFAULT]
    assert told[EXACT] <= told[RANDOM] <= told[DEFAULT]


def test_ratios_shares_and_coverage_are_counted_as_the_page_says() -> None:
    told = {DEFAULT: 1.0, "constant": 2.0, CV: 0.8, EXACT: 0.6, EXACT_ALL: 0.6, RANDOM: 0.9}
    own = {"task": "t", "split": 0, "shifted": False, "n": 300, "budget": "mu = 1", "draw": 0, "loss": 0.7}
    verdict = {"verdict": "better", "improvement": 0.3, "half": 0.098, "true": 0.15, "cut": 0.25, "unclipped": -0.1}
    frontier = [
        {"task": "t", "n": 300, "mu": None, "method": method, "seed": 0, "test_loss": losses}
        for method, losses in ((TPE, {"best value": 0.5}), (CMA, {"best value": 0.55}), (START, {OWN: 1.0}))
    ]
    found = report.Results([{**own, **verdict, "rivals": told}], frontier)
    key = (False, 300, "mu = 1")
    assert found.ratio(key, OURS, found.limits(key))[0] == pytest.approx(0.7 / 0.5)
    assert found.shares(key, OURS) == [pytest.approx((1.0 - 0.7) / (1.0 - 0.5))]
    searched = {"task": "t", "split": 0, "shifted": True, "n": 300, "mu": 1.0, "method": TPE}
    searched |= {"test_loss": {"a": 0.9, "b": 0.75}}
    moved = report.Results([{**own, **verdict, "shifted": True, "rivals": told}], frontier, [searched])
    key = (True, 300, "mu = 1")
    assert moved.ratio(key, TPE, moved.limits(key))[0] == pytest.approx(0.75 / 0.6)  # the better reading, by itself
    row = report.verdicts(found).splitlines()[-1]
    assert "1 of 1 | 1 of 1 | 100.0% | 0.0%" in row  # false, as the uncut mean is below 0; 3 sigma from the mean
