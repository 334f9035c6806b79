"""What the front ends take as settings: NumPy's numbers like Python's, and nothing that would fail later."""

from __future__ import annotations

import json

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution

import dptune
from dptune_optuna import LDPTGPSampler, PrivateObjective
from harness import FRONTS, OPEN, SPACE, create, front, open_ledger, open_privatizer, people_s_losses, point, stored

BOTH = pytest.mark.parametrize("kind", OPEN)
PLAIN = {"mu": 0.5, "n_trials": 40, "final_share": 0.25}
NUMPY = {"mu": np.float32(0.5), "n_trials": np.int64(40), "final_share": np.float32(0.25)}
REPLIES = dptune.local.LaplaceReplies(1.0, B=0.8, R=0.2)


@pytest.mark.parametrize("kind", FRONTS)
def test_numpys_numbers_begin_the_same_run(tmp_path, kind):
    seeds = ({}, {}) if kind == "values" else ({"seed": np.int64(3)}, {"seed": 3})
    for settings in (NUMPY | seeds[0], PLAIN | seeds[1], NUMPY | seeds[0]):  # one that goes on was planned alike
        sampler, objective = front(kind, open_privatizer(tmp_path), **settings)
        study = create(stored(tmp_path), sampler)
        study.optimize(objective, n_trials=2)
        assert kind == "values" or type(sampler.n_trials) is int
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * 6
    json.dumps(study.user_attrs)


@BOTH
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mu": "1"}, "mu must"),
        ({"mu": True}, "mu must"),
        ({"n_trials": -5}, "n_trials must"),
        ({"n_trials": 10.0}, "n_trials must"),
        ({"seed": "x"}, "seed must"),
        ({"seed": -1}, "seed must"),
        ({"final_share": "a"}, "final_share must"),
        ({"foo": 1}, "has no option 'foo'; it has n_trials, mu, seed, "),
        ({"trials": 20}, "has no option 'trials'"),
        ({"cells": [0.5]}, "has no option 'cells'"),
        ({"loss_range": 3}, "Sampler has no option 'loss_range'"),
        ({"default": [0.5]}, "default must be a dict"),
        ({"warn_independent_sampling": "no"}, "warn_independent_sampling must be True or False"),
        ({"unprotected": "yes"}, 'unprotected must be "refuse" or "allow"'),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, kind, wrong, says):
    with pytest.raises(dptune.InputError, match=says):
        OPEN[kind](open_privatizer(tmp_path), **wrong)
    assert open_ledger(tmp_path).count() == 0


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("gibo", {"monitr_share": 0.1}, r"^DPGIBOSampler .*steps, batch, .*monitor_share"),
        ("gibo", {"batch": 0}, "batch"),
        ("centred", {"n_trials": 20, "population": 50}, "n_trials.*population"),
        ("centred", {"tuning": {"steps": 20}}, "steps.*n_trials"),
        ("centred", {"sigmaa": 3}, "CentredSampler has no option 'sigmaa'.*tuning"),
        ("values", {"n_trials": 0}, "n_trials"),
        ("values", {"mu": -1.0}, "mu"),
        ("values", {"final_share": 1.0}, "final_share"),
        ("values", {"about": {"loss": "log_loss"}}, "data="),
        ("values", {"about": {"loss": "roc_auc", "data": ([[0.0]], [0])}}, "roc_auc"),
    ],
)
def test_what_a_plan_or_a_loss_refuses_is_refused_in_their_words(tmp_path, kind, wrong, says):
    with pytest.raises(dptune.InputError, match=says):
        front(kind, open_privatizer(tmp_path), **wrong)


@pytest.mark.parametrize("early", ["no", 1, None])
def test_an_estimate_is_early_or_it_is_not(tmp_path, early):
    study, objective = create(None, None), PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=3)
    with pytest.raises(dptune.InputError, match="early must be True or False"):
        objective.estimate(study, {"x": 0.0, "y": 1.0}, early=early)


def test_every_setting_of_the_plan_is_an_option(tmp_path):
    chosen, tuning = {"population": 5, "radius": 1.0}, {"rate": 0.5, "steps": (0.0, 0.0), "average": 2, "candidates": 2}
    sampler = OPEN["centred"](open_privatizer(tmp_path), **chosen, tuning=tuning)
    settings = sampler.run_of(create(None, sampler)).plan.settings
    assert {name: getattr(settings, name) for name in chosen} == chosen
    assert {name: getattr(settings.tuning, name) for name in tuning} == tuning


@pytest.mark.parametrize("kind", FRONTS)
def test_a_privatizer_and_something_to_search_are_needed(tmp_path, kind):
    sampler = None if kind == "values" else type(OPEN[kind](open_privatizer(tmp_path)))
    for nobody in (None, "ledger.db"):
        with pytest.raises(dptune.InputError, match="LossPrivatizer"):
            front(kind, nobody)
    for nothing in ({"k": CategoricalDistribution(["only"])}, {}) if sampler else ():
        with pytest.raises(dptune.InputError, match="more than one value to search"):
            sampler(open_privatizer(tmp_path), nothing)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"settings": None}, "LDPTGPSampler needs settings"),
        ({"space": {"k": CategoricalDistribution(["a", "b"])}}, "no float or int"),
        ({"space": None, "candidates": [{"x": 0.0, "y": 1.0}]}, "give space="),
        ({"candidates": [{"x": 2.0, "y": 1.0}]}, "inside the space"),
        ({"patience": -1}, "patience"),
        ({"patience": "1"}, "patience"),
        ({"centre": "0"}, "centre"),
        ({"count": 0}, "count"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_wrong_settings_of_local_samplers_are_refused_by_name(wrong, says):
    numpys = {"patience": np.int64(3), "centre": np.float32(0.0), "count": np.int8(9), "seed": np.int64(1)}
    usual = {"space": SPACE, "settings": dptune.local.LDPSettings(REPLIES)}
    create(None, LDPTGPSampler(**usual, **numpys)).ask(SPACE)
    with pytest.raises(dptune.InputError, match=says):
        LDPTGPSampler(**{**usual, **wrong})


@pytest.mark.parametrize(("clip", "values"), [((-1e30, 1e30), (-1e30, 1e30)), ((0.0, 3e-30), (0.0,))])
def test_losses_of_any_allowed_range_are_searched(tmp_path, clip, values):
    """The radius stays where a release is possible, whether everybody differs or all agree."""
    data = np.random.default_rng(0).choice(values, (1000, 60))
    privatizer = open_privatizer(tmp_path, clip=clip)
    function = lambda trial: point(trial) and data[trial.number]  # noqa: E731
    sampler, objective = front(
        "centred", privatizer, function, n_trials=80, tuning={"rate": 3.0, "radius_share": 0.9}, mu=0.9
    )
    study = create(None, sampler)
    study.optimize(objective, n_trials=sampler.n_trials)
    assert sampler.run_of(study).complete
