"""Steps of DP-GIBO that are recorded late, by another process, or never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gibo_runs import BATCH, STARTS, TRIALS, start
from run_harness import keys, trial

from dptune import Charge, LedgerError, PlanComplete, PrivacyLedger


def test_a_batch_whose_gradient_was_recorded_late_is_not_asked_about_again(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(ledger)
    for i in range(STARTS):
        trial(run, str(i))
    record, failed = run.ledger.record, []

    def full(charge: Charge, value: Any) -> Charge:
        if charge.key == "step/1" and not failed:
            failed.append(charge)
            raise LedgerError("disk full")
        return record(charge, value)

    monkeypatch.setattr(run.ledger, "record", full)
    for i in range(BATCH - 1):
        trial(run, f"b{i}")
    with pytest.raises(LedgerError):
        trial(run, "last")
    assert run.recommend() is not None  # recorded now
    assert run.algorithm.t == 1
    assert run.algorithm.batch_left() == BATCH
    trial(run, "next")
    assert keys(ledger, "step/") == ["step/1"]


def test_a_step_that_could_not_be_recorded_is_recorded_when_the_database_is_back(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, true_record = start(ledger), PrivacyLedger.record

    def failing(self: PrivacyLedger, charge: Charge, value: Any) -> Charge:
        if charge.key.startswith("step/"):
            raise LedgerError("the disk is full")
        return true_record(self, charge, value)

    monkeypatch.setattr(PrivacyLedger, "record", failing)
    for i in range(STARTS + BATCH - 1):
        trial(run, str(i))
    with pytest.raises(LedgerError, match="disk is full"):
        trial(run, "last")
    monkeypatch.undo()
    trial(run, "next")
    charge = ledger.find("run", "step/1")
    assert charge is not None
    assert charge.value is not None
    assert run.algorithm.gradients[1].tolist() == list(charge.value)


def test_an_unrecorded_step_of_another_process_does_not_break_up_a_design(ledger: PrivacyLedger) -> None:
    """A pair of opposite points stays one: folding the same ledger again must not draw a new design."""
    run = start(ledger, starts=0, batch=2)
    run.algorithm.use_up(1)
    a = run.algorithm.ask(0)
    run.algorithm.use_up(1)
    b = run.algorithm.ask(1)
    np.testing.assert_allclose((a + b) / 2, run.algorithm.theta, atol=1e-12)


def test_a_run_whose_trials_were_spread_too_thin_says_so(ledger: PrivacyLedger) -> None:
    spare = start(ledger).plan.spare
    for i in range(TRIALS + spare):  # each a process of one trial
        trial(start(ledger), str(i))
    with pytest.raises(PlanComplete, match="Only 0 of 4 steps"):
        start(ledger).check("one more")
