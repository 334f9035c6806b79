"""The searchers against Tune's calls, without a cluster: trials are run by hand against a vault in this process."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from ray import cloudpickle, tune
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.search.optuna import OptunaSearch

import dptune
from dptune_optuna import DPGIBOSampler
from dptune_ray import DPGIBOSearch, PrivateSearch, worker
from dptune_ray.spaces import flat
from dptune_ray.worker import losses_at as evaluated
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search, random_search
from ray_people import losses, losses_at, people
from ray_privatizers import NoiselessPrivatizer
from searches_by_hand import Half, begin, on_both, private_search, run

pytestmark = pytest.mark.usefixtures("local_actors")


@on_both
def test_a_run_ends_by_itself_and_recommends_without_a_vault(tmp_path, opened):
    search = begin(opened(open_privatizer(tmp_path)))
    assert len(run(search, 40)) == search.n_trials == 12
    fresh = opened(open_privatizer(tmp_path))
    assert fresh.recommend() == search.recommend()
    assert set(fresh.recommend()) == {"x", "y"}
    assert fresh._read().complete
    assert fresh.progress()["recommended"] == fresh.recommend()
    without_space = type(fresh)(None, open_privatizer(tmp_path), name="run", seed=1, n_trials=12)
    assert without_space.n_trials == 12
    assert without_space.recommend() == fresh.recommend()


@pytest.mark.parametrize("call", ["never", "twice", "keyword", "none", "error"])
def test_completion_may_come_never_twice_by_keyword_or_without_a_result(tmp_path, call):
    for kind, search in {"g": open_search(open_privatizer(tmp_path), mu=0.5), "o": None}.items():
        search = search or private_search(tmp_path, OptunaSearch(seed=1), name="other", mu=0.5)
        begin(search)
        for i in range(3):
            trial = f"{kind}{i}"
            config = search.suggest(trial)
            value = search.vault.hand_in("finish", trial, flat(config), losses(config))
            result = {"loss": value, "training_iteration": 1}
            if call == "twice":
                search.on_trial_complete(trial, result)
                search.on_trial_complete(trial, result)
            elif call == "keyword":
                search.on_trial_complete(trial_id=trial, result=result, error=False)
            elif call == "none":
                search.on_trial_complete(trial, result=None)
            elif call == "error":
                search.on_trial_complete(trial, None, True)
        assert isinstance(search.suggest(f"{kind}9"), dict)


@on_both
def test_nothing_of_a_run_is_pickled(tmp_path, opened):
    private = losses({"x": 0.5, "y": 1.0})
    search = begin(opened(open_privatizer(tmp_path)))
    run(search, 5)
    config = search.suggest("a")
    search.vault.hand_in("finish", "a", flat(config), private)
    search._request.privatizer.observe("held", private)
    written = cloudpickle.dumps(search)
    for loss in private:
        assert np.float64(loss).tobytes() not in written
        assert np.float32(loss - 2).tobytes() not in written  # rows are kept centred, in float32
    again = pickle.loads(written)
    assert again._handle is None
    assert isinstance(again.suggest("b"), dict)
    assert copy.deepcopy(search).recommend() == search.recommend()


@on_both
def test_saving_and_restoring_keeps_to_the_run(tmp_path, opened):
    search = begin(opened(open_privatizer(tmp_path)))
    search.save(str(tmp_path / "state"))
    search.restore(str(tmp_path / "state"))
    with pytest.raises(dptune.InputError, match="of the run 'run'"):
        opened(open_privatizer(tmp_path), name="another").restore(str(tmp_path / "state"))


def test_a_search_space_with_functions_and_objects_is_restored(tmp_path):
    space = {**SPACE, "late": tune.sample_from(lambda config: config["x"] + 1), "o": tune.choice([Half, Searcher])}
    search = begin(open_search(open_privatizer(tmp_path), param_space=None), space=space)
    search.save(str(tmp_path / "state"))
    fresh = open_search(open_privatizer(tmp_path), param_space=None)
    fresh.restore(str(tmp_path / "state"))
    config = fresh.suggest("a")
    assert config["late"] == config["x"] + 1
    assert config["o"] in (Half, Searcher)


def test_a_searcher_that_lost_its_state_is_told_the_released_values(tmp_path):
    inner = OptunaSearch(seed=1)
    values = run(begin(private_search(tmp_path, inner)), 5)
    for state in (None, {"open": ["t9"], "known": ["t0", "t1"]}):
        fresh = OptunaSearch(seed=2)
        search = begin(private_search(tmp_path, fresh))
        if state is not None:
            search.set_state({**search.get_state(), **state})
        search.suggest("t7")
        told = [t.value for t in fresh._ot_study.trials if t.value is not None]
        assert told == values[0 if state is None else 2 :]
        search.suggest("t8")
        assert len([t for t in fresh._ot_study.trials if t.value is not None]) == len(told)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_other_searchers_work_on_values_in_both_directions(tmp_path, mode):
    inner = OptunaSearch(seed=1)
    search = begin(private_search(tmp_path, inner, n_trials=6), mode)
    values = run(search, 20, lambda config: 4 - losses(config) if mode == "max" else losses(config))
    assert len(values) == 6
    assert [t.value for t in inner._ot_study.trials] == values
    best = inner._ot_study.best_trial
    assert best.value == (min if mode == "min" else max)(values)
    recommended = private_search(tmp_path, n_trials=6).recommend()
    assert recommended in [trial.params for trial in inner._ot_study.trials]


def test_of_any_searchers_trials_the_one_with_good_neighbours_is_recommended(tmp_path):
    privatizer = open_privatizer(tmp_path, kind=NoiselessPrivatizer)
    search = begin(PrivateSearch(random_search(), privatizer, n_trials=24, name="run"))
    values = run(search, 24)
    best = search.recommend()
    assert losses(best).mean() < np.median(values)
    assert (best.improvement, best.at_edge) == (None, ())


@on_both
def test_a_recommendation_rebuilds_the_model_and_is_compared_with_the_default(tmp_path, opened, monkeypatch):
    space = {"model": {"x": SPACE["x"], "kernel": "rbf", "kind": tune.choice(["a", "b"])}, "y": SPACE["y"], "data": [1]}
    default = {"model": {"x": -0.9, "kind": "b"}, "y": 5.0}

    def deep(config):
        return losses({"x": config["model"]["x"], "y": config["y"]})

    privatizer = open_privatizer(tmp_path, mu=30.0)
    search = type(opened(privatizer))(space, privatizer, n_trials=24, seed=1, name="deep", default=default)
    run(begin(search, space=space), 24, deep)
    best = search.recommend()
    assert best["model"].keys() == {"x", "kernel", "kind"}
    assert (best["model"]["kernel"], best["data"]) == ("rbf", [1])
    assert best.defaults == default
    assert best.hint.value > 0
    if best.improvement is None:  # it does not end with a choice
        monkeypatch.setattr(worker, "prepare_this_process", lambda silent: None)
        worker.estimate_here(search.trainable(deep), [best, default])
        best = search.recommend()
    gain = deep(default).mean() - deep(best).mean()
    assert best.improvement.value == pytest.approx(gain, abs=6 * best.improvement.sigma)
    assert search.estimate(None, best).improvement == best.improvement  # recorded: nothing is trained
    assert "In the mean better than" in best.summary()


def test_what_the_inner_searcher_leaves_out_is_drawn(tmp_path):
    space = {**SPACE, "a": {"k": tune.choice(["u", "v"])}, "s": tune.sample_from(lambda c: c["x"] + 1)}
    search = begin(private_search(tmp_path, Half()), space=space)
    config = search.suggest("a")
    assert (config["x"], config["s"]) == (0.5, 1.5)
    assert 1e-3 <= config["y"] <= 1e1
    assert config["a"]["k"] in {"u", "v"}
    value = search.vault.hand_in("finish", "a", flat(config), losses(config))
    search.on_trial_complete("a", {"loss": value})  # its exception would fail a good trial


def test_the_inner_searcher_is_told_once(tmp_path):
    told = []

    class Counting(OptunaSearch):
        def on_trial_complete(self, trial_id, result=None, error=False):
            told.append(trial_id)

    search = begin(private_search(tmp_path, Counting(seed=1)))
    values = run(search, 2)
    for trial, value in zip(("t0", "t1"), values, strict=True):
        search.on_trial_complete(trial, {"loss": value})
    assert told == ["t0", "t1"]


@pytest.mark.parametrize("opened", [open_search, open_centred, lambda privatizer: None])
@pytest.mark.parametrize("call", ["on_trial_result", "on_trial_complete"])
def test_a_value_that_no_release_paid_for_ends_the_experiment_and_is_not_handed_on(tmp_path, opened, call):
    inner = OptunaSearch(seed=1)
    search = begin(opened(open_privatizer(tmp_path)) or private_search(tmp_path, inner))
    config = search.suggest("a")
    with pytest.raises(dptune.PrivacyError, match=r"'a' reported .* no release paid for") as caught:
        getattr(search, call)("a", {"loss": float(losses(config).mean())})
    assert str(losses(config).mean())[:8] not in str(caught.value)
    with pytest.raises(dptune.PrivacyError):
        search.suggest("b")
    assert not [t for t in getattr(inner._ot_study, "trials", []) if t.value is not None]
    begin(search)  # fitted again, with the right trainable
    assert isinstance(search.suggest("c"), dict)


def test_a_public_objective_may_report_what_it_likes(tmp_path):
    inner = OptunaSearch(seed=1)
    search = begin(private_search(tmp_path, inner, unprotected="allow"))
    search.suggest("a")
    search.on_trial_complete("a", {"loss": 0.25, "training_iteration": 1})
    assert inner._ot_study.best_value == 0.25
    with pytest.raises(dptune.InputError, match="unprotected must be"):
        private_search(tmp_path, unprotected=True)


def test_a_search_whose_trials_all_failed_is_fitted_again(tmp_path):
    search = begin(private_search(tmp_path, n_trials=3))
    assert [search.suggest(f"a{i}") == Searcher.FINISHED for i in range(4)] == [False, False, False, True]
    assert len(run(begin(search), 10)) == 3


def test_a_trial_without_a_value_is_a_failed_one(tmp_path):
    inner = OptunaSearch(seed=1)
    search = begin(private_search(tmp_path, inner))
    search.suggest("a")
    search.on_trial_complete("a", {"loss": math.nan, "training_iteration": 1})
    assert [t.state.name for t in inner._ot_study.trials] == ["FAIL"]


@on_both
def test_a_concurrency_limiter_never_stalls_and_pickles(tmp_path, opened):
    search = ConcurrencyLimiter(opened(open_privatizer(tmp_path)), max_concurrent=2)
    search.set_search_properties("loss", "min", SPACE)
    assert [type(search.suggest(t)) for t in "abc"] == [dict, dict, type(None)]
    search.on_trial_complete("a", None, True)
    assert isinstance(search.suggest("d"), dict)
    assert pickle.loads(cloudpickle.dumps(search)).searcher.n_trials == 12


def test_while_the_inner_searcher_waits_no_trial_counts_as_lost(tmp_path):
    inner = ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=1)
    search = begin(private_search(tmp_path, inner, n_trials=2))
    for trial in "ab":
        config = search.suggest(trial)
        assert [search.suggest(f"{trial}{i}") for i in range(20)] == [None] * 20  # Tune: another identifier each time
        value = search.vault.hand_in("finish", trial, flat(config), evaluated(losses, config))
        search.on_trial_complete(trial, {"loss": value, "training_iteration": 1})
    assert search.suggest("c") == Searcher.FINISHED
    assert [t.state.name for t in inner.searcher._ot_study.trials] == ["COMPLETE", "COMPLETE"]


def test_drawn_parameters_do_not_repeat_after_a_restart(tmp_path):
    space = {**SPACE, "k": tune.choice(list(range(1000)))}
    first, second = (
        begin(DPGIBOSearch(space, open_privatizer(tmp_path), n_trials=12, seed=1), space=space) for _ in range(2)
    )
    assert first.suggest("a")["k"] == second.suggest("a")["k"]
    assert first.suggest("b")["k"] != second.suggest("c")["k"]


def test_optuna_and_ray_visit_the_same_points_with_the_noise_off(fast_path):
    folders = [fast_path / "optuna", fast_path / "ray"]
    for folder in folders:
        folder.mkdir()
    first, second = (open_privatizer(folder, kind=NoiselessPrivatizer, dtype=np.float64) for folder in folders)
    distributions = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}
    sampler = DPGIBOSampler(distributions, first, n_trials=12, seed=1)
    study = optuna.create_study(sampler=sampler, study_name="run")

    @sampler.objective
    def objective(trial):
        return losses_at(people(), trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))

    study.optimize(objective, n_trials=12)
    search = begin(open_search(second))
    assert len(run(search, 40)) == 12
    points = [[c.note["parameters"] for c in open_ledger(f).charges(prefix="value/")] for f in folders]
    assert len(points[0]) == 12
    for one, other in zip(*points, strict=True):
        assert one == pytest.approx(other, rel=1e-9)  # a matrix product may round by its operands' place in memory
    assert search.recommend() == pytest.approx(sampler.recommend(study), rel=1e-9)
