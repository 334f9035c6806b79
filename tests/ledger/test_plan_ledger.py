"""A ledger stores one plan of subsampled releases, whose price equals published figures."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from audit_tools import run_forked
from benchmarks.federated.moments import epsilon_moments_accountant
from dptune import InputError, LossPrivatizer, PlanComplete
from dptune.ledger.events import GaussianRelease, SubsampledGaussianRelease
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian, epsilon_pld, least_noise
from refusals import refused

PLAN = SubsampledGaussian(q=0.35, z=1.0, steps=3)
EVENT = SubsampledGaussianRelease(0.35, 1.0, 2.0, 2.1, 4, "sums")


@pytest.fixture
def ledger(fast_path: Path) -> PlanLedger:
    return PlanLedger(fast_path / "plan.db", PLAN, n=np.int64(29))


def test_rounds_are_counted_in_order_and_none_past_the_plan(ledger: PlanLedger) -> None:
    charge = partial(ledger.charge, event=EVENT, digest="d")
    refused(InputError, "in order", lambda: charge(1))
    charges = [charge(t) for t in range(3)]
    refused(PlanComplete, "last round of the plan is 2", *(partial(charge, t) for t in (3, 17)))
    refused(InputError, "round", *(partial(charge, t) for t in (-1, 1.5, True)))
    assert ledger.charges() == charges


def test_nothing_but_the_plans_mechanism_is_charged(ledger: PlanLedger) -> None:
    for q, z in ((0.4, 1.0), (0.35, 1.5), (0.35, 0.5)):
        event = replace(EVENT, q=q, z=z, sigma=9.0)  # its own noise suffices
        said = rf"the plan is q=0\.35, z=1\.0; got q={q}, z={z}\."
        refused(InputError, said, partial(ledger.charge, 0, event, digest="d"))
    for change in ({"sigma": 1.9}, {"sensitivity": 0.0}, {"sigma": float("nan")}):
        refused(InputError, "noise", partial(ledger.charge, 0, replace(EVENT, **change), digest="d"))
    other = GaussianRelease(1.0, 1.0, 1.0, 1, "x")
    refused(InputError, "nothing else", lambda: ledger.charge(0, other, digest="d"))
    refused(InputError, "PrivacyLedger", lambda: LossPrivatizer(ledger, n=29, clip=(0, 1)))
    assert ledger.charges() == []


def test_the_least_noise_for_an_epsilon() -> None:
    """To 0.1% and rounded up, of a price that is worked out by hand."""
    assert 2.0 <= least_noise(lambda z: 10 / z, 5.0) <= 2.002
    refused(InputError, "epsilon=", *(partial(least_noise, lambda z: 10 / z, e) for e in (0.0, float("inf"), 1e-7)))


# ---- the subsampled Gaussian -----------------------------------------------------------------------------


DELTA = 200**-1.1


PUBLISHED = [  # q, z, classic accountant, PLD (DP-FTS-DE: N = 200, T = 40)
    (0.15, 1.0, "5.93", "3.964"),
    (0.5, 1.0, "20.12", "15.710"),
    (0.25, 1.5, "5.22", "3.597"),
]


@pytest.mark.parametrize(("q", "z", "classic", "pld"), PUBLISHED)
def test_published_figures(q: float, z: float, classic: str, pld: str) -> None:
    plan = SubsampledGaussian(q, z, 40)
    assert f"{epsilon_moments_accountant(plan, DELTA):.2f}" == classic
    assert f"{epsilon_pld(plan, DELTA):.3f}" == pld


def test_a_delta_that_is_no_probability_is_refused() -> None:
    plan = SubsampledGaussian(0.5, 1.0, 2)
    for epsilon in (epsilon_pld, epsilon_moments_accountant):
        refused(InputError, "delta", *(partial(epsilon, plan, delta) for delta in (0.0, 1.0)))


def test_missing_extra_says_what_to_install() -> None:
    done = run_forked(f"""
import sys
from dptune.ledger.subsampled import SubsampledGaussian, epsilon_pld
sys.modules["dp_accounting"] = None
epsilon_pld(SubsampledGaussian(0.5, 1.0, 2), {DELTA})
""")
    assert 'MissingExtra: PLD accounting needs dp-accounting: pip install "dptune[federated]"' in done.stdout
