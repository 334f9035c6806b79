"""The user's settings of NumPy and of warnings, however strict, make no private value raise or move another person.

Else one person's value could end a release that was charged, or decide everybody's loss.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import dptune
from dptune.local import LocalRandomizer, UserLedger
from dptune.losses import functions
from dptune.losses.named import per_example_loss
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.mechanism import LaplaceMechanism, NoisyMin
from dptune.privacy.seal.parsing import numbers_in
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.repeats import repeat_and_select
from noises import CannedNoise

N, WHO = 12, 3
EXTREME = [1e-50, 1e300, -1e300, np.inf, -np.inf, np.nan, 5e-324, 1e-300, 3e38, -1e-46]
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(60, 1))
LABELS = (PUBLIC[:, 0] + RNG.normal(size=60) > 0).astype(int)
ONES, CODES = np.ones((N, 1)), np.arange(N) % 2
CLASSIFIER, RIDGE = LogisticRegression().fit(PUBLIC, LABELS), Ridge().fit(PUBLIC, 2 * PUBLIC[:, 0])
LOW = pd.DataFrame({"a": PUBLIC[:, 0].astype(np.float32)})
REGRESSION = {"held_out": (PUBLIC, 2 * PUBLIC[:, 0])}
Door = Callable[[Path, np.ndarray], object]


class Times:
    """Predicts a multiple of its only column."""

    n_features_in_ = 1

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(np.asarray(X)[:, 0] * self.factor)


MODELS = [Times(1e-200), Times(1.0), Times(1e200)]


def people(folder: Path, **settings: Any) -> dptune.LossPrivatizer:
    if "groups" not in settings:
        settings.setdefault("n", N)
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(8.0))
    return dptune.LossPrivatizer(ledger, noise=CannedNoise(), **{"clip": (-1, 1), **settings})


def column(values: np.ndarray) -> np.ndarray:
    return values[:, None].copy()


def released(**settings: Any) -> Door:
    def door(folder: Path, values: np.ndarray) -> None:
        mine = people(folder, **settings)
        mine.observe("a", values)
        mine.observe("b", list(values))
        mine.submit("c", None)
        mine.release(mine.mean_query("a", 0.5), scope="s", key="mean")
        mine.release(mine.mean_query("b", 0.5), scope="s", key="one number", mechanism=LaplaceMechanism)
        together = mine.means_query(["a", "b", "c"], 0.5)
        mine.release(together, scope="s", key="means")
        mine.release(together, scope="s", key="choice", mechanism=NoisyMin)

    return door


def selected(data: Callable[[np.ndarray], Any], models: Any = MODELS, loss: str = "absolute_error") -> Door:
    return lambda folder, values: dptune.select(
        models, people(folder), data=data(values), loss=loss, mu=1.0, estimate_share=0.5
    )


def reported(data: Callable[[np.ndarray], Any], model: Any = CLASSIFIER, **settings: Any) -> Door:
    rows = {"held_out": (PUBLIC, LABELS), **settings}
    return lambda folder, values: dptune.report(model, people(folder), data=data(values), **rows)


def of_places(door: Door, y: np.ndarray) -> Door:
    """The same for the people of two places."""

    def at(folder: Path, values: np.ndarray) -> None:
        ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(8.0))
        halves = {"a": slice(0, 6), "b": slice(6, N)}
        places = dptune.Places([dptune.Place(name, (column(values[k]), y[k])) for name, k in halves.items()])
        mine = dptune.LossPrivatizer(ledger, places=places, clip=(-1, 1), noise=CannedNoise())
        if door is dptune.report:
            dptune.report(CLASSIFIER, mine, data=places, held_out=(PUBLIC, LABELS))
        else:
            dptune.select(MODELS, mine, data=places, loss="absolute_error", mu=1.0, estimate_share=0.5)

    return at


def divided(folder: Path, values: np.ndarray) -> None:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.approximate_dp(1.0, 1e-6))
    people = dptune.LossPrivatizer(ledger, n=N, clip=(-1, 1), noise=CannedNoise())
    dptune.select(np.array([values, np.full(N, 0.1)]), people)


def by_public_losses(folder: Path, values: np.ndarray) -> None:
    public = np.random.default_rng(0).uniform(size=(2, 40))
    choice = dptune.PublicChoice(public, people(folder), name="c", default_place=0, even_if_hopeless=True)
    choice.choose({place: values if place else np.full(N, 0.2) for place in choice.to_train})


def repeated(folder: Path, values: np.ndarray) -> None:
    plan = SelectionPlan(Repeats.poisson(3), score_mu=0.5)
    repeat_and_select(lambda: ({}, "", values), [TrainingLedger(folder / "t.db", plan, n=N)], clip=(-1, 1))


def replied(folder: Path, values: np.ndarray) -> None:
    ledger = UserLedger(folder / "users.db", cap=40.0)
    for i, value in enumerate(values):
        ledger.reply(LocalRandomizer(1.0, 1.0), value, user="ann", key=str(i))


def exported(folder: Path, values: np.ndarray) -> None:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(8.0))
    outputs = PublicOutputs(lambda row: 0.0, because="made up")
    OutsourcedCurator(
        ledger, np.column_stack([values, values]), scale=1.0, row_norm=1.0, outputs=outputs, folder=folder / "own",
        projection=np.diag([1e-30, 1.0]), noise=CannedNoise(),
    ).export(folder / "shared", mu=1.0)  # fmt: skip


def computed(folder: Path, values: np.ndarray) -> None:
    for name in ("squared_error", "absolute_error", "huber_loss"):
        per_example_loss(name)(values, values[::-1])
    for loss in (functions.log_loss, functions.brier_loss, functions.hinge_loss, functions.zero_one_loss):
        loss(CODES, values, labels=[0, 1])


DOORS: dict[str, Door] = {
    "privatizer": released(),
    "a tiny clip": released(clip=(-1e-29, 1e-29)),
    "float64": released(dtype=np.float64),
    "groups": released(groups=np.arange(N) // 2),
    "weights": released(person_weights=np.r_[1e-200, np.ones(N - 1)]),
    "a table of losses": lambda folder, values: dptune.select(
        np.array([values, np.full(N, 0.1)]), people(folder), mu=1.0, estimate_share=0.5
    ),
    "a divided budget": divided,
    "public losses": by_public_losses,
    "rows": selected(lambda values: (column(values), np.zeros(N))),
    "answers": selected(lambda values: (ONES, values)),
    "probabilities": selected(lambda values: (column(values), CODES), [CLASSIFIER] * 2, "log_loss"),
    "a frame of low precision": selected(
        lambda values: dptune.Rows(pd.DataFrame({"a": values}), np.zeros(N), like=LOW), MODELS
    ),
    "places": of_places(dptune.select, np.zeros(N)),
    "a report": reported(lambda values: (column(values), CODES)),
    "a report by": reported(
        lambda values: (column(values), CODES), held_out=((PUBLIC > 0).astype(float), LABELS), by=0
    ),
    "a report of answers": reported(lambda values: (ONES, values)),
    "a report of numbers": reported(lambda values: (column(values), values), RIDGE, **REGRESSION),
    "a report of places": of_places(dptune.report, CODES),
    "repeats": repeated,
    "a device": replied,
    "a curator": exported,
    "losses": computed,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_no_private_value_raises_under_the_strictest_settings(fast_path: Path, door: Door) -> None:
    for i, value in enumerate(EXTREME):
        values = np.zeros(N)
        values[WHO] = value
        folder = fast_path / str(i)
        folder.mkdir()
        with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
            door(folder, values)


def test_no_plan_or_statement_raises_under_the_strictest_settings(fast_path: Path) -> None:
    """Small probabilities underflow in what is computed from public facts."""
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.approximate_dp(20.0, 1e-5))
    training = TrainingLedger(fast_path / "t.db", TrainingPlan(1.0, 0.01, 100), n=2000)
    public, private = RNG.random((6, 60)), RNG.random((6, 2000))
    with np.errstate(all="raise"):
        dptune.select(private, ledger, public_losses=public, default_place=0, even_if_hopeless=True)
        assert join([ledger, training], delta=1e-5).private


@pytest.mark.parametrize("public", ["f4", "f8"])
@pytest.mark.parametrize("held", ["f2", "f4", "f8", "g"])
def test_one_text_moves_no_other_cell_whatever_the_print_options(held: str, public: str) -> None:
    """A text beside NumPy's numbers makes objects of them, whose values must not be what is printed."""
    cells = np.random.default_rng(1).normal(size=40).astype(held)
    with np.printoptions(legacy="1.13", precision=2, formatter={"float_kind": lambda each: "7"}):
        alone = numbers_in(np.dtype(public), cells)[0]
        beside = numbers_in(np.dtype(public), np.array([*cells, "?"], dtype=object))[0]
    assert alone.tobytes() == beside[:-1].tobytes()
