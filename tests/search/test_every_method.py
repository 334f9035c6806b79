"""Runs of every method share one budget among workers, handle odd trials, and do not interfere."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from audit_tools import dump
from dptune import Budget, Float, InputError, Int, PlanComplete, PrivacyLedger, Space
from dptune.errors import KeyConflict
from noises import CannedNoise
from refusals import refused
from runs import GIBO_RUN, SPACE, TOY_RUN, keys, losses_of, to_the_end, trial, trials


def test_a_run_makes_what_it_planned_and_one_estimate_and_then_no_more(ledger, kind):
    run, idle = kind.start(ledger), kind.start(ledger)
    values = trials(run, kind.first_round)
    progress = json.loads(json.dumps(run.progress()))  # plain public data
    done, planned = progress[f"{run.algorithm.unit}s_done"], progress[f"{run.algorithm.unit}s"]
    assert (done, planned, progress["private"]) == (1, kind.rounds, True)
    assert progress["mu_spent"] == ledger.spent()
    values += [trial(run, str(i)) for i in range(kind.first_round, kind.trials)]
    assert not np.isnan(values).any()  # inf: nothing is known of the first round yet
    assert run.complete
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= run.plan.mu * math.sqrt(1 - run.plan.final_share) * (1 + 1e-12)
    assert run.released("3", values[3])
    assert not run.released("3", 0.123)
    before = dump(ledger)
    refused(PlanComplete, None, lambda: run.check("one more"))
    assert dump(ledger) == before
    assert set(run.privatizer.points()) <= set(run.algorithm.points_in_use())

    best = run.recommend()
    assert SPACE.contains(best)
    losses = losses_of(best, kind.n)
    idle.check_estimate(best)  # it reads that another process has completed the run
    estimate = run.estimate(best, losses)
    spent = ledger.spent()
    assert run.estimate(best, losses) == estimate == kind.start(ledger).estimate(best, losses)
    assert ledger.spent() == spent <= 4.0
    assert estimate.private
    assert estimate.sigma == pytest.approx(1 / (kind.n * run.plan.final_mu), rel=1e-5)
    run.check_estimate(best)
    other = {**best, "a": best["a"] / 2}
    words = r"one final estimate((?!new name).)*$"
    refused(KeyConflict, words, lambda: run.check_estimate(other), lambda: run.estimate(other, losses))
    assert all("final" not in point for point in run.privatizer.points())


def test_two_runs_interleaved_agree_and_share_one_budget(ledger, kind):
    a, b = kind.start(ledger), kind.start(ledger)
    for i in range(4 * kind.trials):
        if a.complete or b.complete:
            break
        trial((a, b)[i % 2], str(i))
    a.recommend(), b.recommend()  # both look
    assert a.complete
    assert b.complete
    assert kind.state(a) == kind.state(b)
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= 4.0


def test_threads_share_a_run(ledger, kind):
    run = kind.start(ledger)

    def work(i):
        try:
            return trial(run, str(i))
        except PlanComplete:
            return None

    with ThreadPoolExecutor(4) as pool:
        done = [v for v in pool.map(work, range(kind.trials + 8)) if v is not None]
    assert run.complete
    assert len(done) >= kind.trials
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= 4.0


def test_successive_points_differ_and_use_what_other_processes_released(ledger, kind):
    run, fresh = kind.start(ledger), kind.start(ledger)
    asked = [run.ask() for _ in range(kind.first_round)]
    assert asked == [fresh.ask(slot) for slot in range(kind.first_round)]
    assert len({json.dumps(x) for x in asked}) == kind.first_round
    for i, x in enumerate(asked):
        run.finish(str(i), x, losses_of(x, kind.n))
    assert fresh.ask(0) == kind.start(ledger).ask(0) != asked[0]


def test_trials_that_fail_or_are_not_finite_count_and_lost_ones_only_delay(ledger, kind):
    run, finished = kind.start(ledger), 0
    for i in range(3 * kind.trials):
        if run.complete:
            break
        x = run.ask()
        if i % 3 != 1:  # every third trial never comes back
            mine = None if i % 4 == 3 else np.full(kind.n, [np.nan, np.inf, -np.inf][i % 4])
            assert not math.isnan(run.finish(str(i), x, mine))
            finished += 1
    assert run.complete
    assert finished == kind.trials


def test_a_trial_out_of_range_has_no_say_and_a_rounded_one_of_ones_own_has(ledger, kind):
    space = Space({"a": Float(0.0, 1.0), "b": Int(1, 9, log=True), "c": Float(0.0, 1.0, step=0.1)})
    run = kind.start(ledger, space=space)
    odd = {"a": 7.0}, {"b": None}, {"a": math.nan}, {"b": -1.0}, {"c": math.nan}
    for i, change in enumerate(odd):
        x = {name: value for name, value in {"a": 0.5, "b": 1, "c": 0.5, **change}.items() if value is not None}
        assert not math.isnan(run.finish(f"odd {i}", x, np.full(kind.n, 0.5)))
        assert run.algorithm.missing() == kind.first
    assert run.privatizer.points() == ()
    assert "in the search space, and 5 of this process's trials were not" in run.missing()
    own = [{"a": 0.1 * i, "b": 1 + i, "c": 0.1 * i} for i in range(kind.first)]
    for i, x in enumerate(own):
        run.finish(str(i), x, np.full(kind.n, 0.1 * i))
    asked = next(c.note["points"] for c in ledger.charges("run") if "points" in c.note)
    assert asked == [space.encode(x).tolist() for x in own]
    assert space.contains(run.ask())


def test_what_a_run_shows_and_stores_does_not_depend_on_private_data(fast_path, kind):
    """All releases canned: neighbours, one of them with NaN or an overflow, leave equal transcripts."""
    transcripts = []
    for name, person in (("a", 0.3), ("b", np.nan), ("c", -1e308)):
        (fast_path / name).mkdir()
        ledger = PrivacyLedger(fast_path / name / "ledger.db", Budget.gdp(4.0))
        run = kind.start(ledger, seed=3, noise=CannedNoise(5))
        shown = []
        for i in range(kind.trials):
            x = run.ask()
            mine = losses_of(x, kind.n)
            mine[4] = person
            shown.append((x, run.finish(str(i), x, mine), run.progress()))
        shown.append((run.recommend(), run.estimate(run.recommend(), mine), repr(run.privatizer)))
        transcripts.append((shown, dump(ledger)))
    assert transcripts[0] == transcripts[1] == transcripts[2]


def test_an_incomplete_run_refuses_its_one_estimate_without_early(ledger):
    """A recommendation that later trials change would have used it up."""
    run = GIBO_RUN.start(ledger)
    trials(run, GIBO_RUN.trials - 1)
    point, spent = dict(run.space.centre()), ledger.spent()
    losses = losses_of(point, GIBO_RUN.n)
    words = r"is not complete.*Nothing was trained or spent.*early=True"
    refused(InputError, words, lambda: run.check_estimate(point), lambda: run.estimate(point, losses))
    assert ledger.spent() == spent
    run.check_estimate(point, early=True)
    estimate = run.estimate(point, losses, early=True)
    to_the_end(run)
    assert run.estimate(point, losses) == GIBO_RUN.start(ledger).estimate(point, losses) == estimate


def test_what_cannot_be_used_is_refused_by_name_and_costs_nothing(ledger):
    run, right = TOY_RUN.start(ledger), np.zeros(TOY_RUN.n)
    outside = [{"a": 1.5, "b": 1.0}, {"a": 0.5}, {"a": "0.5", "b": 1.0}, {"a": 0.5, "b": 0.0}]
    estimates = [partial(run.check_estimate, x) for x in outside]
    estimates += [partial(run.estimate, x, right, early=True) for x in outside]
    refused(InputError, r"search space.*recommend\(\)", *estimates)
    refused(InputError, "early must be", lambda: run.check_estimate(SPACE.centre(), early="no"))
    # its point would be forgotten with the estimate's
    refused(InputError, "'final'", lambda: run.check("final"), lambda: run.finish("final", SPACE.centre(), right))
    refused(InputError, "losses", lambda: run.finish("0", SPACE.centre(), right[:, None]))
    assert keys(ledger) == []
    assert run.privatizer.points() == ()
