"""Risk in words, against the attacks themselves and their closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from dptune.ledger import PlanLedger, Risk, SubsampledGaussianPlan
from dptune.ledger.dominating import Gaussian
from dptune.ledger.gdp import delta_from_mu
from dptune.training import TrainingLedger, TrainingPlan


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


def test_of_epsilon_is_no_smaller_than_any_mechanism_and_is_reached_by_randomized_response() -> None:
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
    training, federation = TrainingPlan(2.0, 0.05, 400), SubsampledGaussianPlan(0.25, 1.2, 40)
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
