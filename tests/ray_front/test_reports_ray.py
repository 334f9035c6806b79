"""What trials report before their end: public numbers for schedulers, and private losses that stop trials."""

import contextlib
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from noises import NoNoise
from ray.exceptions import RaySystemError
from sklearn.dummy import DummyClassifier

import dptune
import dptune_ray
from by_hand import CONFIG, a_trial, begin, local, made, open_private, played, reporting, value_of
from dptune.search.unfinished import FIRST_STOPPED
from dptune_ray.reports import public_reports
from dptune_ray.vault import LossesMissing, Upload
from ray_harness import open_centred, open_ledger, open_privatizer
from ray_people import N, losses, losses_at, people

pytestmark = local


def made_public(folder, function=reporting, **settings):
    search, _ = made(folder, losses, **settings)
    return search, search.trainable(public="x, of which everybody knows")(function)


def test_public_reports_come_one_by_one_and_every_result_has_both_metrics(tmp_path):
    _, trainable = made_public(tmp_path)
    one = a_trial(trainable, "a")
    results = [one.step() for _ in range(4)]
    assert [result["public"] for result in results] == [0.1, 0.05, pytest.approx(0.1 / 3), pytest.approx(0.1 / 3)]
    assert [result["step"] for result in results] == [1, 2, 3, 3]
    assert [bool(np.isfinite(result["loss"])) for result in results] == [False, False, False, True]
    assert [result.get("done", False) for result in results] == [False, False, False, True]
    assert "everybody knows (run 'run')" in str(open_ledger(tmp_path).statement(delta=1e-5))
    assert dptune_ray.report_public(1.0, 1) is None  # outside a trial
    assert "private" in trainable.try_out(CONFIG)


def test_a_trial_that_tune_stops_ends_at_its_report_and_costs_nothing(tmp_path):
    ended = []

    def closing(config):
        try:
            return reporting(config)
        except Exception:
            ended.append("it took the stop for an error")
            raise
        finally:
            ended.append("closed")

    search, trainable = made_public(tmp_path, closing)
    assert search.suggest("a")
    one = a_trial(trainable, "a")
    stopped = one.step()
    assert one.reset_config(CONFIG)
    assert ended == ["closed"]
    search.on_trial_complete("a", result=stopped)
    assert open_ledger(tmp_path).spent() == 0
    assert [np.isfinite(value_of(search.trainable(losses), trial)) for trial in ("b", "c", "d")] == [True, True, False]


def test_a_function_that_swallows_the_request_to_stop_ends_all_the_same():
    def stubborn():
        for step in range(5):
            try:
                dptune_ray.report_public(1.0, step)
            except BaseException:  # noqa: BLE001 - that is what it is about
                continue

    reports = public_reports(stubborn)
    assert next(reports)["step"] == 0
    closing = threading.Thread(target=reports.close, daemon=True)
    closing.start()
    closing.join(timeout=5)
    assert not closing.is_alive()


def test_a_run_whose_trials_are_all_stopped_ends_however_often_tune_tells_and_failures_do_not_count(tmp_path, caplog):
    def failing(config):
        dptune_ray.report_public(config["x"], 1)
        raise ValueError("private")

    search, trainable = made_public(tmp_path, failing, n_trials=40)
    for asked in range(FIRST_STOPPED - 1):
        assert search.suggest(str(asked)) != "FINISHED"
        for _ in range(1 + asked % 2):
            search.on_trial_complete(str(asked), result={"loss": np.nan, "public": 1.0})
    assert search.suggest("a")
    one = a_trial(trainable, "a")
    results = [one.step(), one.step()]
    assert results[0]["public"] == 0.1
    assert np.isnan(results[1]["loss"])
    search.on_trial_complete("a", result=results[1])
    search.on_trial_complete("a", result=results[0], error=True)  # Tune says nothing of a result then; wrappers may
    assert "its function failed" in caplog.text
    assert search.suggest("b") != "FINISHED"
    search.on_trial_complete("b", result={"loss": np.nan, "public": 1.0})
    assert search.suggest("c") == "FINISHED"
    assert "max_t larger than the number of reports" in caplog.text
    assert open_ledger(tmp_path).spent() == 0


