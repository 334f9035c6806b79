"""Tune's domains: what is searched covers what Tune would draw; test_refusals.py has what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune

from dptune_ray import spaces

SEARCHED = {
    "uniform": tune.uniform(-2.0, 3.0),
    "loguniform": tune.loguniform(1e-4, 1e2),
    "quniform": tune.quniform(-1.0, 2.0, 0.25),
    "qloguniform": tune.qloguniform(0.5, 64.0, 0.5),
    "randint": tune.randint(2, 9),
    "qrandint": tune.qrandint(10, 100, 20),
    "qrandint1": tune.qrandint(3, 7, 1),
    "lograndint": tune.lograndint(1, 1000),
    "qlograndint": tune.qlograndint(4, 256, 4),
}


@pytest.mark.parametrize("kind", SEARCHED)
def test_every_value_tune_draws_is_a_point_of_the_space_and_every_point_is_a_value_tune_could_draw(kind):
    domain = SEARCHED[kind]
    space = spaces.to_space({kind: domain})
    values = domain.sample(size=2000, random_state=1)
    for value in values[:100]:
        assert space.contains({kind: value})
        assert space.decode(space.encode({kind: value}))[kind] == pytest.approx(value, rel=1e-9)
    drawn = {round(value, 9) for value in values}
    for u in np.linspace(0, 1, 101):
        config = spaces.resolve({kind: domain}, space.decode(np.array([u])), {}, np.random.default_rng(0))
        assert domain.is_valid(config[kind])
        assert type(config[kind]) is type(domain.sample(random_state=3))
        if kind not in {"uniform", "loguniform", "lograndint"}:
            assert round(config[kind], 9) in drawn


def test_nested_dicts_are_named_by_their_path_and_come_back_nested():
    space = {"model": {"depth": tune.randint(1, 9), "kind": "tree"}, "rate": tune.uniform(0, 1), "n": 3}
    domains = spaces.domains_of(space)
    assert list(domains) == ["model/depth", "rate"]
    assert list(spaces.to_space(domains)) == ["model/depth", "rate"]
    config = spaces.resolve(domains, {"model/depth": 4, "rate": 0.5}, space, np.random.default_rng(0))
    assert config == {"model": {"depth": 4}, "rate": 0.5}
    assert spaces.flat({**config, "n": np.int64(3), "data": object()}) == {"model/depth": 4, "rate": 0.5, "n": 3}
    lists = {"layers": (np.int64(3), [2.5]), "steps": [{"k": 1}], "data": [object()], "codes": {1: [2]}, "s": [{3}]}
    assert spaces.flat(lists) == {"layers": [3, [2.5]], "steps": [{"k": 1}], "codes/1": [2]}
    objects = spaces.domains_of({"o": tune.choice([object(), 1]), "one": tune.choice([1]), "k": 1})
    assert spaces.to_space(objects, choices=True) is None
    assert spaces.rounded(tune.choice([[8], [8, 8]]), (8, 8)) == [8, 8]
    assert spaces.without({"a": {"b": 1, "c": 2}, "d": 3}, {"a/b", "d"}) == {"a": {"c": 2}}


def test_choices_and_functions_are_drawn_and_functions_see_the_rest():
    space = {
        "twice": tune.sample_from(lambda config: config["inner"]["x"] * 2 + config["constant"]),
        "inner": {"x": tune.uniform(0, 1)},
        "kind": tune.choice(["a", "b"]),
        "constant": 10,
        "fixed": tune.randint(3, 4),
    }
    domains = spaces.domains_of(space)
    assert list(spaces.to_space(domains)) == ["inner/x"]
    kinds = set()
    for seed in range(20):
        config = spaces.resolve(domains, {"inner/x": 0.25}, space, np.random.default_rng(seed))
        assert (config["twice"], config["fixed"]) == (10.5, 3)
        kinds.add(config["kind"])
    assert kinds == {"a", "b"}


def test_what_a_configuration_lacks_is_named():
    space = {"m": {"depth": tune.randint(1, 9), "k": 3}, "arch": tune.choice([{"a": 1}]), "c": 1}
    assert spaces.lacking({"m": {"depth": 2, "k": 3}, "arch": {"a": 1}, "c": 1}, space) == []
    assert spaces.lacking({"m": {"depth": 2}}, space) == ["arch", "c", "m/k"]
