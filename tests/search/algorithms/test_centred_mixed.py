"""Centred releases in a space with categories and conditions: where it looks, and what it finds."""

import numpy as np
import pytest

from benchmarks.curator import Curator
from dptune import CENTRED, Categorical, Float, Int, SearchRun, Space
from dptune.search.algorithms.centred_mixed import CentredMixed, drawn, mutated
from dptune.search.algorithms.centred_plan import MANY, SATURATED, plan_centred
from planning import planned

N = 200
SPACE = Space(
    {
        "model": Categorical(["a", "b", "c"]),
        "x": Float(0.0, 1.0),
        "y": Float(1e-3, 1e3, log=True),
        "k": Int(1, 9),
        "fixed": Categorical(["f"]),
    },
    when={"y": {"model": ["b"]}, "k": {"model": ["c"]}},
)
DEFAULT = {"model": "a", "x": 0.1, "fixed": "f"}


def losses(p):
    """Losses (N,): the best is model b with x = 0.7, y = 10."""
    levels = np.random.default_rng(2).random(N)
    at = {"a": 0.3, "b": 0.1 * (np.log10(p.get("y", 1.0)) - 1) ** 2, "c": 0.2 + 0.02 * p.get("k", 5)}[p["model"]]
    return levels + at + (p["x"] - 0.7 - 0.05 * (levels - 0.5)) ** 2


def test_it_finds_the_best_branch_and_its_numbers_beginning_with_the_default():
    curator = Curator(N, (0.0, 3.0), seed=1, private=True, mu=4.0)
    search = SearchRun(CENTRED, curator, scope="s", space=SPACE, trials=72, seed=3, default=DEFAULT)
    for trial in range(search.plan.trials):
        parameters = search.ask()
        search.finish(str(trial), parameters, losses(parameters))
    first = search.algorithm.generations[0].points[0]
    assert SPACE.decode(first) == DEFAULT
    assert all(first.tolist() in generation.points.tolist() for generation in search.algorithm.generations)
    found = search.recommend()
    assert found.defaults == DEFAULT
    assert found["model"] == "b"
    assert SPACE.contains(found)
    assert set(found) == {"model", "x", "y", "fixed"}
    assert losses(found).mean() - losses({"model": "b", "x": 0.7, "y": 10.0}).mean() < 0.1


def test_proposals_are_configurations_and_mutations_stay_near():
    rng = np.random.default_rng(0)
    U = drawn(SPACE, 200, rng)
    for w in (*U, *mutated(SPACE, U, rng)):
        assert SPACE.encode(SPACE.decode(w)) == pytest.approx(w, abs=1e-9)
    u = SPACE.encode({"model": "b", "x": 0.5, "y": 1.0, "fixed": "f"})
    found = [SPACE.decode(v) for v in mutated(SPACE, np.tile(u, (400, 1)), rng)]
    assert {p["model"] for p in found} == {"a", "b", "c"}
    assert np.median([abs(p["x"] - 0.5) for p in found]) < 0.05
    assert len({p["k"] for p in found if "k" in p}) > 4  # what becomes active is drawn


def test_the_plan_saturates_losses_and_keeps_the_space_beside_the_settings():
    plan = planned(plan_centred, d=SPACE.d, n=300, mu=1.0, trials=60, space=SPACE)
    assert plan.settings.tuning.saturation == 4
    assert plan.settings.tuning.steps == ()
    assert "space" not in plan.settings.describe()
    assert isinstance(CENTRED.algorithm(plan.settings), CentredMixed)
    assert plan.settings.tuning.saturated == 1
    for d, saturated in ((1, 0), (MANY, SATURATED)):  # with few numbers the search is careful
        numbers = Space({f"x{j}": Float(0, 1) for j in range(d)})
        tuning = planned(plan_centred, d=d, n=300, mu=1.0, trials=60, space=numbers).settings.tuning
        assert (tuning.saturation, tuning.saturated) == (2, saturated)
