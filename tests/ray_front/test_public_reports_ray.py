"""Reports of public numbers from a trial, and trials that Tune stops or that fail."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
import dptune_ray
from dptune.search.run import MOST_STOPPED
from ray_harness import SPACE, open_ledger
from ray_people import losses
from trials_by_hand import CONFIG, a_trial, made, made_public, reporting, value_of


@pytest.mark.usefixtures("local_actors")
def test_public_reports_come_one_by_one_and_every_result_has_both_metrics(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("local_actors")
def test_a_trial_that_tune_stops_ends_at_its_report_and_costs_nothing(tmp_path: Path) -> None:
    ended: list[str] = []

    def closing(config: dict[str, Any]) -> np.ndarray:
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


@pytest.mark.usefixtures("local_actors")
def test_a_run_whose_trials_are_all_stopped_ends(tmp_path: Path) -> None:
    search, _ = made_public(tmp_path)
    asked = 0
    while search.suggest(str(asked)) != "FINISHED":
        search.on_trial_complete(str(asked), result={"loss": np.nan, "public": 1.0})
        asked += 1
    assert asked == MOST_STOPPED


@pytest.mark.usefixtures("local_actors")
def test_mistakes_in_public_reports_are_told_before_anything_is_paid(tmp_path: Path) -> None:
    search, trainable = made_public(tmp_path, lambda config: dptune_ray.report_public("much", 1))
    with pytest.raises(dptune.InputError, match="takes a number"):
        a_trial(trainable, "a").step()
    with pytest.raises(dptune.InputError, match="in words"):
        search.trainable(reporting)
    with pytest.raises(dptune.InputError, match="private people"):
        search.trainable(losses, public="x", training="private")
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.usefixtures("local_actors")
def test_trials_that_fail_before_any_succeeded_report_nan_and_the_first_generation_of_them_ends_the_run(
    tmp_path: Path,
) -> None:
    def broken(config: dict[str, Any]) -> Any:
        raise ValueError("person 7")

    search, trainable = made(tmp_path, broken)
    values = [value_of(trainable, trial) for trial in ("a", "b", "c")]
    assert np.isnan(values).all()
    for name in ("d", "e"):  # "e" is not trained
        with pytest.raises(dptune.errors.AllTrialsFailed, match="try_out") as caught:
            value_of(trainable, name)
        assert "person 7" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(dptune.errors.AllTrialsFailed, match="try_out"):
        search.suggest("f")
    assert open_ledger(tmp_path).spent() == 0.0
    search.set_search_properties("loss", "min", SPACE)  # fitted again
    assert np.isfinite(value_of(search.trainable(losses), "g"))
