"""Values for any sampler: a budget divided among the trials, and no steps."""

import math
from functools import partial

import numpy as np
import pytest
from refusals import refused
from runs import VALUES_RUN

from dptune import BudgetExhausted, InputError, PlanComplete
from dptune.errors import BudgetMismatch

N = 20


def values(ledger, **change):
    return VALUES_RUN.start(ledger, **{"scope": "values", "trials": 5, **change})


def test_a_value_run_divides_its_budget_among_its_trials(ledger):
    run = values(ledger)
    for i in range(5):
        assert not run.complete
        run.check(str(i))
        value = run.finish(str(i), {"kind": "rbf", "C": i}, np.full(N, 0.5))
        assert ledger.find("values", f"value/{i}").value == (value,)
    assert run.complete
    assert {k: v for k, v in run.progress().items() if k.startswith("values")} == {"values_done": 5, "values_lost": 0}
    refused(PlanComplete, None, lambda: values(ledger).check("5"))
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    run.estimate({"kind": "rbf", "C": 1}, np.full(N, 0.5))
    assert ledger.spent() == pytest.approx(4.0)
    assert run.privatizer.points() == ()
    refused(BudgetMismatch, r"Other: .*trials \(it has 5\)\.", lambda: values(ledger, trials=6))
    refused(BudgetExhausted, "read again free", lambda: values(ledger, scope="another"))


def test_a_run_of_values_proposes_nothing_recommends_nothing_before_its_first_value_and_counts_them(ledger):
    run = values(ledger)
    assert "recommended" not in run.progress()

    for wrong in ({"trials": 0}, {"trials": 2.0}, {"final_share": 1.0}, {"final_share": -0.1}):
        refused(InputError, next(iter(wrong)), partial(values, ledger, scope="bad", **wrong))
    refused(InputError, "'values'", run.ask)
    refused(InputError, "no value was released yet", run.recommend)
    run.finish("0", {"C": 1}, np.full(N, 0.5))
    words = r"1 of 5 planned trials have a value\. Resume the run with more trials"
    refused(InputError, words, lambda: run.check_estimate({"C": 1}))
