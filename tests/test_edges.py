"""Odd arguments and failing trials, through public names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune.errors import AllTrialsFailed
from dptune.ledger.risk import Risk
from dptune.privacy.seal.reachable import refuse_reachable
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.joint import join
from dptune.training.repeats import repeat_and_select

X_VAL = np.zeros((5, 2))


def score() -> Any:
    return X_VAL


def trained(model: Any) -> Any:
    return model.score(1)


def undefined_name() -> Any:
    return not_there  # noqa: F821


def ledger_of(folder: Path, name: str) -> dptune.PrivacyLedger:
    ledger = dptune.PrivacyLedger(folder / f"{name}.db", dptune.Budget.gdp(mu=1.0), dataset="people")
    dptune.LossPrivatizer(ledger, n=20, clip=(0, 1))
    return ledger


def run_in(folder: Path) -> dptune.SearchRun:
    privatizer = dptune.LossPrivatizer(ledger_of(folder, "run"), n=20, clip=(0, 1))
    space = dptune.Space({"x": dptune.Float(0, 1)})
    return dptune.SearchRun(dptune.CENTRED, privatizer, scope="run", space=space, trials=24)


def test_drive_completes_a_run_though_trials_fail(tmp_path: Path) -> None:
    run, told = run_in(tmp_path), list[float | None]()
    dptune.drive(
        run,
        lambda points: [None if point["x"] > 0.9 else np.full(20, point["x"]) for point in points],
        tell=lambda name, value: told.append(value),
    )
    assert run.complete
    assert len(told) >= run.trials


def test_drive_ends_unpaid_where_all_trials_fail(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    with pytest.raises(AllTrialsFailed, match="data="):
        dptune.drive(run, lambda points: [None for _ in points])
    assert run.ledger.spent() == 0


@pytest.mark.parametrize("once", [None, "x", 3, undefined_name])
def test_a_selection_that_cannot_run_is_refused_before_it_is_charged(tmp_path: Path, once: Any) -> None:
    ledger = TrainingLedger(tmp_path / "s.db", SelectionPlan(Repeats.geometric(2), score_mu=0.5), n=20)
    with pytest.raises(dptune.InputError, match="once"):
        repeat_and_select(once, [ledger], clip=(0, 1))
    assert ledger.count() == 0


@pytest.mark.parametrize("odd", ["false", "no", float("nan"), 1, None])
def test_what_is_no_boolean_is_refused(tmp_path: Path, odd: Any) -> None:
    with pytest.raises(dptune.InputError, match="disjoint must be True or False"):
        join([ledger_of(tmp_path, "a"), ledger_of(tmp_path, "b")], disjoint=odd, delta=1e-5)
    training = TrainingLedger(tmp_path / "t.db", TrainingPlan(1.0, 0.1, 10), n=20)
    with pytest.raises(dptune.InputError, match="secure must be True or False"):
        training.begin(secure=odd)
    assert training.count() == 0


def test_ledgers_of_one_name_called_disjoint_are_warned_of(tmp_path: Path) -> None:
    joint = join([ledger_of(tmp_path, "a"), ledger_of(tmp_path, "b")], disjoint=np.True_, delta=1e-5)
    assert any("same people" in warning for warning in joint.warnings)


def test_a_path_in_place_of_pending_losses_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match="new_key"):
        dptune.LossPrivatizer(ledger_of(tmp_path, "a"), n=20, clip=(0, 1), **{"pending": "pending.db"})


@pytest.mark.parametrize("mu", [-1.0, float("nan")])
def test_no_risk_of_a_negative_mu(mu: float) -> None:
    with pytest.raises(dptune.InputError, match="mu"):
        Risk.of_mu(mu)


def test_an_attribute_is_no_global_of_the_same_name() -> None:
    refuse_reachable(trained, X_VAL)
    with pytest.raises(dptune.InputError, match="score"):
        refuse_reachable(lambda: score(), X_VAL)
