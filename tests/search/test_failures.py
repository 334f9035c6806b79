"""Failures are unpaid until one trial succeeds, and a run stops if its first trials all fail."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from dptune import InputError
from dptune.errors import AllTrialsFailed, TrialFailed
from dptune.search import drive
from refusals import refused
from runs import CENTRED_RUN, VALUES_RUN, readable


def finish(run, i, losses=None):
    run.finish(str(i), {"a": i / 40, "b": 0.5} if run.space is None else run.ask(i), losses)


@pytest.mark.parametrize("kind", [CENTRED_RUN, VALUES_RUN], ids=readable)
def test_a_run_stops_unpaid_if_all_first_trials_fail(ledger, kind):
    """Failures after a success are counted."""
    run = kind.start(ledger, trials=40)
    refused(InputError, "losses", lambda: finish(run, 0, np.zeros(kind.n - 1)))  # no success
    first = max(run.algorithm.batch, 4)
    refused(TrialFailed, "Nothing was charged", *(partial(finish, run, i) for i in range(first - 1)))
    refused(AllTrialsFailed, "try_out", lambda: finish(run, first))
    rows = pd.DataFrame({"a": [771.25]})
    refused(InputError, "parameters must be a dict", lambda: run.finish("0", rows, np.zeros(kind.n)))
    assert run.ledger.spent() == 0.0
    assert run.privatizer.points() == ()
    assert run.progress()["trials_failed"] == first

    later, failed = kind.start(ledger, trials=40), 8
    for i in range(40):
        finish(later, i, None if i % 5 == 3 else np.full(kind.n, 0.5))
    assert later.progress()["trials_failed"] == failed
    statement = later.ledger.statement(delta=1e-5)
    assert statement.failures == failed
    assert f"{failed} evaluation" in statement.to_text()
    assert statement.to_dict()["failed_evaluations"] == failed


def test_after_one_success_a_failure_in_another_process_is_paid(ledger):
    finish(VALUES_RUN.start(ledger), 0, np.zeros(VALUES_RUN.n))
    finish(VALUES_RUN.start(ledger), 1)
    assert len(ledger.charges("run")) == 2


def test_drive_survives_failed_trials_and_ends_unpaid_if_all_fail(ledger):
    hopeless, run, told = CENTRED_RUN.start(ledger, trials=24), CENTRED_RUN.start(ledger, trials=24), []
    refused(AllTrialsFailed, "data=", lambda: drive(hopeless, lambda points: [None for _ in points]))
    assert ledger.spent() == 0
    drive(
        run,
        lambda points: [None if at["a"] > 0.9 else np.full(CENTRED_RUN.n, at["a"]) for at in points],
        tell=lambda name, value: told.append(value),
    )
    assert run.complete
    assert len(told) >= run.plan.trials
