"""What the searchers refuse, and what of a mistake reaches the user, before a trial is run."""

from __future__ import annotations

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.optuna import OptunaSearch
from sklearn.linear_model import LogisticRegression

import dptune
from by_hand import CONFIG, Half, begin, local, made, on_all, on_both, open_private, run
from dptune_ray import CentredSearch, DPGIBOSearch, PrivateSearcher, SpaceSearch
from dptune_ray.spaces import flat
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search, random_search
from ray_people import N, losses

pytestmark = local


@on_both
@pytest.mark.parametrize(
    ("default", "says"),
    [
        ([0.5], "default must be a dict, of names and values; got list"),
        ({"x": 0.0}, "searched parameter, within its range"),
        ({"x": 0.0, "y": 99.0}, "searched parameter, within its range"),
    ],
)
def test_a_default_that_is_no_point_of_the_space_is_refused_before_a_trial(tmp_path, opened, default, says):
    with pytest.raises(dptune.InputError, match=says):
        begin(opened(open_privatizer(tmp_path), default=default))
    assert open_ledger(tmp_path).spent() == 0.0


@pytest.mark.parametrize("method", [None, "centred"])
def test_a_searcher_without_a_method_of_its_own_needs_one(tmp_path, method):
    with pytest.raises(dptune.InputError, match="SpaceSearch needs method="):
        SpaceSearch(open_privatizer(tmp_path), SPACE, method=method)


def test_a_searcher_with_a_method_of_its_own_takes_no_other(tmp_path):
    with pytest.raises(dptune.InputError, match="CentredSearch has a method of its own"):
        CentredSearch(open_privatizer(tmp_path), SPACE, method=dptune.GIBO)


def test_an_estimate_that_cannot_be_made_is_refused_before_anything_is_run(tmp_path):
    space = {**SPACE, "data": {"rows": 3}, "kind": tune.choice(["a"])}
    search = begin(open_search(open_privatizer(tmp_path), param_space=space, mu=0.5), space=space)
    with pytest.raises(dptune.InputError, match="no value for 'kind'"):
        search.estimate(search.trainable(losses), search.recommend())
    search, trainable = made(tmp_path, losses, name="other", final_share=0.0)
    with pytest.raises(dptune.InputError, match="final_share=0"):
        search.estimate(trainable, CONFIG)
    assert open_ledger(tmp_path).spent() == 0.0


def test_choices_of_lists_are_in_the_ledger_and_told_apart(tmp_path):
    space = {**SPACE, "layers": tune.choice([[64, 64], (32,)])}
    search = begin(open_private(open_privatizer(tmp_path), Half()), space=space)
    config = search.suggest("a")
    search.vault.finish("a", flat({**config, "layers": [64, 64]}), losses(config))
    with pytest.raises(dptune.errors.KeyConflict):
        search.vault.finish("a", flat({**config, "layers": (32,)}), losses(config))
    assert search.recommend()["layers"] == [64, 64]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "accuracy"}, "metric='loss'"),
        ({"mode": "sideways"}, "mode must be"),
        ({"space": {"k": tune.choice([1, 2])}}, "no numerical parameter"),
        ({"space": {"x": tune.randn()}}, "randn"),
    ],
)
def test_what_the_tuner_asks_for_and_cannot_have_is_refused(tmp_path, settings, message):
    search = DPGIBOSearch(open_privatizer(tmp_path), n_trials=12)
    wanted = {"metric": "loss", "mode": "min", "space": SPACE, **settings}
    with pytest.raises(dptune.InputError, match=message):
        search.set_search_properties(*wanted.values())


@on_both
def test_two_search_spaces_and_two_modes_must_agree(tmp_path, opened):
    search = opened(open_privatizer(tmp_path), mode="min")
    with pytest.raises(dptune.InputError, match="differ in 'y'"):
        begin(search, space={"x": tune.uniform(-1.0, 1.0)})
    with pytest.raises(dptune.InputError, match="was made with mode='min'"):
        begin(search, "max")
    begin(search, space={"constant": 3})
    begin(search)


