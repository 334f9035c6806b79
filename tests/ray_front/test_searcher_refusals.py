"""What the searchers refuse, and what of a mistake reaches the user, before a trial is run."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune

import dptune
from dptune_ray import CentredCMASearch, DPGIBOSearch, PrivateSearch
from dptune_ray.spaces import flat
from ray_harness import SPACE, open_ledger, open_privatizer, open_search, random_search
from ray_people import N, losses
from searches_by_hand import Half, begin, on_both, private_search, run

pytestmark = pytest.mark.usefixtures("local_actors")


@on_both
def test_a_default_that_is_no_dict_is_refused_by_name(tmp_path, opened):
    with pytest.raises(dptune.InputError, match="default must be a dict, of names and values; got list"):
        opened(open_privatizer(tmp_path), default=[0.5])


@on_both
def test_a_default_that_lacks_a_parameter_or_leaves_its_range_is_refused_before_a_trial(tmp_path, opened):
    for name, default in {"lacks": {"x": 0.0}, "leaves": {"x": 0.0, "y": 99.0}}.items():
        with pytest.raises(dptune.InputError, match="searched parameter, within its range"):
            begin(opened(open_privatizer(tmp_path), default=default, name=name))
    assert open_ledger(tmp_path).spent() == 0.0


def test_an_estimate_at_a_configuration_that_lacks_a_choice_is_refused_before_anything_is_run(tmp_path):
    space = {**SPACE, "data": {"rows": 3}, "kind": tune.choice(["a"])}
    search = begin(open_search(open_privatizer(tmp_path), param_space=space), space=space)
    trainable = search.trainable(losses)
    with pytest.raises(dptune.InputError, match="no value for 'kind'"):
        search.estimate(trainable, search.recommend())
    assert open_ledger(tmp_path).spent() == 0.0


def test_choices_of_lists_are_in_the_ledger_and_told_apart(tmp_path):
    space = {**SPACE, "layers": tune.choice([[64, 64], (32,)])}
    search = begin(private_search(tmp_path, Half()), space=space)
    config = search.suggest("a")
    search.vault.hand_in("finish", "a", flat({**config, "layers": [64, 64]}), losses(config))
    with pytest.raises(dptune.errors.KeyConflict):
        search.vault.hand_in("finish", "a", flat({**config, "layers": (32,)}), losses(config))
    assert search.recommend()["layers"] == [64, 64]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "accuracy"}, "metric='loss'"),
        ({"mode": "sideways"}, "mode must be"),
        ({"space": {"k": tune.choice([1, 2])}}, None),
        ({"space": {"x": tune.randn()}}, "randn"),
    ],
)
def test_what_the_tuner_asks_for_and_cannot_have_is_refused(tmp_path, settings, message):
    search = DPGIBOSearch(None, open_privatizer(tmp_path), n_trials=12)
    wanted = {"metric": "loss", "mode": "min", "space": SPACE, **settings}
    with pytest.raises(dptune.InputError, match=message or "no numerical parameter"):
        search.set_search_properties(wanted["metric"], wanted["mode"], wanted["space"])


@on_both
def test_two_search_spaces_must_agree(tmp_path, opened):
    search = opened(open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match="differ in 'y'"):
        search.set_search_properties("loss", "min", {"x": tune.uniform(-1.0, 1.0)})
    assert search.set_search_properties("loss", "min", {"constant": 3})
    assert search.set_search_properties("loss", "min", SPACE)


@on_both
def test_a_named_loss_is_minimised(tmp_path, opened):
    search = opened(open_privatizer(tmp_path))
    search.trainable(loss="hinge", data=(np.zeros((N, 1)), np.zeros(N)))(lambda config: None)
    search.trainable(losses)  # the first one may be given to the Tuner all the same
    with pytest.raises(dptune.InputError, match="is minimised"):
        search.set_search_properties("loss", "max", SPACE)
    with pytest.raises(dptune.InputError, match="is minimised"):
        opened(open_privatizer(tmp_path), mode="max").trainable(loss="hinge", data=lambda: None)(lambda config: None)


def test_a_spent_ledger_refuses_a_new_run_before_any_trial(tmp_path):
    run(begin(open_search(open_privatizer(tmp_path))), 40)
    new = PrivateSearch(random_search(), open_privatizer(tmp_path), n_trials=5, name="new")
    with pytest.raises(dptune.errors.BudgetPlanned, match="'run'"):  # which has kept its final estimate's share
        new.set_search_properties("loss", "min", SPACE)
    ledger = open_ledger(tmp_path)
    event = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 4.0))
    event.observe_failure("p")
    event.release(event.mean_query("p", ledger.remaining()), scope="else", key="k")
    with pytest.raises(dptune.BudgetExhausted):
        new.set_search_properties("loss", "min", SPACE)


@pytest.mark.parametrize(("searcher", "says"), [(None, "start with CentredSearch"), ("random", "must be a ray.tune")])
def test_the_wrapper_wants_a_searcher(tmp_path, searcher, says):
    with pytest.raises(dptune.InputError, match=says):
        PrivateSearch(searcher, open_privatizer(tmp_path), n_trials=8)


@pytest.mark.parametrize("wrong", [{"privatizer": None}, {"steps": 0}, {"batch": -1}])
def test_settings_are_refused_at_once(tmp_path, wrong):
    settings = {"privatizer": open_privatizer(tmp_path), "n_trials": 12, **wrong}
    with pytest.raises(dptune.InputError):
        DPGIBOSearch(SPACE, settings.pop("privatizer"), **settings)


def test_trying_out_lets_exceptions_through(tmp_path):
    search = open_search(open_privatizer(tmp_path))
    assert search.trainable(losses).try_out({"x": 0.0, "y": 1.0}) == "PerExampleLosses(<private values>)"
    with pytest.raises(ZeroDivisionError):
        search.trainable(lambda config: 1 / 0).try_out({})
    assert open_ledger(tmp_path).charges() == []


NUMPY = {"mu": np.float32(0.5), "n_trials": np.int64(40), "final_share": np.float32(0.25)}


PLAIN = {"mu": 0.5, "n_trials": 40, "final_share": 0.25}


@pytest.mark.parametrize("kind", [DPGIBOSearch, CentredCMASearch, PrivateSearch])
def test_numpys_numbers_begin_the_same_run(tmp_path, kind):
    first = random_search(seed=3) if kind is PrivateSearch else SPACE
    for seed, settings in ((np.int64(3), NUMPY), (3, PLAIN)):
        search = kind(first, open_privatizer(tmp_path), name="run", seed=seed, **settings)
        assert type(search.n_trials) is int
        fixed = search._read()
        assert fixed.plan.trials == search.n_trials


@pytest.mark.parametrize("kind", [DPGIBOSearch, CentredCMASearch, PrivateSearch])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mu": "1"}, "mu must"),
        ({"n_trials": "20"}, "n_trials must"),
        ({"n_trials": -5}, "n_trials must"),
        ({"seed": "x"}, "seed must"),
        ({"final_share": "a"}, "final_share must"),
    ],
)
def test_what_is_no_number_is_refused_by_name(tmp_path, kind, wrong, says):
    first = random_search() if kind is PrivateSearch else SPACE
    with pytest.raises(dptune.InputError, match=says):
        kind(first, open_privatizer(tmp_path), **{"n_trials": 12, **wrong})


@pytest.mark.parametrize("kind", [DPGIBOSearch, CentredCMASearch])
@pytest.mark.parametrize("name", ["foo", "trials", "cells"])
def test_an_option_there_is_not_is_refused_under_the_name_of_the_searcher(tmp_path, kind, name):
    with pytest.raises(dptune.InputError, match=f"^{kind.__name__} has no option '{name}'; it has n_trials, mu, seed"):
        kind(SPACE, open_privatizer(tmp_path), **{name: 1})
