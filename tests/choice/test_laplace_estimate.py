"""The estimate of a choice that has all of a budget in (epsilon, delta): Laplace noise, its share, its interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from noises import NoNoise

import dptune
from dptune.choice import planning
from dptune.ledger.gdp import bounded_range_from_mu

N, PEOPLE, CANDIDATES = 60, 80, 12
PAIR = dptune.Budget.approximate_dp(1.0, 1e-5)


def losses(seed: int, rows: int, candidates: int = CANDIDATES) -> np.ndarray:
    """Losses (candidates, rows): the default, 0, is bad and the others get better with their place."""
    level = np.linspace(1.0, 0.4, candidates)[:, None]
    return np.abs(level + 0.3 * np.random.default_rng(seed).standard_normal((candidates, rows)))


def people(folder: Path, budget: dptune.Budget, noise: NoNoise | None = None) -> dptune.LossPrivatizer:
    return dptune.LossPrivatizer(dptune.PrivacyLedger(folder / "ledger.db", budget), n=PEOPLE, noise=noise)


@pytest.mark.parametrize(
    ("budget", "asked", "share"),
    [
        (PAIR, {}, 0.1),
        (dptune.Budget.approximate_dp(18.0, 1e-5), {}, 0.25),  # n eta = 80 x 13.5
        (PAIR, {"report_share": 0.3}, planning.USUAL_SHARE),
        (PAIR, {"mu": 0.2}, planning.USUAL_SHARE),
        (dptune.Budget.gdp(0.25), {}, planning.USUAL_SHARE),
    ],
)
def test_noise_is_laplace_where_choice_and_estimate_have_all_of_a_pair(
    tmp_path: Path, budget: dptune.Budget, asked: dict[str, float], share: float
) -> None:
    V = np.repeat(losses(2, N, 1), CANDIDATES, axis=0)  # there is nothing to show
    choice = dptune.PublicChoice(V, people(tmp_path, budget), name="x", default=0, **asked)
    plan = choice._plan
    assert (plan.share, plan.laplace) == (share, share in planning.USUAL_OF_ETA)
    assert plan.estimate_mu > 0
    if plan.laplace:
        assert bounded_range_from_mu(plan.choice_mu) == pytest.approx((1 - share) * bounded_range_from_mu(plan.mu))
    else:
        assert plan.choice_mu == pytest.approx(plan.mu * (1 - share) ** 0.5)


def test_choice_and_laplace_estimate_take_all_of_the_pair(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), people(tmp_path, PAIR, noise=NoNoise())
    choice = dptune.PublicChoice(V, p, name="x", default=0)
    plan, eta = choice._plan, bounded_range_from_mu(choice._plan.mu)
    found = choice.choose({j: L[j] for j in choice.to_train})
    made, told = p.ledger.charges("x")
    assert (made.mu, told.mu) == (None, None)
    assert made.description["eta"] + told.description["epsilon"] == pytest.approx(eta)
    assert told.description["epsilon"] == pytest.approx(plan.share * eta)
    scale = 2 * plan.estimate_radius / (PEOPLE * told.description["epsilon"])
    assert told.description["scale"] == pytest.approx(scale, rel=1e-5)
    assert found.improvement is not None
    assert found.improvement.sigma == pytest.approx(2**0.5 * scale, rel=1e-5)
    low, high = found.improvement.interval()
    assert (high - low) / 2 == pytest.approx(scale * np.log(20), rel=1e-5)
    assert 0.9999 < p.ledger.spent() / p.ledger.mu <= 1
    assert choice.outlook.shows == pytest.approx(scale * (np.log(20) + np.log(10)), rel=1e-5)
    assert dptune.PublicChoice(V, p, name="x", default=0).recorded() == found


def test_a_share_that_laplace_noise_cannot_have_is_refused(tmp_path: Path) -> None:
    p = people(tmp_path, PAIR)
    with pytest.raises(dptune.errors.InputError, match=r"estimate_share must be at most 0.5 .* Nothing was charged"):
        dptune.PublicChoice(losses(0, N), p, name="x", default=0, estimate_share=0.6)
    assert dptune.PublicChoice(losses(0, N), p, name="x", default=0, estimate_share=0.5)._plan.laplace


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 7.0])
def test_half_of_eta_for_the_estimate_is_no_rounding_error_too_much(tmp_path: Path, epsilon: float) -> None:
    L, p = losses(1, PEOPLE), people(tmp_path, dptune.Budget.approximate_dp(epsilon, 1e-5), noise=NoNoise())
    choice = dptune.PublicChoice(losses(0, N), p, name="x", default=0, estimate_share=0.5)
    assert choice.choose({j: L[j] for j in choice.to_train}).improvement is not None
