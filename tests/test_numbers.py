"""NumPy's numbers equal Python's, and other types are refused by name before any work."""

import contextlib
import json
import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune import InputError
from dptune._checks import at_least, between, check, check_fields, plain, positive, real, shown, whole
from dptune._numbers import rounded_down, rounded_up
from dptune.local import LaplaceReplies, LDPSettings, LocalRandomizer, UserLedger
from dptune.privacy import Ball, MeanQuery
from dptune.privacy.query import Interval
from dptune.search.algorithms.centred_plan import plan_centred
from dptune.search.algorithms.gibo_plan import plan_gibo
from dptune.search.algorithms.values import plan_values
from dptune_sklearn import PrivateSearch
from planning import planned


class Forged(int):
    def __int__(self) -> int:
        return 99


def test_a_number_of_every_kind_becomes_pythons_and_a_look_alike_is_none() -> None:
    for kind in (int, np.int8, np.uint64):
        assert (type(whole(kind(3))), whole(kind(3)), type(real(kind(3)))) == (int, 3, float)
    for kind in (float, np.float16, np.longdouble):
        assert (type(real(kind(0.5))), real(kind(0.5)), whole(kind(3))) == (float, 0.5, None)
    for value in (True, np.True_, "3", None, 3j, [3], np.array(3), Forged(3), Fraction(3)):
        assert (whole(value), real(value)) == (None, None)
    for value in (math.nan, -np.float32("inf"), 10**400, np.longdouble("1e4000")):
        assert real(value) is None
    assert plain((np.int8(1), (np.float32(0.5), "a"), None, True)) == (1, (0.5, "a"), None, True)
    for kind in (np.int8, np.float32, np.longdouble, np.bool_, np.str_):
        assert "np." not in repr(plain({"a": [kind(1), (kind("0"),)]}))
    assert repr(plain(np.float64("nan"))) == "nan"
    endless: list[Any] = []
    endless.append(endless)
    assert shown(endless) == "a list of length 1"


def some_rows(rows: slice) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(160, 2))
    return X[rows].copy(), (X[rows, 0] > 0).astype(int)


PUBLIC, PEOPLE = some_rows(slice(80)), some_rows(slice(80, None))
SPACE = {"C": np.array([0.1, 1.0]), "solver": np.array(["lbfgs"]), "fit_intercept": np.array([True, False])}


def searched(averages: bool) -> list[Any]:
    options: Any = {"loss": "log_loss", "averages": averages, "default": {"C": np.float64(0.5)}, "mu": np.float32(0.5)}
    search = PrivateSearch(GridSearchCV(LogisticRegression(), SPACE), ledger=payer(), **options)
    plan = search.plan(*PUBLIC, n=80)
    search.fit(*PUBLIC, X_val=PEOPLE[0], y_val=PEOPLE[1])
    return [plan, search.best_params_, search.selection_, search.best_score_, search.released_, search.ledger.charges()]


