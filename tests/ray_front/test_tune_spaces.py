"""Tune's domains work in every search space, given to the searcher, the Tuner or both.

Tune hides objects from searchers. test_refusals.py has the refusals.
"""

import copy
import os
import pickle
import signal

import numpy as np
import pytest
from ray import cloudpickle, tune
from ray.tune.search.optuna import OptunaSearch
from sklearn.dummy import DummyRegressor

import dptune
from by_hand import NoNoise, a_trial, begin, local, open_ldp, open_private, played, told
from dptune_ray import CentredSearch, DPGIBOSearch, spaces
from ray_harness import open_centred, open_ledger, open_privatizer, tuner
from ray_people import EVERYTHING, Kernel, N, losses_of_everything, people

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
def test_the_space_contains_exactly_the_values_that_tune_draws(kind):
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


def test_plain_values_are_named_by_their_path_and_objects_left_out():
    config = {"model": {"depth": 4}, "rate": 0.5, "n": np.int64(3), "data": object()}
    assert spaces.flat(config) == {"model/depth": 4, "rate": 0.5, "n": 3}
    lists = {"layers": (np.int64(3), [2.5]), "steps": [{"k": 1}], "data": [object()], "codes": {1: [2]}, "s": [{3}]}
    assert spaces.flat(lists) == {"layers": [3, [2.5]], "steps": [{"k": 1}], "codes/1": [2]}


def opened(folder, kind, way, space=EVERYTHING):
    """Return a searcher, and what the Tuner is given."""
    settings = {"n_trials": 8, "seed": 1, "name": "run", "mode": "min"}
    space = copy.deepcopy(space)
    search = kind(open_privatizer(folder, mu=4.0), None if way == "Tuner" else space, **settings)
    return search, None if way == "searcher" else space


@local
@pytest.mark.parametrize(
    ("kind", "way"), [(CentredSearch, "searcher"), (CentredSearch, "Tuner"), (DPGIBOSearch, "both")]
)
def test_every_kind_of_domain_reaches_the_function_and_is_recommended(tmp_path, kind, way):
    search, space = opened(tmp_path, kind, way)
    trials = played(search, search.trainable(losses_of_everything), space=space)
    assert len(trials) == search.n_trials
    assert search.vault_run().begin().complete
    found = search.recommend()
    assert {*search.vault_run().space} == {"x", "y", "q", "i", "l", "inner/u"}
    assert found["constant"] == 3
    assert found["inner"]["fixed"] == "f"
    assert "__" not in repr(found)
    assert {"kernel", "late"}.isdisjoint(found)
    assert {"object", "objects"}.isdisjoint(found) == (way == "Tuner")
    if way != "Tuner":
        assert (found["object"].width, found["objects"][0].width, found["inner"]["object"].width) == (3.0, 5.0, 4.0)
    assert {config["kernel"].width for config, _ in trials} == {1.0, 2.0}


@local
@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize("way", ["Tuner", "searcher"])
def test_any_searcher_gets_every_domain_from_the_tuner_or_its_own_space(tmp_path, way):
    plain = {key: EVERYTHING[key] for key in ("x", "y", "text", "i")}
    inner = OptunaSearch(plain, metric="loss", mode="min") if way == "searcher" else OptunaSearch()
    search = open_private(open_privatizer(tmp_path), inner, n_trials=4, mode="min")
    function = losses_of_everything if way == "Tuner" else lambda config: (config["x"] - people()[:, 0]) ** 2
    assert len(played(search, search.trainable(function), space=EVERYTHING if way == "Tuner" else None)) == 4
    found = search.recommend()
    assert {"x", "y", "text", "i"} <= set(found)
    assert "__" not in repr(found)


