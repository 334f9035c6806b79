"""Centred releases in a space with categories and conditions: where it looks, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.curator import Curator
from dptune import CENTRED, Categorical, Float, InputError, Int, SearchRun, Space
from dptune.algorithms.centred_plan import plan_centred
from dptune.algorithms.centred_thompson import drawn, mutated, near_the_middle

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


def losses(p: dict[str, object]) -> np.ndarray:
    """Losses (N,): the best is model b with x = 0.7, y = 10."""
    levels = np.random.default_rng(2).random(N)
    at = {"a": 0.3, "b": 0.1 * (np.log10(p.get("y", 1.0)) - 1) ** 2, "c": 0.2 + 0.02 * p.get("k", 5)}[p["model"]]
    return levels + at + (p["x"] - 0.7 - 0.05 * (levels - 0.5)) ** 2


def run(*, private: bool, trials: int = 72, **settings: object) -> SearchRun:
    curator = Curator(N, (0.0, 3.0), seed=1, private=private, mu=4.0)
    search = SearchRun(CENTRED, curator, scope="s", space=SPACE, trials=trials, seed=3, **settings)
    for trial in range(search.plan.trials):
        parameters = search.ask()
        search.finish(str(trial), parameters, losses(parameters))
    return search


@pytest.mark.parametrize("private", [False, True])
def test_it_finds_the_best_branch_and_its_numbers(private: bool) -> None:
    found = run(private=private).recommend()
    assert found["model"] == "b"
    assert SPACE.contains(found)
    assert set(found) == {"model", "x", "y", "fixed"}
    assert losses(found).mean() - losses({"model": "b", "x": 0.7, "y": 10.0}).mean() < 0.1


def test_the_default_is_the_first_point_and_what_the_answer_is_compared_with() -> None:
    search = run(private=False, default=DEFAULT)
    first = search.algorithm.generations[0].points[0]
    assert SPACE.decode(first) == DEFAULT
    assert all(first.tolist() in generation.points.tolist() for generation in search.algorithm.generations)
    found = search.recommend()
    assert found.defaults == DEFAULT
    assert found.distinguishable


def test_proposals_are_configurations_and_mutations_stay_near() -> None:
    rng = np.random.default_rng(0)
    U = drawn(SPACE, 200, rng)
    for w in (*U, *mutated(SPACE, U, rng)):
        assert SPACE.encode(SPACE.decode(w)) == pytest.approx(w, abs=1e-9)
    u = SPACE.encode({"model": "b", "x": 0.5, "y": 1.0, "fixed": "f"})
    found = [SPACE.decode(v) for v in mutated(SPACE, np.tile(u, (400, 1)), rng)]
    assert {p["model"] for p in found} == {"a", "b", "c"}
    assert np.median([abs(p["x"] - 0.5) for p in found]) < 0.05
    assert len({p["k"] for p in found if "k" in p}) > 4  # what becomes active is drawn


def test_first_points_have_numbers_near_the_middle_and_every_category() -> None:
    rng = np.random.default_rng(0)
    found = [SPACE.decode(near_the_middle(SPACE, 0.2, rng)) for _ in range(300)]
    assert {p["model"] for p in found} == {"a", "b", "c"}
    assert np.std([p["x"] for p in found]) == pytest.approx(0.2, rel=0.2)


def test_proposals_by_the_surrogate_are_configurations_and_differ() -> None:
    algorithm = run(private=False, trials=24).algorithm
    algorithm.t -= 1
    X = np.array([algorithm.ask(slot) for slot in range(2 * algorithm.batch)])
    assert np.allclose(X, [SPACE.encode(SPACE.decode(x)) for x in X], atol=1e-9)
    assert len(np.unique(X, axis=0)) == len(X)


def test_the_plan_keeps_the_space_beside_the_settings() -> None:
    plan = plan_centred(d=SPACE.d, n=N, loss_range=1.0, mu=1.0, seed=0, trials=60, space=SPACE)
    assert plan.settings.space == SPACE
    assert "space" not in plan.settings.describe()
    with pytest.raises(InputError, match="saturation"):
        plan_centred(d=1, n=N, loss_range=1.0, mu=1.0, seed=0, trials=60, saturation=-1.0)
