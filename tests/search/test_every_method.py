"""What holds for a session of either kind: workers share one budget, odd trials, one plan, non-interference."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import centred_runs
import gibo_runs
import numpy as np
import pytest
from audit_tools import CannedNoise, dump
from run_harness import keys, losses_of, trial

from dptune import AdaGradNorm, Budget, BudgetMismatch, Float, InputError, PlanComplete, PrivacyLedger, Space


@dataclass(frozen=True)
class Kind:
    """One kind of session and its small run."""

    name: str
    session: Callable[..., Any]
    n: int
    trials: int
    first_step: int  # after how many trials it is made
    steps: int
    counted: str  # what progress calls the steps
    prefix: str  # of the charges that make the steps
    charges: list[str]
    state: Callable[[Any], list[Any]]


GIBO = Kind(
    "gibo",
    gibo_runs.session,
    n=gibo_runs.N,
    trials=gibo_runs.TRIALS,
    first_step=gibo_runs.STARTS + gibo_runs.BATCH,
    steps=gibo_runs.STEPS,
    counted="steps",
    prefix="step/",
    charges=[f"step/{t}" for t in range(1, gibo_runs.STEPS + 1)],
    state=lambda run: [p.tolist() for p in run.algorithm.path],
)
CENTRED = Kind(
    "centred",
    centred_runs.session,
    n=centred_runs.N,
    trials=centred_runs.TRIALS,
    first_step=centred_runs.POPULATION,
    steps=centred_runs.GENERATIONS,
    counted="generations",
    prefix="",  # it charges for nothing else
    charges=centred_runs.EVERY,
    state=lambda run: [m.tolist() for m in run.algorithm.means],
)
KINDS = [GIBO, CENTRED]


def readable(value: object) -> str | None:
    """Return the id of a kind or of a changed option."""
    if isinstance(value, Kind):
        return value.name
    return next(iter(value)) if isinstance(value, dict) else None


@pytest.fixture(params=KINDS, ids=readable)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


# ---- workers -------------------------------------------------------------------------------------------


def test_two_sessions_interleaved_agree_and_share_one_budget(ledger: PrivacyLedger, kind: Kind) -> None:
    a, b = kind.start(ledger), kind.start(ledger)
    for i in range(4 * kind.trials):
        if a.complete or b.complete:
            break
        trial((a, b)[i % 2], str(i))
    a.recommend(), b.recommend()  # both look
    assert a.complete
    assert b.complete
    assert kind.state(a) == kind.state(b)
    assert keys(ledger, kind.prefix) == kind.charges
    assert ledger.spent() <= 4.0


def test_threads_share_a_session(ledger: PrivacyLedger, kind: Kind) -> None:
    run = kind.start(ledger)

    def work(i: int) -> float | None:
        try:
            return trial(run, str(i))
        except PlanComplete:
            return None

    with ThreadPoolExecutor(4) as pool:
        done = [v for v in pool.map(work, range(kind.trials + 8)) if v is not None]
    assert run.complete
    assert len(done) >= kind.trials
    assert keys(ledger, kind.prefix) == kind.charges
    assert ledger.spent() <= 4.0


def test_points_asked_for_one_after_another_differ_and_know_what_others_released(
    ledger: PrivacyLedger, kind: Kind
) -> None:
    run, fresh = kind.start(ledger), kind.start(ledger)
    asked = [run.ask() for _ in range(kind.first_step)]
    assert asked == [fresh.ask(slot) for slot in range(kind.first_step)]
    assert len({json.dumps(x) for x in asked}) == kind.first_step
    for i, x in enumerate(asked):
        run.finish(str(i), x, losses_of(x, kind.n))
    assert fresh.ask(0) == kind.start(ledger).ask(0) != asked[0]


# ---- odd trials ----------------------------------------------------------------------------------------


def test_lost_trials_delay_and_do_not_block(ledger: PrivacyLedger, kind: Kind) -> None:
    run, finished = kind.start(ledger), 0
    for i in range(3 * kind.trials):
        if run.complete:
            break
        x = run.ask()
        if i % 3:  # every third trial never comes back
            run.finish(str(i), x, losses_of(x, kind.n))
            finished += 1
    assert run.complete
    assert finished == kind.trials


WRONG = [
    (kind, wrong)
    for kind in KINDS
    for wrong in (np.zeros(kind.n - 1), np.zeros((kind.n, 1)), 0.5, ["a"] * (kind.n + 1))
]


@pytest.mark.parametrize(("kind", "wrong"), WRONG, ids=readable)
def test_losses_of_a_wrong_shape_are_refused_and_cost_nothing(ledger: PrivacyLedger, kind: Kind, wrong: Any) -> None:
    run = kind.start(ledger)
    with pytest.raises(InputError):
        run.finish("0", run.ask(), wrong)
    assert ledger.spent() == 0.0


# ---- one plan ------------------------------------------------------------------------------------------

OTHERS = [
    (GIBO, {"steps": gibo_runs.STEPS + 1}),
    (GIBO, {"clip": 0.6}),
    (GIBO, {"rule": AdaGradNorm(0.2)}),
    (GIBO, {"monitor_share": 0.2}),
    (GIBO, {"seed": 8}),
    (GIBO, {"mu": 2.0}),
    (GIBO, {"space": Space({"a": Float(0.0, 2.0), "b": Float(1e-2, 1e2, log=True)})}),
    (CENTRED, {"trials": 30}),
    (CENTRED, {"radius": 0.6}),
    (CENTRED, {"share": 0.2}),
    (CENTRED, {"seed": 8}),
    (CENTRED, {"mu": 2.0}),
    (CENTRED, {"references": 1}),
]


@pytest.mark.parametrize(("kind", "change"), OTHERS, ids=readable)
def test_another_plan_for_the_same_run_is_refused(ledger: PrivacyLedger, kind: Kind, change: dict[str, Any]) -> None:
    kind.start(ledger, seed=7, mu=3.0)
    before = dump(ledger)
    with pytest.raises(BudgetMismatch, match="planned"):
        kind.start(ledger, **{"seed": 7, "mu": 3.0, **change})
    assert dump(ledger) == before
    assert kind.start(ledger).plan.settings.seed == 7  # what is not said is as it was


# ---- non-interference ----------------------------------------------------------------------------------


def test_what_a_run_shows_and_stores_does_not_depend_on_private_data(fast_path: Path, kind: Kind) -> None:
    """All releases canned: neighbours, one of them with NaN, inf and failures of type, leave equal transcripts."""
    transcripts = []
    for name, person in (("a", 0.3), ("b", np.nan), ("c", np.inf), ("d", -1e308)):
        (fast_path / name).mkdir()
        ledger = PrivacyLedger(fast_path / name / "ledger.db", Budget.gdp(4.0))
        run = kind.start(ledger, seed=3)
        run.privatizer._noise = CannedNoise(5)
        shown: list[Any] = []
        for i in range(kind.trials):
            x = run.ask()
            mine = losses_of(x, kind.n)
            mine[4] = person
            shown.append((x, run.finish(str(i), x, mine), run.progress()))
        shown.append((run.recommend(), run.estimate(run.recommend(), mine), repr(run.privatizer)))
        transcripts.append((shown, dump(ledger)))
    assert transcripts[0] == transcripts[1] == transcripts[2] == transcripts[3]


def test_progress_is_plain_public_data(ledger: PrivacyLedger, kind: Kind) -> None:
    run = kind.start(ledger)
    for i in range(kind.first_step):
        trial(run, str(i))
    progress = json.loads(json.dumps(run.progress()))
    done, planned = progress[f"{kind.counted}_done"], progress[kind.counted]
    assert (done, planned, progress["private"]) == (1, kind.steps, True)
    assert progress["mu_spent"] == ledger.spent()


# ---- the estimate --------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [{"a": 1.5, "b": 1.0}, {"a": 0.5}, {"a": "0.5", "b": 1.0}, {"a": 0.5, "b": 0.0}])
def test_an_estimate_outside_the_search_space_is_refused_before_a_model_is_trained(
    ledger: PrivacyLedger, kind: Kind, elsewhere: dict[str, Any]
) -> None:
    run = kind.start(ledger)
    for refused in (run.check_estimate, lambda x: run.estimate(x, losses_of({"a": 0.5, "b": 1.0}, kind.n))):
        with pytest.raises(InputError, match=r"search space .*recommend\(\)"):
            refused(elsewhere)
    assert keys(ledger) == []
    run.check_estimate({"a": 0.5, "b": 1.0})
