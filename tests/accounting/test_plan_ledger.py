"""A ledger that holds one plan of subsampled releases: counted, in order, and nothing else."""

from __future__ import annotations

import json
import pickle
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audit_tools import start_forked

from dptune import Budget, InputError, LedgerError, LossPrivatizer, PlanComplete
from dptune.accounting.events import GaussianRelease, SubsampledGaussianRelease
from dptune.accounting.plan_ledger import PlanLedger
from dptune.accounting.subsampled import SubsampledGaussianPlan, epsilon_pld, noise_multiplier
from dptune.errors import BudgetMismatch, KeyConflict
from dptune.training.ledger import open_ledger

PLAN = SubsampledGaussianPlan(q=0.35, z=1.0, steps=3)
EVENT = SubsampledGaussianRelease(0.35, 1.0, 2.0, 2.1, 4, "sums")


@pytest.fixture
def ledger(fast_path: Path) -> PlanLedger:
    return PlanLedger(fast_path / "plan.db", PLAN, n=29)


def test_rounds_are_counted_in_order_and_none_past_the_plan(ledger: PlanLedger) -> None:
    with pytest.raises(InputError, match="in order"):
        ledger.charge(1, EVENT, digest="d")
    for t in range(3):
        assert ledger.charge(t, EVENT, digest="d").value is None
    for t in (3, 17):
        with pytest.raises(PlanComplete, match="3 rounds"):
            ledger.charge(t, EVENT, digest="d")
    assert len(ledger.charges()) == 3
    for t in (-1, 1.5, True):
        with pytest.raises(InputError, match="round"):
            ledger.charge(t, EVENT, digest="d")


def test_whether_noise_was_seeded_is_true_or_false(ledger: PlanLedger) -> None:
    with pytest.raises(InputError, match="private must be True or False"):
        ledger.charge(0, EVENT, digest="d", private="no")
    assert ledger.count() == 0


def test_a_retry_is_not_counted_and_gets_the_first_value(ledger: PlanLedger) -> None:
    first = ledger.charge(0, EVENT, digest="d")
    assert ledger.record(first, [1.0, 2.0]).value == (1.0, 2.0)
    assert ledger.record(first, [3.0, 4.0]).value == (1.0, 2.0)
    assert ledger.charge(0, EVENT, digest="d").value == (1.0, 2.0)
    assert len(ledger.charges()) == 1
    with pytest.raises(KeyConflict):
        ledger.charge(0, EVENT, digest="another question")
    with pytest.raises(KeyConflict):
        ledger.charge(0, EVENT, digest="d", private=False)
    found = ledger.round(0)
    assert found is not None
    assert found.value == (1.0, 2.0)
    assert found.mu is None, "a subsampled release has no price in GDP"


@pytest.mark.parametrize(
    "change", [{"q": 0.4}, {"z": 2.0}, {"sigma": 1.9}, {"sensitivity": 0.0}, {"sigma": float("nan")}]
)
def test_nothing_but_the_plans_mechanism_is_charged(ledger: PlanLedger, change: dict[str, float]) -> None:
    with pytest.raises(InputError):
        ledger.charge(0, replace(EVENT, **change), digest="d")
    with pytest.raises(InputError, match="nothing else"):
        ledger.charge(0, GaussianRelease(1.0, 1.0, 1.0, 1, "x"), digest="d")
    assert ledger.charges() == []


def test_plans_and_gdp_budgets_are_never_mixed(ledger: PlanLedger, fast_path: Path) -> None:
    with pytest.raises(InputError, match="PrivacyLedger"):
        LossPrivatizer(ledger, n=29, clip=(0, 1))
    with pytest.raises(LedgerError, match="no ledger"):
        open_ledger(fast_path / "none.db")