def test_first_trials_that_fail_report_nan_unpaid_and_a_generation_of_them_ends_the_run(tmp_path):
    def broken(config):
        raise ValueError("person 7")

    search, trainable = made(tmp_path, broken)
    assert np.isnan([value_of(trainable, trial) for trial in ("a", "b", "c")]).all()
    for ends in (lambda: value_of(trainable, "d"), lambda: value_of(trainable, "e"), lambda: search.suggest("f")):
        with pytest.raises(dptune.errors.AllTrialsFailed, match="try_out") as caught:  # "e" is not trained
            ends()
        assert "person 7" not in "".join(traceback.format_exception(caught.value))
    assert open_ledger(tmp_path).spent() == 0.0
    begin(search)  # fitted again
    assert np.isfinite(value_of(search.trainable(losses), "g"))


@pytest.mark.parametrize("opened", [open_centred, open_private])
def test_a_run_proposes_no_more_trials_than_planned_where_a_scheduler_stops_some(tmp_path, opened):
    """Stopping trials saves training: each that is stopped is one of the planned trials."""
    search = opened(open_privatizer(tmp_path), n_trials=12)
    trainable = search.trainable(reporting, public="x, of which everybody knows")
    begin(search)
    made = 0
    while (config := search.suggest(str(made))) != "FINISHED":
        one = a_trial(trainable, str(made), config)
        result = one.step()
        while made % 4 < 3 and not result.get("done"):
            result = one.step()
        one.cleanup()
        search.on_trial_complete(str(made), result=result)
        made += 1
    assert made == search.n_trials
    assert opened is not open_centred or search.progress()["generations_done"] == search.progress()["generations"]


SETTINGS: dict[str, Any] = {"n_trials": 8, "population": 4, "rung_share": 0.2, "rungs": 2}
MU = 10.0  # at which 60 people are told apart
STEPS = (1, 2, 3)


def half_trained(config, step):
    return losses_at(people(), config["x"], config["y"]) + 0.5 / step


def training(config):
    for step in STEPS[:-1]:
        dptune_ray.report_private(half_trained(config, step), step)
    return half_trained(config, STEPS[-1])


def stubborn(config):
    """Swallows every request to stop."""
    for step in STEPS[:-1]:
        with contextlib.suppress(BaseException):
            dptune_ray.report_private(half_trained(config, step), step)
    return half_trained(config, STEPS[-1])


def opened(folder, **settings):
    return begin(open_centred(open_privatizer(folder, mu=MU, **settings), **SETTINGS))


def in_core(folder, trials, space):
    """The same trials by the core's own run."""
    privatizer = open_privatizer(folder, mu=MU, noise=NoNoise())
    run = dptune.SearchRun(
        dptune.CENTRED, privatizer, scope="run", space=space, seed=1, trials=8, population=4, rung_share=0.2, rungs=2
    )
    for trial, (config, _) in enumerate(trials):
        for step in STEPS[:-1]:
            run.rungs.report(str(trial), config, half_trained(config, step), step)
            if run.rungs.stops(str(trial)):
                run.unfinished.withdraw(str(trial))
                break
        else:
            run.finish(str(trial), config, half_trained(config, STEPS[-1]))
    return run


@pytest.mark.parametrize("function", [training, stubborn])
def test_the_vault_asks_and_answers_as_the_core_does(tmp_path, function):
    (tmp_path / "core").mkdir()
    search = opened(tmp_path, noise=NoNoise())
    trials = played(search, search.trainable(function))
    ended = [value for _, value in trials if not np.isnan(value)]
    assert len(trials) > len(ended) == 8, "others take the places of those that were stopped"
    core = in_core(tmp_path / "core", trials, search.vault_run().space)
    mine, theirs = open_ledger(tmp_path, MU).charges("run"), core.ledger.charges("run")
    assert [(c.key, c.mu, c.value) for c in mine] == [(c.key, c.mu, c.value) for c in theirs]
    asked = [c.key for c in mine if c.key.startswith("rung/")]
    assert {c.note["step"] for c in mine if c.key in asked} == {1, 2}, "some went on after their first rung"
    assert search.vault_run().begin().complete


