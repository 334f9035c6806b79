"""Categories, conditions and constants in Optuna: declared, or discovered while trials run."""

from __future__ import annotations

import pickle

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

import dptune
from dptune import Categorical, Float, Int, Space
from dptune.privacy.noise import SeededNoise
from dptune_optuna import CentredSampler, DPGIBOSampler
from dptune_optuna.spaces import Discovery
from harness import create, open_ledger, open_privatizer, people

MODELS = Space(
    {"model": Categorical(["a", "b"]), "x": Float(-1.0, 1.0), "k": Int(1, 5), "y": Float(1e-3, 1e1, log=True)},
    when={"k": {"model": ["a"]}, "y": {"model": ["b"]}},
)


def losses(trial):
    """Two models: the first has k, the second y; x is for both, and a constant is for nobody to search."""
    data, model = people(), trial.suggest_categorical("model", ["a", "b"])
    x = trial.suggest_float("x", -1, 1)
    trial.suggest_categorical("constant", ["only"])
    if model == "a":
        return (x - data[:, 0]) ** 2 + 0.1 * trial.suggest_int("k", 1, 5)
    return (x - data[:, 0]) ** 2 + (np.log10(trial.suggest_float("y", 1e-3, 1e1, log=True)) / 2 - data[:, 1]) ** 2


def begin(folder, space, *, seed=1, mu=8.0, **settings):
    privatizer = open_privatizer(folder, mu=mu, noise=SeededNoise(3))
    return CentredSampler(privatizer, space, **{"n_trials": 48, "seed": seed, **settings})


def optimise(folder, space, **settings):
    sampler = begin(folder, space, **settings)
    study = create(None, sampler)
    study.optimize(sampler.objective(losses), n_trials=48)
    return sampler, study


@pytest.mark.parametrize("space", [MODELS, None], ids=["declared", "discovered"])
def test_categories_and_conditions_are_searched(tmp_path, space):
    sampler, study = optimise(tmp_path, space)
    run = sampler.run_of(study)
    assert run.complete
    assert {trial.params["model"] for trial in study.trials} == {"a", "b"}
    found = sampler.recommend(study)
    assert found["constant"] == "only"  # it rebuilds the model
    assert ("k" in found) == (found["model"] == "a") != ("y" in found)
    assert np.mean(losses(optuna.trial.FixedTrial(found))) < 0.45
    assert run.space.when.keys() == {"k", "y"}
    noted = [charge.note for charge in open_ledger(tmp_path, 8.0).charges(prefix="generation/")]
    assert [len(note["points"][0]) for note in noted][-1] == MODELS.d
    assert all(("space" in note) == (space is None and len(note["points"][0]) == MODELS.d) for note in noted)


def test_what_joined_is_known_to_restarts_and_copies(tmp_path):
    sampler, study = optimise(tmp_path, None)
    again = begin(tmp_path, None)
    study.sampler = again
    for other in (again.run_of(study), pickle.loads(pickle.dumps(sampler.run_of(study)))):
        assert other.space == sampler.run_of(study).space
        assert other.recommend() == sampler.run_of(study).recommend()
    assert again.recommend(study) == sampler.recommend(study)
    assert again.objective(losses).estimate(study, again.recommend(study)).value > 0


def test_the_default_is_the_first_trial_also_where_the_space_is_not_known(tmp_path):
    default = {"model": "b", "x": 0.9, "y": 5.0}
    for space, folder in ((MODELS, tmp_path / "declared"), (None, tmp_path / "discovered")):
        folder.mkdir()
        sampler = begin(folder, space, default=default)
        study = create(None, sampler)
        study.optimize(sampler.objective(losses), n_trials=12)
        first = dict(study.trials[0].params)
        assert (first.pop("x"), first.pop("y")) == pytest.approx((0.9, 5.0))
        assert first == {"model": "b", "constant": "only"}
        assert sampler.recommend(study).defaults == default
        assert all(trial.params["x"] != study.trials[0].params["x"] for trial in study.trials[1:])
    sampler = begin(tmp_path, MODELS, default={"model": "a", "x": 0.0})
    with pytest.raises(dptune.InputError, match="active searched parameter"):
        sampler.run_of(create(None, sampler))


