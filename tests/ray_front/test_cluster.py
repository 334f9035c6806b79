"""Runs work on a real cluster: complete runs, failures, limits, restarts, and repeats of a training."""

import copy
import math
import os
import signal
import sys
import time

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune import Callback, TuneError
from ray.tune.utils import merge_dicts

from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.repeats import repeat_and_select as in_one_process
from dptune_ray import repeat_and_select
from ray_harness import folder_bytes, found, open_ledger, open_privatizer, open_search, tuner
from ray_people import EVERYTHING, SECRET, losses_of_everything

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


def values_in(folder):
    return [c.value[0] for c in open_ledger(folder).charges(prefix="value/") if c.value]


class RestartTheVault(Callback):
    def __init__(self, name):
        self.name, self.results = name, 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.results += 1
        if self.results == 2:
            ray.kill(ray.get_actor(self.name), no_restart=False)


def test_a_run_from_end_to_end(fast_path):
    """It is fitted with a wrong trainable, then a trial is ended inside the function and the vault is killed.

    The experiment with the wrong trainable ends before its value is written, and nothing else ends or is charged twice.
    """
    n = 50_000  # the vault's own settings have weights of so many people: they reach it in parts
    ended = fast_path / "ended"

    def odd(config):
        if not ended.exists():
            ended.touch()
            os.kill(os.getpid(), signal.SIGTERM)  # as Ray ends the trials of a run whose time is over
            time.sleep(600)
        return np.resize(losses_of_everything(config), n)

    space = copy.deepcopy(EVERYTHING)  # its objects are hidden from the searcher
    search = open_search(open_privatizer(fast_path, n=n), n_trials=6, param_space=space)
    with pytest.raises(TuneError, match="no release paid for"):
        tuner(lambda config: {"loss": SECRET}, search, fast_path / "wrong", param_space=space).fit()
    assert found([SECRET], folder_bytes(fast_path)) == []
    trainable, callback = search.trainable(odd), RestartTheVault(search._client.name)
    limits = {"param_space": space, "max_concurrent_trials": 2}
    results = tuner(trainable, search, fast_path, run={"callbacks": [callback]}, **limits).fit()
    ledger = open_ledger(fast_path)
    assert results.num_errors == 1
    assert callback.results >= 6
    assert search.progress()["steps_done"] == search.progress()["steps"]
    told = {r.metrics["trial_id"]: r.metrics for r in results if r.error is None}
    told = {trial: (m["loss"], m["sigma"]) for trial, m in told.items() if not math.isnan(m["loss"])}  # none was left
    paid = {c.key: (c.value[0], c.description["sigma"]) for c in ledger.charges(prefix="value/")}
    assert paid == {f"value/{trial}": value for trial, value in told.items()}  # the one that died has paid nothing
    assert math.isclose(results.get_best_result().metrics["loss"], min(values_in(fast_path)))
    whole = merge_dicts(results.get_best_result().config, search.recommend())
    whole["late"] = whole["x"] + 10
    estimate = search.estimate(trainable, whole)
    assert estimate.private
    assert search.estimate(trainable, whole) == estimate
    assert ledger.spent() <= 1.0


N, LAW, MARKER = 20, Repeats.poisson(12), "one more repeat"


def test_the_best_comes_back_and_the_cluster_does_not_know_of_how_many(cluster, tmp_path, capfd):
    made = tmp_path / "made.txt"

    def train(config):
        with made.open("a") as file:
            file.write(f"{config['rate']}\n")
        print(MARKER, flush=True)
        print(MARKER, file=sys.stderr, flush=True)
        return {"weight": config["rate"]}, np.full(N, config["rate"])

    ledgers = [
        TrainingLedger(tmp_path / "train.db", SelectionPlan(LAW, TrainingPlan(2.0, 0.1, 20)), n=90),
        TrainingLedger(tmp_path / "val.db", SelectionPlan(LAW, score_mu=50.0), n=N, dataset="scorers"),
    ]
    space = {"rate": tune.uniform(0.0, 1.0), "depth": 3}
    best = repeat_and_select(train, space, ledgers, clip=(0.0, 1.0))
    rates = [float(line) for line in made.read_text().splitlines()]
    assert len(set(rates)) == len(rates) > 1
    assert best.parameters == {"rate": best.model["weight"], "depth": 3}
    assert best.model["weight"] <= sorted(rates)[1]
    assert not [path for path, content in folder_bytes(cluster) if MARKER.encode() in content]
    assert MARKER not in "".join(capfd.readouterr())
    again = in_one_process(lambda: ({}, "", np.zeros(N)), ledgers, clip=(0.0, 1.0))
    assert (again.parameters, again.model, len(made.read_text().splitlines())) == (best.parameters, None, len(rates))
    assert [ledger.count() for ledger in ledgers] == [1, 1]