def studied() -> list[Any]:
    study = optuna.create_study(sampler=optuna.samplers.GridSampler({"C": [*SPACE["C"]]}, seed=0))
    study.optimize(lambda trial: trial.suggest_categorical("C", [*SPACE["C"]]), n_trials=2)
    about: Any = {"ledger": payer(), "loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "progress": False}
    choice = dptune_optuna.choose(study, LogisticRegression(), default={"C": np.float64(3)}, averages=True, **about)
    return [choice, choice.params, study.user_attrs]


def reported(model: Any, answers: Any) -> list[Any]:
    pairs = [(X, answers(X, y)) for X, y in (PUBLIC, PEOPLE)]
    people = dptune.LossPrivatizer(payer(), n=80)
    report = dptune.report(model.fit(*pairs[0]), people, data=pairs[1], public=pairs[0])
    return [report.to_dict(), report.metrics]


def payer() -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(f"{tempfile.mkdtemp(dir='.')}/ledger.db", dptune.Budget.gdp(np.float32(1.0)))


@pytest.mark.parametrize(
    "made",
    [
        partial(searched, False),
        partial(searched, True),
        studied,
        partial(reported, LogisticRegression(), lambda X, y: y),
        partial(reported, Ridge(), lambda X, y: X[:, 0]),
    ],
)
def test_what_is_printed_or_stored_has_plain_numbers(made: Callable[[], list[Any]], own_folder: Path) -> None:
    for each in made():
        assert not re.search(r".{0,60}\bnp\.", repr(each))


@dataclass(frozen=True)
class Checked:
    count: int = field(metadata=check(at_least, 1))
    part: float = field(default=0.5, metadata=check(between, 0.0, 1.0))
    size: float | None = field(default=None, metadata=check(positive))

    def __post_init__(self) -> None:
        check_fields(self)


def test_a_check_converts_or_refuses_by_name_and_allows_a_default_of_none() -> None:
    made = Checked(np.int8(2), part=np.float16(0.25))
    assert made == Checked(2, 0.25, None)
    assert (type(made.count), type(made.part)) == (int, float)
    wrong = (("count", 0), ("part", 1.5), ("size", -1.0), ("count", None), ("part", None))
    for name, bad in wrong:
        with pytest.raises(InputError, match=f"^{name} must"):
            Checked(**{"count": 1, name: bad})


# ---- public functions ----------------------------------------------------------------------------------------

GIVEN: dict[str, Any] = {"mu": 0.5, "seed": 3, "trials": 40, "final_share": 0.25}
KINDS = {"mu": np.float32, "seed": np.int64, "trials": np.int16, "final_share": np.float16}
PLANNERS: dict[str, Callable[..., Any]] = {"gibo": plan_gibo, "centred": plan_centred, "values": plan_values}
NUMPYS: dict[str, dict[str, Any]] = {
    "gibo": {"theta0": (np.float16(0.25), np.float16(0.5)), "batch": np.int8(3)},
    "centred": {"radius": np.float16(0.5), "tuning": {"steps": (np.float16(0.5), np.float16(0.0))}},
    "values": {},
}


@pytest.mark.parametrize("name", PLANNERS)
def test_plans_accept_numpy_scalars_and_refuse_other_types_by_name(name: str) -> None:
    def plan(**more: Any) -> Any:
        return planned(PLANNERS[name], **{"d": 2, "n": 500, "loss_range": 1.0, **GIVEN, **more}).describe()

    assert json.dumps(plan(**{name: KINDS[name](value) for name, value in GIVEN.items()})) == json.dumps(plan())
    json.dumps(plan(**NUMPYS[name]))  # their numbers are Python's
    wrong = [(each, bad) for each in GIVEN for bad in ("20", True, math.nan, -5)]
    wrong += [(each, "1") for each in ("steps", "batch", "average", "clip", "theta0") if name == "gibo"]
    for setting, bad in wrong:
        with pytest.raises(InputError, match=setting):
            plan(**{setting: bad})


def test_what_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(1.0))
    ledger.check(np.float32(0.5))
    uses: dict[str, Callable[[Any], object]] = {
        "cap": lambda bad: UserLedger(tmp_path / "users.db", cap=bad),
        "epsilon": lambda bad: LocalRandomizer(bad, 1.0),
        "B must": lambda bad: LaplaceReplies(1.0, B=bad, R=1.0),
        "replies": lambda bad: LDPSettings(bad),
        "mu": lambda bad: MeanQuery(("a",), np.ones((1, 1)), Interval(0.0, 1.0), bad),
        "mu must": ledger.check,
        "radius": Ball,
        "clip must": lambda bad: dptune.LossPrivatizer(ledger, n=3, clip=(0.0, bad)),
        "n must be": lambda bad: dptune.LossPrivatizer(ledger, n=bad, clip=(0, 1)),
        "range": lambda bad: dptune.Float(bad, -2.0),
        "eta": lambda bad: dptune.search.AdaGradNorm(bad),
    }
    for name, use in uses.items():
        for bad in ("1", True, 2j, math.inf, -1):
            with pytest.raises(InputError, match=name):
                use(bad)
    assert not (tmp_path / "users.db").exists()


def test_a_ledger_is_somewhere(tmp_path: Path) -> None:
    plan = dptune.ledger.SubsampledGaussian(0.1, 1.0, 3)
    ledgers: tuple[Callable[[Any], object], ...] = (
        lambda path: dptune.PrivacyLedger(path, dptune.Budget.gdp(1.0)),
        lambda path: dptune.ledger.PlanLedger(path, plan, n=3),
        lambda path: UserLedger(path, cap=1.0),
    )
    with contextlib.chdir(tmp_path):
        for nowhere in (None, "", 3):
            for use in ledgers:
                with pytest.raises(InputError, match="environment variable"):
                    use(nowhere)
    assert list(tmp_path.iterdir()) == []


# ---- what statements print is a promise: a loss of privacy is rounded up ----------------------------------------


NUMBERS = st.floats(1e-12, 1e12)


@given(NUMBERS, st.integers(2, 8))
@example(0.1 + 0.2, 4)
@example(1000.0, 2)
def test_rounding_keeps_to_its_side_and_to_the_last_digit(value: float, digits: int) -> None:
    up, down = float(rounded_up(value, digits)), float(rounded_down(value, digits))
    assert down * (1 - 2e-9) <= value <= up * (1 + 2e-9)
    assert up - down <= 1.001 * 10 ** (math.floor(math.log10(value)) + 1 - digits) * (1 + 1e-6)
    short = float(f"{value:.3g}")  # in three digits; four leave it as it is
    assert float(rounded_up(short)) == float(rounded_down(short)) == short


def test_what_is_no_fraction_stays_as_it_is() -> None:
    assert [rounded_up(value) for value in (0.0, 3.0, 0.1 + 0.2, math.inf)] == ["0", "3", "0.3", "inf"]
    assert rounded_up(4.377178) == "4.378"
    assert rounded_down(0.71911743, 6) == "0.719117"