@pytest.mark.parametrize(
    ("metric", "mode", "space", "says"),
    [
        ("m", "min", SPACE, "looks at 'm'"),
        ("loss", "max", {}, "has mode='max'"),
        ("loss", "min", SPACE, "both have a search space"),
    ],
)
def test_an_inner_searcher_that_wants_something_else_is_refused(tmp_path, metric, mode, space, says):
    inner = OptunaSearch(SPACE, metric=metric, mode=mode)
    with pytest.raises(dptune.InputError, match=says):
        begin(open_private(open_privatizer(tmp_path), inner, mode="min"), space=space)


@on_all
def test_a_named_loss_is_minimised(tmp_path, opened):
    search = opened(open_privatizer(tmp_path))
    search.trainable(loss="hinge", data=(np.zeros((N, 1)), np.zeros(N)))(lambda config: None)
    search.trainable(losses)  # the first one may be given to the Tuner all the same
    with pytest.raises(dptune.InputError, match="is minimised"):
        begin(search, "max")
    with pytest.raises(dptune.InputError, match="is minimised"):
        opened(open_privatizer(tmp_path), mode="max").trainable(loss="hinge", data=lambda: None)(lambda config: None)


def test_a_spent_ledger_refuses_a_new_run_before_any_trial(tmp_path):
    run(begin(open_search(open_privatizer(tmp_path))))
    new = open_private(open_privatizer(tmp_path), name="new")
    with pytest.raises(dptune.errors.BudgetPlanned, match="'run'"):  # which has kept its final estimate's share
        begin(new)
    ledger = open_ledger(tmp_path)
    event = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 4.0))
    event.observe_failure("p")
    event.release(event.mean_query("p", ledger.remaining()), scope="else", key="k")
    with pytest.raises(dptune.BudgetExhausted):
        begin(new)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"searcher": None}, "in mind use CentredSearch"),
        ({"searcher": "random"}, "must be a ray.tune"),
        ({"unprotected": True}, "unprotected must be"),
        ({"when": {}}, "has no option 'when'"),
        ({"foo": 1}, "PrivateSearcher has no option 'foo'"),
    ],
)
def test_the_wrapper_wants_a_searcher(tmp_path, wrong, says):
    with pytest.raises(dptune.InputError, match=says):
        PrivateSearcher(privatizer=open_privatizer(tmp_path), **{"searcher": random_search(), "n_trials": 8, **wrong})


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *((DPGIBOSearch, wrong) for wrong in ({"privatizer": None}, {"steps": 0}, {"batch": -1})),
        *((CentredSearch, wrong) for wrong in ({"population": 2}, {"n_trials": 3}, {"final_share": 1.0})),
    ],
)
def test_settings_of_a_method_are_refused_at_once(tmp_path, kind, wrong):
    with pytest.raises(dptune.InputError):
        kind(param_space=SPACE, **{"privatizer": open_privatizer(tmp_path), "n_trials": 12, **wrong})


def test_trying_out_lets_exceptions_through(tmp_path):
    search = open_search(open_privatizer(tmp_path))
    assert search.trainable(losses).try_out({"x": 0.0, "y": 1.0}) == "PerExampleLosses(<private values>)"
    with pytest.raises(ZeroDivisionError):
        search.trainable(lambda config: 1 / 0).try_out({})
    assert open_ledger(tmp_path).charges() == []


KINDS = pytest.mark.parametrize("kind", [DPGIBOSearch, CentredSearch, PrivateSearcher])
NUMPY = {"mu": np.float32(0.5), "n_trials": np.int64(40), "final_share": np.float32(0.25)}
PLAIN = {"mu": 0.5, "n_trials": 40, "final_share": 0.25}


def opened(folder, kind, **settings):
    privatizer = open_privatizer(folder)
    return kind(*((random_search(seed=3), privatizer) if kind is PrivateSearcher else (privatizer, SPACE)), **settings)


@KINDS
def test_numpys_numbers_begin_the_same_run(tmp_path, kind):
    for seed, settings in ((np.int64(3), NUMPY), (3, PLAIN)):
        search = opened(tmp_path, kind, name="run", seed=seed, **settings)
        assert type(search.n_trials) is int
        assert search.vault_run().begin().plan.trials == search.n_trials


@pytest.mark.parametrize("kind", [DPGIBOSearch, CentredSearch])
@pytest.mark.parametrize("name", ["foo", "trials", "cells"])
def test_an_option_there_is_not_is_refused_under_the_name_of_the_searcher(tmp_path, kind, name):
    with pytest.raises(dptune.InputError, match=f"^{kind.__name__} has no option '{name}'; it has n_trials, mu, seed"):
        opened(tmp_path, kind, **{name: 1})


