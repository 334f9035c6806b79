"""Risk in words, against the attacks themselves and their closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dptune.accounting.gdp import delta_from_mu
from dptune.certificate import Risk


def best_attacks(mu: float) -> tuple[np.ndarray, np.ndarray]:
    """False and true positives of every threshold between N(0, 1) and N(mu, 1)."""
    thresholds = np.linspace(-10, 10 + mu, 200_001)
    return norm.sf(thresholds), norm.sf(thresholds, loc=mu)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_of_mu_is_what_the_best_threshold_reaches(mu: float) -> None:
    fpr, tpr = best_attacks(mu)
    risk = Risk.of_mu(mu)
    assert risk.advantage == pytest.approx(float((tpr - fpr).max()), abs=1e-7)
    assert risk.detected == pytest.approx(float(np.interp(0.01, fpr[::-1], tpr[::-1])), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 1000.0])
def test_of_epsilon_is_no_smaller_than_any_mechanism_that_keeps_it(epsilon: float) -> None:
    mu = min(epsilon / 4, 5.0)
    risk, true = Risk.of_epsilon(epsilon, delta_from_mu(mu, epsilon)), Risk.of_mu(mu)
    assert true.advantage <= risk.advantage <= 1
    assert true.detected <= risk.detected <= 1


def test_of_epsilon_is_reached_by_randomized_response() -> None:
    epsilon = 1.2
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert Risk.of_epsilon(epsilon, 0.0).advantage == pytest.approx(2 * true - 1)
    assert Risk.of_epsilon(epsilon, 0.0).detected == pytest.approx(0.01 * math.exp(epsilon))


def test_the_words_of_mu_one() -> None:
    words = str(Risk.of_mu(1.0))
    assert "right at most 69.2 times in 100" in words
    assert "attack advantage at most 0.383" in words
    assert "at most 9.24 true ones" in words
