"""The law of the noise as released, on people whose losses are all zero."""

from __future__ import annotations

import numpy as np
import pytest
from audit_tools import FreeLedger, audit_fork, audit_noise_law
from scipy.stats import chi2, kstest, norm

from dptune import LossPrivatizer


@pytest.mark.parametrize("radius", [1.0, 500.0], ids=["sigma=0.02", "sigma=10"])
def test_vector_noise_is_normal_with_the_promised_variance_and_independent(radius: float) -> None:
    audit_noise_law(radius=radius)


@pytest.mark.slow
@pytest.mark.parametrize("radius", [1.0, 500.0], ids=["sigma=0.02", "sigma=10"])
def test_vector_noise_keeps_its_law_over_many_releases(radius: float) -> None:
    audit_noise_law(radius=radius, releases=20_000)


@pytest.mark.parametrize(("clip", "n", "mu"), [((0.0, 1.0), 50, 0.4), ((0.0, 100.0), 4, 2.0)])
def test_scalar_noise_is_normal_with_the_promised_variance(clip: tuple[float, float], n: int, mu: float) -> None:
    privatizer = LossPrivatizer(FreeLedger(), n=n, clip=clip)
    privatizer.observe("x", np.zeros(n))
    query, T = privatizer.mean_query("x", mu), 1500
    values = np.array([privatizer.release(query, scope="null", key=str(t)).scalar for t in range(T)])
    z = values / ((clip[1] - clip[0]) / (n * mu))
    assert min(chi2.cdf(z @ z, T), chi2.sf(z @ z, T)) > 1e-7
    assert kstest(z, norm.cdf).pvalue > 1e-7
    assert abs(z[1:] @ z[:-1]) / T**0.5 < 6


def test_a_forked_child_draws_other_noise() -> None:
    audit_fork()


def test_two_privatizers_draw_other_noise() -> None:
    drawn = set()
    for _ in range(3):
        privatizer = LossPrivatizer(FreeLedger(), n=1, clip=(0.0, 1.0))
        privatizer.observe("x", [0.5])
        drawn.add(privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1").scalar)
    assert len(drawn) == 3
