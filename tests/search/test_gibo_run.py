"""A run of DP-GIBO: what it releases and keeps, and what odd trials do to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from audit_tools import dump
from gibo_runs import BATCH, STARTS, STEPS, TRIALS, losses, start
from noises import CannedNoise, NoNoise
from run_harness import SPACE, keys, trial

from dptune import Budget, PlanComplete, PrivacyLedger
from dptune.errors import KeyConflict

# ---- a whole run ---------------------------------------------------------------------------------------


def test_a_run_makes_the_releases_it_planned_and_then_no_more(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    values = [trial(run, str(i)) for i in range(TRIALS)]
    assert run.complete
    assert keys(ledger, "step/") == [f"step/{t}" for t in range(1, STEPS + 1)]
    assert keys(ledger, "value/") == [f"value/{i}" for i in range(TRIALS)]
    assert keys(ledger, "start") == ["start"]
    plan = run.plan
    assert ledger.spent() == pytest.approx(
        math.hypot(plan.settings.mu, plan.settings.start_mu, plan.monitor_mu * math.sqrt(TRIALS))
    )
    shares = plan.settings.mu**2 + plan.settings.start_mu**2 + plan.final_mu**2
    assert shares + plan.monitor_mu**2 * (TRIALS + plan.spare) == pytest.approx(4.0**2)
    assert [ledger.find("run", f"value/{i}").value for i in range(TRIALS)] == [(v,) for v in values]
    before = dump(ledger)
    with pytest.raises(PlanComplete, match="planned"):
        run.check("one more")
    assert dump(ledger) == before
    run.check("3")  # has its value: asking again is free
    assert SPACE.contains(run.recommend())
    assert run.recommend() == SPACE.decode(run.algorithm.path[-1])


def test_the_steps_leave_the_start_and_the_points_are_near_theta(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
    assert len(run.algorithm.path) == STEPS + 1
    assert all(np.linalg.norm(b - a) > 0 for a, b in zip(run.algorithm.path, run.algorithm.path[1:], strict=False))


def test_the_losses_of_old_points_are_forgotten(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
        assert len(run.privatizer.points()) <= STARTS + BATCH
    assert set(run.privatizer.points()) <= set(run.algorithm.points_in_use())


# ---- odd trials ----------------------------------------------------------------------------------------


def test_a_failed_trial_is_a_point_of_the_worst_loss(ledger: PrivacyLedger) -> None:
    run = start(ledger, noise=CannedNoise())
    for i in range(TRIALS):
        x = run.ask()
        run.finish(str(i), x, None if i else losses(x))
    assert run.complete
    noiseless = start(PrivacyLedger(ledger.url.database + "2", Budget.gdp(4.0)), noise=NoNoise())
    x = noiseless.ask()
    noiseless.finish("0", x, losses(x))
    assert noiseless.finish("1", noiseless.ask(), None) == 1.0


def test_the_same_trial_twice_is_paid_once(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    x = run.ask()
    value = run.finish("0", x, losses(x))
    spent, left = ledger.spent(), run.algorithm.missing()
    assert run.finish("0", x, losses(x)) == value
    assert start(ledger).finish("0", x, losses(x)) == value  # after a crash of the front end
    assert (ledger.spent(), run.algorithm.missing()) == (spent, left)
    with pytest.raises(KeyConflict):
        run.finish("0", {**x, "a": x["a"] / 2}, losses(x))
    with pytest.raises(KeyConflict, match="storage="):  # before a model is trained
        run.check("0", {**x, "a": x["a"] / 2})
    run.check("0", x)
    assert ledger.spent() == spent
