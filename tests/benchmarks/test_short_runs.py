"""Benchmark runs of a few seconds use the package's own mechanisms and report what they ran."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from benchmarks.federated.problems import FederatedProblem
from benchmarks.federated.runs import Method, run
from benchmarks.frontier.headroom import kept, taken
from benchmarks.frontier.methods import GP, NUMERIC, OWN
from benchmarks.frontier.methods import METHODS as FRONTIER
from benchmarks.frontier.models import MODELS
from benchmarks.frontier.people import SLOTS
from benchmarks.frontier.tasks import NEW, OLD, FrontierTask
from benchmarks.ldp.__main__ import EPSILONS, synthetic
from benchmarks.ldp.runs import ALGORITHMS, ORDER_WISE, THEOREM, checkpoints, play
from benchmarks.ldp.runs import DEFAULT as MULTIPLIER
from benchmarks.measurements import scale
from benchmarks.mixed_space import Categorical, Space
from benchmarks.outsourced import __main__ as outsourced
from benchmarks.public.constants import expected
from benchmarks.public.expected import NAMES, family, ways
from benchmarks.public.measure import CV, DEFAULT, EXACT, RANDOM, Cell, measure, rivals
from benchmarks.public.shares import expects
from benchmarks.public.tables import TRIALS, WEIGHTS, Table
from benchmarks.space_tasks import KINDS, space_task
from dptune import Float
from dptune.federated.settings import FTSSettings
from dptune.ledger.subsampled import SubsampledGaussian

points = np.random.default_rng(0).random((80, 2))
TINY = FederatedProblem("tiny", points, np.array([np.sin(3 * points[:, 0] + 0.1 * n) for n in range(4)]))
SETTINGS = FTSSettings(agents=4, d=2, M=20, own_features=20, initial=2)
PLAN = SubsampledGaussian(q=0.5, z=1.0, steps=2)
METHODS = [
    (Method("TS", change={"joint": 0.0}), 0),
    (Method("not private"), 4),
    (Method("private", PLAN), 2),
    (Method("noise", PLAN, silent=True), 2),
    (Method("random", PLAN, random_query=True), 2),
]  # -> broadcasts in four rounds


def test_a_federated_run_of_every_kind() -> None:
    for method, broadcasts in METHODS:
        result = run(TINY, SETTINGS, method, seed=1, rounds=4)
        assert len(result["curve"]) == 5
        assert (np.diff(result["curve"]) >= 0).all()
        assert result["curve"][-1] <= TINY.values.max(axis=1).mean() + 1e-12
        assert len(result["informed"]) == broadcasts
        assert run(TINY, SETTINGS, method, seed=1, rounds=4) == result, "a run can be repeated"


def test_the_outsourced_benchmark_runs_every_method() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 3))
    problem = outsourced.supplied("small", rows, np.array([[-4.0, -4.0], [4.0, 4.0]]))
    for method in outsourced.METHODS:
        curve = outsourced.regrets(problem, method, seed=0)
        assert curve.shape == (outsourced.ROUNDS,)
        assert (np.diff(curve) <= 0).all()
        assert curve[-1] >= 0


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
    found = measure(Cell("bowl", 0, "one", 1000, "epsilon = 4", 0), table())
    assert found["verdict"] == "better"
    assert abs(found["improvement"] - found["cut"]) < 3 * found["half"]
    assert found["loss"] < 0.5
    told = rivals(table(), 1000, "epsilon = 4")
    assert told[EXACT] <= told[CV] + 0.1 <= told[DEFAULT]
    assert told[EXACT] <= told[RANDOM] <= told[DEFAULT]


def test_a_larger_share_of_the_estimate_says_better_more_often() -> None:
    points = [expects(table(), 300, "epsilon = 1", share) for share in (0.02, 0.1, 0.4)]
    assert points == sorted(points, key=lambda point: point[1])
    assert points[0][0] <= points[-1][0]


def test_ways_in_expectation_are_ratios_to_the_exact_choice() -> None:
    singles = table()
    parts = (losses[TRIALS - 4 : TRIALS] for losses in (singles.public, singles.private, singles.judge))
    averages = Table(*parts, singles.clip, singles.constant)
    found = ways(replace(singles, averages=dict.fromkeys(WEIGHTS, averages)), 300, "epsilon = 4")
    assert set(NAMES) <= found.keys()
    assert all(1 - 1e-9 <= found[way] < 1.5 for way in ("exact", "defaults", "averages", "weight, without noise"))
    upside_down = family(-1.0, 1000, 0)
    usual = float(np.median(upside_down.judge))
    assert expected(upside_down, 1000, "epsilon = 4") < 0.7 * usual  # far finalists save it


@pytest.mark.parametrize("name", KINDS)
def test_every_task_takes_its_default_and_random_configurations(name: str) -> None:
    task = space_task(name, 50, 0)
    assert task.space.contains(task.default)
    for parameters in (task.default, task.space.decode(np.random.default_rng(3).random(task.space.d))):
        losses = task.losses(parameters)
        assert losses.shape == (50,)
        assert np.isfinite(losses).all()
        assert task.clip[0] <= task.test_loss(parameters) <= task.clip[1]


@pytest.mark.parametrize("subject", ["optuna gibo", "run centred"])
def test_a_trial_makes_few_transactions_on_one_connection(subject: str) -> None:
    cost = scale.measure(subject, (30, 60))
    assert cost.connections == 1
    assert 0 < max(cost.transactions.values()) <= 7


@pytest.mark.parametrize(("algorithm", "variant"), list(zip(ALGORITHMS, cycle((MULTIPLIER, ORDER_WISE, THEOREM)))))
def test_a_local_run_is_reproducible(algorithm: str, variant: Any) -> None:
    made = synthetic("Matern 2.5", EPSILONS[2], 0)
    curves = [play(algorithm, *made, 200, 0, variant)[0] for _ in range(2)]
    np.testing.assert_array_equal(*curves)
    assert (np.diff(curves[0]) >= 0).all()
    assert len(curves[0]) == len(checkpoints(200))


# ---- the frontier --------------------------------------------------------------------------------


def bowl(*, plain: bool = True) -> FrontierTask:
    numbers = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
    space = Space(numbers if plain else {**numbers, "kind": Categorical(["good", "bad"])})
    people = np.random.default_rng(0).normal(0, 0.1, 300)

    def loss(p: dict[str, object]) -> float:
        return (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2 + 0.3 * (p.get("kind") == "bad")

    return FrontierTask(space, None, 300, (0.0, 2.0), lambda p: np.abs(loss(p) + people), loss)


def test_new_tasks_follow_the_rule_and_spaces_contain_their_defaults() -> None:
    chosen = {slot: people for slot, people in taken(kept()).items() if people}
    assert set(taken(kept())) == set(SLOTS)  # nothing was left unmeasured
    assert [kind.data for kind in NEW.values()] == [people.name for people in chosen.values()]
    assert not {kind.data for kind in NEW.values()} & {kind.data for kind in OLD.values()}
    for slot, people in chosen.items():
        model, inputs = MODELS[SLOTS[slot][0]], len(people.inputs)
        assert model.space(inputs).contains(model.default(inputs))


@pytest.mark.parametrize("method", [name for name in FRONTIER if name != GP])
def test_every_method_of_the_frontier_recommends_points_of_the_space(method: str) -> None:
    made = bowl(plain=method in NUMERIC)
    for mu in (1.0, None):
        for parameters in FRONTIER[method](made, mu, 16, 0).values():
            assert made.space.contains(parameters)


@pytest.mark.torch
def test_the_gaussian_process_that_is_told_the_noise_finds_the_bottom() -> None:
    pytest.importorskip("botorch")
    made = bowl()
    for mu in (1.0, None):
        found = FRONTIER[GP](made, mu, 20, 0)[OWN]
        assert made.space.contains(found)
    assert made.losses(found).mean() <= made.losses({"x": 0.3, "y": 0.6}).mean() + 1e-3  # people's, not the bowl's