@local
def test_users_replies_are_asked_for_with_every_kind_of_domain(tmp_path):
    space = {key: EVERYTHING[key] for key in ("x", "kernel", "late", "object")}
    search = open_ldp(tmp_path, param_space=copy.deepcopy(space), mode="min", settings=told(8.0, 100.0))
    trainable = search.trainable(
        lambda config: config["x"] + config["kernel"].width + config["object"].width + config["late"],
        randomizer=NoNoise(8.0, 100.0, invalid=100.0),
    )
    for config, reply in played(search, trainable, most=3, space=space):
        assert reply == pytest.approx(2 * config["x"] + 13 + config["kernel"].width)
    assert search.recommend().keys() == {"x"}


@local
def test_what_tune_itself_cannot_choose_works_in_the_searcher(tmp_path):
    mixed = {"x": tune.uniform(0, 1), "kernel": tune.choice([Kernel(1.0), 1])}
    search, _ = opened(tmp_path, CentredSearch, "searcher", mixed)
    trials = played(search, search.trainable(lambda config: (config["x"] - people()[:, 0]) ** 2))
    assert {isinstance(config["kernel"], Kernel | int) for config, _ in trials} == {True}


@local
def test_a_run_without_a_trial_in_its_space_ends_unpaid(tmp_path):
    """The error names the parameter that differs."""
    search = begin(open_centred(open_privatizer(tmp_path)))
    moved = a_trial(search.trainable(losses_of_everything), "a", {**search.suggest("a"), "x": 7.0})
    with pytest.raises(dptune.InputError, match=r"'x' cannot be 7.0.*The searcher asked for \{'x': "):
        moved.step()
    for call in (lambda: search.suggest("b"), lambda: search.on_trial_complete("a", error=True)):
        with pytest.raises(dptune.InputError, match="the experiment ends"):
            call()
    assert open_ledger(tmp_path).spent() == 0.0


def constant(answer):
    return DummyRegressor(strategy="constant", constant=answer).fit([[0.0]], [0.0])


@local
def test_reachable_private_rows_end_the_experiment_at_its_first_trial(tmp_path):
    """The remedy in the error message works."""
    both = np.zeros((2 * N, 1)), np.zeros(2 * N)

    def load():
        return both[0][N:], both[1][N:]

    def reaching(config):
        return constant(both[1][:N].mean() + config["x"])

    def sent(trainable):
        return pickle.loads(cloudpickle.dumps(trainable))

    search = begin(open_centred(open_privatizer(tmp_path), n_trials=8))
    with pytest.raises(dptune.InputError, match=r"reach the private data= through both.*instead of from both"):
        played(search, sent(search.trainable(reaching, loss="squared_error", data=load)))
    with pytest.raises(dptune.InputError, match="the experiment ends"):
        search.on_trial_complete("0", error=True)
    public = both[1][:N].copy()
    trainable = search.trainable(lambda config: constant(public.mean() + config["x"]), loss="squared_error", data=load)
    assert np.isfinite([value for _, value in played(begin(search), sent(trainable))][4:]).all()
    assert search.vault_run().begin().complete


# ---- on a cluster --------------------------------------------------------------------------------------


class Interrupt(tune.Callback):
    """Presses Ctrl-C after three results, once."""

    def __init__(self, pressed):
        self.pressed, self.seen = pressed, 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.seen += 1
        if self.seen == 3 and not self.pressed.exists():
            self.pressed.touch()
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("way", "again"), [("Tuner", True), ("Tuner", False), ("both", False)])
def test_a_restored_run_has_its_objects_again_or_says_how_to_give_them(fast_path, caplog, way, again):
    search, given = opened(fast_path, CentredSearch, way)
    trainable = search.trainable(losses_of_everything)
    settings = {"num_samples": 20, "run": {"callbacks": [Interrupt(fast_path / "pressed")]}, "param_space": given}
    assert len(tuner(trainable, search, fast_path, **settings).fit()) < 8
    space = {"param_space": given} if again else {}
    results = tune.Tuner.restore(str(fast_path / "experiment"), trainable, **space, resume_unfinished=True).fit()
    if way == "Tuner" and not again:
        assert "Tuner.restore(..., param_space=...) puts the objects back" in caplog.text
        return
    assert results.num_errors == 0
    assert search.progress()["generations_done"] == search.progress()["generations"]
    assert search.recommend()["constant"] == 3
