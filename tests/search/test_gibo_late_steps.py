"""Steps of DP-GIBO that are never recorded, or never made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gibo_runs import TRIALS, start
from run_harness import SPACE, trial

from dptune import LedgerError, PlanComplete, PrivacyLedger


def test_an_unrecorded_step_of_another_process_does_not_break_up_a_design(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair of opposite points stays one: reading the same ledger again must not draw a new design."""
    run, other = (start(ledger, starts=0, batch=2) for _ in range(2))

    def full(*_: Any) -> None:
        raise LedgerError("disk full")

    trial(other, "0")
    monkeypatch.setattr(other.ledger, "record", full)
    x = other.ask()
    monkeypatch.setattr(type(run.ledger), "record", full)
    with pytest.raises(LedgerError):
        other.finish("1", x, np.zeros(other.privatizer.n))
    a, b = (SPACE.encode(run.ask()) for _ in range(2))
    np.testing.assert_allclose((a + b) / 2, run.algorithm.theta, atol=1e-12)


def test_a_run_whose_trials_were_spread_too_thin_says_so(ledger: PrivacyLedger) -> None:
    spare = start(ledger).plan.spare
    for i in range(TRIALS + spare):  # each a process of one trial
        trial(start(ledger), str(i))
    with pytest.raises(PlanComplete, match="Only 0 of 4 steps"):
        start(ledger).check("one more")
