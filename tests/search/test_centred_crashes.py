"""Generations of a centred run whose charge or record failed, came late or never came."""

from __future__ import annotations

from typing import Any

import pytest
from centred_runs import EVERY, GENERATIONS, POPULATION, TRIALS, start, trials
from run_harness import keys, trial

from dptune import LedgerError, LossPrivatizer, PrivacyLedger


def test_a_run_whose_last_share_is_paid_and_generation_is_not_can_be_finished(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Nothing but the generation's own price is left, and nothing more is asked for before its trials are trained."""
    run, true = start(ledger, final_share=0.0), LossPrivatizer.release
    for i in range(TRIALS - 1):
        trial(run, str(i))

    def dies(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if options["key"] == f"generation/{GENERATIONS}":
            raise KeyboardInterrupt
        return true(self, query, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LossPrivatizer, "release", dies)
        with pytest.raises(KeyboardInterrupt):
            trial(run, "last")
    assert keys(ledger) == EVERY[:-1]
    again = start(ledger, final_share=0.0)
    trials(again, "again")
    assert again.complete
    assert keys(ledger) == EVERY


def test_a_generation_that_was_recorded_late_is_not_asked_again_at_the_same_points(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(ledger)
    record, failed = run.ledger.record, []

    def full(charge: Any, value: Any) -> Any:
        if charge.key == "generation/1" and not failed:
            failed.append(charge)
            raise LedgerError("disk full")
        return record(charge, value)

    monkeypatch.setattr(run.ledger, "record", full)
    with pytest.raises(LedgerError):
        trials(run, "a")
    for i in range(POPULATION - 1):
        trial(run, f"b{i}")
    assert keys(ledger) == EVERY[:2]
    trial(run, "last")
    first, second = (c.note["points"][:POPULATION] for c in ledger.charges("run", prefix="generation/"))
    assert not [point for point in first if point in second]
