"""A number is the same whether NumPy made it or not; what is none is refused by name, before anything is begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planning import planned

import dptune
from dptune.local import LocalRandomizer, UserLedger
from dptune.search.algorithms.centred_plan import plan_centred
from dptune.search.algorithms.gibo_plan import plan_gibo
from dptune.search.algorithms.one_shot import plan_values

GIVEN: dict[str, Any] = {"mu": 0.5, "seed": 3, "trials": 40, "final_share": 0.25}
KINDS = {"mu": np.float32, "seed": np.int64, "trials": np.int16, "final_share": np.float16}
NUMPY = {name: KINDS[name](value) for name, value in GIVEN.items()}
PEOPLE = {"d": 2, "n": 500, "loss_range": 1.0}
PLANNERS: dict[str, Callable[..., Any]] = {
    "gibo": lambda **more: planned(plan_gibo, **{**PEOPLE, **GIVEN, **more}),
    "centred": lambda **more: planned(plan_centred, **{**PEOPLE, **GIVEN, **more}),
    "values": lambda **more: planned(plan_values, **{**GIVEN, **more}),
}


@pytest.mark.parametrize("plan", PLANNERS.values(), ids=PLANNERS)
def test_a_plan_of_numpy_scalars_is_the_plan(plan: Callable[..., Any]) -> None:
    described = plan(**NUMPY).describe()
    assert described == plan().describe()
    assert json.loads(json.dumps(described)) == json.loads(json.dumps(plan().describe()))


def test_every_setting_of_dp_gibo_may_be_numpys() -> None:
    settings: dict[str, Any] = {"steps": 4, "batch": 3, "starts": 2, "clip": 0.5, "start_clip": 0.25, "average": 2}
    settings |= {"memory": 1, "noise_variance": 0.5, "monitor_share": 0.25, "start_share": 0.125, "lengthscale": 0.5}
    settings |= {"rule": dptune.search.AdaGradNorm(0.5)}
    numpys = {k: np.int8(v) if type(v) is int else np.float16(v) for k, v in settings.items() if k != "rule"}
    found = PLANNERS["gibo"](**numpys, rule=dptune.search.AdaGradNorm(np.float32(0.5)))
    assert json.dumps(found.describe()) == json.dumps(PLANNERS["gibo"](**settings).describe())
    theta = PLANNERS["gibo"](theta0=np.array([0.25, 0.5], dtype=np.float32))
    assert json.dumps(theta.describe()) == json.dumps(PLANNERS["gibo"](theta0=(0.25, 0.5)).describe())


def test_every_setting_of_the_centred_releases_may_be_numpys() -> None:
    settings = {"population": 5, "radius": 0.5}
    tuning = {"quantile": 0.25, "references": 1, "candidates": 3, "average": 2}
    numpys, tuned = (
        {k: np.int8(v) if type(v) is int else np.float16(v) for k, v in of.items()} for of in (settings, tuning)
    )
    tuned["steps"] = (np.float32(0.5), np.float64(0.0))
    found = PLANNERS["centred"](**numpys, tuning=tuned).describe()
    assert json.dumps(found) == json.dumps(
        PLANNERS["centred"](**settings, tuning={**tuning, "steps": (0.5, 0.0)}).describe()
    )


@pytest.mark.parametrize("plan", PLANNERS.values(), ids=PLANNERS)
@pytest.mark.parametrize("name", GIVEN)
def test_a_plan_refuses_what_is_no_number_by_name(plan: Callable[..., Any], name: str) -> None:
    for bad in ("20", True, [1], float("nan"), -5):
        with pytest.raises(dptune.InputError, match=name):
            plan(**{name: bad})
    with pytest.raises(dptune.InputError, match=f"{name}.* must be at most" if name in ("trials", "seed") else name):
        plan(**{name: 10**400})


def test_every_setting_of_dp_gibo_is_refused_by_name() -> None:
    bad = dict.fromkeys(("trials", "steps", "batch"), 0)
    bad |= dict.fromkeys(("average", "starts", "memory", "noise_variance", "clip", "monitor_share", "theta0"), "1")
    for name, value in bad.items():
        with pytest.raises(dptune.InputError, match=name):
            PLANNERS["gibo"](**{name: value})


@pytest.mark.parametrize("bad", ["1", None, True, 2j, float("inf"), -1])
def test_what_is_no_number_is_refused_by_name(tmp_path: Path, bad: Any) -> None:
    uses: dict[str, Callable[[], object]] = {
        "cap": lambda: UserLedger(tmp_path / "users.db", cap=bad if bad is not None else "none"),
        "epsilon": lambda: LocalRandomizer(bad, 1.0),
        "bound": lambda: LocalRandomizer(1.0, bad),
        "low": lambda: LocalRandomizer(1.0, (bad, -2.0)),
        "invalid": lambda: LocalRandomizer(1.0, 0.5, invalid=bad if bad is not None else "none"),
        "B must": lambda: dptune.local.LaplaceReplies(1.0, B=bad, R=1.0),
        "replies": lambda: dptune.local.LDPSettings(bad),
        "mu": lambda: dptune.privacy.MeanQuery(("a",), np.ones((1, 1)), dptune.privacy.Interval(0.0, 1.0), bad),
        "radius": lambda: dptune.privacy.Ball(bad),
        "clip": lambda: dptune.privacy.Interval(bad, -2.0),
        "range": lambda: dptune.Float(bad, -2.0),
        "eta": lambda: dptune.search.AdaGrad(bad),
    }
    for name, use in uses.items():
        with pytest.raises(dptune.InputError, match=name):
            use()
    assert list(tmp_path.iterdir()) == []


def test_settings_of_local_privacy_may_be_numpys(tmp_path: Path) -> None:
    replies = dptune.local.LaplaceReplies(np.float32(1.0), B=np.int64(1), R=np.float64(0.5))
    settings = dptune.local.LDPSettings(replies, horizon=np.int64(100), lam=np.float16(0.5), seed=np.int8(3))
    same = dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, 1.0, 0.5), horizon=100, lam=0.5, seed=3)
    assert repr(settings) == repr(same)
    told = LocalRandomizer(np.float32(0.5), (np.float64(-1.0), np.int8(2)), invalid=np.float16(0.5))
    assert json.dumps(told.describe()) == json.dumps(LocalRandomizer(0.5, (-1.0, 2.0), invalid=0.5).describe())
    assert LocalRandomizer(0.5, np.float32(2.0)).describe() == LocalRandomizer(0.5, 2).describe()
    assert UserLedger(tmp_path / "users.db", cap=np.float32(0.5)).cap == 0.5
    assert UserLedger(tmp_path / "users.db", cap=0.5).cap == 0.5


def test_a_space_and_a_query_of_numpy_scalars_can_be_stored() -> None:
    space = dptune.Space({"x": dptune.Float(np.float32(0), 1.0), "n": dptune.Int(np.int64(1), 9, step=np.int8(2))})
    assert (
        json.loads(json.dumps(space.describe()))
        == dptune.Space({"x": dptune.Float(0.0, 1.0), "n": dptune.Int(1, 9, step=2)}).describe()
    )
    query = dptune.privacy.MeanQuery(("a",), np.ones((1, 1)), dptune.privacy.Ball(np.float32(0.5)), np.float32(0.5))
    assert query == dptune.privacy.MeanQuery(("a",), np.ones((1, 1)), dptune.privacy.Ball(0.5), 0.5)


def test_a_ledger_and_a_privatizer_take_numbers_only(tmp_path: Path) -> None:
    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(1.0))
    ledger.check(np.float32(0.5), releases=np.int64(4))
    for mu in ("1", None, -1.0, float("nan")):
        with pytest.raises(dptune.InputError, match="mu"):
            ledger.check(mu)
    for clip in ((False, True), (0, 10**400), (0.0,), "01", (0.0, None)):
        with pytest.raises(dptune.InputError, match="clip must be a pair"):
            dptune.LossPrivatizer(ledger, n=3, clip=clip)
    with pytest.raises(dptune.InputError, match="n must be"):
        dptune.LossPrivatizer(ledger, n=10**400, clip=(0, 1))
    for low, high in ((0.5, 3.7), (1.0, 5.0), (1, 5.0)):
        with pytest.raises(dptune.InputError, match="must be whole"):
            dptune.Int(low, high)


@pytest.mark.parametrize("nowhere", [None, "", "  ", 3, b"ledger.db", "x\0y.db"])
def test_a_ledger_is_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: Any) -> None:
    monkeypatch.chdir(tmp_path)
    plan = dptune.ledger.SubsampledGaussianPlan(0.1, 1.0, 3)
    for use in (
        lambda: dptune.PrivacyLedger(nowhere, dptune.Budget.gdp(1.0)),
        lambda: dptune.PrivacyLedger(nowhere),
        lambda: dptune.ledger.PlanLedger(nowhere, plan, n=3),
        lambda: UserLedger(nowhere, cap=1.0),
        lambda: UserLedger(nowhere),
    ):
        with pytest.raises(dptune.InputError, match="environment variable"):
            use()
    assert list(tmp_path.iterdir()) == []