@pytest.mark.parametrize(
    "change",
    [{"plan": replace(PLAN, z=2.0)}, {"plan": replace(PLAN, steps=4)}, {"n": 30}, {"dataset": "b"}, {"unit": "c"}],
)
def test_it_is_fixed_for_good(ledger: PlanLedger, fast_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(BudgetMismatch):
        PlanLedger(fast_path / "plan.db", **{"plan": PLAN, "n": 29, **change})
    assert PlanLedger(fast_path / "plan.db").plan == PLAN
    assert PlanLedger(fast_path / "plan.db").n == 29


def test_it_cannot_be_made_without_a_plan_or_n(fast_path: Path) -> None:
    with pytest.raises(LedgerError, match="plan="):
        PlanLedger(fast_path / "new.db")
    for n in (None, 0, True, "3", 3.0):
        with pytest.raises(InputError, match="number of agents"):
            PlanLedger(fast_path / "new.db", PLAN, n=n)
    with pytest.raises(InputError, match="SubsampledGaussianPlan"):
        PlanLedger(fast_path / "new.db", Budget.gdp(1.0), n=3)
    assert not (fast_path / "new.db").exists()


def test_a_ledger_is_made_with_numpy_numbers(fast_path: Path) -> None:
    plan = SubsampledGaussianPlan(np.float64(0.35), np.float32(1.0), np.int64(3))
    ledger = PlanLedger(fast_path / "numpy.db", plan, n=np.int64(29))
    assert ledger.plan == PLAN
    assert PlanLedger(fast_path / "numpy.db", PLAN, n=29) == ledger


def test_copies_are_views(ledger: PlanLedger) -> None:
    copy = pickle.loads(pickle.dumps(ledger))
    copy.charge(0, EVENT, digest="d")
    assert len(ledger.charges()) == 1
    assert copy == ledger
    assert repr(copy) == repr(ledger)


CHARGE_ALL = """
    import sys
    from test_plan_ledger import EVENT, PLAN, PlanComplete, PlanLedger

    ledger, made = PlanLedger(sys.argv[1]), 0
    for t in range(PLAN.steps + 1):
        try:
            ledger.charge(t, EVENT, digest="d")
            made += 1
        except PlanComplete:
            pass
    print(made)
"""


def test_several_processes_count_together(ledger: PlanLedger, fast_path: Path) -> None:
    workers = [start_forked(textwrap.dedent(CHARGE_ALL), str(fast_path / "plan.db")) for _ in range(3)]
    assert [worker.wait().stdout for worker in workers] == ["3\n", "3\n", "3\n"]  # the same rounds
    assert len(ledger.charges()) == PLAN.steps


# ---- the statement ---------------------------------------------------------------------------------------


def test_the_statement_says_who_is_protected_from_whom(ledger: PlanLedger) -> None:
    ledger.charge(0, EVENT, digest="d")
    statement = ledger.statement(delta=0.01)
    assert statement.epsilon == epsilon_pld(PLAN, 0.01)
    text = str(statement)
    for words in ("one agent", "n = 29", "zero out", "trusted server", "1 of 3 releases"):
        assert words in text
    not_covered = ("own queries and trials", "several agents hold", "deleted or copied", "how long the server computes")
    assert all(words in text for words in not_covered)
    assert "q = 0.35, z = 1, 3 releases" in text
    assert statement.warnings == ()
    data = json.loads(statement.to_json())
    assert (data["epsilon"], data["releases"]) == (statement.epsilon, 1)
    assert "| Guarantee | epsilon = " in statement.to_markdown()
    assert "mu" not in text.replace("sums", "")


def test_a_delta_of_one_over_n_is_loudly_warned_of(ledger: PlanLedger) -> None:
    assert any("DELTA IS TOO LARGE" in w for w in ledger.statement(delta=1 / 29).warnings)
    assert "DELTA IS TOO LARGE" in ledger.statement(delta=0.5).to_text()
    assert ledger.statement(delta=1 / 30).warnings == ()
    with pytest.raises(InputError):
        ledger.statement(delta=1.0)


def test_insecure_noise_stamps_the_statement(ledger: PlanLedger) -> None:
    ledger.charge(0, EVENT, digest="d", private=False)
    statement = ledger.statement(delta=0.01)
    assert statement.epsilon == float("inf")
    assert "NOT PRIVATE" in statement.to_text()
    assert "NONE" in statement.to_text()
    assert json.loads(statement.to_json())["epsilon"] == "infinity"


def test_the_noise_multiplier_of_an_epsilon() -> None:
    z = noise_multiplier(q=0.35, steps=20, epsilon=5.0, delta=0.01)
    assert epsilon_pld(SubsampledGaussianPlan(0.35, z, 20), 0.01) <= 5.0
    assert epsilon_pld(SubsampledGaussianPlan(0.35, z / 1.002, 20), 0.01) > 5.0
    for epsilon in (0.0, float("inf"), 1e-7):
        with pytest.raises(InputError):
            noise_multiplier(q=0.35, steps=20, epsilon=epsilon, delta=1e-6)


def test_it_counts_on_postgresql_too(postgresql: Callable[[], str]) -> None:
    url = postgresql()
    ledger = PlanLedger(url, PLAN, n=29)
    with ThreadPoolExecutor(6) as pool:
        charges = list(pool.map(lambda _: PlanLedger(url).charge(0, EVENT, digest="d"), range(6)))
    assert {charge.seq for charge in charges} == {1}
    assert ledger.record(charges[0], [1.0]).value == (1.0,)
    for t in (1, 2):
        ledger.charge(t, EVENT, digest="d")
    with pytest.raises(PlanComplete):
        ledger.charge(3, EVENT, digest="d")
    assert isinstance(open_ledger(url), PlanLedger)
