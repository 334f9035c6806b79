"""An adversary proves less than the claim from the outputs of a whole selection, unless a bug is planted."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from dptune.privacy.noise import SeededNoise
from dptune.training import Repeats, SelectionPlan, TrainingPlan
from dptune.training.profiles import epsilon_of
from training_tools import proved, selections

pytestmark = pytest.mark.slow  # half a minute

LAW, N, COUNT, FEW, DELTA = Repeats.geometric(6), 20, 3000, 1000, 0.01
RANDOM = np.random.default_rng(0)
NOISE = SeededNoise(0)  # OpenDP's law is audited elsewhere, and is slow in such numbers


@cache
def models(canary: int, noise: float, count: int) -> np.ndarray:
    """Training half: one DP-SGD step on one coordinate; the canary's gradient is the whole clipping norm.

    The losses of the scoring people are a function of the model, and the worst one: the largest model wins.
    """

    def once() -> tuple[dict[str, Any], float, np.ndarray]:
        model = float(canary + noise * RANDOM.normal())
        return {}, model, np.full(N, 0.5 - model / 50)

    made = selections(once, count, law=LAW, n=N, score_mu=1e4, noise=NOISE)
    return np.array([each.model for each in made])


def scores(canary: float, score_mu: float, count: int) -> np.ndarray:
    """Validation half: one of N people has the loss 1, or is removed, which counts as .5."""
    losses = np.zeros(N)
    losses[0] = canary
    made = selections(lambda: ({}, "", losses), count, law=LAW, n=N, score_mu=score_mu, noise=NOISE)
    return np.array([each.score for each in made])


def training_claim(noise: float, rate: float = 1.0) -> float:
    return epsilon_of([SelectionPlan(LAW, TrainingPlan(noise, rate, 1))], DELTA)


def scoring_claim(score_mu: float) -> float:
    return epsilon_of([SelectionPlan(LAW, score_mu=score_mu)], DELTA)


# Each bar is more than five standard deviations from what is proved in the mean.


def test_both_halves_keep_their_claim() -> None:
    train = proved(models(0, 0.5, COUNT), models(1, 0.5, COUNT), DELTA)
    val = proved(scores(0.5, 2.0, COUNT), scores(1, 2.0, COUNT), DELTA)
    print(f"training: {train:.2f} of {training_claim(0.5):.2f}; validation: {val:.2f} of {scoring_claim(2.0):.2f}")
    assert 0 < train <= training_claim(0.5)
    assert 0 < val <= scoring_claim(2.0)


def test_an_eighth_of_the_noise_is_found() -> None:
    assert proved(models(0, 0.25, FEW), models(1, 0.25, FEW), DELTA) > training_claim(2.0)
    assert proved(scores(0.5, 4.0, FEW), scores(1, 4.0, FEW), DELTA) > scoring_claim(0.5)


def test_a_wrong_sampling_rate_is_found() -> None:
    """Everybody in every step, where a fiftieth was planned."""
    assert proved(models(0, 0.5, COUNT), models(1, 0.5, COUNT), DELTA) > training_claim(0.5, 0.02)


def test_a_best_that_is_shown_with_its_own_score_is_found() -> None:
    assert proved(scores(0.5, 1e9, FEW), scores(1, 1e9, FEW), DELTA) > scoring_claim(0.5)
