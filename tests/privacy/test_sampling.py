"""Secret samples: Bernoulli(q), independent, never more often than q, unseeded."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.stats import binom

from dptune.privacy import noise
from dptune.privacy.noise import SecretSample, SeededSample, is_secret

DRAWS, N, MISTAKE = 4000, 30, 1e-7


@pytest.mark.parametrize("q", [0.02, 0.35, 0.9])
def test_each_agent_is_drawn_with_probability_q_on_its_own(q: float) -> None:
    drawn = np.array([SecretSample().draw(N, q) for _ in range(DRAWS)])  # (draws, N)
    low, high = binom.ppf([MISTAKE, 1 - MISTAKE], DRAWS * N, q)
    assert low <= drawn.sum() <= high
    for count in drawn.sum(axis=0):
        assert binom.ppf(MISTAKE, DRAWS, q) <= count <= binom.isf(MISTAKE, DRAWS, q)
    for count in (drawn[:, 1:] & drawn[:, :-1]).sum(axis=0):  # two agents together
        assert binom.ppf(MISTAKE, DRAWS, q * q) <= count <= binom.isf(MISTAKE, DRAWS, q * q)
    sizes = drawn.sum(axis=1)  # the size of the sample is binomial, not fixed
    assert 0.8 < sizes.var() / (N * q * (1 - q)) < 1.25


def test_the_ends() -> None:
    assert SecretSample().draw(1000, 1.0).all()
    assert SecretSample().draw(0, 0.5).shape == (0,)


def test_the_probability_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    q = 0.3
    at_threshold = int(q * 2**53)
    for uniform, expected in ((at_threshold, False), (at_threshold - 1, True)):
        monkeypatch.setattr(noise.os, "urandom", lambda n, u=uniform: np.uint64(u << 11).tobytes())
        assert SecretSample().draw(1, q).tolist() == [expected]


def test_only_the_secret_sample_is_private_and_no_seed_reaches_it() -> None:
    assert is_secret(SecretSample())
    assert not is_secret(SeededSample(0))
    assert np.array_equal(SeededSample(3).draw(50, 0.5), SeededSample(3).draw(50, 0.5))
    np.random.seed(0)
    first = SecretSample().draw(200, 0.5)
    np.random.seed(0)
    assert not np.array_equal(first, SecretSample().draw(200, 0.5))
    assert noise.os is os
