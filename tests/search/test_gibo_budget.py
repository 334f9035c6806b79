"""What a run of DP-GIBO may spend, on steps, values and the estimate, and when it is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gibo_runs import BATCH, STARTS, TRIALS, N, start
from run_harness import keys, trial

from dptune import BudgetExhausted, InputError, LossPrivatizer, PlanComplete, PrivacyLedger


def test_withheld_values_cost_nothing(ledger: PrivacyLedger) -> None:
    run = start(ledger, monitor_share=0.0)
    assert [trial(run, str(i)) for i in range(TRIALS)] == [math.inf] * TRIALS
    assert keys(ledger, "value/") == []
    assert run.complete
    with pytest.raises(PlanComplete):
        run.check("one more")
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))


@pytest.mark.parametrize("monitor", [0.1, 0.0])
@pytest.mark.parametrize("steps_before", [0, 1])
def test_no_model_is_trained_for_a_step_that_cannot_be_paid(
    ledger: PrivacyLedger, monitor: float, steps_before: int
) -> None:
    """What is left pays values, and half a step, or half of the comparison of starts."""
    run = start(ledger, monitor_share=monitor)
    for i in range(STARTS * steps_before + steps_before):
        trial(run, str(i))
    plan = run.plan
    step = plan.settings.step_mu if steps_before else plan.settings.start_mu
    other = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    other.observe("x", np.zeros(N))
    all_but = math.sqrt(ledger.remaining() ** 2 - step**2 / 2)
    other.release(other.mean_query("x", all_but), scope="another study", key="1")
    spent = ledger.spent()
    with pytest.raises(BudgetExhausted):
        run.check("next")
    assert ledger.spent() == spent


@pytest.mark.parametrize("monitor", [0.1, 0.0])
def test_a_run_that_has_its_own_budget_and_no_more_is_never_refused(ledger: PrivacyLedger, monitor: float) -> None:
    """Also where all spare values are used up by trials that were lost to another process."""
    run, other = (start(ledger, monitor_share=monitor, final_share=0.0) for _ in range(2))
    for i in range(2 * BATCH):
        if i % 2:
            trial(other, f"lost {i}")
            other = start(ledger, monitor_share=monitor, final_share=0.0)
        else:
            trial(run, f"{i}")
    for i in range(TRIALS):
        if run.complete:
            break
        trial(run, f"more {i}")
    assert run.complete


# ---- the estimate --------------------------------------------------------------------------------------


def test_a_run_without_a_final_share_makes_no_estimate(ledger: PrivacyLedger) -> None:
    run = start(ledger, final_share=0.0)
    with pytest.raises(InputError, match="final_share"):
        run.check_estimate(run.recommend())
    with pytest.raises(InputError, match="final_share"):
        run.estimate(run.recommend(), np.zeros(N))
    assert ledger.spent() == 0.0
