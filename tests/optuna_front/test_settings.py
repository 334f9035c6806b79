"""What the front ends take as settings: NumPy's numbers like Python's, and nothing that would fail later."""

from __future__ import annotations

import json

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution

import dptune
from dptune_optuna import (
    CentredCMASampler,
    DPGIBOSampler,
    LDPATASampler,
    LDPMoMASampler,
    LDPTGPSampler,
    PrivateObjective,
)
from harness import (
    SPACE,
    create,
    losses_at,
    open_centred,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    point,
    stored,
)

PRIVATE = pytest.mark.parametrize("sampler", [DPGIBOSampler, CentredCMASampler])
PLAIN = {"mu": 0.5, "n_trials": 40, "seed": 3, "final_share": 0.25}
NUMPY = {"mu": np.float32(0.5), "n_trials": np.int64(40), "seed": np.int64(3), "final_share": np.float32(0.25)}
REPLIES = dptune.bandits.LaplaceReplies(1.0, B=0.8, R=0.2)


def losses(trial):
    return losses_at(people(), *point(trial))


@PRIVATE
def test_numpys_numbers_begin_the_same_run(tmp_path, sampler):
    for settings in (NUMPY, PLAIN, NUMPY):  # a run that continues is one that was planned alike
        made = sampler(SPACE, open_privatizer(tmp_path), **settings)
        study = optuna.create_study(storage=stored(tmp_path), study_name="s", sampler=made, load_if_exists=True)
        study.optimize(made.objective(losses), n_trials=2)
        assert type(made.n_trials) is int
    assert {t.state.name for t in study.trials} == {"COMPLETE"}
    assert len(study.trials) == 6
    json.dumps(study.user_attrs)


def test_numpys_numbers_begin_the_same_values(tmp_path):
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    for settings in (NUMPY, PLAIN):
        told = {name: value for name, value in settings.items() if name != "seed"}
        study.optimize(PrivateObjective(losses, open_privatizer(tmp_path), **told), n_trials=2)
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * 4


@PRIVATE
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mu": "1"}, "mu must"),
        ({"mu": True}, "mu must"),
        ({"n_trials": "20"}, "n_trials must"),
        ({"n_trials": -5}, "n_trials must"),
        ({"n_trials": 0}, "n_trials must"),
        ({"n_trials": 10.0}, "n_trials must"),
        ({"seed": "x"}, "seed must"),
        ({"seed": -1}, "seed must"),
        ({"final_share": "a"}, "final_share must"),
        ({"foo": 1}, "has no option 'foo'; it has n_trials, mu, seed, "),
        ({"trials": 20}, "has no option 'trials'"),
        ({"cells": [0.5]}, "has no option 'cells'"),
        ({"default": [0.5]}, "default must be a dict"),
        ({"warn_independent_sampling": "no"}, "warn_independent_sampling must be True or False"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, sampler, wrong, says):
    with pytest.raises(dptune.InputError, match=says):
        sampler(SPACE, open_privatizer(tmp_path), **wrong)
    assert open_ledger(tmp_path).count() == 0


def test_dp_gibo_names_its_own_options(tmp_path):
    with pytest.raises(dptune.InputError, match=r"^DPGIBOSampler .*steps, batch, .*monitor_share"):
        DPGIBOSampler(SPACE, open_privatizer(tmp_path), monitr_share=0.1)


