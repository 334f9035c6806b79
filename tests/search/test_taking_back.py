"""A run whose process was killed goes on with the points that its encrypted file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import centred_runs
import gibo_runs
import mixed_runs
import numpy as np
import pytest
from run_harness import keys, losses_of, trials

from dptune import LossPrivatizer, PrivacyLedger, SearchRun
from dptune.privacy import PendingLosses

KEY = PendingLosses.new_key()
METHODS = pytest.mark.parametrize("method", [centred_runs, gibo_runs, mixed_runs])


def begin(ledger: PrivacyLedger, method: Any) -> SearchRun:
    path = Path(str(ledger.url.database))
    return method.start(ledger, mu=1.0, seed=1, pending=PendingLosses(path.with_name("pending.db"), KEY))


def kill(run: SearchRun) -> None:
    assert run.privatizer.pending is not None
    run.privatizer.pending._file.close()


def left(ledger: PrivacyLedger, method: Any) -> list[str]:
    run = begin(ledger, method)
    names = list(run.algorithm.waiting())
    kill(run)
    return names


def trial(run: SearchRun, name: str, *, fails: bool = False) -> None:
    run.check(name)
    x = run.ask()
    run.finish(name, x, None if fails else losses_of(x, run.privatizer.n))


@METHODS
def test_each_life_adds_a_trial_and_the_round_is_asked_once_all_are_there(ledger: PrivacyLedger, method: Any) -> None:
    for life in range(30):
        run = begin(ledger, method)
        trial(run, f"{life}")
        kill(run)
        if run.algorithm.t == 1:
            break
    assert run.algorithm.t == 1
    assert life + 1 >= run.algorithm.batch
    assert left(ledger, method) == []
    assert len(keys(ledger)) == len(set(keys(ledger)))


def test_a_failed_trial_is_one_after_the_kill_too_and_is_counted_once(ledger: PrivacyLedger) -> None:
    first = begin(ledger, centred_runs)
    trial(first, "good")
    trial(first, "bad", fails=True)
    kill(first)
    again = begin(ledger, centred_runs)
    for name in "cde":
        trial(again, name)
    kill(again)
    assert [charge.note.get("failed", 0) for charge in ledger.charges()] == [1, 0]


def test_a_kill_between_the_record_and_its_deletion_costs_a_question_of_its_own(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(ledger, centred_runs)
    with monkeypatch.context() as killed:
        killed.setattr(LossPrivatizer, "settle", lambda self, points: None)
        for name in "abcde":
            trial(first, name)
    kill(first)
    spent = ledger.spent()
    assert len(left(ledger, centred_runs)) == 5  # asked about, and still there
    again = begin(ledger, centred_runs)
    trial(again, "f")
    kill(again)
    assert keys(ledger) == ["share/1", "generation/1", "share/2", "generation/2"]
    assert ledger.spent() == pytest.approx(np.sqrt(2) * spent)
    answers = [charge.value for charge in ledger.charges(prefix="generation/")]
    assert answers[0] != answers[1]


def test_a_complete_run_leaves_nothing(ledger: PrivacyLedger) -> None:
    run = begin(ledger, centred_runs)
    trials(run, centred_runs.TRIALS)
    assert run.complete
    assert run.privatizer.pending is not None
    assert run.privatizer.pending._file.execute("SELECT count(*) FROM pending").fetchone() == (0,)
    assert run.privatizer.points() == ()
    kill(run)
