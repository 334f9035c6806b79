"""A function that fails: nothing is paid until one trial has succeeded, and a run whose first trials all fail stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptune import CENTRED, GIBO, Budget, Float, InputError, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.algorithms import VALUES, Method
from dptune.errors import AllTrialsFailed, TrialFailed

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
METHODS = [CENTRED, GIBO, VALUES]


def begin(folder: Path, method: Method, **settings: Any) -> SearchRun:
    privatizer = LossPrivatizer(PrivacyLedger(folder / "ledger.db", Budget.gdp(2.0)), n=30, clip=(0.0, 1.0))
    space = None if method is VALUES else SPACE
    return SearchRun(method, privatizer, scope="run", space=space, trials=40, **settings)


def point(run: SearchRun, i: int) -> dict[str, Any]:
    return {"a": i / 40, "b": 0.5} if run.space is None else run.ask(i)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_run_whose_first_trials_all_fail_stops_unpaid_and_names_the_remedy(fast_path: Path, method: Method) -> None:
    run = begin(fast_path, method)
    first = max(run.algorithm.batch, 4)
    for i in range(first - 1):
        with pytest.raises(TrialFailed, match="Nothing was paid"):
            run.finish(str(i), point(run, i), None)
    with pytest.raises(AllTrialsFailed, match="try_out"):
        run.finish("last", point(run, first), None)
    assert run.ledger.spent() == 0.0
    assert run.privatizer.points() == ()
    assert run.progress()["trials_failed"] == first


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_later_failures_count_in_progress_and_in_the_statement(fast_path: Path, method: Method) -> None:
    run = begin(fast_path, method)
    for i in range(run.plan.trials):
        run.finish(str(i), point(run, i), None if i % 10 == 5 else np.full(30, 0.5))
    assert run.progress()["trials_failed"] == 4
    statement = run.ledger.statement(delta=1e-5)
    assert statement.failures == 4
    assert "4 evaluations failed" in statement.to_text()
    assert statement.to_dict()["failed_evaluations"] == 4


def test_a_run_that_has_succeeded_once_pays_for_a_failure_in_another_process_too(fast_path: Path) -> None:
    run = begin(fast_path, VALUES)
    run.finish("0", {"a": 0.1}, np.zeros(30))
    other = begin(fast_path, VALUES)
    other.finish("1", {"a": 0.2}, None)
    assert len(run.ledger.charges("run")) == 2


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_losses_of_the_wrong_shape_are_no_success(fast_path: Path, method: Method) -> None:
    run = begin(fast_path, method)
    with pytest.raises(InputError, match="expected 30"):
        run.finish("0", point(run, 0), np.zeros(29))
    with pytest.raises(TrialFailed, match="Nothing was paid"):
        run.finish("1", point(run, 1), None)
    assert run.ledger.spent() == 0.0