@pytest.mark.parametrize("early", ["no", 1, None])
def test_an_estimate_is_early_or_it_is_not(tmp_path, early):
    study, objective = create(None, None), PrivateObjective(losses, open_privatizer(tmp_path), n_trials=3)
    with pytest.raises(dptune.InputError, match="early must be True or False"):
        objective.estimate(study, {"x": 0.0, "y": 1.0}, early=early)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"n_trials": 3}, "n_trials"),
        ({"n_trials": 20, "population": 50}, "n_trials.*population"),
        ({"radius": -1.0}, "radius"),
        ({"final_share": 1.0}, "final_share"),
        ({"population": 3}, "population"),
        ({"population": "8"}, "population"),
        ({"steps": 20}, "steps.*n_trials"),
        ({"mu": 1e-9}, "mu"),
        ({"sigmaa": 3}, "CentredSampler has no option 'sigmaa'.*sigma"),
        ({"loss_range": 3}, "CentredSampler has no option 'loss_range'"),
    ],
)
def test_wrong_settings_of_the_plan_of_centred_releases_are_refused_by_name(tmp_path, wrong, says):
    with pytest.raises(dptune.InputError, match=says):
        open_centred(open_privatizer(tmp_path), **wrong)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"batch": 0}, {"mu": -1.0}, {"monitor_share": 1.5}, {"clip": 0.0}], ids=str
)
def test_wrong_settings_of_the_plan_of_dp_gibo_are_refused(tmp_path, wrong):
    with pytest.raises(dptune.InputError, match=next(iter(wrong))):
        open_sampler(open_privatizer(tmp_path), **wrong)


def test_every_setting_of_the_plan_is_an_option(tmp_path):
    chosen = {"population": 5, "radius": 1.0, "rate": 0.5, "steps": (0.0, 0.0), "average": 2, "candidates": 2}
    sampler = open_centred(open_privatizer(tmp_path), **chosen)
    settings = sampler.run_of(create(None, sampler)).plan.settings
    assert {name: getattr(settings, name) for name in chosen} == chosen


@PRIVATE
def test_a_sampler_needs_a_privatizer_and_something_to_search(tmp_path, sampler):
    with pytest.raises(dptune.InputError, match=f"{sampler.__name__} needs a LossPrivatizer"):
        sampler(SPACE)
    for nothing in ({"k": CategoricalDistribution(["only"])}, {}):
        with pytest.raises(dptune.InputError, match="more than one value to search"):
            sampler(nothing, open_privatizer(tmp_path))


@pytest.mark.parametrize("nobody", [None, "ledger.db"])
def test_a_private_objective_needs_a_privatizer(nobody):
    with pytest.raises(dptune.InputError, match="LossPrivatizer"):
        PrivateObjective(losses, nobody, n_trials=3)


@pytest.mark.parametrize("sampler", [LDPTGPSampler, LDPATASampler, LDPMoMASampler])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"patience": "1"}, "patience"),
        ({"centre": "0"}, "centre"),
        ({"count": "9"}, "count"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_wrong_settings_of_local_samplers_are_refused_by_name(sampler, wrong, says):
    numpys = {"patience": np.int64(3), "centre": np.float32(0.0), "count": np.int8(9), "seed": np.int64(1)}
    study = create(None, sampler(SPACE, dptune.bandits.LDPSettings(REPLIES), **numpys))
    study.ask(SPACE)
    with pytest.raises(dptune.InputError, match=says):
        sampler(SPACE, dptune.bandits.LDPSettings(REPLIES), **wrong)


@pytest.mark.parametrize("sampler", [DPGIBOSampler, CentredCMASampler, LDPTGPSampler])
@pytest.mark.parametrize(
    ("space", "says"),
    [
        (["x"], "got list"),
        ({**SPACE, "z": (0.0, 1.0)}, "'z' must be an Optuna distribution"),
    ],
)
def test_a_space_that_is_none_is_refused(tmp_path, sampler, space, says):
    told = dptune.bandits.LDPSettings(REPLIES) if sampler is LDPTGPSampler else open_privatizer(tmp_path)
    with pytest.raises(dptune.InputError, match=says):
        sampler(space, told)


@pytest.mark.parametrize(("clip", "values"), [((-1e30, 1e30), (-1e30, 1e30)), ((0.0, 3e-30), (0.0,))])
def test_losses_of_any_allowed_range_are_searched(tmp_path, clip, values):
    """The radius stays where a release is possible, whether everybody differs or all agree."""
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=60, clip=clip)
    sampler = open_centred(privatizer, n_trials=80, rate=3.0, share=0.9, mu=0.9)
    study = create(None, sampler)
    data = np.random.default_rng(0).choice(values, (1000, 60))
    study.optimize(sampler.objective(lambda trial: point(trial) and data[trial.number]), n_trials=sampler.n_trials)
    assert sampler.run_of(study).complete
