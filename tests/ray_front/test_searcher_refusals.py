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
from by_hand import CONFIG, Half, begin, local, made, on_all, open_private, run
from dptune.privacy import PendingLosses
from dptune_ray import CentredSearch, DPGIBOSearch, PrivateSearcher, SpaceSearch
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search, random_search
from ray_people import N, losses

pytestmark = local


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (SpaceSearch, {}, "SpaceSearch needs method="),
        (SpaceSearch, {"method": "centred"}, "SpaceSearch needs method="),
        (CentredSearch, {"method": dptune.GIBO}, "CentredSearch has a method of its own"),
        (CentredSearch, {"default": [0.5]}, "default must be a dict, of names and values; got list"),
        (CentredSearch, {"default": {"x": 0.0, "y": 99.0}}, "searched parameter, within its range"),
        (CentredSearch, {"population": 2}, "population"),
        (CentredSearch, {"trials": 1}, "^CentredSearch has no option 'trials'; it has n_trials, mu, seed"),
        (DPGIBOSearch, {"privatizer": None}, "needs a LossPrivatizer"),
        (DPGIBOSearch, {"steps": 0}, "steps"),
        (DPGIBOSearch, {"unprotected": True}, "unprotected must be"),
        (PrivateSearcher, {"searcher": None}, "in mind use CentredSearch"),
        (PrivateSearcher, {"searcher": "random"}, "must be a ray.tune"),
        (PrivateSearcher, {"when": {}}, "has no option 'when'"),
    ],
)
def test_settings_are_refused_before_a_trial(tmp_path, kind, wrong, says):
    usual = {"searcher": random_search()} if kind is PrivateSearcher else {"param_space": SPACE}
    with pytest.raises(dptune.InputError, match=says):
        begin(kind(**{"privatizer": open_privatizer(tmp_path), "n_trials": 12, **usual, **wrong}))
    assert open_ledger(tmp_path).spent() == 0.0


def test_losses_in_a_file_are_refused_as_the_vault_holds_them(tmp_path):
    kept = PendingLosses(tmp_path / "pending.db", PendingLosses.new_key())
    with pytest.raises(dptune.InputError, match="without pending="):
        open_centred(open_privatizer(tmp_path, pending=kept))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"metric": "accuracy"}, "metric='loss'"),
        ({"mode": "sideways"}, "mode must be"),
        ({"mode": "max"}, "was made with mode='min'"),
        ({"space": {"k": tune.choice([1, 2])}}, "no numerical parameter"),
        ({"space": {"x": tune.randn()}}, "randn"),
    ],
)
def test_what_the_tuner_asks_for_and_cannot_have_is_refused(tmp_path, settings, says):
    search = DPGIBOSearch(open_privatizer(tmp_path), n_trials=12, mode="min")
    wanted = {"metric": "loss", "mode": "min", "space": SPACE, **settings}
    with pytest.raises(dptune.InputError, match=says):
        search.set_search_properties(*wanted.values())


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


def test_an_estimate_that_cannot_be_made_is_refused_before_anything_is_run(tmp_path):
    space = {**SPACE, "data": {"rows": 3}, "kind": tune.choice(["a"])}
    search = begin(open_search(open_privatizer(tmp_path), param_space=space, mu=0.5), space=space)
    with pytest.raises(dptune.InputError, match="no value for 'kind'"):
        search.estimate(search.trainable(losses), search.recommend())
    search, trainable = made(tmp_path, losses, name="other", final_share=0.0)
    with pytest.raises(dptune.InputError, match="final_share=0"):
        search.estimate(trainable, CONFIG)
    assert open_ledger(tmp_path).spent() == 0.0


def test_a_named_loss_is_minimised(tmp_path):
    search = open_centred(open_privatizer(tmp_path))
    search.trainable(loss="hinge", data=(np.zeros((N, 1)), np.zeros(N)))(lambda config: None)
    search.trainable(losses)  # the first one may be given to the Tuner all the same
    with pytest.raises(dptune.InputError, match="is minimised"):
        begin(search, "max")
    with pytest.raises(dptune.InputError, match="is minimised"):
        open_private(open_privatizer(tmp_path), mode="max").trainable(loss="hinge", data=lambda: None)(print)


def test_another_loss_under_the_name_of_a_run_is_refused(tmp_path):
    """Its answers say nothing about the new loss."""
    X, y = np.zeros((N, 1)), np.arange(N) % 2

    def again(loss):
        search = open_centred(dptune.LossPrivatizer(open_ledger(tmp_path), n=N, clip=(0.0, 1.0)))
        search.trainable(lambda config: LogisticRegression().fit(np.eye(2), [0, 1]), loss=loss, data=lambda: (X, y))
        return begin(search)

    again("zero_one")
    again("zero_one")
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"minimises zero_one_loss, and this .* returns brier_loss"):
        again("brier")
    assert open_ledger(tmp_path).spent() == 0


def test_trying_out_lets_exceptions_through(tmp_path):
    search = open_search(open_privatizer(tmp_path))
    assert search.trainable(losses).try_out({"x": 0.0, "y": 1.0}) == "PerExampleLosses(<private values>)"
    with pytest.raises(ZeroDivisionError):
        search.trainable(lambda config: 1 / 0).try_out({})
    assert open_ledger(tmp_path).charges() == []


@on_all
def test_a_repeater_around_a_searcher_is_refused_before_a_trial(tmp_path, opened):
    search = opened(open_privatizer(tmp_path))
    for wrapped in (search, ConcurrencyLimiter(search, max_concurrent=2)):
        repeater = Repeater(wrapped, repeat=3)
        repeater.set_search_properties(search.metric, "min", SPACE)
        with pytest.raises(dptune.InputError, match=r"Repeater.*Nothing was trained or charged"):
            repeater.suggest("a")
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


def test_a_recommendation_of_a_run_that_is_not_complete_says_how_to_resume_it(tmp_path, caplog):
    search = open_centred(open_privatizer(tmp_path), n_trials=24)
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
