"""The searchers with a vault against Tune: what they recommend and restore, and what an inner searcher learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ray import cloudpickle, tune
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.search.optuna import OptunaSearch

import dptune
from by_hand import Half, begin, finish, local, on_both, open_private, run
from dptune_ray import DPGIBOSearch, worker
from ray_harness import SPACE, open_privatizer, open_search
from ray_people import losses

pytestmark = local


def told_values(inner):
    return [trial.value for trial in inner._ot_study.trials if trial.value is not None]


@on_both
def test_a_run_ends_by_itself_and_recommends_without_a_vault(tmp_path, caplog, opened):
    search = begin(opened(open_privatizer(tmp_path)))
    run(search, 7)
    assert search.recommend()
    assert "The run 'run' is not complete." in caplog.text
    assert "fit a Tuner with num_samples=-1" in caplog.text
    caplog.clear()
    assert 7 + len(run(search, first=7)[0]) == search.n_trials == 12
    fresh = opened(open_privatizer(tmp_path))
    assert fresh.recommend() == search.recommend() == fresh.progress()["recommended"]
    assert set(fresh.recommend()) == {"x", "y"}
    without_space = type(fresh)(open_privatizer(tmp_path), name="run", seed=1, n_trials=12)
    assert (without_space.n_trials, without_space.recommend()) == (12, fresh.recommend())
    assert "not complete" not in caplog.text


@on_both
def test_nothing_private_of_a_run_is_pickled(tmp_path, opened):
    private, privatizer = losses({"x": 0.5, "y": 1.0}), open_privatizer(tmp_path)
    search = begin(opened(privatizer))
    run(search, 5)
    finish(search, "a", search.suggest("a"), lambda config: private)
    privatizer.observe("held", private)
    search.trainable(lambda config: private)  # its function closes over them
    written = cloudpickle.dumps(search)
    for loss in private:
        assert np.float64(loss).tobytes() not in written
        assert np.float32(loss - 2).tobytes() not in written  # rows are kept centred, in float32


def test_a_search_space_with_functions_and_objects_is_restored(tmp_path):
    space = {**SPACE, "late": tune.sample_from(lambda config: config["x"] + 1), "o": tune.choice([Half, Searcher])}
    search = begin(open_search(open_privatizer(tmp_path), param_space=None), space=space)
    search.save(str(tmp_path / "state"))
    fresh = open_search(open_privatizer(tmp_path), param_space=None)
    fresh.restore(str(tmp_path / "state"))
    config = fresh.suggest("a")
    assert config["late"] == config["x"] + 1
    assert config["o"] in (Half, Searcher)


@on_both
def test_a_recommendation_rebuilds_the_model_and_is_compared_with_the_default(tmp_path, opened):
    space = {"model": {"x": SPACE["x"], "kernel": "rbf", "kind": tune.choice(["a", "b"])}, "y": SPACE["y"], "data": [1]}
    default = {"model": {"x": -0.9, "kind": "b"}, "y": 5.0}

    def deep(config):
        return losses({"x": config["model"]["x"], "y": config["y"]})

    privatizer = open_privatizer(tmp_path, mu=30.0)
    search = type(opened(privatizer))(privatizer, space, n_trials=24, seed=1, name="deep", default=default)
    run(begin(search, space=space), function=deep)
    best = search.recommend()
    assert best["model"].keys() == {"x", "kernel", "kind"}
    assert (best["model"]["kernel"], best["data"]) == ("rbf", [1])
    assert best.defaults == default
    assert best.hint.value > 0
    if best.improvement is None:  # it does not end with a choice
        worker.estimated(search.trainable(deep), [best, default])
        best = search.recommend()
    gain = deep(default).mean() - deep(best).mean()
    assert best.improvement.value == pytest.approx(gain, abs=6 * best.improvement.sigma)
    assert search.estimate(None, best).improvement == best.improvement  # recorded: nothing is trained
    assert best.summary().startswith("Better than ")


def test_drawn_parameters_do_not_repeat_after_a_restart(tmp_path):
    space = {**SPACE, "k": tune.choice(list(range(1000)))}
    first, second = (
        begin(DPGIBOSearch(open_privatizer(tmp_path), space, n_trials=12, seed=1), space=space) for _ in range(2)
    )
    assert first.suggest("a")["k"] == second.suggest("a")["k"]
    assert first.suggest("b")["k"] != second.suggest("c")["k"]


# ---- any other searcher, on released values ------------------------------------------------------------


@pytest.mark.parametrize("mode", ["min", "max"])
def test_other_searchers_work_on_values_in_both_directions(tmp_path, mode):
    inner = OptunaSearch(seed=1)
    search = begin(open_private(open_privatizer(tmp_path), inner, n_trials=6), mode)
    _, values = run(search, function=lambda config: 4 - losses(config) if mode == "max" else losses(config))
    assert len(values) == 6
    assert told_values(inner) == values
    assert inner._ot_study.best_value == (min if mode == "min" else max)(values)
    assert search.recommend() in [trial.params for trial in inner._ot_study.trials]


def test_a_public_objective_may_report_what_it_likes(tmp_path):
    inner = OptunaSearch(seed=1)
    search = begin(open_private(open_privatizer(tmp_path), inner, unprotected="allow"))
    search.suggest("a")
    search.on_trial_complete("a", {"loss": 0.25, "training_iteration": 1})
    assert inner._ot_study.best_value == 0.25


@pytest.mark.parametrize(("state", "known"), [(None, 0), ({"open": ["t9"], "known": ["t0", "t1"]}, 2)])
def test_a_searcher_that_lost_its_state_is_told_the_released_values_once(tmp_path, state, known):
    _, values = run(begin(open_private(open_privatizer(tmp_path), OptunaSearch(seed=1))), 5)
    fresh = OptunaSearch(seed=2)
    search = begin(open_private(open_privatizer(tmp_path), fresh))
    if state is not None:
        search.set_state({**search.get_state(), **state})
    for trial in ("t7", "t8"):
        search.suggest(trial)
        assert told_values(fresh) == values[known:]


def test_what_the_inner_searcher_leaves_out_is_drawn_and_its_exception_does_not_fail_a_good_trial(tmp_path):
    space = {**SPACE, "a": {"k": tune.choice(["u", "v"])}, "s": tune.sample_from(lambda c: c["x"] + 1)}
    search = begin(open_private(open_privatizer(tmp_path), Half()), space=space)
    config = search.suggest("a")
    assert (config["x"], config["s"]) == (0.5, 1.5)
    assert 1e-3 <= config["y"] <= 1e1
    assert config["a"]["k"] in {"u", "v"}
    search.on_trial_complete("a", {"loss": finish(search, "a", config)})


def test_the_inner_searcher_is_told_once_what_was_released_and_that_other_trials_failed(tmp_path):
    inner = OptunaSearch(seed=1)
    search = begin(open_private(open_privatizer(tmp_path), inner))
    _, values = run(search, 2)
    for trial, value in zip(("t0", "t1"), values, strict=True):
        search.on_trial_result(trial, {"loss": value})
        search.on_trial_complete(trial, {"loss": value})
    search.suggest("a")
    search.on_trial_complete("a", {"loss": math.nan, "training_iteration": 1})
    search.suggest("b")
    with pytest.raises(dptune.PrivacyError):
        search.on_trial_complete("b", {"loss": 0.123})
    assert [t.state.name for t in inner._ot_study.trials] == ["COMPLETE", "COMPLETE", "FAIL", "RUNNING"]
    assert told_values(inner) == values


def test_while_the_inner_searcher_waits_no_trial_counts_as_lost(tmp_path):
    inner = ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=1)
    search = begin(open_private(open_privatizer(tmp_path), inner, n_trials=2))
    for trial in "ab":
        config = search.suggest(trial)
        assert [search.suggest(f"{trial}{i}") for i in range(20)] == [None] * 20  # Tune: another identifier each time
        search.on_trial_complete(trial, {"loss": finish(search, trial, config), "training_iteration": 1})
    assert search.suggest("c") == Searcher.FINISHED
    assert [t.state.name for t in inner.searcher._ot_study.trials] == ["COMPLETE", "COMPLETE"]