@pytest.mark.parametrize("set_index", [True, False])
@on_all
def test_a_repeater_around_a_searcher_is_refused_before_a_trial(tmp_path, opened, set_index):
    search = opened(open_privatizer(tmp_path))
    for wrapped in (search, ConcurrencyLimiter(search, max_concurrent=2)):
        repeater = Repeater(wrapped, repeat=3, set_index=set_index)
        repeater.set_search_properties(search.metric, "min", SPACE)
        with pytest.raises(dptune.InputError, match=r"Repeater.*Nothing was trained or charged"):
            repeater.suggest("a")
    limiter = ConcurrencyLimiter(opened(open_privatizer(tmp_path)), max_concurrent=2)
    limiter.set_search_properties(search.metric, "min", SPACE)
    assert limiter.suggest("a")
    assert open_ledger(tmp_path).spent() == 0


def test_a_repeater_inside_a_private_search_works(tmp_path):
    """The advice of the refusal: each repetition has a released value, and the inner searcher sees their mean."""
    told = []

    class Listening(Half):
        def on_trial_complete(self, trial_id, result=None, error=False):
            told.append((trial_id, result["loss"]))

    search = begin(open_private(open_privatizer(tmp_path), Repeater(Listening("loss", "min"), repeat=3), n_trials=6))
    configs, values = run(search)
    assert [config["x"] for config in configs] == [0.5] * 6
    assert told == [("t0", pytest.approx(np.mean(values[:3]))), ("t3", pytest.approx(np.mean(values[3:])))]
    assert open_ledger(tmp_path).count() == 6


@on_all
def test_another_loss_under_the_name_of_a_run_is_refused(tmp_path, opened):
    """Its answers say nothing about the new loss."""
    X, y = np.zeros((N, 1)), np.arange(N) % 2

    def model(config):
        return LogisticRegression().fit(np.eye(2), [0, 1])

    def again(loss):
        search = opened(dptune.LossPrivatizer(open_ledger(tmp_path), n=N, clip=(0.0, 1.0)))
        search.trainable(model, loss=loss, data=lambda: (X, y))
        return begin(search)

    again("zero_one")
    again("zero_one")
    with pytest.raises(
        dptune.errors.BudgetMismatch, match="minimises zero_one_loss, and this objective returns brier_loss"
    ):
        again("brier")
    assert open_ledger(tmp_path).spent() == 0


def test_a_changed_space_is_called_a_changed_space(tmp_path):
    default = {"x": 0.1, "y": 1.0}
    begin(open_centred(open_privatizer(tmp_path), default=default))
    wider = {**SPACE, "x": tune.uniform(-2.0, 2.0)}
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"Other: search space\. "):
        CentredSearch(
            open_privatizer(tmp_path), wider, n_trials=12, seed=1, name="run", default=default
        ).vault_run().begin()


def test_a_report_to_tune_is_refused_with_the_way_to_report_to_a_scheduler(tmp_path):
    def reports(config):
        tune.report({"loss": 1.0})

    search = open_centred(open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match=r'report_public\(value, step\).*public="log loss.*metric="public"'):
        search.trainable(reports)


@on_all
def test_a_recommendation_of_a_run_that_is_not_complete_says_how_to_resume_it(tmp_path, opened, caplog):
    search = opened(open_privatizer(tmp_path), n_trials=24)
    run(begin(search), trials=14)
    search.recommend()
    assert "The run 'run' is not complete." in caplog.text
    assert "fit a Tuner with num_samples=-1" in caplog.text
    caplog.clear()
    run(search, first=14)
    search.recommend()
    assert "not complete" not in caplog.text


def test_a_vault_that_died_too_often_is_an_error_with_a_remedy(tmp_path, local_actors, monkeypatch):
    search = begin(open_search(open_privatizer(tmp_path)))

    def dies(*args, **further):
        raise ray.exceptions.RayActorError

    (vault,) = local_actors.values()
    monkeypatch.setattr(vault, "call", dies)
    with pytest.raises(dptune.DptuneError, match=r"vault.* has died more than 5 times.*Start the driver again"):
        search.suggest("a")
