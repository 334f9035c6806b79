"""One ledger, several runs: what a new one may plan with, and what each keeps."""

import math
import pickle
from dataclasses import replace

import pytest
from audit_tools import dump
from refusals import refused
from runs import GIBO_RUN, VALUES_RUN, losses_of, trial, trials

from dptune import GIBO, BudgetExhausted, InputError
from dptune.errors import BudgetPlanned
from dptune.search import Method
from dptune.search.agreement import check_start

start, N, TRIALS = GIBO_RUN.start, 20, 16


def test_a_new_run_leaves_what_others_have_planned(ledger):
    first = start(ledger, mu=3.0)
    assert VALUES_RUN.start(ledger, scope="given up").plan.mu == 4.0  # it keeps nothing before its first charge
    trials(first, TRIALS)
    refused(BudgetExhausted, None, lambda: start(ledger, scope="greedy", mu=3.5))
    second = start(ledger, scope="second")
    assert second.plan.mu == pytest.approx(math.sqrt(16 - 9))  # what the first has planned and not spent stays its own
    trials(second, 1)
    before = dump(ledger)
    with pytest.raises(BudgetPlanned, match=r"'run'.*by its name.*mu=.*new ledger") as planned:
        start(ledger, scope="again")
    refused(BudgetExhausted, None, lambda: check_start(ledger, "again", None))
    check_start(ledger, "run", None)  # has begun
    assert planned.value.runs == ("run", "second")
    assert pickle.loads(pickle.dumps(planned.value)).args == planned.value.args
    assert dump(ledger) == before
    assert start(ledger).plan == first.plan  # it goes on as it was
    first.estimate(first.recommend(), losses_of(first.recommend(), N))
    assert ledger.fact("again", "plan") is None


def test_an_explicit_mu_may_take_what_others_have_planned_and_says_so_once(ledger):
    trial(start(ledger, mu=3.0), "0")
    trial(start(ledger, scope="beside", mu=math.sqrt(7) - 1e-3), "0")  # there is room
    with pytest.warns(UserWarning, match=r"'takes' starts with mu=1\. Other runs \('beside', 'run'\)") as told:
        start(ledger, scope="takes", mu=1.0)
    assert len(told) == 1
    start(ledger, scope="takes", mu=1.0)  # goes on, and says nothing
    start(ledger, scope="takes")


def test_too_little_for_a_plan_names_who_holds_the_rest_and_bad_settings_are_named_as_ever(ledger):
    trial(start(ledger, mu=math.sqrt(16 - 1e-10)), "0")

    def plan(facts, **settings):
        if facts.mu < 0.1:
            raise InputError("mu is too small.")
        return GIBO.planner(facts, **settings)

    particular = replace(GIBO_RUN, method=Method("particular", plan, GIBO.algorithm))
    refused(BudgetPlanned, "'run'", lambda: particular.start(ledger, scope="late"))
    refused(InputError, "steps", lambda: start(ledger, scope="wrong", steps=0))
    assert ledger.fact("late", "plan") is None
