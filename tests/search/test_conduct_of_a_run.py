"""A run counts stopped and failed trials, checks the price of a whole round, and shows what its plan says."""

import math

import numpy as np
import pytest

from dptune import CENTRED, BudgetExhausted, LossPrivatizer, SearchRun
from dptune.errors import PlanComplete
from dptune.privacy.noise import SeededNoise
from dptune.search import drive
from refusals import refused
from runs import CENTRED_RUN, GIBO_RUN, SPACE, VALUES_RUN, spend_elsewhere, trial, trials


def counted(run):
    """Return the number of trials that the algorithm has."""
    return (run.algorithm.t + 1) * run.algorithm.batch - run.algorithm.missing()


def test_two_generations_of_stopped_trials_in_a_row_count_after_a_success(ledger):
    run, numbers = CENTRED_RUN.start(ledger, trials=60), []
    run.stopped("first", run.ask())
    assert counted(run) == 0
    for name in "ab":
        trial(run, name)
        for i in range(12):
            run.stopped(f"{name}{i}", run.ask() if i else {"a": 7.0, "b": 1.0})  # the first one is outside
        numbers.append(counted(run))
    assert numbers == [1 + 9, 10 + 1 + 9]


def test_a_stopped_trial_takes_no_place_where_trials_have_own_values(ledger):
    run = GIBO_RUN.start(ledger)
    trial(run, "0")
    run.stopped("1", run.ask())
    assert (counted(run), run.values) == (1, 1)


@pytest.mark.parametrize("succeeded", [False, True])
def test_a_run_ends_after_30_stopped_trials_or_100_once_one_has_succeeded(ledger, succeeded):
    run = VALUES_RUN.start(ledger)
    if succeeded:
        run.finish("0", {"C": 1}, np.zeros(VALUES_RUN.n))
    most = 100 if succeeded else 30
    for i in range(most - 1):
        run.withdraw(f"stopped {i}")
    refused(PlanComplete, f"^{most} trials in a row", lambda: run.withdraw("the last"))


@pytest.mark.parametrize(("noise", "private"), [(None, True), (SeededNoise(1), False)])
def test_progress_says_whether_answers_will_be_private_before_the_first(ledger, noise, private):
    assert GIBO_RUN.start(ledger, noise=noise).progress()["private"] is private


@pytest.mark.parametrize(("left", "enough"), [(1.001, True), (0.999, False)])
def test_a_trial_begins_only_if_the_rest_of_its_round_can_be_paid(ledger, left, enough):
    run = GIBO_RUN.start(ledger, mu=1.0)
    trials(run, GIBO_RUN.first_round + 1)  # two of three trials of the second step are missing
    price = math.hypot(run.plan.monitor_mu * math.sqrt(2), run.plan.settings.step_mu)
    spend_elsewhere(run, math.sqrt(ledger.remaining() ** 2 - (left * price) ** 2))
    if enough:
        run.check("next")
    else:
        refused(BudgetExhausted, None, lambda: run.check("next"))


def test_progress_has_the_ledgers_budget_and_the_planned_and_failed_trials(ledger):
    run = GIBO_RUN.start(ledger, mu=1.0)
    for i in range(5):
        trial(run, str(i), fails=i in (2, 3))
    spent = {"mu_budget": 4.0, "mu_spent": ledger.spent(), "trials_planned": 16, "trials_failed": 2}
    done = {"steps_done": 0, "steps": 4, "steps_lost": 0, "values_done": 5, "values_lost": 0, "complete": False}
    assert run.progress() == {"private": True, "recommended": run.recommend(), **done, **spent}


def test_a_trials_value_is_the_upper_clip_and_the_excess_over_the_centre(ledger):
    privatizer = LossPrivatizer(ledger, n=CENTRED_RUN.n, clip=(1.0, 5.0))
    run = SearchRun(CENTRED, privatizer, scope="run", space=SPACE, trials=20, population=5, seed=3)
    for i in range(5):
        x = run.ask()
        value = run.finish(str(i), x, np.full(CENTRED_RUN.n, 1.0 + x["a"]))
    assert value == 5.0 + run.algorithm.value(SPACE.encode(x))
    assert run.released("4", value)
    assert not run.released("5", value)
    assert run.value_is("hinge") == "mean hinge, upper estimate: the centre's counts as 5"


def test_failures_of_a_round_count_after_its_first_success(ledger):
    """In which order the points of a round failed does not matter, and their number is stored."""
    run, told, sizes = CENTRED_RUN.start(ledger), [], []

    def train(points):
        sizes.append(len(points))
        return [None, None, *(np.full(CENTRED_RUN.n, at["a"]) for at in points[2:])]

    drive(run, train, tell=lambda name, value: told.append(value))
    assert sizes == [5] * 4
    assert len(told) == 20
    assert None not in told
    notes = [charge.note.get("failed", 0) for charge in ledger.charges("run")]
    assert notes == [2, 0] * 4  # of the two questions of a generation the first has them
