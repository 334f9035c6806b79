"""A run of DP-GIBO in a ledger: restarts, two processes' worth of sessions, odd trials, and every kind of end."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import CannedNoise, NoNoise, dump

from dptune import (
    AdaGradNorm,
    Budget,
    BudgetExhausted,
    BudgetMismatch,
    BudgetPlanned,
    Charge,
    Float,
    GIBOPlan,
    GIBOSession,
    GIBOSettings,
    InputError,
    Int,
    KeyConflict,
    LedgerError,
    LossPrivatizer,
    PlanComplete,
    PrivacyLedger,
    Space,
    ValueRun,
)
from dptune.run import check_start

N, STEPS, BATCH, STARTS = 20, 4, 3, 4
TRIALS = STARTS + STEPS * BATCH
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})


def planner(**change: Any) -> Callable[[float, int], GIBOPlan]:
    shares = {key: change.pop(key) for key in list(change) if key.endswith("_share")}

    def make_plan(mu: float, seed: int) -> GIBOPlan:
        base: dict[str, Any] = {"d": 2, "steps": STEPS, "batch": BATCH, "clip": 0.5, "rule": AdaGradNorm(0.1)}
        base |= {"starts": STARTS, "start_mu": 1.0, "memory": 1, "constant_mean": True}
        settings = GIBOSettings(**{**base, **change, "mu": mu, "seed": seed})
        return GIBOPlan.split(mu=mu, settings=settings, **{"start_share": 0.1, **shares})

    return make_plan


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(4.0))


def session(ledger: PrivacyLedger, *, scope: str = "run", mu: float | None = None, **change: Any) -> GIBOSession:
    """Return a session with a privatizer of its own, as another process would have."""
    seed, space = change.pop("seed", None), change.pop("space", SPACE)
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), n=N, clip=(0.0, 1.0))
    return GIBOSession(privatizer, scope=scope, space=space, make_plan=planner(**change), mu=mu, seed=seed)


def losses(x: dict[str, Any]) -> np.ndarray:
    return np.asarray((x["a"] - np.linspace(0.2, 0.6, N)) ** 2 + 0.02 * math.log10(x["b"]) ** 2)


def trial(run: GIBOSession, name: str) -> float:
    run.check(name)
    x = run.ask()
    return run.finish(name, x, losses(x))


def keys(ledger: PrivacyLedger, prefix: str = "", scope: str = "run") -> list[str]:
    return [c.key for c in ledger.charges(scope, prefix=prefix)]


# ---- a whole run ---------------------------------------------------------------------------------------


def test_a_run_makes_the_releases_it_planned_and_then_no_more(ledger: PrivacyLedger) -> None:
    run = session(ledger)
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
    run = session(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
    assert len(run.algorithm.path) == STEPS + 1
    assert all(np.linalg.norm(b - a) > 0 for a, b in zip(run.algorithm.path, run.algorithm.path[1:], strict=False))


def test_the_losses_of_old_points_are_forgotten(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
        assert len(run.privatizer.points()) <= STARTS + BATCH
    assert set(run.privatizer.points()) <= set(run.algorithm.points_in_use())


# ---- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 2, STARTS, STARTS + 1, STARTS + BATCH, TRIALS - 1, TRIALS])
def test_a_restart_continues_with_the_same_theta_and_the_remaining_budget(ledger: PrivacyLedger, stop: int) -> None:
    first = session(ledger)
    for i in range(stop):
        trial(first, str(i))
    spent = ledger.spent()
    again = session(ledger)
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


def test_two_sessions_interleaved_agree_and_share_one_budget(ledger: PrivacyLedger) -> None:
    a, b = session(ledger), session(ledger)
    for i in range(4 * TRIALS):
        if a.complete or b.complete:
            break
        trial((a, b)[i % 2], str(i))
    a.recommend(), b.recommend()  # both look
    assert a.complete
    assert b.complete
    assert [p.tolist() for p in a.algorithm.path] == [p.tolist() for p in b.algorithm.path]
    assert keys(ledger, "step/") == [f"step/{t}" for t in range(1, STEPS + 1)]
    assert ledger.spent() <= 4.0


def test_threads_share_a_session(ledger: PrivacyLedger) -> None:
    run = session(ledger)

    def work(i: int) -> float | None:
        try:
            return trial(run, str(i))
        except PlanComplete:
            return None

    with ThreadPoolExecutor(4) as pool:
        done = [v for v in pool.map(work, range(TRIALS + 8)) if v is not None]
    assert run.complete
    assert len(done) >= TRIALS
    assert keys(ledger, "step/") == [f"step/{t}" for t in range(1, STEPS + 1)]
    assert ledger.spent() <= 4.0


# ---- odd trials ----------------------------------------------------------------------------------------


def test_lost_trials_delay_and_do_not_block(ledger: PrivacyLedger) -> None:
    run, finished = session(ledger), 0
    for i in range(3 * TRIALS):
        if run.complete:
            break
        x = run.ask()
        if i % 3:  # every third trial never comes back
            run.finish(str(i), x, losses(x))
            finished += 1
    assert run.complete
    assert finished == TRIALS


def test_a_failed_trial_is_a_point_of_the_worst_loss(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    run.privatizer._noise = CannedNoise()
    for i in range(TRIALS):
        run.finish(str(i), run.ask(), None)
    assert run.complete
    noiseless = session(PrivacyLedger(ledger._url.database + "2", Budget.gdp(4.0)))
    noiseless.privatizer._noise = NoNoise()
    assert noiseless.finish("0", noiseless.ask(), None) == 1.0


def test_a_trial_out_of_range_gets_a_value_and_no_say_in_the_steps(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    before = run.algorithm.batch_left()
    for i, x in enumerate(({"a": 7.0, "b": 1.0}, {"a": 0.5}, {"a": math.nan, "b": 1.0}, {"a": 0.5, "b": -1.0})):
        run.finish(f"odd {i}", x, np.full(N, 0.5))
        assert run.algorithm.batch_left() == before
    assert len(keys(ledger, "value/")) == 4
    assert run.privatizer.points() == ()


def test_points_of_ones_own_and_rounded_ones_count(ledger: PrivacyLedger) -> None:
    space = Space({"a": Float(0.0, 1.0, step=0.1), "b": Int(1, 9)})
    run = session(ledger, space=space)
    for i in range(STARTS):
        run.finish(str(i), {"a": 0.1 * i, "b": 1 + i}, np.full(N, 0.1 * i))
    assert run.algorithm.started
    points = ledger.find("run", "start").note["points"]
    assert points == [space.encode({"a": 0.1 * i, "b": 1 + i}).tolist() for i in range(STARTS)]


def test_the_same_trial_twice_is_paid_once(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    x = run.ask()
    value = run.finish("0", x, losses(x))
    spent, left = ledger.spent(), run.algorithm.batch_left()
    assert run.finish("0", x, losses(x)) == value
    assert session(ledger).finish("0", x, losses(x)) == value  # after a crash of the front end
    assert (ledger.spent(), run.algorithm.batch_left()) == (spent, left)
    with pytest.raises(KeyConflict):
        run.finish("0", {**x, "a": x["a"] / 2}, losses(x))
    with pytest.raises(KeyConflict, match="storage="):  # before a model is trained
        run.check("0", {**x, "a": x["a"] / 2})
    run.check("0", x)
    assert ledger.spent() == spent


@pytest.mark.parametrize("wrong", [np.zeros(N - 1), np.zeros((N, 1)), 0.5, ["a"] * (N + 1)])
def test_losses_of_a_wrong_shape_are_refused_and_cost_nothing(ledger: PrivacyLedger, wrong: Any) -> None:
    run = session(ledger)
    with pytest.raises(InputError):
        run.finish("0", run.ask(), wrong)
    assert ledger.spent() == 0.0


def test_losses_that_are_not_finite_are_taken(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(TRIALS):
        assert math.isfinite(run.finish(str(i), run.ask(), np.full(N, [np.nan, np.inf, -np.inf][i % 3])))
    assert run.complete


# ---- plans ---------------------------------------------------------------------------------------------


def test_withheld_values_cost_nothing(ledger: PrivacyLedger) -> None:
    run = session(ledger, monitor_share=0.0)
    assert [trial(run, str(i)) for i in range(TRIALS)] == [0.0] * TRIALS
    assert keys(ledger, "value/") == []
    assert run.complete
    with pytest.raises(PlanComplete):
        run.check("one more")
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))


@pytest.mark.parametrize(
    "change",
    [
        {"steps": STEPS + 1},
        {"clip": 0.6},
        {"rule": AdaGradNorm(0.2)},
        {"monitor_share": 0.2},
        {"seed": 8},
        {"mu": 2.0},
        {"space": Space({"a": Float(0.0, 2.0), "b": Float(1e-2, 1e2, log=True)})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_plan_for_the_same_run_is_refused(ledger: PrivacyLedger, change: dict[str, Any]) -> None:
    session(ledger, seed=7, mu=3.0)
    before = dump(ledger)
    with pytest.raises(BudgetMismatch, match="planned"):
        session(ledger, **{"seed": 7, "mu": 3.0, **change})
    assert dump(ledger) == before
    assert session(ledger).plan.settings.seed == 7  # what is not said is as it was


def test_a_new_run_gets_what_is_left_and_no_more(ledger: PrivacyLedger) -> None:
    first = session(ledger, mu=3.0)
    for i in range(TRIALS):
        trial(first, str(i))
    with pytest.raises(BudgetExhausted):
        session(ledger, scope="greedy", mu=3.5)
    second = session(ledger, scope="second")
    assert second.plan.mu == pytest.approx(math.sqrt(16 - 9))  # what the first has planned and not spent stays its own


def test_no_run_begins_on_an_empty_ledger(ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    privatizer.observe("x", np.zeros(N))
    for i in range(7):
        privatizer.release(privatizer.mean_query("x", ledger.budget.per_release(7)), scope="s", key=str(i))
    with pytest.raises(BudgetExhausted):
        session(ledger)
    assert ledger.fact("run", "plan") is None


def test_a_budget_spent_by_another_study_ends_the_run_before_a_model_is_trained(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(STARTS + BATCH):
        trial(run, str(i))
    other = run.privatizer
    other.observe("x", np.zeros(N))
    other.release(other.mean_query("x", ledger.remaining() * 0.999), scope="another study", key="1")
    theta, spent = run.algorithm.theta.tolist(), ledger.spent()
    for i in range(BATCH):  # these were being trained
        x = run.ask()
        try:
            run.finish(f"late {i}", x, losses(x))
        except BudgetExhausted:
            continue
    with pytest.raises(BudgetExhausted) as refused:
        run.check("next")
    assert refused.value.budget == 4.0
    assert ledger.spent() <= 4.0
    assert ledger.spent() >= spent
    assert run.algorithm.theta.tolist() == theta
    assert SPACE.contains(run.recommend())


@pytest.mark.parametrize("monitor", [0.1, 0.0])
@pytest.mark.parametrize("steps_before", [0, 1])
def test_no_model_is_trained_for_a_step_that_cannot_be_paid(
    ledger: PrivacyLedger, monitor: float, steps_before: int
) -> None:
    """What is left pays values, and half a step, or half of the comparison of starts."""
    run = session(ledger, monitor_share=monitor)
    for i in range(STARTS * steps_before + steps_before):
        trial(run, str(i))
    plan = run.plan
    step = plan.gradient_mu if steps_before else plan.settings.start_mu
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
    run, other = (session(ledger, monitor_share=monitor, final_share=0.0) for _ in range(2))
    for i in range(2 * BATCH):
        if i % 2:
            trial(other, f"lost {i}")
            other = session(ledger, monitor_share=monitor, final_share=0.0)
        else:
            trial(run, f"{i}")
    for i in range(TRIALS):
        if run.complete:
            break
        trial(run, f"more {i}")
    assert run.complete


def test_a_batch_whose_gradient_was_recorded_late_is_not_asked_about_again(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = session(ledger)
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


# ---- one ledger, several runs --------------------------------------------------------------------------


def values_run(ledger: PrivacyLedger, scope: str, **change: Any) -> ValueRun:
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), **{"n": N, "clip": (0.0, 1.0), **change})
    return ValueRun(privatizer, scope=scope, trials=3, mu=None)


def test_a_new_run_leaves_what_others_have_planned(ledger: PrivacyLedger) -> None:
    first = session(ledger)
    for i in range(TRIALS):
        trial(first, str(i))
    before = dump(ledger)
    with pytest.raises(BudgetPlanned, match=r"'run'.*by its name.*mu=.*new ledger") as refused:
        session(ledger, scope="again")
    with pytest.raises(BudgetExhausted):
        check_start(ledger, "again", None)
    check_start(ledger, "run", None)  # has begun
    assert refused.value.runs == ("run",)
    assert pickle.loads(pickle.dumps(refused.value)).args == refused.value.args
    assert dump(ledger) == before
    assert session(ledger).plan == first.plan  # it goes on as it was
    first.estimate(first.recommend(), losses(first.recommend()))
    assert ledger.fact("again", "plan") is None


def test_an_explicit_mu_may_take_what_others_have_planned_and_says_so_once(ledger: PrivacyLedger) -> None:
    trial(session(ledger, mu=3.0), "0")
    trial(session(ledger, scope="beside", mu=math.sqrt(7) - 1e-3), "0")  # there is room
    with pytest.warns(UserWarning, match=r"'takes' begins with mu=1, of which other runs \('beside', 'run'\)") as told:
        session(ledger, scope="takes", mu=1.0)
    assert len(told) == 1
    session(ledger, scope="takes", mu=1.0)  # goes on, and says nothing
    session(ledger, scope="takes")


def test_too_little_for_a_plan_names_who_holds_the_rest_and_bad_settings_are_named_as_ever(
    ledger: PrivacyLedger,
) -> None:
    trial(session(ledger, mu=math.sqrt(16 - 1e-10)), "0")

    def make_plan(mu: float, seed: int) -> GIBOPlan:
        if mu < 0.1:
            raise InputError("mu is too small.")
        return planner()(mu, seed)

    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    with pytest.raises(BudgetPlanned, match="'run'"):
        GIBOSession(privatizer, scope="late", space=SPACE, make_plan=make_plan)
    with pytest.raises(InputError, match="steps"):
        session(ledger, scope="wrong", steps=0)
    assert ledger.fact("late", "plan") is None


def test_a_run_that_was_given_up_before_its_first_charge_keeps_nothing(ledger: PrivacyLedger) -> None:
    assert session(ledger).plan.mu == values_run(ledger, "other").plan.mu == 4.0


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("clip", {"clip": (5.0, 50.0)}),
        ("dtype", {"dtype": np.float64}),
        ("private", {"insecure_seed": 0}),
        ("rows", {"n": None, "groups": np.arange(2 * N) // 2}),
    ],
)
def test_a_run_keeps_its_privatizer(ledger: PrivacyLedger, kind: str, change: dict[str, Any]) -> None:
    values_run(ledger, "values")
    with pytest.raises(BudgetMismatch, match=f"another privatizer .other {kind}"):
        values_run(ledger, "values", **change)
    values_run(ledger, "values")
    run = session(PrivacyLedger(ledger._url.database + "2", Budget.gdp(4.0)))
    privatizer = LossPrivatizer(run.ledger, **{"n": N, "clip": (0.0, 1.0), **change})
    with pytest.raises(BudgetMismatch, match=f"another privatizer .other {kind}"):
        GIBOSession(privatizer, scope="run", space=SPACE, make_plan=planner())


# ---- the estimate --------------------------------------------------------------------------------------


def test_the_estimate_is_made_once(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
    best = run.recommend()
    estimate = run.estimate(best, losses(best))
    spent = ledger.spent()
    assert run.estimate(best, losses(best)) == estimate == session(ledger).estimate(best, losses(best))
    assert ledger.spent() == spent <= 4.0
    assert estimate.private
    low, high = estimate.interval(0.95)
    assert (high - low) / 2 == pytest.approx(1.959964 * estimate.sigma, rel=1e-6)
    assert estimate.sigma == pytest.approx(1 / (N * run.plan.final_mu), rel=1e-5)
    assert (low + high) / 2 == pytest.approx(estimate.value)
    run.check_estimate(best)
    for refuse in (run.check_estimate, lambda x: run.estimate(x, losses(x))):
        with pytest.raises(KeyConflict, match=r"one final estimate, at .*as often as you like") as refused:
            refuse({**best, "a": best["a"] / 2})
        assert "new name" not in str(refused.value)
    with pytest.raises(InputError, match="confidence"):
        estimate.interval(1.0)
    assert all("final" not in point for point in run.privatizer.points())


def test_a_run_without_a_final_share_makes_no_estimate(ledger: PrivacyLedger) -> None:
    run = session(ledger, final_share=0.0)
    with pytest.raises(InputError, match="final_share"):
        run.check_estimate(run.recommend())
    with pytest.raises(InputError, match="final_share"):
        run.estimate(run.recommend(), np.zeros(N))
    assert ledger.spent() == 0.0


# ---- non-interference ----------------------------------------------------------------------------------


def test_what_a_run_shows_and_stores_does_not_depend_on_private_data(fast_path: Path) -> None:
    """All releases canned: neighbours, one of them with NaN, inf and failures of type, leave equal transcripts."""
    transcripts = []
    for name, person in (("a", 0.3), ("b", np.nan), ("c", np.inf), ("d", -1e308)):
        (fast_path / name).mkdir()
        ledger = PrivacyLedger(fast_path / name / "ledger.db", Budget.gdp(4.0))
        run = session(ledger, seed=3)
        run.privatizer._noise = CannedNoise(5)
        shown: list[Any] = []
        for i in range(TRIALS):
            x = run.ask()
            mine = losses(x)
            mine[4] = person
            shown.append((x, run.finish(str(i), x, mine), run.progress()))
        shown.append((run.recommend(), run.estimate(run.recommend(), mine), repr(run.privatizer)))
        transcripts.append((shown, dump(ledger)))
    assert transcripts[0] == transcripts[1] == transcripts[2] == transcripts[3]


def test_progress_is_plain_public_data(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(STARTS + BATCH):
        trial(run, str(i))
    progress = json.loads(json.dumps(run.progress()))
    assert (progress["steps_done"], progress["steps"], progress["private"]) == (1, STEPS, True)
    assert progress["mu_spent"] == ledger.spent()


# ---- values for any sampler ----------------------------------------------------------------------------


def values(ledger: PrivacyLedger, **change: Any) -> ValueRun:
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), n=N, clip=(0.0, 1.0))
    return ValueRun(privatizer, scope="values", **{"trials": 5, **change})


def test_a_value_run_divides_its_budget_among_its_trials(ledger: PrivacyLedger) -> None:
    run = values(ledger)
    for i in range(5):
        assert not run.complete
        run.check(str(i))
        value = run.finish(str(i), {"kind": "rbf", "C": i}, np.full(N, 0.5))
        assert ledger.find("values", f"value/{i}").value == (value,)
    assert run.complete
    with pytest.raises(PlanComplete):
        values(ledger).check("5")
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    run.estimate({"kind": "rbf", "C": 1}, np.full(N, 0.5))
    assert ledger.spent() == pytest.approx(4.0)
    assert run.privatizer.points() == ()
    with pytest.raises(BudgetMismatch):
        values(ledger, trials=6)


@pytest.mark.parametrize("bad", [{"trials": 0}, {"trials": 2.0}, {"final_share": 1.0}, {"final_share": -0.1}])
def test_a_bad_value_plan_is_refused(ledger: PrivacyLedger, bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        values(ledger, **bad)


def test_a_pickled_session_goes_on_without_the_losses_of_the_original(ledger: PrivacyLedger) -> None:
    first = session(ledger)
    for i in range(STARTS + 1):
        trial(first, str(i))
    twin = pickle.loads(pickle.dumps(first))
    assert twin.algorithm.theta.tolist() == first.algorithm.theta.tolist()
    assert twin.privatizer.points() == ()
    for i in range(STARTS + 1, STARTS + 1 + BATCH):
        trial(twin, str(i))
    assert twin.algorithm.t == 1


def test_a_step_that_could_not_be_recorded_is_recorded_when_the_database_is_back(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, true_record = session(ledger), PrivacyLedger.record

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
    run = session(ledger, starts=0, batch=2)
    run.algorithm.use_up(1)
    a = run.algorithm.ask(0)
    run.algorithm.use_up(1)
    b = run.algorithm.ask(1)
    np.testing.assert_allclose((a + b) / 2, run.algorithm.theta, atol=1e-12)


def test_a_run_whose_trials_were_spread_too_thin_says_so(ledger: PrivacyLedger) -> None:
    spare = session(ledger).plan.spare
    for i in range(TRIALS + spare):  # each a process of one trial
        trial(session(ledger), str(i))
    with pytest.raises(PlanComplete, match="Only 0 of 4 steps"):
        session(ledger).check("one more")
