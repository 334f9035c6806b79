"""The comparison with the frontier: its rule and design, what it measures, and the arithmetic of its tables."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from benchmarks.frontier import report
from benchmarks.frontier.design import CONSTANT, EXTERNAL, SPLITS, VALUES, Cell, in_order
from benchmarks.frontier.headroom import LEAST, kept, taken
from benchmarks.frontier.losses import Losses, interval, readings
from benchmarks.frontier.methods import GP, METHODS, NUMERIC, OURS, OWN, START, TPE, OneScale, read
from benchmarks.frontier.models import MODELS
from benchmarks.frontier.people import SLOTS
from benchmarks.frontier.tasks import NEW, OLD, TASKS, FrontierTask
from benchmarks.report import DOCS
from dptune import Categorical, Float, Space
from dptune.search.gp.grouped import Group


def task(*, plain: bool = True) -> FrontierTask:
    numbers = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
    space = Space(numbers if plain else {**numbers, "kind": Categorical(["good", "bad"])})
    people = np.random.default_rng(0).normal(0, 0.1, 300)

    def loss(p: dict[str, object]) -> float:
        return (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2 + 0.3 * (p.get("kind") == "bad")

    return FrontierTask(space, None, 300, (0.0, 2.0), lambda p: np.abs(loss(p) + people), loss)


# ---- the rule and the design ---------------------------------------------------------------------------------------


def test_a_slot_takes_its_first_free_candidate_with_headroom() -> None:
    slots = {slot: candidates for slot, (_, candidates) in SLOTS.items()}
    measured = {(model, people.name): 0.0 for model, candidates in SLOTS.values() for people in candidates}
    assert not any(taken(measured).values())
    model, first = SLOTS["boosting"][0], slots["boosting"][0]
    measured["boosting with categories", first.name] = measured[model, first.name] = math.log(1 + 2 * LEAST)
    chosen = taken(measured)
    assert chosen["boosting with categories"] == first
    assert chosen["boosting"] is None  # the table is taken


def test_the_new_tasks_are_those_of_the_rule_and_as_many_as_were_asked_for() -> None:
    chosen = {slot: people for slot, people in taken(kept()).items() if people}
    assert set(taken(kept())) == set(SLOTS)  # nothing was left unmeasured
    assert [kind.data for kind in NEW.values()] == [people.name for people in chosen.values()]
    assert len(NEW) >= 8
    assert sum(10 < (kind.d or 0) <= 20 for kind in NEW.values()) >= 3
    assert sum(kind.d is None for kind in NEW.values()) >= 3
    assert sum(MODELS[SLOTS[slot][0]].classes for slot in chosen) >= 3
    assert not {kind.data for kind in NEW.values()} & {kind.data for kind in OLD.values()}


def test_every_cell_stands_in_the_design_once() -> None:
    cells = list(in_order())
    assert len(cells) == len(set(cells))
    assert not [cell for cell in cells if cell.method in NUMERIC and TASKS[cell.task].d is None]
    mine = {(cell.task, cell.n, cell.mu, cell.seed) for cell in cells if cell.method == OURS}
    for name, kind in NEW.items():
        places = [(n, mu, seed) for n in kind.people for mu in (1.0, 0.5, 0.25, 2.0) for seed in range(SPLITS)]
        assert all((name, *place) in mine for place in places)


@pytest.mark.parametrize("slot", [slot for slot, people in taken(kept()).items() if people])
def test_the_library_s_defaults_lie_in_the_space(slot: str) -> None:
    model, people = MODELS[SLOTS[slot][0]], taken(kept())[slot]
    assert people is not None
    space, default = model.space(len(people.inputs)), model.default(len(people.inputs))
    assert space.contains(default)


# ---- methods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in METHODS if name != GP])
def test_every_method_recommends_points_of_the_space(method: str) -> None:
    made = task(plain=method in NUMERIC)
    for mu in (1.0, None):
        for parameters in METHODS[method](made, mu, 16, 0).values():
            assert made.space.contains(parameters)


@pytest.mark.torch
def test_the_gaussian_process_that_is_told_the_noise_finds_the_bottom() -> None:
    pytest.importorskip("botorch")
    made = task()
    for mu in (1.0, None):
        found = METHODS[GP](made, mu, 20, 0)[OWN]
        assert made.space.contains(found)
    assert made.losses(found).mean() <= made.losses({"x": 0.3, "y": 0.6}).mean() + 1e-3  # people's, not the bowl's


def test_values_are_levels_on_one_scale() -> None:
    model = OneScale(1)
    low, high = np.array([[0.1], [0.2]]), np.array([[0.8], [0.9]])
    model.fit([Group(low, np.array([0.0, 0.1]), 0.01)])
    model.fit([*model.groups, Group(high, np.array([5.0, 5.1]), 0.01)])
    assert model.mean(high).min() - model.mean(low).max() > 3


def test_without_noise_the_best_value_is_the_best_point_and_there_is_no_model() -> None:
    made = task()
    tried = [{"x": x, "y": 0.6} for x in (0.9, 0.31, 0.6, 0.1)]
    exact = np.array([made.judge(p) for p in tried])
    assert read(made, tried, exact, 0.0) == {"best value": tried[1]}
    assert read(made, tried, exact, 1e-6) == {"best value": tried[1], "model's mean": tried[1]}


# ---- comparisons -----------------------------------------------------------------------------------------------------


def results(ours: float, *, default: float = 1.2, constant: float = 1.0, splits: int = 3) -> list[dict[str, Any]]:
    """Every task: default and constant, two limits at .5 and .6, ours, and values at 1.25 times ours."""
    rows = []
    for name, kind in TASKS.items():
        for n in kind.people:
            for seed in range(splits):
                found: dict[tuple[str, float | None], dict[str, float]] = {
                    (START, None): {OWN: default, CONSTANT: constant},
                    (TPE, None): {"best value": 0.5},
                    (GP, None): {OWN: 0.6},
                    (OURS, None): {OWN: 0.55},
                    **{(OURS, mu): {OWN: ours} for mu in (0.25, 0.5, 1.0)},
                    **{
                        (method, mu): dict.fromkeys(reads, 1.25 * ours)
                        for mu in (0.5, 1.0)
                        for method in (*VALUES, "selection")
                        for reads in [[read for _, read in readings([method])]]
                    },
                }
                for (method, mu), losses in found.items():
                    cell = Cell(name, n, mu, method, seed)
                    rows.append({**asdict(cell), "test_loss": {k: v * (1 + 1e-3 * seed) for k, v in losses.items()}})
    return rows


def test_shares_are_counted_from_the_better_of_default_and_constant() -> None:
    place = ("krr-fair", 300)
    assert Losses(results(0.55)).share_kept(place, 1.0) == pytest.approx(0.45 / 0.5)
    assert Losses(results(0.55, default=0.8)).share_kept(place, 1.0) == pytest.approx(0.25 / 0.3)


def test_what_cannot_be_tuned_has_no_share() -> None:
    flat = Losses(results(0.505, default=0.51, constant=0.51))  # 2% to gain
    assert math.isnan(flat.share_kept(("krr-fair", 300), 1.0))
    assert not len(flat.shares(flat.places(300, new=True), 1.0))
    assert "nothing to tune (2%)" in report.tasks(flat, 300)


def test_the_outcome_is_over_the_best_external_search_and_ours_is_none() -> None:
    losses = Losses(results(0.55))
    assert report.over_external(losses, 300, 1.0) == pytest.approx((1.1, 1.1, 1.1))
    assert OURS not in EXTERNAL
    better = [{**row, "test_loss": {OWN: 0.1}} if (row["method"], row["mu"]) == (OURS, None) else row
              for row in results(0.55)]  # fmt: skip
    assert report.over_external(Losses(better), 300, 1.0) == pytest.approx((1.1, 1.1, 1.1))


def test_the_best_is_chosen_on_splits_that_all_have() -> None:
    rows = [row for row in results(0.55) if not (row["method"] == GP and row["mu"] is None and row["seed"] > 0)]
    for row in rows:
        if row["method"] == GP and row["mu"] is None:
            row["test_loss"] = {OWN: 0.4}
    assert Losses(rows).best(("krr-fair", 300), None, EXTERNAL)[0] == (GP, OWN)


def test_over_values_is_over_the_best_of_those_named() -> None:
    losses = Losses(results(0.55))
    assert report.over_values(losses, 300, 1.0, (GP, TPE)) == pytest.approx((0.8, 0.8, 0.8))


def test_tasks_have_equal_weight() -> None:
    logs = {"one": np.zeros(20), "other": np.full(1, math.log(4))}
    assert interval(logs)[0] == pytest.approx(2)


def test_worse_than_the_default_is_told_in_standard_errors() -> None:
    rows = results(0.9, default=0.8)
    for row in rows:
        if row["method"] == OURS:
            row["test_loss"] = {OWN: 0.9 + 0.01 * row["seed"]}
        elif row["method"] == START:
            row["test_loss"][OWN] = 0.8
    losses = Losses(rows)
    gaps = np.array([0.1, 0.11, 0.12])
    expected = gaps.mean() / (gaps.std(ddof=1) / math.sqrt(3))
    assert report.worse(losses, ("krr-fair", 300), 0.25) == pytest.approx(expected)
    assert f"{expected:+.1f}" in report.defaults(losses)


def test_a_default_that_was_always_kept_is_not_worse() -> None:
    assert report.worse(Losses(results(1.2)), ("krr-fair", 300), 0.25) == 0.0  # 1.2 is the default's


def test_the_page_says_what_the_stored_runs_of_private_searches_say() -> None:
    stored = [json.loads(line) for line in (DOCS / "results" / "frontier.jsonl").read_text().splitlines()]
    losses, page = Losses(stored), " ".join((DOCS / "frontier.md").read_text().split())
    tables = [report.headline(losses, new=new) for new in (True, False)]
    assert all(" ".join(row.split()) in page for table in tables for row in table.splitlines())


@pytest.mark.parametrize("inputs", [7, 12])
def test_a_kernel_machine_reads_its_parameters_by_name(inputs: int) -> None:
    rng, model = np.random.default_rng(0), MODELS["kernel ridge"]
    X, y, Z = rng.normal(size=(40, inputs)), rng.normal(size=40), rng.normal(size=(5, inputs))
    space = model.space(inputs)
    for parameters in (dict(model.default(inputs)), dict(space.decode(rng.random(space.d)))):
        shuffled = dict(rng.permutation(list(parameters.items())).tolist())
        shuffled = {str(name): float(value) for name, value in shuffled.items()}
        one, other = (model.train(p, X, y)(Z) for p in (dict(sorted(parameters.items())), shuffled))
        scales = np.array([parameters[f"length_scale_{j}"] for j in range(inputs)])
        K, k = (np.exp(-0.5 * (((A[:, None] - X[None]) / scales) ** 2).sum(-1)) for A in (X, Z))
        expected = k @ np.linalg.solve(K + parameters["alpha"] * np.eye(40), y)
        np.testing.assert_allclose(one, expected, rtol=1e-8)
        np.testing.assert_allclose(other, one, rtol=1e-10)
