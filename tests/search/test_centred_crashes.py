"""Generations of a centred run whose charge or record failed, came late or never came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from centred_runs import EVERY, GENERATIONS, POPULATION, TRIALS, start, trials
from run_harness import keys, trial

from dptune import LedgerError, LossPrivatizer, PrivacyLedger


def test_a_generation_whose_answer_was_lost_is_used_up(ledger: PrivacyLedger, monkeypatch: Any) -> None:
    run = start(ledger)
    for i in range(POPULATION):
        trial(run, str(i))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LossPrivatizer, "_draw", dies)
        with pytest.raises(KeyboardInterrupt):
            trials(run, "lost")
    again = start(ledger)
    for i in range(2 * TRIALS):
        if again.complete:
            break
        trial(again, f"again {i}")
    assert again.complete
    assert sorted(keys(ledger)) == sorted(EVERY)
    assert ledger.spent() <= 4.0


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


def test_an_answer_that_arrives_late_is_folded_in_its_place(ledger: PrivacyLedger, monkeypatch: Any) -> None:
    a, b = start(ledger), start(ledger)
    true, waiting = PrivacyLedger.record, []

    def later(self: PrivacyLedger, charge: Any, value: Any) -> Any:
        if charge.key == "generation/1":
            waiting.append((charge, value))
            raise KeyboardInterrupt
        return true(self, charge, value)

    monkeypatch.setattr(PrivacyLedger, "record", later)
    with pytest.raises(KeyboardInterrupt):
        trials(a, "a")
    for i in range(POPULATION):
        trial(b, f"b{i}")
    assert keys(ledger, "generation/") == ["generation/1", "generation/2"]
    assert len(b.algorithm.generations) == 1
    true(ledger, *waiting[0])
    b.recommend()
    assert [g.radius for g in b.algorithm.generations] == [
        c.note["radius"] for c in ledger.charges("run", prefix="generation/")
    ]
    assert np.array_equal(start(ledger).algorithm.means, b.algorithm.means)


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


def test_a_generation_that_another_process_charged_leaves_ones_own_points_waiting(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process's charge fails, and another makes the generation meanwhile."""
    run, other = start(ledger), start(ledger)
    charge, failed = run.ledger.charge, []

    def full(scope: str, key: str, *args: Any, **options: Any) -> Any:
        if key == "generation/1" and not failed:
            failed.append(key)
            raise LedgerError("disk full")
        return charge(scope, key, *args, **options)

    monkeypatch.setattr(run.ledger, "charge", full)
    with pytest.raises(LedgerError):
        trials(run, "a")
    trials(other, "b")
    run.recommend()
    assert (run.algorithm.t, run.algorithm.missing()) == (1, 0)
