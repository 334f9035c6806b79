"""Tune runs on a real cluster: from end to end, with losses, failures, limits and restarts."""

from __future__ import annotations

import math
import os
import signal
import time
import traceback

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune import Callback
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

import dptune
from dptune_ray import PrivateSearcher, report_private
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search, random_search, tuner, wait_until
from ray_people import N, losses
from ray_privatizers import NoiselessPrivatizer

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]


def values_in(folder):
    return [c.value[0] for c in open_ledger(folder).charges(prefix="value/") if c.value]


def test_a_run_from_end_to_end(fast_path):
    search = open_search(open_privatizer(fast_path), n_trials=8)
    trainable = search.trainable(losses)
    results = tuner(trainable, search, fast_path, num_samples=search.n_trials, max_concurrent_trials=2).fit()
    assert results.num_errors == 0
    assert sorted(r.metrics["loss"] for r in results) == sorted(values_in(fast_path))
    assert results.get_best_result().metrics["loss"] == min(values_in(fast_path))
    told = {(row["loss"], row["sigma"]) for _, row in results.get_dataframe().iterrows()}
    paid = open_ledger(fast_path).charges(prefix="value/")
    assert told == {(charge.value[0], charge.description["sigma"]) for charge in paid}
    assert search.progress()["steps_done"] == search.progress()["steps"]
    estimate = search.estimate(trainable, search.recommend())
    assert estimate.private
    assert search.estimate(trainable, search.recommend()) == estimate
    assert open_ledger(fast_path).spent() <= 1.0


@pytest.mark.slow
def test_private_losses_stop_trials_of_a_run_from_end_to_end(fast_path):
    def training(config):
        for step in (1, 2):
            report_private(losses(config) + 0.5 / step, step)
        return losses(config)

    privatizer = open_privatizer(fast_path, mu=10.0)
    search = open_centred(privatizer, n_trials=8, population=4, rung_share=0.2, rungs=2)
    results = tuner(search.trainable(training), search, fast_path, num_samples=-1).fit()
    assert results.num_errors == 0
    assert search.progress()["generations_done"] == 2
    asked = privatizer.ledger.charges("run", prefix="rung/")
    assert 4 <= len(asked) <= search.vault_run().begin().plan.decisions
    first, second = ({c.note["trial"] for c in asked if c.note["step"] == step} for step in (1, 2))
    behind = [c for c in asked if c.value[0] > c.note["bar"] * c.description["sigma"]]
    stopped = {c.note["trial"] for c in behind if c.note["step"] == 1}
    assert stopped.isdisjoint(second)
    assert first - stopped <= second
    ended = {result.metrics["trial_id"] for result in results if result.metrics.get("stopped_by_losses")}
    assert ended == {c.note["trial"] for c in behind}
    assert privatizer.ledger.spent() <= 10.0


@pytest.mark.slow
def test_another_searcher_under_a_limit_maximises_scores_that_go_in_parts(fast_path):
    n = 50_000
    privatizer = open_privatizer(fast_path, n=n, kind=NoiselessPrivatizer)
    search = PrivateSearcher(OptunaSearch(seed=1), privatizer, n_trials=4, mode="max", name="tpe")
    limited = ConcurrencyLimiter(search, max_concurrent=1)

    def scores(config):
        return 4 - np.linspace(0, 4, n) * config["x"] ** 2

    results = tuner(search.trainable(scores), limited, fast_path, num_samples=4, mode="max").fit()
    assert len(results) == 4
    for result in results:
        assert result.metrics["loss"] == pytest.approx(4 - 2 * result.config["x"] ** 2, abs=1e-4)
    assert sorted(r.metrics["loss"] for r in results) == pytest.approx(sorted(4 - v for v in values_in(fast_path)))
    assert results.get_best_result().metrics["loss"] == max(r.metrics["loss"] for r in results)
    assert search.recommend() in [{k: r.config[k] for k in SPACE} for r in results]


def test_an_experiment_whose_first_trials_all_fail_ends_unpaid_and_names_the_remedy(fast_path):
    def broken(config):
        raise ValueError("person 7")

    search = open_search(open_privatizer(fast_path), n_trials=40)
    with pytest.raises((tune.TuneError, dptune.errors.AllTrialsFailed)) as caught:
        tuner(search.trainable(broken), search, fast_path, num_samples=40).fit()
    shown = "".join(traceback.format_exception(caught.value))
    assert "try_out" in shown
    assert "person 7" not in shown
    assert open_ledger(fast_path).spent() == 0.0


