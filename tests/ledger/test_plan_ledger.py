"""A ledger that holds one plan of subsampled releases: counted, in order, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptune import InputError, LossPrivatizer, PlanComplete
from dptune.ledger import subsampled
from dptune.ledger.events import GaussianRelease, SubsampledGaussianRelease
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussianPlan, epsilon_pld, noise_multiplier

PLAN = SubsampledGaussianPlan(q=0.35, z=1.0, steps=3)
EVENT = SubsampledGaussianRelease(0.35, 1.0, 2.0, 2.1, 4, "sums")


@pytest.fixture
def ledger(fast_path: Path) -> PlanLedger:
    return PlanLedger(fast_path / "plan.db", PLAN, n=np.int64(29))


def test_rounds_are_counted_in_order_and_none_past_the_plan(ledger: PlanLedger) -> None:
    with pytest.raises(InputError, match="in order"):
        ledger.charge(1, EVENT, digest="d")
    charges = [ledger.charge(t, EVENT, digest="d") for t in range(3)]
    for t in (3, 17):
        with pytest.raises(PlanComplete, match="3 rounds"):
            ledger.charge(t, EVENT, digest="d")
    assert ledger.charges() == charges == [ledger.round(t) for t in range(3)]
    for t in (-1, 1.5, True):
        with pytest.raises(InputError, match="round"):
            ledger.charge(t, EVENT, digest="d")


def test_nothing_but_the_plans_mechanism_is_charged(ledger: PlanLedger) -> None:
    for change in ({"q": 0.4}, {"z": 2.0}, {"sigma": 1.9}, {"sensitivity": 0.0}, {"sigma": float("nan")}):
        with pytest.raises(InputError):
            ledger.charge(0, replace(EVENT, **change), digest="d")
    with pytest.raises(InputError, match="nothing else"):
        ledger.charge(0, GaussianRelease(1.0, 1.0, 1.0, 1, "x"), digest="d")
    with pytest.raises(InputError, match="PrivacyLedger"):
        LossPrivatizer(ledger, n=29, clip=(0, 1))
    assert ledger.charges() == []


def test_the_statement_says_who_is_protected_from_whom(ledger: PlanLedger) -> None:
    ledger.charge(0, EVENT, digest="d")
    statement = ledger.statement(delta=0.01)
    text, data = str(statement), json.loads(statement.to_json())
    assert statement.epsilon == data["epsilon"] == epsilon_pld(PLAN, 0.01)
    said = ("one agent", "zero out", "trusted server", "1 of 3 releases", "q = 0.35, z = 1, 3 releases")
    not_covered = ("own queries and trials", "several agents hold", "deleted or copied", "how long the server computes")
    assert all(words in text for words in (*said, *not_covered))
    assert "mu" not in text.replace("sums", "")
    assert "DELTA IS TOO LARGE" in ledger.statement(delta=1 / 29).to_text()


def test_the_least_noise_for_an_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """To 0.1% and rounded up, of a price that is worked out by hand."""
    monkeypatch.setattr(subsampled, "epsilon_pld", lambda plan, delta: plan.q * plan.steps / plan.z / (20 * delta))
    assert 2.0 <= noise_multiplier(q=0.5, steps=20, epsilon=5.0, delta=0.05) <= 2.002
    for epsilon in (0.0, float("inf"), 1e-7):
        with pytest.raises(InputError, match="epsilon="):
            noise_multiplier(q=0.5, steps=20, epsilon=epsilon, delta=0.05)
