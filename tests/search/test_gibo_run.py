"""A run of DP-GIBO releases and spends what it planned, refuses the rest, and handles late steps."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dptune import InputError, LedgerError
from dptune.errors import KeyConflict
from refusals import refused
from runs import GIBO_RUN, SPACE, at, keys, losses_of, to_the_end, trial

start, N, STEPS, BATCH, STARTS, TRIALS = GIBO_RUN.start, 20, 4, 3, 4, 16


def test_a_run_releases_a_start_steps_and_values_at_the_prices_of_its_plan(ledger):
    run, values = start(ledger), []
    for i in range(TRIALS):
        values.append(trial(run, str(i)))
        assert len(run.privatizer.points()) <= STARTS + BATCH  # the losses of old ones are forgotten
    assert keys(ledger, "value/") == [f"value/{i}" for i in range(TRIALS)]
    assert keys(ledger, "start") == ["start"]
    plan = run.plan
    assert ledger.spent() == pytest.approx(
        math.hypot(plan.settings.mu, plan.settings.start_mu, plan.monitor_mu * math.sqrt(TRIALS))
    )
    assert [ledger.find("run", f"value/{i}").value for i in range(TRIALS)] == [(v,) for v in values]
    run.check("3")  # has its value: asking again is free
    path = run.algorithm.path
    assert run.recommend() == SPACE.decode(path[-1])
    assert len(path) == STEPS + 1
    assert all(np.linalg.norm(b - a) > 0 for a, b in pairwise(path))


def test_the_same_trial_twice_is_paid_once(ledger):
    run = start(ledger)
    x = run.ask()
    value = run.finish("0", x, losses_of(x, N))
    spent, left = ledger.spent(), run.algorithm.missing()
    assert run.finish("0", x, losses_of(x, N)) == value
    assert start(ledger).finish("0", x, losses_of(x, N)) == value  # after a crash of the front end
    assert (ledger.spent(), run.algorithm.missing()) == (spent, left)
    elsewhere = {**x, "a": x["a"] / 2}
    refused(KeyConflict, None, lambda: run.finish("0", elsewhere, losses_of(x, N)))
    refused(KeyConflict, "storage=", lambda: run.check("0", elsewhere))  # before a model is trained
    run.check("0", x)
    assert ledger.spent() == spent


def test_a_run_that_has_its_own_budget_and_no_more_is_never_refused(ledger):
    """Also where all spare values are used up by trials that were lost to another process."""
    run, other = (start(ledger, final_share=0.0) for _ in range(2))
    centre, zeros = SPACE.centre(), np.zeros(N)
    refused(InputError, "final_share", lambda: run.check_estimate(centre), lambda: run.estimate(centre, zeros))
    assert ledger.spent() == 0.0
    for i in range(2 * BATCH):
        if i % 2:
            trial(other, f"lost {i}")
            other = start(ledger, final_share=0.0)
        else:
            trial(run, f"{i}")
    to_the_end(run)


def test_an_unrecorded_step_of_another_process_does_not_break_up_a_design(ledger):
    """A pair of opposite points stays one: reading the same ledger again must not draw a new design."""
    run, other = (start(ledger, starts=0, batch=2) for _ in range(2))
    trial(other, "0")
    at(other.ledger, "drawn", "step/1", LedgerError("disk full"))
    refused(LedgerError, "disk full", lambda: trial(other, "1"))
    a, b = (SPACE.encode(run.ask()) for _ in range(2))
    np.testing.assert_allclose((a + b) / 2, run.algorithm.theta, atol=1e-12)
