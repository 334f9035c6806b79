"""Choices, nested dictionaries, conditions and constants in Ray: searched, and rebuilt by the recommendation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ray import tune

import dptune
from by_hand import begin, local, run
from dptune_ray import CentredSearch, DPGIBOSearch, SelectionSearch
from dptune_ray.spaces import flat
from dptune_ray.vault import Vault
from ray_harness import open_privatizer
from ray_people import people

pytestmark = local
SPACE = {
    "model": tune.choice(["a", "b"]),
    "a": {"k": tune.randint(1, 6), "layers": tune.choice([[8], [8, 8]])},
    "b": {"y": tune.loguniform(1e-3, 1e1)},
    "x": tune.uniform(-1.0, 1.0),
    "constant": 3,
}
WHEN = {"a/k": {"model": ["a"]}, "a/layers": {"model": ["a"]}, "b/y": {"model": ["b"]}}
DEFAULT = {"model": "a", "x": 0.9, "a": {"k": 5, "layers": [8]}}


def losses(config):
    data = people()
    if config["model"] == "a":
        return (config["x"] - data[:, 0]) ** 2 + 0.1 * config["a"]["k"] / len(config["a"]["layers"])
    return (config["x"] - data[:, 0]) ** 2 + (np.log10(config["b"]["y"]) / 2 - data[:, 1]) ** 2


def opened(folder, kind=CentredSearch, **settings):
    return kind(open_privatizer(folder, mu=8.0), SPACE, **{"n_trials": 24, "seed": 1, **settings})


def test_choices_and_conditions_are_searched(tmp_path):
    search = begin(opened(tmp_path, when=WHEN, default=DEFAULT), space=SPACE)
    configs, _ = run(search, 99, losses)
    assert len(configs) == search.n_trials
    assert {config["model"] for config in configs} == {"a", "b"}
    assert all(isinstance(config["a"]["layers"], list) for config in configs)  # as the user wrote it
    assert (configs[0]["model"], configs[0]["a"]) == ("a", DEFAULT["a"])  # tried first
    assert configs[0]["x"] == pytest.approx(0.9)
    found = search.recommend()
    assert found["constant"] == 3
    assert losses(found).mean() < 0.45
    assert json.loads(json.dumps(flat(found))) == flat(found)
    assert found.defaults == DEFAULT
    # what is not active is not recommended, and an estimate does not need it
    assert ("k" in found["a"]) == (found["model"] == "a") != ("y" in found["b"])
    with pytest.raises(dptune.InputError, match="no value for 'a/layers'"):
        search.estimate(search.trainable(losses), {"model": "a", "x": 0.1, "a": {"k": 1}, "constant": 3})


def test_a_method_for_numbers_draws_choices_and_refuses_conditions(tmp_path):
    assert list(opened(tmp_path, DPGIBOSearch).vault_run().space) == ["a/k", "b/y", "x"]
    with pytest.raises(dptune.InputError, match="is about 'model'"):
        opened(tmp_path, DPGIBOSearch, when={"a/k": {"model": ["a"]}})


def test_a_selection_shows_nothing_before_its_one_choice(tmp_path):
    search = begin(opened(tmp_path, SelectionSearch, when=WHEN, name="many"), space=SPACE)
    configs, values = run(search, 99, losses)
    ledger = open_privatizer(tmp_path, mu=8.0).ledger
    assert [charge.key for charge in ledger.charges("many")] == ["choice"]
    assert {search.vault.call(Vault.told, f"t{i}") for i in range(len(configs))} == set(values) == {np.inf}
    assert losses(search.recommend()).mean() <= np.median([losses(config).mean() for config in configs])
