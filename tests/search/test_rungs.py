"""Decisions to stop trials by private losses: what is asked, what it costs, and that who is stopped takes no part."""

import math
from functools import partial

import numpy as np
import pytest
from noises import NoNoise
from planning import planned
from refusals import refused

from dptune import CENTRED, Budget, Float, InputError, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.errors import PlanComplete, TrialFailed
from dptune.ledger.events import GaussianRelease
from dptune.search.algorithms.centred_plan import plan_centred
from dptune.search.rungs import EARLIER, LAST
from dptune.search.unfinished import MOST_STOPPED

SPACE = Space({"x": Float(0.0, 1.0)})
N, TRIALS, C = 40, 8, 0.1  # two generations; C is .1 of the range
LEVELS = np.random.default_rng(0).uniform(0.0, 0.2, N)


def losses(x, step):
    """People of different levels, who all like x = .3, and later steps."""
    return LEVELS + (x - 0.3) ** 2 / 2 + 0.3 / step


def make_run(folder, **settings):
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(1.0))
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), noise=NoNoise())
    chosen = {"scope": "run", "trials": TRIALS, "population": 4, "rung_share": 0.2, "rungs": 2, **settings}
    return SearchRun(CENTRED, privatizer, space=SPACE, seed=1, **chosen)


def train(run, trial, x, steps=3):
    """Train as far as the run wants; return how many steps were made."""
    for step in range(1, steps):
        run.rungs.report(trial, {"x": x}, losses(x, step), step)
        if run.rungs.stops(trial):
            run.unfinished.withdraw(trial)
            return step
    run.finish(trial, {"x": x}, losses(x, steps))
    return steps


def a_generation(run, xs=(0.3, 0.5, 0.7, 0.9)):
    """All of its trials are trained at the same time, so nobody is compared."""
    for step in (1, 2):
        for i, x in enumerate(xs):
            run.rungs.report(f"first {i}", {"x": x}, losses(x, step), step)
            assert not run.rungs.stops(f"first {i}")
    for i, x in enumerate(xs):
        run.finish(f"first {i}", {"x": x}, losses(x, 3))


def asked(run):
    return run.ledger.charges("run", prefix="rung/")


def test_nobody_is_compared_with_itself_or_a_trial_whose_end_or_report_failed(tmp_path):
    run = make_run(tmp_path)
    train(run, "good", 0.5)
    run.rungs.report("good", {"x": 0.5}, losses(0.5, 1), 1)  # it begins again
    assert run.rungs.question("good") is None
    run.rungs.report("dies at its end", {"x": 0.3}, losses(0.3, 1), 1)
    assert not run.rungs.stops("dies at its end")
    run.finish("dies at its end", {"x": 0.3}, None)
    run.rungs.report("a failed report", {"x": 0.3}, None, 2)
    run.finish("a failed report", {"x": 0.3}, losses(0.3, 3))
    train(run, "next", 0.4)
    about = [charge for charge in asked(run) if charge.note["trial"] == "next"]
    assert [charge.note["incumbent"] for charge in about] == ["good", "good"]


def test_nothing_is_asked_about_the_default_configuration_which_is_a_standing_reference(tmp_path):
    run = make_run(tmp_path, default={"x": 0.95})
    assert train(run, "first to end", 0.3) == 3
    assert train(run, "the default", 0.95) == 3
    assert train(run, "as bad", 0.94) == 1
    run.rungs.report("a", {"x": 0.95}, losses(0.95, 1), 1)
    assert run.rungs.question("a") is None
    run.rungs.report("a", {"x": 0.94}, losses(0.94, 1), 1)  # it is not taken for the default any more
    assert run.rungs.question("a") is not None


def test_trials_that_something_else_stops_end_the_run_beyond_what_decisions_can_stop(tmp_path):
    run = make_run(tmp_path)
    run.rungs.report("a", {"x": 0.3}, losses(0.3, 1), 1)
    refused(TrialFailed, None, lambda: run.finish("a", {"x": 0.3}, None))
    assert run.privatizer.points() == ()  # nothing is kept of a trial that fails before any has succeeded
    a_generation(run)
    for i in range(MOST_STOPPED + run.plan.decisions - 1):
        run.unfinished.withdraw(str(i))
    refused(PlanComplete, "in a row", lambda: run.unfinished.withdraw("last"))


