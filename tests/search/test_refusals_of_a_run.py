"""A refusal of a run says what is wrong, with its numbers and names, and what to do, word by word."""

from functools import partial

import numpy as np
import pytest

from dptune import CENTRED, GIBO, Float, Int, LossPrivatizer, SearchRun, Space, errors
from dptune.search.algorithms.method import Method
from dptune.search.asked_loss import AskedLoss
from dptune.search.objective import allows_unprotected
from dptune.search.outcomes import Outcomes
from dptune.search.request import SearchRequest
from runs import CENTRED_RUN, GIBO_RUN, VALUES_RUN

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True), "k": Int(1, 6)})
DEFAULT = {"a": 0.2, "b": 1.0, "k": 2}


def people(ledger, **about):
    return LossPrivatizer(ledger, **{"n": 50, "clip": (0.0, 4.0), **about})


def another_privatizer(ledger):
    SearchRun(CENTRED, people(ledger), scope="run", space=SPACE, seed=1)
    SearchRun(CENTRED, people(ledger, clip=(0.0, 3.0)), scope="run", space=SPACE, seed=1)


def other_settings(ledger, **change):
    SearchRun(CENTRED, people(ledger), scope="run", space=SPACE, seed=1, mu=1.5, trials=30)
    about = {"space": SPACE, "seed": 1, "mu": 1.5, "trials": 30, **change}
    SearchRun(CENTRED, people(ledger), scope="run", **about)


def of_a_choice(ledger):
    ledger.fix("svm", "plan", {"eta": 1.0})
    SearchRun(CENTRED, people(ledger), scope="svm", space=SPACE)


def used_up(kind, ledger, **more):
    run = kind.start(ledger, scope="svm", **more)
    for i in range(run.plan.trials + run.plan.spare):
        kind.start(ledger, scope="svm", **more).finish(str(i), SPACE_OF_RUNS[i % 2], np.zeros(kind.n))
    kind.start(ledger, scope="svm", **more).check("one more")


SPACE_OF_RUNS = {"a": 0.5, "b": 1.0}, {"a": 0.25, "b": 1.0}


def estimated_at(ledger, where, **about):
    run = VALUES_RUN.start(ledger, scope="svm", trials=1, **about)
    run.finish("0", {"C": 1}, np.zeros(VALUES_RUN.n))
    run.estimate({"C": 1}, np.zeros(VALUES_RUN.n))
    run.estimate(where, np.zeros(VALUES_RUN.n))


def stopped(most, *, succeeded):
    outcomes = Outcomes("svm")
    outcomes.succeeded = succeeded
    for i in range(most):
        outcomes.stop(str(i), begun=False)


def failing(count, batch):
    outcomes = Outcomes("svm")
    for _ in range(count - 1):
        with pytest.raises(errors.TrialFailed) as first:
            outcomes.fail("p", begun=False, batch=batch)
        assert str(first.value) == "the function failed, as all trials of the run have so far. Nothing was charged."
    outcomes.fail("p", begun=False, batch=batch)


def another_loss(ledger):
    AskedLoss("hinge", 1.0).keep(ledger, "svm")
    AskedLoss("brier", 1.0).keep(ledger, "svm")


