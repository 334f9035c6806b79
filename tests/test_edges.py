"""Odd arguments and failing trials, through public names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dptune
from dptune import InputError
from dptune.errors import AllTrialsFailed
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.joint import join
from dptune.training.repeats import repeat_and_select


def people(folder: Path, name: str) -> dptune.LossPrivatizer:
    ledger = dptune.PrivacyLedger(folder / f"{name}.db", dptune.Budget.gdp(mu=1.0), dataset="people")
    return dptune.LossPrivatizer(ledger, n=20, clip=(0, 1))


def test_drive_completes_a_run_though_trials_fail_and_ends_unpaid_where_all_do(tmp_path: Path) -> None:
    space, told = dptune.Space({"x": dptune.Float(0, 1)}), list[float | None]()
    runs = [dptune.SearchRun(dptune.CENTRED, people(tmp_path, x), scope=x, space=space, trials=24) for x in "ab"]
    dptune.drive(
        runs[0],
        lambda points: [None if point["x"] > 0.9 else np.full(20, point["x"]) for point in points],
        tell=lambda name, value: told.append(value),
    )
    assert runs[0].complete
    assert len(told) >= runs[0].trials
    with pytest.raises(AllTrialsFailed, match="data="):
        dptune.drive(runs[1], lambda points: [None for _ in points])
    assert runs[1].ledger.spent() == 0


def test_what_cannot_run_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    selection = TrainingLedger(tmp_path / "s.db", SelectionPlan(Repeats.geometric(2), score_mu=0.5), n=20)
    training = TrainingLedger(tmp_path / "t.db", TrainingPlan(1.0, 0.1, 10), n=20)
    ledgers = [people(tmp_path, name).ledger for name in "ab"]
    calls = {
        "once": lambda odd: repeat_and_select(odd, [selection], clip=(0, 1)),
        "disjoint must be True or False": lambda odd: join(ledgers, disjoint=odd, delta=1e-5),
        "secure must be True or False": lambda odd: training.begin(secure=odd),
    }
    for words, call in calls.items():
        for odd in ("false", float("nan"), 1, None):
            with pytest.raises(InputError, match=words):
                call(odd)
    assert [selection.count(), training.count()] == [0, 0]


def test_ledgers_of_one_name_called_disjoint_are_warned_of(tmp_path: Path) -> None:
    joint = join([people(tmp_path, name).ledger for name in "ab"], disjoint=np.True_, delta=1e-5)
    assert any("same people" in warning for warning in joint.warnings)
