"""The benchmark of automatic clips: what a run is given, and the arithmetic of the table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchmarks.frontier.tasks import FrontierTask
from benchmarks.measurements import clips
from dptune import Float, Space

FIXED = {"0.01": (8, 8), "0.03": (4, 4), "0.1": (1, 4), "0.3": (1, 1), "1.0": (2, 4.5), "3.0": (6, 6)}  # by split


def results(task: str, automatic: tuple[float, float], chosen: tuple[float, float]) -> list[dict[str, Any]]:
    """Two splits of a task whose default has a test loss of 2."""
    about = {"task": task, "n": 300, "mu": 1.0, "default": 2.0}
    return [
        {**about, "method": method, "seed": seed, "test_loss": losses[seed], "clip": chosen[seed]}
        for method, losses in {**FIXED, clips.AUTOMATIC: automatic}.items()
        for seed in (0, 1)
    ]


def test_the_table_is_what_a_calculation_by_hand_gives() -> None:
    one, other = results("tree, log", (1, 1.21), (4.0, 0.3)), results("wages, absolute", (1, 1), (0.02, 0.3))
    unfinished = {**one[0], "seed": 2, "test_loss": 1e9}
    text = clips.report([*one, *other, unfinished])
    # geometric means 8, 4, 2, 1, 3, 6 of fixed clips: best 1, median sqrt(3 * 4), worst 8; sqrt(1 * 1.21) automatic
    assert "| tree, log | 300 | 1 | 1.100 | 3.464 | 8.000 | 0.500 | 0.3 | 2.15 |" in text
    assert "| wages, absolute | 300 | 1 | 1.000 | 3.464 | 8.000 | 0.500 | 0.3 | 0.16 |" in text
    by_split = [0.0, math.log(1.21) / 2]  # of automatic, the mean of both tasks
    middle, error = math.sqrt(1.1), math.sqrt(1.1) * np.std(by_split, ddof=1) / math.sqrt(2)
    assert "| wages, absolute | 1.000 ± 0.000 | 3.464 ±" in text
    assert " | 1 to 15 |" in text  # its chosen clips, of a bound of 50
    assert f"2 cells, 2 splits: automatic {middle:.3f} ± {error:.3f}, median guess 3.464 ±" in text
    assert "the bound itself as clip (added after the first splits) 3.000 ±" in text
    assert "within 3% in 1 of 2 cells" in text
    assert "Of 4 chosen clips 1 are more than 10 times the best fixed one, and 1 less than a tenth of it" in text
    assert "best fixed clip: not met; a median guess loses at least 20%: met" in text


def test_an_automatic_clip_is_the_rule_s_and_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    given, run = [], clips.recommended

    def recommended(task: FrontierTask, *settings: Any, rest: float) -> dict[str, float]:
        given.append((task.clip, rest))
        return run(task, *settings, rest=rest)

    monkeypatch.setattr(clips, "recommended", recommended)
    people = np.random.default_rng(0).exponential(1.0, 300)
    space, default = Space({"x": Float(0.0, 1.0)}), {"x": 0.1}
    task = FrontierTask(space, default, 300, (0.0, math.inf), lambda p: people + p["x"], lambda p: 1 + p["x"])
    fixed, automatic = (
        clips.measure(task, clip, 1.0, 12, 0, bound=10.0, most=36.0) for clip in ("0.3", clips.AUTOMATIC)
    )
    assert fixed["clip"] == 0.3
    assert fixed["default"] == automatic["default"] == 1.1
    assert given[0] == ((0.0, 3.0), 1.0)
    assert given[1][0] == pytest.approx((0.0, 10 * automatic["clip"]))
    assert given[1][1] == math.sqrt(0.95)
    assert 0.3 < automatic["clip"] <= 3.6
