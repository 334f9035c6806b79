"""Every kind of statement has the epsilon of the requested delta, which independent references compute.

The Gaussian curve is integrated by bisection on Dong, Roth and Su's formula, plans and their compositions by
dp-accounting. Neither the number, the text nor the JSON of a statement keeps an epsilon of another delta. The risk in
words is that of the attacks.
"""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.stats import norm

from dptune import Budget, PrivacyLedger
from dptune._numbers import rounded_up
from dptune.ledger import PlanLedger, Risk, SubsampledGaussian
from dptune.ledger.dominating import Gaussian
from dptune.ledger.gdp import delta_from_mu
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from ledger_tools import pay

DELTAS = (1e-5, 1e-3, 1e-9)
Z, Q, STEPS, MU = 2.0, 0.1, 5, 0.5


def gaussian(mu: float, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)) - delta

    return float(brentq(excess, 0.0, 30 * mu, xtol=1e-12))


def plan(delta: float, *, times: int = 1, mu: float = 0.0) -> float:
    return float(accountant(times, mu).get_epsilon(delta))


@cache
def accountant(times: int, mu: float) -> PLDAccountant:
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(Q, GaussianDpEvent(Z)), STEPS * times))
    if mu:
        accountant.compose(GaussianDpEvent(1 / mu))
    return accountant


def tuning(folder: Path) -> PrivacyLedger:
    return PrivacyLedger(folder / "val.db", Budget.gdp(MU), dataset="val")


def trainings(folder: Path) -> TrainingLedger:
    return TrainingLedger(folder / "train.db", TrainingPlan(Z, Q, STEPS, trainings=3), n=900)


def stated(folder: Path) -> PrivacyLedger:
    """After a Gaussian release: the budget is not divided, so one Gaussian bounds all that may follow."""
    ledger = PrivacyLedger(folder / "stated.db", Budget.approximate_dp(2.0, 1e-6), dataset="stated")
    pay(ledger, "first", 0.1)
    return ledger


KINDS: dict[str, tuple[Callable[[Path, float], Any], Callable[[float], float]]] = {
    "a budget in GDP": (lambda f, d: tuning(f).statement(delta=d), lambda d: gaussian(MU, d)),
    "a budget at another delta": (
        lambda f, d: stated(f).statement(delta=d),
        lambda d: gaussian(brentq(lambda mu: gaussian(mu, 1e-6) - 2.0, 0.1, 1.0), d),
    ),
    "rounds of a federation": (
        lambda f, d: PlanLedger(f / "p.db", SubsampledGaussian(Q, Z, STEPS), n=900).statement(delta=d),
        plan,
    ),
    "trainings": (lambda f, d: trainings(f).statement(delta=d), lambda d: plan(d, times=3)),
    "disjoint people": (
        lambda f, d: join([trainings(f), tuning(f)], disjoint=True, delta=d),
        lambda d: max(plan(d, times=3), gaussian(MU, d)),
    ),
    "the same people": (
        lambda f, d: join([trainings(f), tuning(f)], delta=d),
        lambda d: plan(d, times=3, mu=MU * 0.5**0.5),  # removing, where reports may follow
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_is_that_of_the_asked_delta(kind: str, fast_path: Path) -> None:
    make, expected = KINDS[kind]
    statements = {delta: make(fast_path, delta) for delta in DELTAS}
    for delta, statement in statements.items():
        assert statement.delta == delta
        assert statement.epsilon == pytest.approx(expected(delta), rel=3e-3)
        data = statement.to_dict()
        assert data["delta"] == delta
        assert statement.epsilon in (data.get("epsilon"), data.get("budget", {}).get("epsilon"))
        for text in (statement.to_text(), statement.to_markdown()):
            assert f"epsilon = {rounded_up(statement.epsilon)} at delta = {rounded_up(delta, 6)}" in text
            others = {rounded_up(other.epsilon) for d, other in statements.items() if d != delta}
            assert not [other for other in others if f"epsilon = {other} at" in text]
    assert statements[1e-3].epsilon < statements[1e-5].epsilon < statements[1e-9].epsilon


def test_a_selection_costs_between_one_repeat_and_its_renyi_bound(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "s.db", SelectionPlan(Repeats.geometric(10), score_mu=MU), n=900)
    event = RepeatAndSelectDpEvent(GaussianDpEvent(1 / MU), 10, 1)
    for delta in DELTAS:
        renyi = RdpAccountant().compose(event).get_epsilon(delta)
        assert gaussian(MU, delta) < ledger.statement(delta=delta).epsilon < renyi


# ---- risk in words, against the attacks themselves and their closed forms -------------------------------------


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_of_mu_is_what_the_best_threshold_reaches(mu: float) -> None:
    thresholds = np.linspace(-10, 10 + mu, 200_001)  # between N(0, 1) and N(mu, 1)
    fpr, tpr = norm.sf(thresholds), norm.sf(thresholds, loc=mu)
    risk = Risk.of_mu(mu)
    assert risk.advantage == pytest.approx(float((tpr - fpr).max()), abs=1e-7)
    assert risk.detected == pytest.approx(float(np.interp(0.01, fpr[::-1], tpr[::-1])), abs=1e-6)
    found = Risk.of_curve(Gaussian(mu))  # by its profile: the same
    assert found.advantage == pytest.approx(risk.advantage, rel=1e-9)
    assert found.detected == pytest.approx(risk.detected, rel=1e-4)
    assert found.detected >= risk.detected * (1 - 1e-12)


def test_the_risk_of_epsilon_bounds_every_mechanism() -> None:
    """Randomized response reaches the bound."""
    for epsilon in (0.1, 5.0, 1000.0):
        mu = min(epsilon / 4, 5.0)
        risk, true = Risk.of_epsilon(epsilon, delta_from_mu(mu, epsilon)), Risk.of_mu(mu)
        assert true.advantage <= risk.advantage <= 1
        assert true.detected <= risk.detected <= 1
    reached = Risk.of_epsilon(1.2, 0.0)
    assert reached.advantage == pytest.approx(2 * math.exp(1.2) / (1 + math.exp(1.2)) - 1)
    assert reached.detected == pytest.approx(0.01 * math.exp(1.2))


def test_trainings_and_federations_state_the_risk_of_their_profile(fast_path: Path) -> None:
    """The pair alone allowed .81 where the training's whole profile has .21."""
    training, federation = TrainingPlan(2.0, 0.05, 400), SubsampledGaussian(0.25, 1.2, 40)
    train = TrainingLedger(fast_path / "t.db", training, n=900).statement(delta=1e-5)
    rounds = PlanLedger(fast_path / "f.db", federation, n=200).statement(delta=1e-5)
    assert Risk.of_epsilon(train.epsilon, train.delta).advantage == pytest.approx(0.81, abs=0.005)
    assert Risk.of_statement(train).advantage == pytest.approx(0.21, abs=0.005)
    for statement, event in ((train, training.event()), (rounds, federation.event())):
        risk, alone = Risk.of_statement(statement), Risk.of_epsilon(statement.epsilon, statement.delta)
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        exact = accountant.compose(event).get_delta(0.0)  # the total variation distance
        assert risk.advantage == pytest.approx(exact, rel=1e-9)
        assert risk.advantage < 0.7 * alone.advantage
        assert risk.detected < alone.detected
