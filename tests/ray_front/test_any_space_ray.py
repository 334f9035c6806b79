"""Choices, nested dictionaries, conditions and constants in Ray: searched, and rebuilt by the recommendation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Searcher

import dptune
from dptune_ray import CentredCMASearch, CentredSearch, DPGIBOSearch, SelectionSearch
from dptune_ray.spaces import domains_of, flat, rounded, to_space, without
from dptune_ray.worker import losses_at as evaluated
from ray_harness import open_privatizer
from ray_people import people

pytestmark = pytest.mark.usefixtures("local_actors")
SPACE = {
    "model": tune.choice(["a", "b"]),
    "a": {"k": tune.randint(1, 6), "layers": tune.choice([[8], [8, 8]])},
    "b": {"y": tune.loguniform(1e-3, 1e1)},
    "x": tune.uniform(-1.0, 1.0),
    "constant": 3,
}
WHEN = {"a/k": {"model": ["a"]}, "a/layers": {"model": ["a"]}, "b/y": {"model": ["b"]}}


def losses(config):
    data = people()
    if config["model"] == "a":
        return (config["x"] - data[:, 0]) ** 2 + 0.1 * config["a"]["k"] / len(config["a"]["layers"])
    return (config["x"] - data[:, 0]) ** 2 + (np.log10(config["b"]["y"]) / 2 - data[:, 1]) ** 2


def begin(folder, kind=CentredSearch, **settings):
    return kind(SPACE, open_privatizer(folder, mu=8.0), **{"n_trials": 40, "seed": 1, **settings})


def run(search):
    assert search.set_search_properties("loss", "min", SPACE)
    configs = []
    while (config := search.suggest(f"t{len(configs)}")) != Searcher.FINISHED:
        search.vault.hand_in("finish", f"t{len(configs)}", flat(config), evaluated(losses, config))
        configs.append(config)
    return configs


@pytest.mark.parametrize("when", [WHEN, None], ids=["conditions", "none"])
def test_choices_and_conditions_are_searched(tmp_path, when):
    search = begin(tmp_path, when=when)
    configs = run(search)
    assert len(configs) == search.n_trials
    assert {config["model"] for config in configs} == {"a", "b"}
    assert all(isinstance(config["a"]["layers"], list) for config in configs)  # as the user wrote it
    found = search.recommend()
    assert found["constant"] == 3
    assert losses(found).mean() < 0.45
    if when:
        assert ("k" in found["a"]) == (found["model"] == "a") != ("y" in found["b"])
    assert json.loads(json.dumps(flat(found))) == flat(found)


def test_the_default_is_tried_first_and_what_is_not_active_is_not_recommended(tmp_path):
    default = {"model": "a", "x": 0.9, "a": {"k": 5, "layers": [8]}}
    search = begin(tmp_path, when=WHEN, default=default)
    configs = run(search)
    first = configs[0]
    assert (first["model"], first["a"]) == ("a", {"k": 5, "layers": [8]})
    assert first["x"] == pytest.approx(0.9)
    found = search.recommend()
    assert found.defaults == default
    assert found["model"] != "b" or "a" not in found or not found["a"]


def test_an_estimate_needs_what_is_active_only(tmp_path):
    search = begin(tmp_path, when=WHEN)
    run(search)
    trainable = search.trainable(losses)
    with pytest.raises(dptune.InputError, match="no value for 'a/layers'"):
        search.estimate(trainable, {"model": "a", "x": 0.1, "a": {"k": 1}, "constant": 3})


def test_choices_of_objects_and_of_one_are_not_searched() -> None:
    domains = domains_of({"o": tune.choice([object(), 1]), "one": tune.choice([1]), "x": tune.uniform(0, 1)})
    assert list(to_space(domains, choices=True) or ()) == ["x"]
    assert rounded(tune.choice([[8], [8, 8]]), (8, 8)) == [8, 8]
    assert without({"a": {"b": 1, "c": 2}, "d": 3}, {"a/b", "d"}) == {"a": {"c": 2}}


def test_a_method_for_numbers_draws_choices_and_refuses_conditions(tmp_path):
    assert CentredCMASearch is CentredSearch
    assert list(begin(tmp_path, DPGIBOSearch)._known_space() or ()) == ["a/k", "b/y", "x"]
    with pytest.raises(dptune.InputError, match="is about 'model'"):
        begin(tmp_path, DPGIBOSearch, when={"a/k": {"model": ["a"]}})


def test_a_selection_shows_nothing_before_its_one_choice(tmp_path):
    search = begin(tmp_path, SelectionSearch, when=WHEN)
    configs = run(search)
    ledger = open_privatizer(tmp_path, mu=8.0).ledger
    assert [charge.key for charge in ledger.charges(search._name)] == ["choice"]
    assert {search.vault.call("told", f"t{i}") for i in range(len(configs))} == {np.inf}
    assert losses(search.recommend()).mean() <= np.median([losses(config).mean() for config in configs])
