"""The law of the noise as released, on people whose losses are all zero; and what an adversary proves of mu from it.

Shorter runs of these audits, and that of forks, are in test_planted_bugs.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from audit_tools import answers, audit_lower_bound, audit_noise_law, complaints, lower_bound

from dptune.privacy import Interval, MeanQuery


@pytest.mark.slow
def test_vector_noise_keeps_its_law_over_many_releases() -> None:
    """72,000 draws: a variance that is 3% off is found."""
    audit_noise_law(radius=1.0, releases=6000)


def test_scalar_noise_is_normal_with_the_promised_variance() -> None:
    n, mu = 50, 0.4
    query = MeanQuery(("x",), np.ones((1, 1)), Interval(0.0, 1.0), mu)
    assert complaints(answers(query, np.zeros((1, n)), 1000, (0.0, 1.0)).ravel() * n * mu) == []


# ---- a lower bound on mu; each test is wrong once in 10^6 runs, by Clopper and Pearson ----------------


@pytest.mark.slow  # with 1200 releases it is one of the audits of test_planted_bugs.py
@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize(
    ("mu", "count"),
    [
        pytest.param(0.5, 100_000, marks=pytest.mark.minutes),
        pytest.param(1.0, 40_000, marks=pytest.mark.minutes),
        (3.0, 6000),  # .92 in the mean, with a scatter of .012
    ],
)
def test_with_many_releases_the_proven_mu_comes_near(kind: str, mu: float, count: int) -> None:
    bound = audit_lower_bound(kind, mu=mu, count=count)
    print(f"{kind}: claimed {mu}, proven {bound:.3f}")
    assert bound > 0.85 * mu  # at mu = .5, where it is hardest, .92 in the mean with a scatter of .012


def test_the_bound_itself_is_right_on_the_gaussian_mechanism() -> None:
    rng, mu = np.random.default_rng(0), 2.0
    for _ in range(20):
        proven = lower_bound(rng.normal(0, 1, 3000), rng.normal(mu, 1, 3000), mu / 2)
        assert 0.8 * mu < proven < mu


def test_the_bound_is_finite_when_the_errors_are_never_made() -> None:
    proven = lower_bound(np.zeros(1000), np.ones(1000), 0.5)
    assert 4 < proven < 5  # 1000 of 1000: an error rate up to 1.4% is possible at this confidence
