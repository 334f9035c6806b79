"""Trials may report public numbers for schedulers before they end."""

import threading
import traceback

import numpy as np
import pytest

import dptune
import dptune_ray
from by_hand import CONFIG, a_trial, begin, local, made, open_private, reporting, value_of
from dptune.search.outcomes import FIRST_STOPPED
from dptune_ray.reports import public_reports
from ray_harness import open_centred, open_ledger, open_privatizer
from ray_people import losses

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
    closing.join(timeout=600)
    assert not closing.is_alive()


def test_a_run_whose_trials_are_all_stopped_ends(tmp_path, caplog):
    """Repeated reports of Tune and failed trials do not count as stopped trials."""

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


def test_failed_first_trials_report_nan_and_a_generation_ends_the_run(tmp_path):
    """Nothing is charged."""

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
def test_trials_that_a_scheduler_stops_count_as_planned_trials(tmp_path, opened):
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