OTHER_RUN = (
    "the run 'run' was planned with other settings or another search space, which are fixed when a run begins. Other: "
)
ITS_OWN = ". Continue it with its own settings, or give a new run a new name."
STOPPED = (
    "trials in a row of the run 'svm' were stopped before they handed in losses. Nothing was learned from them or "
    "charged for them. Let the pruner or scheduler begin later or stop fewer trials; a scheduler with max_t= needs "
    "max_t larger than the number of reports. Then continue."
)
USED_UP = (
    "nothing was read or spent. Read its recommendation, or start another study with a mu= of its own, as for a "
    "function that has changed."
)
FAILED = (
    "trials of the run 'svm'. Nothing was charged. What it raised is hidden, because it may depend on private data. To "
    'see it, let the function return the fitted model in place of losses, and say where it is made loss="zero_one" (or '
    "another) and data=(X_val, y_val): what training raises is shown then. Or call try_out(parameters) of the "
    "decorated function, on public or made-up data."
)
REFUSALS = {
    "a choice's name": (
        of_a_choice,
        "the name 'svm' belongs to a choice or another release, not to a run. Give the run another name.",
    ),
    "another clip": (
        another_privatizer,
        "the run 'run' was started with another privatizer (other clip); continue it with the same one, or give a "
        "new run a new name.",
    ),
    "another price": (partial(other_settings, mu=1.25), f"{OTHER_RUN}mu (it has 1.5), settings (mu){ITS_OWN}"),
    "another number of trials": (
        partial(other_settings, trials=60),
        f"{OTHER_RUN}settings (explored, generations), trials (it has 28){ITS_OWN}",
    ),
    "another seed": (partial(other_settings, seed=2), f"{OTHER_RUN}seed, settings (seed){ITS_OWN}"),
    "another space": (
        partial(other_settings, space=Space({"a": Float(0, 1), "b": Float(0, 1), "c": Float(0, 1)})),
        f"{OTHER_RUN}search space{ITS_OWN}",
    ),
    "a default outside": (
        partial(other_settings, default={**DEFAULT, "a": 1.5}),
        "default= must have every searched parameter, within its range: 'a' cannot be 1.5; allowed: Float(low=0.0, "
        "high=1.0, log=False, step=None). Omit default= to compare with the centre of the search space.",
    ),
    "a method that proposes": (
        lambda ledger: VALUES_RUN.start(ledger, scope="svm").ask(),
        "the method 'values' proposes no points: another searcher does.",
    ),
    "one trial too many": (
        partial(used_up, VALUES_RUN),
        f"the run 'svm' has used up the trials it planned (6); {USED_UP}",
    ),
    "one trial too many of processes": (
        partial(used_up, GIBO_RUN, steps=1),
        f"the run 'svm' has used up the trials it planned (7); {USED_UP} 13 of 7 planned trials are made, and 0 of 1 "
        "steps. A process makes one step from 4 trials of its own that are in the search space. If it stops within a "
        "step, the losses of its last trials are lost.",
    ),
    "no budget for an estimate": (
        partial(estimated_at, where={"C": 1}, final_share=0.0),
        "this run was planned with final_share=0; there is no budget for a final estimate.",
    ),
    "an estimate elsewhere": (
        partial(estimated_at, where={"C": 2}),
        "the run 'svm' has its one final estimate, at {'C': 1}; nothing was trained or spent. Estimating there again "
        "is free. The run plans no release at other parameters.",
    ),
    "an estimate outside": (
        lambda ledger: CENTRED_RUN.start(ledger).check_estimate({"a": 1.5, "b": 1.0}),
        "the run's one final estimate is for a point of its search space: 'a' cannot be 1.5; allowed: Float(low=0.0, "
        "high=1.0, log=False, step=None). Give what recommend() returns. Nothing was trained or spent.",
    ),
    "a reserved name": (
        lambda ledger: CENTRED_RUN.start(ledger).check("default"),
        "'default' names a point of a run's final estimate; give the trial another name.",
    ),
    "an estimate too early": (
        lambda ledger: VALUES_RUN.start(ledger, scope="svm").check_estimate({"C": 1}),
        "the run 'svm' is not complete, and its one final estimate is for its last recommendation. Nothing was "
        "trained or spent. 0 of 6 planned trials have a value. Resume the run with more trials. To end the run here, "
        "give early=True.",
    ),
    "stopped at first": (lambda ledger: stopped(30, succeeded=False), f"30 {STOPPED}"),
    "stopped later": (lambda ledger: stopped(100, succeeded=True), f"100 {STOPPED}"),
    "failed in small rounds": (lambda ledger: failing(4, 3), f"the function failed in each of the first 4 {FAILED}"),
    "failed in large rounds": (lambda ledger: failing(7, 7), f"the function failed in each of the first 7 {FAILED}"),
    "another loss": (
        another_loss,
        "the run 'svm' minimises hinge, and this objective returns brier. Its answers do not apply. Nothing was "
        "trained or charged. Give the new run another name, and mu= if the first run is to continue.",
    ),
    "unprotected": (
        lambda ledger: allows_unprotected("forbid"),
        'unprotected must be "refuse" or "allow"; got \'forbid\'.',
    ),
    "no privatizer": (
        lambda ledger: SearchRequest(CENTRED, 5, front_end="CentredSampler"),
        "CentredSampler needs a LossPrivatizer; got int.",
    ),
    "a default that is a list": (
        lambda ledger: SearchRequest(CENTRED, people(ledger), default=[1.0]),
        "default must be a dict, of names and values; got list.",
    ),
    "an unknown option": (
        lambda ledger: SearchRequest(CENTRED, people(ledger), settings={"steps": 3}),
        "the search has no option 'steps'; it has n_trials, mu, seed, population, radius, final_share, tuning.",
    ),
    "a seed": (
        lambda ledger: SearchRequest(CENTRED, people(ledger), seed=2**32),
        "seed must be at most 4294967295; got a number of 33 bits.",
    ),
    "no method": (
        lambda ledger: Method.chosen(None, None, front_end="PrivateSampler"),
        "PrivateSampler needs method=, a dptune.search.Method. Nothing was charged.",
    ),
    "two methods": (
        lambda ledger: Method.chosen(CENTRED, GIBO, front_end="CentredSampler"),
        "CentredSampler has a method of its own: omit method=. Nothing was charged.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_of_a_run_says_what_is_wrong_and_what_to_do(ledger, case):
    call, message = REFUSALS[case]
    with pytest.raises(errors.DptuneError) as told:
        call(ledger)
    assert str(told.value) == message


def test_a_run_warns_only_if_it_takes_what_others_have_planned(ledger):
    for name in ("first", "second"):
        VALUES_RUN.start(ledger, scope=name, mu=2.4).finish("0", {"C": 1}, np.zeros(VALUES_RUN.n))
    VALUES_RUN.start(ledger, scope="third", mu=2.11)  # 16 - 2 * 2.4 * 2.4 is 2.117 * 2.117
    with pytest.warns(UserWarning, match="planned") as told:
        VALUES_RUN.start(ledger, scope="fourth", mu=2.12)
    assert [str(each.message) for each in told] == [
        "the run 'fourth' starts with mu=2.12. Other runs ('first', 'second') have planned a part of it: they may end "
        "early, or without their final estimate."
    ]
