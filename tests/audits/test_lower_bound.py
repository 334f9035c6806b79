"""What an adversary with thousands of releases proves about mu, on the worst pair of neighbours.

Each test is wrong once in 10^6 runs by the Clopper-Pearson bound, if the promise is true.
"""

from __future__ import annotations

import numpy as np
import pytest
from audit_tools import audit_lower_bound, lower_bound


@pytest.mark.slow  # with 1200 releases it is one of the audits of test_planted_bugs.py
@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize(("mu", "count"), [(0.5, 100_000), (1.0, 40_000), (3.0, 20_000)])
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
