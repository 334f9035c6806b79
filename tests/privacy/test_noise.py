"""The noise sources have the right scale. tests/audits/test_planted_bugs.py audits the law of the noise."""

import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import kstest

from dptune import InputError, LossPrivatizer
from dptune.audit.evidence import MISTAKE
from dptune.privacy import noise as module
from dptune.privacy.noise import (
    SLACK,
    OpenDPNoise,
    SecretSample,
    SeededNoise,
    laplace_scale,
    noise_scale,
)
from noises import NoNoise

ODD = (math.nan, math.inf, -math.inf)


def test_the_scale_is_sensitivity_over_mu_with_a_slack_upwards() -> None:
    for mu in (1e-3, 0.1, 1.0, 20.0):
        for p in (1, 40):
            sigma = noise_scale(sensitivity=0.3, mu=mu, dimension=p)
            assert 0.3 / mu * (1 + SLACK) <= sigma <= 0.3 / mu * (1 + 2 * SLACK)


def test_opendp_itself_accounts_for_the_same_scales() -> None:
    """As OpenDP computes it, grid included: zCDP of Gaussian noise is mu^2/2, and Laplace noise has epsilon."""
    p, mu = 5, 0.7
    sigma = noise_scale(sensitivity=1.0, mu=mu, dimension=p)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=p)
    rho = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=-40).map(1.0 / sigma)
    assert rho <= mu**2 / 2
    assert rho == pytest.approx(mu**2 / 2, rel=1e-5)

    for epsilon in (1e-3, 0.1, 2.0):
        scale = laplace_scale(sensitivity=0.3, epsilon=epsilon)
        domain = dp.atom_domain(T=float, nan=False)
        spent = dp.m.make_laplace(domain, dp.absolute_distance(T=float), scale=1.0, k=-40).map(0.3 / scale)
        assert epsilon * (1 - 2 * SLACK) <= spent <= epsilon


@pytest.mark.parametrize(("noise", "scale"), [(OpenDPNoise(), 1e-9), (SeededNoise(0), 4.0)])
def test_laplace_noise_has_the_law_of_laplace(noise: Any, scale: float) -> None:
    drawn = np.array([noise.add_laplace(7.0 * scale, scale) for _ in range(1500)]) / scale
    assert kstest(drawn, "laplace", args=(7.0, 1.0)).pvalue > MISTAKE
    assert np.abs(drawn - 7.0).mean() / drawn.std() < 0.77  # .707 with a scatter of .009; of normal noise .798


REFUSED: list[tuple[Callable[[], object], str]] = [
    *((lambda bad=bad: OpenDPNoise().add_laplace(bad, 1.0), "must be finite") for bad in ODD),
    *((lambda bad=bad: OpenDPNoise().add_gaussian(np.array([0.0, bad]), 1.0), "must be finite") for bad in ODD),
    *((lambda bad=bad: OpenDPNoise().noisy_argmin(np.array([0.0, bad]), 1.0), "must be finite") for bad in ODD),
]


def test_invalid_prices_seeds_and_statistics_are_refused() -> None:
    """No message quotes a statistic."""
    for draw, word in REFUSED:
        with pytest.raises(InputError) as refused:
            draw()
        assert word in str(refused.value)
        assert not re.search(r"nan|\binf", str(refused.value))
    with pytest.raises(TypeError):
        OpenDPNoise(1)


@pytest.mark.parametrize("sigma", [1e-12, 3.0, 1e12])
def test_the_noise_is_around_the_statistic_at_every_scale(sigma: float) -> None:
    statistic = np.array([-3.0, 0.0, 7.5]) * sigma
    before = statistic.copy()
    noisy = OpenDPNoise().add_gaussian(statistic, sigma)
    assert (np.abs(noisy - statistic) < 9 * sigma).all()  # beyond by chance 7e-19
    assert (noisy != statistic).all()  # equal by chance 1e-12: the grid has 2^40 steps in a sigma
    assert (statistic == before).all()


def test_seeded_noise_is_reproducible_and_a_copy_restarts_from_the_seed() -> None:
    noise = SeededNoise(1)
    first, other = (source.add_gaussian(np.zeros(1000), 2.0) for source in (noise, SeededNoise(2)))
    assert (first != other).all()
    assert np.std(first) == pytest.approx(2.0, rel=0.1)
    assert (pickle.loads(pickle.dumps(noise)).add_gaussian(np.zeros(1000), 2.0) == first).all()


class Boasting(OpenDPNoise):
    private = True


@pytest.mark.parametrize("noise", [SeededNoise(1), NoNoise(), Boasting()], ids=lambda noise: type(noise).__name__)
def test_every_noise_but_opendps_stamps_every_charge(privatizer: Callable[..., LossPrivatizer], noise: Any) -> None:
    mine = privatizer(noise=noise)
    mine.observe("x", np.zeros(4))
    assert not mine.private
    assert not mine.release(mine.mean_query("x", 1.0), scope="s", key="k").charge.private
    assert not mine.ledger.private
    assert "NOT PRIVATE" in mine.ledger.statement(delta=1e-5).to_text()
    assert "NOT PRIVATE" in repr(mine)


# ---- secret samples: Bernoulli(q), independent, never more often than q, unseeded --------------------


def test_the_probability_is_rounded_down_and_its_ends_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SecretSample().draw(1000, 1.0).all()
    assert SecretSample().draw(0, 0.5).shape == (0,)
    q = 0.3
    at_threshold = int(q * 2**53)
    for uniform, expected in ((at_threshold, False), (at_threshold - 1, True)):
        monkeypatch.setattr(module.os, "urandom", lambda n, u=uniform: np.uint64(u << 11).tobytes())
        assert SecretSample().draw(1, q).tolist() == [expected]
