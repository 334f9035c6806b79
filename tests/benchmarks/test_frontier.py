"""The comparison with the frontier: its design, what it measures, and the arithmetic of its tables."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.frontier import report
from benchmarks.frontier.design import SLOW, Cell, blocks, in_order
from benchmarks.frontier.losses import FEWEST, Losses, interval
from benchmarks.frontier.methods import METHODS, NUMBERS_ONLY, OURS, OWN, OneScale, read
from benchmarks.frontier.tasks import TASKS, FrontierTask
from benchmarks.report import DOCS
from dptune import Categorical, Float, Space
from dptune.gp.grouped import Group


def task(*, plain: bool = True) -> FrontierTask:
    numbers = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
    space = Space(numbers if plain else {**numbers, "kind": Categorical(["good", "bad"])})
    people = np.random.default_rng(0).normal(0, 0.1, 300)

    def loss(p: dict[str, object]) -> float:
        return (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2 + 0.3 * (p.get("kind") == "bad")

    return FrontierTask(space, None, 300, (0.0, 2.0), lambda p: np.abs(loss(p) + people), loss)


def test_the_design_has_eight_data_sets_most_of_them_new_and_every_cell_once() -> None:
    data = {kind.data: kind.seen for kind in TASKS.values()}
    cells = list(in_order(2))
    assert len(data) >= 8
    assert sum(not seen for seen in data.values()) > len(data) / 2
    assert len(cells) == len(set(cells)) == sum(map(len, blocks(2).values()))
    assert not [cell for cell in cells if cell.method in NUMBERS_ONLY and not TASKS[cell.task].numbers]


@pytest.mark.parametrize("method", [name for name in METHODS if name not in SLOW])
def test_every_method_recommends_points_of_the_space(method: str) -> None:
    made = task(plain=method in NUMBERS_ONLY)
    for mu in (1.0, None):
        for parameters in METHODS[method](made, mu, 16, 0).values():
            assert made.space.contains(parameters)


def test_values_are_levels_on_one_scale() -> None:
    model = OneScale(1)
    low, high = np.array([[0.1], [0.2]]), np.array([[0.8], [0.9]])
    model.fit([Group(low, np.array([0.0, 0.1]), 0.01)])
    model.fit([*model.groups, Group(high, np.array([5.0, 5.1]), 0.01)])
    assert model.mean(high).min() - model.mean(low).max() > 3


def test_without_noise_the_best_value_is_the_best_point() -> None:
    made = task()
    tried = [{"x": x, "y": 0.6} for x in (0.9, 0.31, 0.6, 0.1)]
    found = read(made, tried, np.array([made.judge(p) for p in tried]), 0.0)
    assert found["best value"] == found["model's mean"] == tried[1]


def results(ours: float, *, seeds: int = 3) -> list[dict[str, object]]:
    """Every task with 300 people: the start at 1, two limits at .5 and .6, ours and values at 1.2 times ours."""
    rows = []
    for name in TASKS:
        for seed in range(seeds):
            for method, mu, loss in (
                ("start", 1.0, 1.0), ("values, TPE", None, 0.5), (OURS, None, 0.6), (OURS, 1.0, ours),
                ("values, TPE", 1.0, 1.2 * ours),
            ):  # fmt: skip
                recommended = {OWN: loss} if method in ("start", OURS) else {"best value": loss, "model's mean": loss}
                cell = Cell(name, 300, 100, mu, 1.0, method, seed)
                rows.append({**asdict(cell), "test_loss": {k: v + 1e-3 * seed for k, v in recommended.items()}})
    return rows


def test_the_frontier_is_the_best_limit_and_shares_are_of_what_it_gains() -> None:
    losses = Losses(results(0.55))
    place = ("krr-fair", 300, 100)
    assert losses.frontier(place)[0] == "values, TPE"
    assert losses.shares_kept(300, 1.0)["krr-fair"] == pytest.approx(0.45 / 0.5, rel=1e-2)
    mean, low, high = interval(losses.over_frontier(300, 1.0, (OURS, OWN)))
    assert low <= mean <= high
    assert mean == pytest.approx(1.1, rel=1e-2)


def test_data_sets_have_equal_weight() -> None:
    logs = {"one": np.zeros(20), "other": np.full(1, math.log(4))}
    assert interval(logs)[0] == pytest.approx(2)


def test_a_limit_with_fewer_splits_has_a_say_on_these() -> None:
    few = [
        {**row, "method": "values, GP", "mu": None, "test_loss": {"best value": 0.4, "model's mean": 0.9}}
        for row in results(0.55, seeds=FEWEST)[: 5 * FEWEST : 5]
    ]
    many = results(0.55, seeds=FEWEST + 1)
    losses, fewer = Losses([*many, *few]), Losses([*many, *few[1:]])
    assert losses.frontier((few[0]["task"], 300, 100)) == ("values, GP", "best value")
    assert fewer.frontier((few[0]["task"], 300, 100))[0] == "values, TPE"  # two splits would be noise
    assert losses.frontier(("krr-fair", 300, 100))[0] == "values, TPE"


def test_the_pages_say_what_the_stored_runs_say() -> None:
    stored = [json.loads(line) for line in (DOCS / "results" / "frontier.jsonl").read_text().splitlines()]
    losses = Losses(stored)
    page, readme = (
        " ".join(path.read_text().replace("> ", "").split())
        for path in (DOCS / "frontier.md", DOCS.parent / "README.md")
    )
    said = list(report.sentences(losses))
    assert all(sentence in page for sentence in (*said, report.progress(stored)))
    tables = report.headline(losses), report.parts(losses)
    assert all(" ".join(row.split()) in page for table in tables for row in table.splitlines())
    above = [100 * (interval(losses.over_frontier(300, mu, report.MINE))[0] - 1) for mu in (1.0, 0.5)]
    assert f"the test loss is {above[0]:.0f}% above that of" in readme
    assert f"and {above[1]:.0f}% at mu = .5" in readme
    kept = [100 * np.median(list(losses.shares_kept(300, mu).values())) for mu in (1.0, 0.5)]
    assert "at least {:.0f}% of what tuning gains ({:.0f}% at mu = .5)".format(*kept) in readme
    gained = 100 * (1 - interval(losses.over_values(300, 1.0, report.MINE))[0])
    assert f"at mu = 1 it gains {gained:.0f}% over" in readme
