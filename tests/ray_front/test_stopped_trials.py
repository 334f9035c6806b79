"""Trials with public reports that end: which of them a scheduler has stopped, and that all of them end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune_ray
from dptune_ray.reports import public_reports
from ray_harness import open_ledger
from trials_by_hand import a_trial, made_public


def stubborn() -> str:
    """Swallow every request to stop, and report again."""
    for step in range(5):
        try:
            dptune_ray.report_public(1.0, step)
        except BaseException:  # noqa: BLE001 - that is what it is about
            continue
    return "ended"


def test_a_function_that_swallows_the_request_to_stop_ends_all_the_same() -> None:
    reports = public_reports(stubborn)
    assert next(reports)["step"] == 0
    closing = threading.Thread(target=reports.close, daemon=True)
    closing.start()
    closing.join(timeout=5)
    assert not closing.is_alive()


@pytest.mark.usefixtures("local_actors")
def test_a_trial_that_failed_unpaid_after_a_report_was_not_stopped_by_a_scheduler(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(config: dict[str, Any]) -> Any:
        dptune_ray.report_public(config["x"], 1)
        raise ValueError("private")

    monkeypatch.setattr("dptune.search.run.MOST_STOPPED", 1)
    search, trainable = made_public(tmp_path, failing)
    assert search.suggest("a")
    one = a_trial(trainable, "a")
    results = [one.step(), one.step()]
    assert results[0]["public"] == 0.1
    assert np.isnan(results[1]["loss"])
    search.on_trial_complete("a", result=results[1])
    search.on_trial_complete("a", result=results[0], error=True)  # Tune says nothing of a result then; wrappers may
    assert "its function failed" in caplog.text
    assert search.suggest("b") != "FINISHED"
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.usefixtures("local_actors")
def test_a_stopped_trial_of_which_tune_tells_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptune.search.run.MOST_STOPPED", 2)
    search, _ = made_public(tmp_path)
    for trial in "ab":
        assert search.suggest(trial) != "FINISHED"
        for _ in range(2):
            search.on_trial_complete(trial, result={"loss": np.nan, "public": 0.1})
    assert search.suggest("c") == "FINISHED"