def test_a_mapping_of_distributions_may_have_choices(tmp_path):
    space = {"x": FloatDistribution(-1, 1), "model": CategoricalDistribution(["a", "b"])}
    sampler = begin(tmp_path, space, warn_independent_sampling=False)
    study = create(None, sampler)
    study.optimize(sampler.objective(losses), n_trials=16)
    assert sampler.run_of(study).space == Space({"x": Float(-1, 1), "model": Categorical(["a", "b"])})
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def test_a_declared_condition_is_one_the_function_must_keep(tmp_path):
    always = Space({name: MODELS[name] for name in MODELS})  # says that k and y are always active
    sampler = begin(tmp_path, always)
    with pytest.raises(dptune.InputError, match=r"has the parameter '[ky]'.*did not suggest it"):
        create(None, sampler).optimize(sampler.objective(losses), n_trials=1)
    assert open_ledger(tmp_path, 8.0).charges() == []


def test_a_method_for_numbers_refuses_a_space_with_choices(tmp_path):
    with pytest.raises(dptune.InputError, match="searches numbers"):
        DPGIBOSampler(open_privatizer(tmp_path), MODELS, n_trials=24)


# ---- what trials have shown ----------------------------------------------------------------------------------


def shown(*trials):
    """The space after these trials; each gives its parameters in the order of suggestion."""
    kinds = {"layers": Int(1, 3), "x": Float(0, 1)}
    begun = Space({"first": Categorical(["a", "b", "c"])})
    found = Discovery(begun)
    for trial in trials:
        study = optuna.create_study()
        asked = study.ask()
        for name, value in trial.items():
            if isinstance(value, str):
                asked.suggest_categorical(name, ["a", "b", "c"])
            elif isinstance(value, int):
                asked.suggest_int(name, 1, 3)
            else:
                asked.suggest_float(name, 0, 1)
        found.add(trial, asked.distributions)
    assert all(
        isinstance(found.space(begun)[name], type(kind)) for name, kind in kinds.items() if name in found.space(begun)
    )
    return found.space(begun)


def test_a_condition_is_the_first_parameter_that_tells_trials_apart():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = shown({"first": "a", "x": 0.1}, {"first": "b", "second": "a", "y": 0.2}, {"first": "b", "second": "b"})
    assert space.when == {"x": {"first": ("a",)}, "second": {"first": ("b",)}, "y": {"second": ("a",)}}
    again = shown({"first": "a", "x": 0.1}, {"first": "b"}, {"first": "c", "x": 0.3})
    assert again.when == {"x": {"first": ("a", "c")}}


def test_a_number_of_layers_is_a_condition_and_a_continuum_is_none():
    layers = shown({"first": "a", "layers": 1, "x": 0.1}, {"first": "a", "layers": 2, "x": 0.1, "z": 0.2})
    assert layers.when == {"z": {"layers": (2,)}}
    unknown = shown({"first": "a", "x": 0.1}, {"first": "a", "x": 0.9, "y": 0.3})
    assert unknown.when == {"y": None}
    assert unknown.contains({"first": "a", "x": 0.5})
    assert len(unknown.encode({"first": "a", "x": 0.5})) == unknown.d


def test_what_no_ended_trial_has_shown_keeps_what_is_known_of_it():
    """A thread or a process is still running the trial that has suggested it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    begun = Space({"first": Categorical(["a", "b", "c"]), "x": Float(0, 1)})
    found = Discovery(begun)
    asked = optuna.create_study().ask({"first": optuna.distributions.CategoricalDistribution(["a", "b", "c"])})
    found.add(asked.params, asked.distributions)
    assert found.space(begun).when == {"x": None}
    known = Space(begun, when={"x": {"first": ["c"]}})
    assert found.space(known).when == {"x": {"first": ("c",)}}
