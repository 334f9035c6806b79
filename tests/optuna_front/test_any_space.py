"""Categories, conditions and constants in Optuna: declared, or discovered while trials run."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FixedTrial, TrialState

import dptune
from audit_tools import start_forked
from dptune import Categorical, Float, Int, Space
from dptune.privacy.noise import SeededNoise
from dptune.search.view import RunView
from dptune_optuna import CentredSampler, DPGIBOSampler
from dptune_optuna.spaces import Discovery, to_space, within
from harness import create, open_ledger, open_privatizer, people, stored

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


def begin(folder, space, **settings):
    privatizer = open_privatizer(folder, mu=8.0, noise=SeededNoise(3))
    return CentredSampler(privatizer, space, n_trials=24, seed=1, **settings)


@pytest.mark.parametrize("space", [MODELS, None], ids=["declared", "discovered"])
def test_categories_and_conditions_are_searched_and_what_joined_is_known_to_restarts_and_copies(tmp_path, space):
    sampler = begin(tmp_path, space)
    study = create(None, sampler)
    study.optimize(sampler.objective(losses))
    run = sampler.run_of(study)
    assert run.complete
    assert {trial.params["model"] for trial in study.trials} == {"a", "b"}
    found = sampler.recommend(study)
    assert found["constant"] == "only"  # it rebuilds the model
    assert ("k" in found) == (found["model"] == "a") != ("y" in found)
    assert np.mean(losses(FixedTrial(found))) < 0.45
    assert run.space.when.keys() == {"k", "y"}
    noted = [charge.note for charge in open_ledger(tmp_path, 8.0).charges(prefix="generation/")]
    assert [len(note["points"][0]) for note in noted][-1] == MODELS.d
    assert all(("space" in note) == (space is None and len(note["points"][0]) == MODELS.d) for note in noted)

    study.sampler = again = begin(tmp_path, space)
    for other in (again.run_of(study), pickle.loads(pickle.dumps(sampler)).run_of(study)):
        assert other.space == run.space
        assert other.recommend() == run.recommend()
    assert again.recommend(study) == found
    assert again.objective(losses).estimate(study, found).value > 0


@pytest.mark.parametrize("space", [MODELS, None], ids=["declared", "discovered"])
def test_the_default_is_the_first_trial_also_where_the_space_is_not_known(tmp_path, space):
    default = {"model": "b", "x": 0.9, "y": 5.0}
    sampler = begin(tmp_path, space, default=default)
    study = create(None, sampler)
    study.optimize(sampler.objective(losses), n_trials=8)
    first = dict(study.trials[0].params)
    assert (first.pop("x"), first.pop("y")) == pytest.approx((0.9, 5.0))
    assert first == {"model": "b", "constant": "only"}
    assert sampler.recommend(study).defaults == default
    assert all(trial.params["x"] != study.trials[0].params["x"] for trial in study.trials[1:])


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_a_condition_is_one_the_function_must_keep_and_a_method_for_numbers_has_none(tmp_path):
    always = Space({name: MODELS[name] for name in MODELS})  # says that k and y are always active

    def run(space, **settings):
        sampler = begin(tmp_path, space, **settings)
        create(None, sampler).optimize(sampler.objective(losses), n_trials=1)

    for wrong, says in (
        (lambda: run(always), r"has the parameter '[ky]'.*did not suggest it"),
        (lambda: run(MODELS, default={"model": "a", "x": 0.0}), "active searched parameter"),
        (lambda: DPGIBOSampler(open_privatizer(tmp_path, mu=8.0), MODELS, n_trials=24), "searches numbers"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            wrong()
    assert open_ledger(tmp_path, 8.0).charges() == []
    assert to_space({"c": CategoricalDistribution([print, "a"])}, choices=True) is None  # an object is drawn
    assert not within(CategoricalDistribution(["a", "b"]), "c")


# ---- what trials have shown ----------------------------------------------------------------------------------


def shown(*trials):
    """The space after these trials; each gives its parameters in the order of suggestion."""
    begun = Space({"first": Categorical(["a", "b", "c"])})
    found = Discovery(begun)
    kinds = {str: CategoricalDistribution(["a", "b", "c"]), int: IntDistribution(1, 3), float: FloatDistribution(0, 1)}
    for trial in trials:
        found.add(trial, {name: kinds[type(value)] for name, value in trial.items()})
    return found.space(begun)


def test_a_condition_is_the_first_parameter_that_tells_trials_apart():
    space = shown({"first": "a", "x": 0.1}, {"first": "b", "second": "a", "y": 0.2}, {"first": "b", "second": "b"})
    assert space.when == {"x": {"first": ("a",)}, "second": {"first": ("b",)}, "y": {"second": ("a",)}}
    again = shown({"first": "a", "x": 0.1}, {"first": "b"}, {"first": "c", "x": 0.3})
    assert again.when == {"x": {"first": ("a", "c")}}
    layers = shown({"first": "a", "layers": 1, "x": 0.1}, {"first": "a", "layers": 2, "x": 0.1, "z": 0.2})
    assert layers.when == {"z": {"layers": (2,)}}
    unknown = shown({"first": "a", "x": 0.1}, {"first": "a", "x": 0.9, "y": 0.3})
    assert unknown.when == {"y": None}
    assert unknown.contains({"first": "a", "x": 0.5})
    assert len(unknown.encode({"first": "a", "x": 0.5})) == unknown.d


def test_what_no_ended_trial_has_shown_keeps_what_is_known_of_it():
    """A thread or a process is still running the trial that has suggested it."""
    begun = Space({"first": Categorical(["a", "b", "c"]), "x": Float(0, 1)})
    found = Discovery(begun)
    found.add({"first": "a"}, {"first": CategoricalDistribution(["a", "b", "c"])})
    assert found.space(begun).when == {"x": None}
    known = Space(begun, when={"x": {"first": ["c"]}})
    assert found.space(known).when == {"x": {"first": ("c",)}}


# ---- whole studies of spaces that trials show -----------------------------------------------------------------

N, TRIALS = 120, 24
PEOPLE = np.random.default_rng(0).normal(0.4, 0.1, N)


def layers(trial):
    n = trial.suggest_int("n_layers", 1, 4)
    units = [trial.suggest_int(f"units_{i}", 4, 64, log=True) for i in range(n)]
    return (n / 4 - PEOPLE) ** 2 + 0.001 * sum(units) / 64


def models(trial):
    model, value = trial.suggest_categorical("model", ["svc", "lr", "tree", "forest", "boost"]), 0.0
    if model in ("svc", "lr"):
        value += trial.suggest_float("C", 1e-3, 1e3, log=True) / 1e3
    if model in ("tree", "forest", "boost"):
        value += trial.suggest_int("max_depth", 1, 12) / 12
    if model in ("forest", "boost"):
        value += trial.suggest_int("n_estimators", 10, 200) / 200
    return (value / 2 - PEOPLE) ** 2


def begun_in(folder):
    sampler = CentredSampler(open_privatizer(folder, n=N, clip=(0.0, 2.0)), n_trials=TRIALS, seed=3)
    return sampler, create(stored(folder), sampler, "x")


def work(folder, function, **how):
    """One process of the study."""
    sampler, study = begun_in(Path(folder))
    study.optimize(sampler.objective(function), **how)


@pytest.mark.parametrize(
    ("way", "function", "more"),
    [
        ("four threads", models, 3),  # under way when the run was complete
        ("restarts", models, 10),  # what the first two have begun, and a choice has candidates of its own
        ("forks", layers, TRIALS),  # each makes generations, and at the end candidates, of its own
    ],
)
def test_a_study_of_a_space_that_grows_completes_its_plan(tmp_path, way, function, more):
    """The plan is complete, in about as many trials as it has, and what is recommended builds its model again."""
    if way == "forks":
        code = f"from test_any_space import *\nwork({str(tmp_path)!r}, {function.__name__})"
        ended = [worker.wait() for worker in [start_forked(code) for _ in range(2)]]
        assert [one.returncode for one in ended] == [0, 0], ended
    for trials in {"restarts": (7, 8, None), "forks": ()}.get(way, (None,)):
        work(tmp_path, function, n_trials=trials, n_jobs=4 if way == "four threads" else 1)
    sampler, study = begun_in(tmp_path)
    run = sampler.run_of(study)
    assert run.complete
    ended = len(study.get_trials(states=(TrialState.COMPLETE,)))
    assert run.plan.trials <= ended <= run.plan.trials + more
    progress = run.progress()
    rounds = run.algorithm.rounds  # by the parameters of the trial that began the run
    assert (progress["generations_done"], progress["generations_lost"]) == (rounds, 0)
    assert progress.get("chosen", False) is run.replay.chosen is (run.plan.choice_mu > 0)
    generations = run.ledger.charges("x", prefix="generation/")
    assert [charge.key for charge in generations] == [f"generation/{t}" for t in range(1, rounds + 1)]
    assert run.ledger.spent() ** 2 == pytest.approx(1 - run.plan.final_share)
    for found in (sampler.recommend(study), RunView.of(run.ledger, "x").recommend()):
        fixed = FixedTrial(dict(found))
        assert function(fixed).shape == (N,)
        assert fixed.params == dict(found)  # no parameter that the model has not
