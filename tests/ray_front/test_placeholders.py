"""A search space given to the searcher, the Tuner or both, through a real Tuner, which hides objects from searchers."""

from __future__ import annotations

import copy
import os
import signal
import traceback

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

import dptune
from dptune_ray import CentredSearch, DPGIBOSearch, PrivateSearcher, SelectionSearch
from ldp_harness import NoNoise, open_ldp, told
from ray_harness import SPACE, open_ledger, open_privatizer, tuner
from ray_people import N, people

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]
WAYS = ["searcher", "Tuner", "both"]


class Kernel:
    """An object that a user chooses among, or holds constant."""

    def __init__(self, width):
        self.width = width


EVERYTHING = {
    "x": tune.uniform(-1.0, 1.0),
    "y": tune.loguniform(1e-3, 1e1),
    "q": tune.quniform(0.0, 1.0, 0.25),
    "i": tune.randint(1, 6),
    "l": tune.lograndint(1, 100),
    "text": tune.choice(["a", "b"]),
    "number": tune.choice([1, 2.5, None]),
    "layers": tune.choice([[8], [8, 8]]),
    "kernel": tune.choice([Kernel(1.0), Kernel(2.0)]),
    "inner": {
        "k": tune.choice([np.int64(1), np.int64(2)]),
        "u": tune.uniform(0, 1),
        "fixed": "f",
        "object": Kernel(4.0),
    },
    "late": tune.sample_from(lambda config: config["x"] + 10),
    "constant": 3,
    "object": Kernel(3.0),
    "objects": [Kernel(5.0), "plain"],
}
OBJECTS = {"object", "objects"}


def losses(config):
    """Fails unless the configuration is what the user wrote."""
    assert config.keys() == EVERYTHING.keys()
    assert config["inner"].keys() == EVERYTHING["inner"].keys()
    assert config["kernel"].width in (1.0, 2.0)
    assert (config["object"].width, config["inner"]["object"].width) == (3.0, 4.0)
    assert (config["objects"][0].width, config["objects"][1]) == (5.0, "plain")
    assert config["late"] == config["x"] + 10
    assert (config["constant"], config["inner"]["fixed"]) == (3, "f")
    assert config["text"] in ("a", "b")
    assert config["number"] in (1, 2.5, None)
    assert config["layers"] in ([8], [8, 8])
    return (config["x"] - people()[:, 0]) ** 2


