"""Odd private values change nothing that a user sees in loggers, streams and warnings.

tests/promises/test_neighbours_leave_one_transcript.py tests what frameworks show, including their loggers.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit_tools import Bug, planted
from dptune import Budget, LossPrivatizer, PrivacyLedger, select
from dptune.local import LocalRandomizer, UserLedger
from dptune.losses.estimator import EstimatorLosses
from dptune.privacy.stored_losses import StoredLosses
from dptune.training import Repeats, SelectionPlan, TrainingLedger
from dptune.training.repeats import repeat_and_select
from every_logger import every_logger, without_clocks
from noises import CannedNoise

N, SECRET = 12, 4711.25
ODD: dict[str, np.ndarray] = {
    "one NaN": np.array([np.nan, *[0.5] * (N - 1)]),
    "all NaN": np.full(N, np.nan),
    "infinite": np.array([np.inf, -np.inf, *[0.5] * (N - 2)]),
    "beyond the clip": np.full(N, SECRET),
}


def holder(folder: Path) -> LossPrivatizer:
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(4.0))
    return LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), noise=CannedNoise())


def by_privatizer(folder: Path, values: np.ndarray) -> None:
    privatizer = holder(folder)
    privatizer.observe("x", values)
    privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="k")


def by_repeat(folder: Path, values: np.ndarray) -> None:
    ledger = TrainingLedger(folder / "select.db", SelectionPlan(Repeats.poisson(3), score_mu=0.5), n=N)
    repeat_and_select(lambda: ({}, "", values), [ledger], clip=(0.0, 1.0))


def by_device(folder: Path, values: np.ndarray) -> None:
    ledger = UserLedger(folder / "users.db", cap=20.0)
    for i, value in enumerate(values):
        ledger.reply(LocalRandomizer(1.0, 1.0), value, user="ann", key=str(i))


class Model:
    """Predicts its constant; fails on rows that are missing, infinite or large."""

    n_features_in_ = 1

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def predict(self, X: Any) -> np.ndarray:
        if not (np.asarray(X, dtype=float) < 1000).all():
            raise ValueError(f"{X.max()} is too large")
        return np.full(len(X), self.constant)


def by_model(folder: Path, values: np.ndarray) -> None:
    data = values[:, None].copy(), np.zeros(N)
    select([Model(0.2), Model(0.4)], holder(folder), mu=0.5, name="s", loss="squared_error", data=data)


ALL_OF_THEM, SOME = [by_privatizer, by_repeat, by_device], ["one NaN", "beyond the clip"]
WAYS = [*ALL_OF_THEM, by_model]
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
    usual = heard(way, folder / "usual", np.full(N, 0.5), capfd)
    for name, values in ((name, ODD[name]) for name in (ODD if way in ALL_OF_THEM else SOME)):
        assert heard(way, folder / name, values, capfd) == usual, f"a line tells that values are {name}"


@pytest.mark.parametrize("way", WAYS)
def test_odd_values_are_heard_nowhere(way: Way, fast_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    audit(way, fast_path, capfd)


# ---- one line about private data, where the package has it in hand ---------------------------------------


Log = Callable[[str], None]


def nan_losses(log: Log) -> Bug:
    def by(true: Any) -> Any:
        def clean(self: StoredLosses, values: Any) -> Any:
            if np.isnan(values).any():
                log("a loss is NaN")
            return true(self, values)

        return clean

    return planted(StoredLosses, "clean", by)


def failing_rows(log: Log) -> Bug:
    def by(true: Any) -> Any:
        def losses_of(self: Any, model: Any) -> Any:
            losses = true(self, model)
            log("the model fails on some rows" if np.isnan(losses).any() else "the model fails on no row")
            return losses

        return losses_of

    return planted(EstimatorLosses, "losses_of", by)


@pytest.mark.parametrize(
    ("leak", "way", "logger"),
    [(nan_losses, by_privatizer, "dptune.privacy"), (failing_rows, by_model, "made.just.now")],
)
def test_one_line_about_private_data_is_found_in_any_logger(
    fast_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    leak: Callable[[Log], Bug],
    way: Way,
    logger: str,
) -> None:
    leak(lambda words: logging.getLogger(logger).debug(words))(monkeypatch)
    with pytest.raises(AssertionError):
        audit(way, fast_path, capfd)
