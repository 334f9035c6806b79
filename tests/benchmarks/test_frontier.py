"""The comparison with the frontier: its rule, its design and its methods."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.frontier.headroom import kept, taken
from benchmarks.frontier.methods import GP, METHODS, NUMERIC, OWN
from benchmarks.frontier.models import MODELS
from benchmarks.frontier.people import SLOTS
from benchmarks.frontier.tasks import NEW, OLD, FrontierTask
from dptune import Categorical, Float, Space


def task(*, plain: bool = True) -> FrontierTask:
    numbers = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
    space = Space(numbers if plain else {**numbers, "kind": Categorical(["good", "bad"])})
    people = np.random.default_rng(0).normal(0, 0.1, 300)

    def loss(p: dict[str, object]) -> float:
        return (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2 + 0.3 * (p.get("kind") == "bad")

    return FrontierTask(space, None, 300, (0.0, 2.0), lambda p: np.abs(loss(p) + people), loss)


# ---- the rule and the design ---------------------------------------------------------------------------------------


def test_the_new_tasks_are_those_of_the_rule_and_defaults_lie_in_their_spaces() -> None:
    chosen = {slot: people for slot, people in taken(kept()).items() if people}
    assert set(taken(kept())) == set(SLOTS)  # nothing was left unmeasured
    assert [kind.data for kind in NEW.values()] == [people.name for people in chosen.values()]
    assert not {kind.data for kind in NEW.values()} & {kind.data for kind in OLD.values()}
    for slot, people in chosen.items():
        model, inputs = MODELS[SLOTS[slot][0]], len(people.inputs)
        assert model.space(inputs).contains(model.default(inputs))


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