def run(folder, kind, way, space=EVERYTHING, function=losses, **settings):
    """Run some tiny trials; return the searcher and the results."""
    own = {"mode": "min"} if way == "searcher" else {}
    own = {"n_trials": 8, "seed": 1, "name": "run", **own, **settings}
    space = copy.deepcopy(space)
    search = kind(open_privatizer(folder, mu=4.0), None if way == "Tuner" else space, **own)
    given = None if way == "searcher" else space
    return search, tuner(search.trainable(function), search, folder, num_samples=12, param_space=given).fit()


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(CentredSearch, "searcher", marks=pytest.mark.slow),
        (CentredSearch, "Tuner"),
        pytest.param(DPGIBOSearch, "both", marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_domain_reaches_the_function_and_the_run_ends_with_a_recommendation(fast_path, kind, way):
    search, results = run(fast_path, kind, way)
    assert results.num_errors == 0
    assert len(results) == search.n_trials <= 12
    assert open_ledger(fast_path, mu=4.0).spent() > 0
    progress = search.progress()
    assert progress.get("generations_done", progress.get("steps_done")) > 0
    found = search.recommend()
    chosen = {"text", "number", "layers"} | (set() if way == "Tuner" else {"inner/k"})  # Tune hides NumPy's numbers
    searched = {"x", "y", "q", "i", "l", "inner/u"} | (chosen if kind is CentredSearch else set())
    assert {*search.vault_run().space} == searched
    assert found["constant"] == 3
    assert found["inner"]["fixed"] == "f"
    assert "__" not in repr(found)
    assert {"kernel", "late"}.isdisjoint(found)
    assert OBJECTS.isdisjoint(found) == (way == "Tuner")
    if way != "Tuner":
        assert (found["object"].width, found["objects"][0].width, found["inner"]["object"].width) == (3.0, 5.0, 4.0)
    assert {result.config["kernel"].width for result in results} <= {1.0, 2.0}


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize("way", ["Tuner", pytest.param("searcher", marks=pytest.mark.slow)])
def test_any_searcher_gets_every_kind_of_domain_by_the_tuner_or_has_a_space_of_its_own(fast_path, way):
    plain = {key: EVERYTHING[key] for key in ("x", "y", "text", "i")}
    inner = OptunaSearch(plain, metric="loss", mode="min") if way == "searcher" else OptunaSearch()
    search = PrivateSearcher(inner, open_privatizer(fast_path), n_trials=4, name="run")
    function = losses if way == "Tuner" else lambda config: (config["x"] - people()[:, 0]) ** 2
    given = copy.deepcopy(EVERYTHING) if way == "Tuner" else None
    results = tuner(search.trainable(function), search, fast_path, num_samples=4, param_space=given).fit()
    assert results.num_errors == 0
    assert len(results) == 4
    found = search.recommend()
    assert {"x", "y", "text", "i"} <= set(found)
    assert "__" not in repr(found)


@pytest.mark.parametrize("way", [pytest.param("Tuner", marks=pytest.mark.slow), "both"])
def test_users_replies_are_asked_for_with_every_kind_of_domain(fast_path, way):
    space = {key: copy.deepcopy(EVERYTHING[key]) for key in ("x", "kernel", "late", "object")}
    search = open_ldp(fast_path, param_space=None if way == "Tuner" else space, mode="min", settings=told(8.0, 100.0))
    trainable = search.trainable(
        lambda config: config["x"] + config["kernel"].width + config["object"].width + config["late"],
        randomizer=NoNoise(8.0, 100.0, invalid=100.0),
    )
    given = {"metric": "reply", "num_samples": 3, "param_space": None if way == "searcher" else space}
    results = tuner(trainable, search, fast_path, **given).fit()
    assert results.num_errors == 0
    for result in results:
        assert result.metrics["reply"] == pytest.approx(2 * result.config["x"] + 13 + result.config["kernel"].width)
    assert search.recommend().keys() == {"x"}


def test_a_selection_is_recommended_and_its_trials_have_no_best(fast_path):
    search, results = run(fast_path, SelectionSearch, "both", n_trials=3)
    assert results.num_errors == 0
    with pytest.raises(RuntimeError, match="No best trial found"):  # Ray's own words: docs/ray.md says what to call
        results.get_best_result()
    assert search.recommend()["object"].width == 3.0


def test_different_spaces_are_refused_by_the_names_of_their_parameters(fast_path):
    search = CentredSearch(open_privatizer(fast_path), {**EVERYTHING, "x": tune.uniform(0, 1)}, n_trials=8)
    given = {**EVERYTHING, "text": tune.choice(["a", "c"]), "kernel": Kernel(1.0)}
    with pytest.raises(dptune.InputError, match=r"differ in 'kernel', 'text', 'x'.*or the same to both"):
        tuner(search.trainable(losses), search, fast_path, param_space=given).fit()
    with pytest.raises(dptune.InputError, match="differ in 'x'"):
        tuner(search.trainable(losses), search, fast_path, param_space={"x": 3}).fit()


def test_what_tune_itself_cannot_choose_is_refused_by_name_and_works_in_the_searcher(fast_path):
    space = {"x": tune.uniform(0, 1), "kernel": tune.choice([Kernel(1.0), 1])}
    search = CentredSearch(open_privatizer(fast_path, mu=4.0), n_trials=8)
    with pytest.raises(dptune.InputError, match="'kernel': Tune cannot choose between objects and plain values"):
        tuner(search.trainable(losses), search, fast_path, param_space=space).fit()
    _, results = run(fast_path, CentredSearch, "searcher", space, lambda config: (config["x"] - people()[:, 0]) ** 2)
    assert {isinstance(result.config["kernel"], Kernel | int) for result in results} == {True}


def test_a_searcher_whom_tune_tells_no_mode_asks_for_it(fast_path):
    search = CentredSearch(open_privatizer(fast_path), SPACE, n_trials=8)
    with pytest.raises(dptune.InputError, match='Give the searcher mode="min"'):
        tuner(search.trainable(losses), search, fast_path, param_space=None, mode="max").fit()
    assert open_ledger(fast_path).spent() == 0.0


def shown(error):
    return "".join(traceback.format_exception(error))


class Moved(CentredSearch):
    """What comes between a searcher and its trials, in a class: it changes what was asked for."""

    def suggest(self, trial_id):
        config = super().suggest(trial_id)
        return config if config == Searcher.FINISHED else {**config, "x": 7.0}


def test_a_run_none_of_whose_trials_is_a_point_of_its_space_ends_unpaid_and_says_what_differs(fast_path):
    search = Moved(open_privatizer(fast_path), SPACE, n_trials=8)
    with pytest.raises((tune.TuneError, dptune.InputError)) as caught:
        tuner(search.trainable(losses), search, fast_path, num_samples=12).fit()
    assert "'x' cannot be 7.0" in shown(caught.value)
    assert "The searcher asked for {'x': " in shown(caught.value)
    assert open_ledger(fast_path).spent() == 0.0


@pytest.mark.parametrize(
    "given", [pytest.param(SPACE, id="both"), pytest.param(None, id="searcher", marks=pytest.mark.slow)]
)
def test_private_rows_within_reach_end_the_experiment_at_the_first_trial_and_the_remedy_works(fast_path, caplog, given):
    both = np.zeros((2 * N, 1)), np.zeros(2 * N)

    def load():
        return both[0][N:], both[1][N:]

    def reaching(config):
        return Constant(both[1][:N].mean() + config["x"])

    search = CentredSearch(open_privatizer(fast_path), SPACE, n_trials=8)
    trainable = search.trainable(reaching, loss="squared_error", data=load)
    with pytest.raises((tune.TuneError, dptune.InputError)) as caught:
        tuner(trainable, search, fast_path, num_samples=9, param_space=given).fit()
    assert "reach the private data= through both" in shown(caught.value)
    assert "instead of from both" in shown(caught.value)
    assert len([record for record in caplog.records if "Trial task failed" in record.message]) == 1
    public = both[1][:N].copy()
    trainable = search.trainable(lambda config: Constant(public.mean() + config["x"]), loss="squared_error", data=load)
    results = tuner(trainable, search, fast_path, run={"name": "again"}, param_space=given).fit()
    assert (len(results), results.num_errors) == (search.n_trials, 0)


class Constant:
    """A model that answers one number."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return np.full(len(X), self.answer)


class Interrupt(tune.Callback):
    """Presses Ctrl-C after three results, once."""

    def __init__(self, pressed):
        self.pressed, self.seen = pressed, 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.seen += 1
        if self.seen == 3 and not self.pressed.exists():
            self.pressed.touch()
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("again", [True, False], ids=["given again", "not given again"])
def test_a_restored_run_has_its_objects_again_or_says_how_to_give_them(fast_path, caplog, way, again):
    own = None if way == "Tuner" else copy.deepcopy(EVERYTHING)
    search = CentredSearch(open_privatizer(fast_path, mu=4.0), own, n_trials=8, seed=1, name="run", mode="min")
    trainable = search.trainable(losses)
    given = None if way == "searcher" else copy.deepcopy(EVERYTHING)
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