def test_a_vault_that_cannot_be_reached_is_no_failure_of_the_function(tmp_path, local_actors):
    search = opened(tmp_path)
    (vault,) = local_actors.values()
    plain = vault.call

    def lost(method, *args):
        if method == "report":
            raise RaySystemError("no network")
        return plain(method, *args)

    vault.call = lost
    with pytest.raises(RaySystemError):
        played(search, search.trainable(stubborn))
    assert open_ledger(tmp_path, MU).spent() == 0


def test_a_named_loss_takes_the_model(tmp_path):
    search = opened(tmp_path)
    X, y = np.zeros((N, 2)), np.tile([0, 1], N // 2)

    @search.trainable(loss="zero_one", data=(X, y))
    def model(config):
        fitted = DummyClassifier(strategy="constant", constant=int(config["x"] > 0)).fit(np.zeros((2, 2)), [0, 1])
        dptune_ray.report_private(fitted, 1)
        return fitted

    assert sum(not np.isnan(value) for _, value in played(search, model)) == 8


def test_nothing_is_kept_of_a_trial_that_failed(tmp_path, local_actors):
    def wrong(config):
        dptune_ray.report_private(half_trained(config, 1), 1)
        return np.zeros(N - 1)

    search = opened(tmp_path)
    with pytest.raises(dptune.InputError, match=f"expected {N}"):
        played(search, search.trainable(wrong))
    (vault,) = local_actors.values()
    assert len(vault.served.definition.request.privatizer.points()) == 1
    with pytest.raises(dptune.InputError, match="No trial was accepted before"):
        search.on_trial_complete("0", error=True)
    assert vault.served.definition.request.privatizer.points() == ()


def test_a_stop_forgets_what_another_process_of_the_trial_was_handing_over(tmp_path, local_actors):
    search = opened(tmp_path, noise=NoNoise())
    played(search, search.trainable(training), most=1)
    (vault,) = local_actors.values()
    vault.served.put("late", "another's", 0, np.zeros(N).tobytes())
    point = {"x": 0.0, "y": 1.0}
    assert vault.served.report(Upload("its own, which failed", ("late",), (None,)), "late", point, 1) is True
    with pytest.raises(LossesMissing):
        vault.served.finish(Upload("another's", ("late",), (N,)), "late", point)
    charges = open_ledger(tmp_path, MU).charges()
    assert search.vault.report("late", point, half_trained(point, 2), 2) is True  # so does the other process
    assert open_ledger(tmp_path, MU).charges() == charges


def swallowing(config):
    with contextlib.suppress(Exception):
        dptune_ray.report_private(np.zeros(N - 1), 1)
    return half_trained(config, 1)


def in_a_thread(config):
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(dptune_ray.report_private, half_trained(config, 1), 1)
    assert isinstance(told.exception(), dptune.InputError)
    return half_trained(config, 1)


@pytest.mark.parametrize(
    ("function", "unplanned", "says"),
    [
        (swallowing, {}, f"expected {N}"),
        (in_a_thread, {}, "thread of your own"),
        (training, {"rung_share": 0}, "decisions"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_public_though_the_function_swallows_it(
    tmp_path, function, unplanned, says
):
    search = begin(open_centred(open_privatizer(tmp_path, mu=MU), **{**SETTINGS, **unplanned}))
    with pytest.raises(dptune.InputError, match=says):
        played(search, search.trainable(function))
    assert open_ledger(tmp_path, MU).spent() == 0
    dptune_ray.report_private(np.zeros(N), 1)  # outside a trial: nothing


def test_a_trial_that_runs_again_after_the_vault_was_restarted_costs_nothing_and_has_its_value(tmp_path, local_actors):
    search = opened(tmp_path, noise=NoNoise())
    trainable = search.trainable(training)
    trials = played(search, trainable)
    spent = open_ledger(tmp_path, MU).spent()
    local_actors.clear()
    assert opened(tmp_path, noise=NoNoise()).vault
    for trial, (config, value) in enumerate(trials):
        np.testing.assert_equal(value_of(trainable, str(trial), config), value)  # NaN if it was stopped
    assert open_ledger(tmp_path, MU).spent() == spent
