"""A run of DP-GIBO: what it releases, how a restart goes on with it, and what odd trials do to it."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from audit_tools import CannedNoise, NoNoise, dump
from gibo_runs import BATCH, STARTS, STEPS, TRIALS, N, losses, start
from run_harness import SPACE, keys, trial

from dptune import Budget, Float, Int, KeyConflict, PlanComplete, PrivacyLedger, Space

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


# ---- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 2, STARTS, STARTS + 1, STARTS + BATCH, TRIALS - 1, TRIALS])
def test_a_restart_continues_with_the_same_theta_and_the_remaining_budget(ledger: PrivacyLedger, stop: int) -> None:
    first = start(ledger)
    for i in range(stop):
        trial(first, str(i))
    spent = ledger.spent()
    again = start(ledger)
    assert again.plan == first.plan  # the seed was drawn once
    assert [p.tolist() for p in again.algorithm.path] == [p.tolist() for p in first.algorithm.path]
    assert again.recommend() == first.recommend()
    assert again.complete == first.complete == (stop == TRIALS)
    if not first.complete and stop in (STARTS, STARTS + BATCH):  # at the beginning of a batch
        assert again.ask() == first.ask()
    assert ledger.spent() == spent
    for i in range(stop, stop + TRIALS + BATCH):
        if again.complete:
            break
        trial(again, f"again {i}")
    assert again.complete
    assert again.algorithm.t == STEPS
    assert ledger.spent() <= 4.0


def test_a_pickled_session_goes_on_without_the_losses_of_the_original(ledger: PrivacyLedger) -> None:
    first = start(ledger)
    for i in range(STARTS + 1):
        trial(first, str(i))
    twin = pickle.loads(pickle.dumps(first))
    assert twin.algorithm.theta.tolist() == first.algorithm.theta.tolist()
    assert twin.privatizer.points() == ()
    for i in range(STARTS + 1, STARTS + 1 + BATCH):
        trial(twin, str(i))
    assert twin.algorithm.t == 1


# ---- odd trials ----------------------------------------------------------------------------------------


def test_a_failed_trial_is_a_point_of_the_worst_loss(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    run.privatizer._noise = CannedNoise()
    for i in range(TRIALS):
        run.finish(str(i), run.ask(), None)
    assert run.complete
    noiseless = start(PrivacyLedger(ledger._url.database + "2", Budget.gdp(4.0)))
    noiseless.privatizer._noise = NoNoise()
    assert noiseless.finish("0", noiseless.ask(), None) == 1.0


def test_a_trial_out_of_range_gets_a_value_and_no_say_in_the_steps(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    before = run.algorithm.batch_left()
    for i, x in enumerate(({"a": 7.0, "b": 1.0}, {"a": 0.5}, {"a": math.nan, "b": 1.0}, {"a": 0.5, "b": -1.0})):
        run.finish(f"odd {i}", x, np.full(N, 0.5))
        assert run.algorithm.batch_left() == before
    assert len(keys(ledger, "value/")) == 4
    assert run.privatizer.points() == ()


def test_points_of_ones_own_and_rounded_ones_count(ledger: PrivacyLedger) -> None:
    space = Space({"a": Float(0.0, 1.0, step=0.1), "b": Int(1, 9)})
    run = start(ledger, space=space)
    for i in range(STARTS):
        run.finish(str(i), {"a": 0.1 * i, "b": 1 + i}, np.full(N, 0.1 * i))
    assert run.algorithm.started
    points = ledger.find("run", "start").note["points"]
    assert points == [space.encode({"a": 0.1 * i, "b": 1 + i}).tolist() for i in range(STARTS)]


def test_the_same_trial_twice_is_paid_once(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    x = run.ask()
    value = run.finish("0", x, losses(x))
    spent, left = ledger.spent(), run.algorithm.batch_left()
    assert run.finish("0", x, losses(x)) == value
    assert start(ledger).finish("0", x, losses(x)) == value  # after a crash of the front end
    assert (ledger.spent(), run.algorithm.batch_left()) == (spent, left)
    with pytest.raises(KeyConflict):
        run.finish("0", {**x, "a": x["a"] / 2}, losses(x))
    with pytest.raises(KeyConflict, match="storage="):  # before a model is trained
        run.check("0", {**x, "a": x["a"] / 2})
    run.check("0", x)
    assert ledger.spent() == spent


def test_losses_that_are_not_finite_are_taken(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        assert math.isfinite(run.finish(str(i), run.ask(), np.full(N, [np.nan, np.inf, -np.inf][i % 3])))
    assert run.complete