class RestartTheVault(Callback):
    def __init__(self, name):
        self.name, self.results = name, 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.results += 1
        if self.results in (2, 5):
            ray.kill(ray.get_actor(self.name), no_restart=False)


def test_trials_that_die_and_a_vault_that_dies_cost_nothing_and_do_not_end_the_run(fast_path):
    """The first trial's process dies, the second is ended inside the function, the vault is killed twice."""
    n = 50_000  # the vault's own settings have weights of so many people: they reach it in parts

    def first_to(name):
        try:
            return bool(os.open(fast_path / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False

    def odd(config):
        if first_to("die"):
            os._exit(1)
        if first_to("be ended"):
            os.kill(os.getpid(), signal.SIGTERM)  # as Ray ends the trials of a run whose time is over
            time.sleep(30)
        return np.resize(losses(config), n)

    search = open_search(open_privatizer(fast_path, n=n), n_trials=8)
    callback = RestartTheVault(search._client.name)
    run = {"callbacks": [callback]}
    results = tuner(search.trainable(odd), search, fast_path, run=run, max_concurrent_trials=2).fit()
    ledger = open_ledger(fast_path)
    assert results.num_errors == 2
    assert callback.results >= 8
    assert search.progress()["steps_done"] == search.progress()["steps"]
    told = {r.metrics["trial_id"]: r.metrics["loss"] for r in results if r.error is None}
    told = {trial: loss for trial, loss in told.items() if not math.isnan(loss)}  # nothing was left for the trial
    paid = {c.key: c.value[0] for c in ledger.charges(prefix="value/")}
    assert paid == {f"value/{trial}": loss for trial, loss in told.items()}  # those that died have paid nothing
    assert math.isclose(results.get_best_result().metrics["loss"], min(values_in(fast_path)))
    assert ledger.spent() <= 1.0


@pytest.mark.slow
def test_a_vault_that_is_gone_for_good_is_started_again_by_its_searcher(fast_path):
    search = PrivateSearcher(random_search(), open_privatizer(fast_path), n_trials=2, seed=1)
    trainable = search.trainable(losses)
    tuner(trainable, search, fast_path, num_samples=1).fit()
    search.vault.stop()  # as ray.shutdown, or the end of another searcher of this name that had started it
    wait_until(lambda: not search._client.runs())
    assert search.estimate(trainable, search.recommend(), early=True).private
    assert len(values_in(fast_path)) == 1
    search._client.stop()
    wait_until(lambda: not search._client.runs())
    tuner(trainable, search, fast_path, num_samples=1, run={"name": "again"}).fit()
    assert len(values_in(fast_path)) == 2


class EndInside(tune.Stopper):
    """Ends the run, as a time budget does, once a trial is inside the function that does not return."""

    def __init__(self, inside, opened):
        self.inside, self.opened = inside, opened

    def __call__(self, trial_id, result):
        return False

    def stop_all(self):
        return self.inside.exists() and not self.opened.exists()


@pytest.mark.slow
def test_a_run_that_tune_ended_inside_a_trial_is_restored_and_completed(fast_path):
    first, inside, opened = (fast_path / name for name in ("first", "inside", "opened"))

    def gated(config):
        if first.exists() and not opened.exists():
            inside.touch()
            time.sleep(600)
        first.touch()
        return losses(config)

    search = PrivateSearcher(OptunaSearch(seed=1), open_privatizer(fast_path), n_trials=4)
    trainable = search.trainable(gated)
    tuner(trainable, search, fast_path, num_samples=4, run={"stop": EndInside(inside, opened)}).fit()
    before = [c for c in open_ledger(fast_path).charges() if c.value]
    assert len(before) == len(open_ledger(fast_path).charges()) == 1
    opened.touch()
    results = tune.Tuner.restore(str(fast_path / "experiment"), trainable, resume_unfinished=True).fit()
    after = open_ledger(fast_path).charges()
    assert {c.key: c.value for c in before}.items() <= {c.key: c.value for c in after}.items()
    assert sorted(r.metrics["loss"] for r in results if "loss" in r.metrics) == sorted(values_in(fast_path))
    assert open_ledger(fast_path).spent() <= 1.0


def test_a_spent_ledger_refuses_before_a_trial_begins(fast_path):
    privatizer = open_privatizer(fast_path)
    privatizer.observe("elsewhere", np.zeros(N))
    privatizer.release(privatizer.mean_query("elsewhere", 1.0), scope="elsewhere", key="1")
    late = open_search(open_privatizer(fast_path), name="late")
    with pytest.raises(dptune.BudgetExhausted):
        tuner(late.trainable(losses), late, fast_path).fit()
