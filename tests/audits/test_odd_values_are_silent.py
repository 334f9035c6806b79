"""Whoever hands private values over hears the same, whatever is odd about them: in no logger, stream or warning."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from audit_tools import FreeLedger
from every_logger import every_logger, without_clocks
from noises import CannedNoise

from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.choice.exponential import exponential
from dptune.local import LocalRandomizer, UserLedger
from dptune.privacy.stored_losses import StoredLosses
from dptune.training import Repeats, SelectionPlan, TrainingLedger
from dptune.training.repeats import repeat_and_select

N, SECRET = 12, 4711.25
ODD: dict[str, np.ndarray] = {
    "usual": np.full(N, 0.5),
    "one NaN": np.array([np.nan, *[0.5] * (N - 1)]),
    "all NaN": np.full(N, np.nan),
    "infinite": np.array([np.inf, -np.inf, *[0.5] * (N - 2)]),
    "beyond the clip": np.full(N, SECRET),
}


def holder(folder: Path) -> LossPrivatizer:
    return LossPrivatizer(
        PrivacyLedger(folder / "ledger.db", Budget.gdp(4.0)), n=N, clip=(0.0, 1.0), noise=CannedNoise()
    )


def by_privatizer(folder: Path, values: np.ndarray) -> None:
    privatizer = holder(folder)
    privatizer.observe("x", values)
    privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="k")


def by_select(folder: Path, values: np.ndarray) -> None:
    privatizer = LossPrivatizer(FreeLedger(), n=N, clip=(0.0, 1.0), noise=CannedNoise())
    points = ["a", "b"]
    for point in points:
        privatizer.observe(point, values)
    exponential(points, privatizer, 0.5, "s")


def by_rung(folder: Path, values: np.ndarray) -> None:
    privatizer = holder(folder)
    plan = {"trials": 8, "population": 4, "rung_share": 0.2, "rungs": 2}
    run = SearchRun(CENTRED, privatizer, scope="run", space=Space({"x": Float(0.0, 1.0)}), seed=1, **plan)
    for trial in "ab":
        run.rungs.report(trial, {"x": 0.3}, values, 1)
        run.rungs.stops(trial)
        run.finish(trial, {"x": 0.3}, values)


def by_repeat(folder: Path, values: np.ndarray) -> None:
    ledger = TrainingLedger(folder / "select.db", SelectionPlan(Repeats.poisson(3), score_mu=0.5), n=N)
    repeat_and_select(lambda: ({}, "", values), [ledger], clip=(0.0, 1.0))


def by_device(folder: Path, values: np.ndarray) -> None:
    ledger = UserLedger(folder / "users.db", cap=20.0)
    for i, value in enumerate(values):
        ledger.reply(LocalRandomizer(1.0, 1.0), value, user="ann", key=str(i))


WAYS = [by_privatizer, by_select, by_rung, by_repeat, by_device]
Way = Callable[[Path, np.ndarray], None]


def heard(way: Way, folder: Path, values: np.ndarray, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What is logged and printed, without the numbers that noise has moved."""
    folder.mkdir()
    with every_logger() as lines:
        way(folder, values)
    found = without_clocks([*lines, *"".join(capfd.readouterr()).splitlines()], folder)
    assert not [line for line in found if str(SECRET) in line]
    return [re.sub(r"-?\d+\.?\d*(e-?\d+)?|None|nan", "#", line) for line in found]


def audit(way: Way, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    usual, *others = (heard(way, folder / name, values, capfd) for name, values in ODD.items())
    for name, found in zip(list(ODD)[1:], others, strict=True):
        assert found == usual, f"a line tells that values are {name}"


@pytest.mark.parametrize("way", WAYS)
def test_odd_values_are_heard_nowhere(way: Way, fast_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    audit(way, fast_path, capfd)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO], ids=logging.getLevelName)
def test_one_line_about_a_loss_that_is_nan_is_found(
    fast_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    true = StoredLosses.clean

    def clean(self, values):
        if np.isnan(values).any():
            logging.getLogger("dptune.privacy").log(level, "a loss is NaN")
        return true(self, values)

    monkeypatch.setattr(StoredLosses, "clean", clean)
    with pytest.raises(AssertionError, match="one NaN"):
        audit(by_privatizer, fast_path, capfd)