def test_a_trial_that_goes_on_when_told_to_stop_takes_part_with_what_it_ends_with(tmp_path):
    run = make_run(tmp_path)
    a_generation(run)
    run.rungs.report("a", {"x": 0.9}, losses(0.9, 1), 1)
    assert run.rungs.stops("a")
    run.finish("a", {"x": 0.9}, losses(0.9, 3))
    for name in ("b", "c", "d"):
        run.finish(name, {"x": 0.3}, losses(0.3, 3))
    assert run.ledger.charges("run", prefix="generation/")[1].note["points"][0] == pytest.approx([0.9])


def test_all_that_can_be_asked_is_paid_by_the_plan_and_then_nobody_is_stopped(tmp_path):
    run = make_run(tmp_path, rungs=1)
    a_generation(run)
    for i in range(2 * TRIALS):  # more than are planned: some are lost
        run.rungs.report(f"long {i}", {"x": 0.9}, losses(0.9, 1), 1)
        assert run.rungs.stops(f"long {i}") == (i < TRIALS)
    assert len(asked(run)) == run.plan.decisions == TRIALS
    assert math.hypot(*(charge.mu for charge in asked(run))) == pytest.approx(math.sqrt(0.2))


def test_a_trial_is_asked_about_as_often_as_planned_however_often_it_reports(tmp_path):
    """All report at five steps, and ended trials hold losses at each; the last question has the last bar."""
    rungs = 3
    run = make_run(tmp_path, rungs=rungs)
    assert train(run, "first", 0.5, steps=6) == 6
    for i in range(2):
        assert train(run, f"better {i}", 0.4 - 0.05 * i, steps=6) == 6
    again = "better 0"  # it begins again
    for step in range(1, 6):
        run.rungs.report(again, {"x": 0.3}, losses(0.3, step), step)
        run.rungs.stops(again)
    for trial in ("better 0", "better 1"):
        about = [charge.note for charge in asked(run) if charge.note["trial"] == trial]
        assert [note["step"] for note in about] == list(range(1, rungs + 1))
        assert [note["bar"] for note in about] == [EARLIER] * (rungs - 1) + [LAST]
    assert len(asked(run)) == 2 * rungs <= run.plan.decisions == rungs * TRIALS


def test_where_the_incumbent_is_gone_or_the_budget_is_spent_nothing_is_asked(tmp_path):
    run = make_run(tmp_path)
    a_generation(run)
    again = make_run(tmp_path)  # another process: it has learned the answers, and holds no losses
    assert again.algorithm.t == 1
    assert train(again, "worse", 0.9) == 3
    spent = GaussianRelease(run.ledger.remaining(), sensitivity=1.0, sigma=1.0, dimension=1, statistic="mean")
    run.ledger.charge("other", "all", spent, digest="d")
    assert train(run, "worse too", 0.9) == 3
    assert asked(run) == []


def test_a_report_or_a_plan_that_cannot_be_used_is_refused_by_name_and_costs_nothing(tmp_path):
    run, without = make_run(tmp_path), make_run(tmp_path, scope="without", rung_share=0.0)
    loss = 0.123456  # in the step's place it is not quoted

    refused(InputError, "rung_share", lambda: without.rungs.report("a", {"x": 0.3}, losses(0.3, 1), 1))
    refused(InputError, f"expected {N}", lambda: run.rungs.report("a", {"x": 0.3}, np.zeros(N - 1), 1))
    in_place = [partial(run.rungs.report, "a", {"x": 0.3}, losses(0.3, 1), step) for step in (loss, str(loss))]
    refused(InputError, r"^((?!123456).)*step of a report((?!123456).)*$", *in_place)
    for wrong in ({"rung_share": 1.0}, {"rung_share": 0.96}, {"rungs": 0}, {"rung_radius": -1.0}):
        act = partial(planned, plan_centred, d=1, **{"rung_share": 0.2, **wrong})
        refused(InputError, next(iter(wrong)), act)
    assert run.privatizer.points() == ()
    assert run.ledger.spent() == 0


def test_a_failed_report_is_the_upper_clip(tmp_path):
    run = make_run(tmp_path)
    a_generation(run)
    run.rungs.report("a", {"x": 0.3}, None, 1)
    assert run.rungs.stops("a")
    (generation,) = run.ledger.charges("run", prefix="generation/")
    assert asked(run)[0].value == pytest.approx([C * generation.note["radius"] / run.plan.settings.radius])
