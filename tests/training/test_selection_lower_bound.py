"""What an adversary proves about a whole selection from its outputs alone: below the claim, unless a bug is planted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from dptune.privacy.noise import SeededNoise
from dptune.training import Repeats, SelectionPlan, TrainingPlan
from dptune.training import select as implementation
from dptune.training.profiles import epsilon_of

pytestmark = pytest.mark.slow  # a minute

LAW, N, COUNT, DELTA, SCORE = Repeats.geometric(6), 20, 4000, 0.01, 0.5
RANDOM = np.random.default_rng(0)
NOISE = SeededNoise(0)  # OpenDP's law is audited elsewhere, and is slow in such numbers


def selections(once: Callable[[], Any], score_mu: float) -> list[Any]:
    """COUNT selections, as repeat_and_select makes them between charge and record."""
    score = implementation._score(implementation.Interval(0.0, 1.0), N, score_mu, NOISE)
    return [implementation._best(once, LAW.draw(), score) for _ in range(COUNT)]


def models(canary: int, noise: float) -> np.ndarray:
    """Training half: one DP-SGD step on one coordinate; the canary's gradient is the whole clipping norm.

    The losses of the scoring people are a function of the model, and the worst one: the largest model wins.
    """

    def once() -> tuple[dict[str, Any], float, np.ndarray]:
        model = float(canary + noise * RANDOM.normal())
        return {}, model, np.full(N, 0.5 - model / 50)

    return np.array([each.model for each in selections(once, score_mu=1e4)])


def scores(canary: int, score_mu: float) -> np.ndarray:
    """Validation half: one of N people has the loss 1 instead of 0."""
    losses = np.zeros(N)
    losses[0] = canary
    return np.array([each.score for each in selections(lambda: ({}, "", losses), score_mu)])


def proved(a: np.ndarray, b: np.ndarray) -> float:
    """Epsilon at DELTA proved with confidence 1 - 1e-6 in the second half; the first chooses the thresholds."""
    found = 0.0
    for x, y in ((a, b), (b, a), (-a, -b), (-b, -a)):
        t = max(np.quantile(x, np.linspace(0.02, 0.98, 49)), key=lambda t: ratio(x[::2] > t, y[::2] > t, 0.1))
        found = max(found, ratio(x[1::2] > t, y[1::2] > t, 1e-6))
    return found


def ratio(hits: np.ndarray, misses: np.ndarray, error: float) -> float:
    k, m, n = hits.sum(), misses.sum(), len(hits)
    low = float(beta.ppf(error / 2, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(1 - error / 2, m + 1, n - m)) if m < n else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else 0.0


TRAINING = epsilon_of([SelectionPlan(LAW, TrainingPlan(2.0, 1.0, 1))], DELTA)
SCORING = epsilon_of([SelectionPlan(LAW, score_mu=SCORE)], DELTA)


def test_both_halves_keep_their_claim() -> None:
    train, val = proved(models(0, 2.0), models(1, 2.0)), proved(scores(0, SCORE), scores(1, SCORE))
    print(f"training: {train:.2f} of {TRAINING:.2f} proved; validation: {val:.2f} of {SCORING:.2f}")
    assert 0 < train <= TRAINING
    assert 0 < val <= SCORING


def test_an_eighth_of_the_noise_is_found() -> None:
    assert proved(models(0, 0.25), models(1, 0.25)) > TRAINING
    assert proved(scores(0, 8 * SCORE), scores(1, 8 * SCORE)) > SCORING
