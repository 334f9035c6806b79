"""A study restarted within a generation ends with the words of one that was not, or says what is lost and why."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from dptune.privacy import PendingLosses
from harness import create, front, keys, open_privatizer, stored

PLANNED, POPULATION = 8, 4
WITHIN = [1, 2, 3, 5, 6, 7]  # trials of the process that stops
Opened = tuple[optuna.Study, Any, Any]


def opened(folder: Path, kind: str = "centred", **sources: Any) -> Opened:
    """A process of the study: a sampler, its objective and a privatizer that holds no losses yet."""
    sampler, objective = front(kind, open_privatizer(folder, **sources), n_trials=PLANNED)
    return create(stored(folder), sampler), sampler, objective


def stops_after(trials: int, open_one: Callable[[], Opened]) -> None:
    study, _, objective = open_one()
    study.optimize(objective, n_trials=trials)
    del study, _, objective
    gc.collect()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "planned" in record.getMessage()]


@pytest.mark.parametrize(
    ("trials", "kind"),
    [
        *((trials, "centred") for trials in (0, *WITHIN)),
        *(pytest.param(trials, "gibo", marks=pytest.mark.slow if trials % 3 else ()) for trials in (0, *WITHIN)),
    ],
)
def test_a_restarted_study_ends_with_the_words_of_one_that_was_not(
    tmp_path: Path, kind: str, trials: int, caplog: pytest.LogCaptureFixture
) -> None:
    if trials:
        stops_after(trials, lambda: opened(tmp_path, kind))
    caplog.set_level("WARNING", "optuna.dptune")
    caplog.clear()
    study, sampler, objective = opened(tmp_path, kind)
    study.optimize(objective)
    assert objective.run_of(study).complete
    batch = POPULATION if kind == "centred" else 2
    assert len(study.trials) == PLANNED + trials % batch  # what was lost is trained again
    assert f"after {PLANNED} of {PLANNED} planned trials" in sampler.recommend(study).summary()
    rounds = [key for key in keys(tmp_path) if key.startswith(("generation/", "step/"))]
    assert len(rounds) == objective.run_of(study).algorithm.rounds
    del study
    gc.collect()
    assert lines(caplog) == []


@pytest.mark.parametrize("trials", WITHIN)
def test_as_many_trials_as_planned_are_too_few_after_a_restart_and_it_says_why(
    tmp_path: Path, trials: int, caplog: pytest.LogCaptureFixture
) -> None:
    stops_after(trials, lambda: opened(tmp_path))
    caplog.set_level("WARNING", "optuna.dptune")
    caplog.clear()
    study, _, objective = opened(tmp_path)
    study.optimize(objective, n_trials=PLANNED - trials)
    assert not objective.run_of(study).complete
    del study, _, objective
    gc.collect()
    (line,) = lines(caplog)
    made = PLANNED - trials % POPULATION
    assert f"{PLANNED} trials of the study 'study' have ended and {PLANNED} were planned. {made} of {PLANNED}" in line
    assert "If it stops within a generation, the losses of its last trials are lost, and nothing was charged" in line
    assert "study.optimize(objective) without n_trials" in line
    assert [key for key in keys(tmp_path) if key.startswith("generation/")] == ["generation/1"]  # the rest is unspent
    study, sampler, objective = opened(tmp_path)
    study.optimize(objective)
    assert objective.run_of(study).complete
    assert f"after {PLANNED} of {PLANNED} planned trials" in sampler.recommend(study).summary()


@pytest.mark.parametrize("trials", WITHIN)
def test_pending_losses_lose_no_trial(tmp_path: Path, trials: int) -> None:
    key = PendingLosses.new_key()

    def opens() -> Opened:
        return opened(tmp_path, pending=PendingLosses(tmp_path / "pending.db", key))

    stops_after(trials, opens)
    study, sampler, objective = opens()
    study.optimize(objective, n_trials=PLANNED - trials)
    assert objective.run_of(study).complete
    assert f"after {PLANNED} of {PLANNED} planned trials" in sampler.recommend(study).summary()
