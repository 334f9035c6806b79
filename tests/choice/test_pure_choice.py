"""A choice that has all of a budget in (epsilon, delta): permute-and-flip, an estimate with Laplace noise, shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from noises import NoNoise
from scipy.stats import beta, chi2

import dptune
from dptune.choice import planning
from dptune.choice.public import flip_law, law
from dptune.ledger.events import chooses, is_laplace
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import mu_from_pure, pure_from_mu
from dptune.privacy.mechanism import AnyQuery, Mechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.noise import NoiseSource, OpenDPNoise, SeededNoise
from dptune.privacy.query import Box, MeanQuery

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
        (dptune.Budget.approximate_dp(2.0, 1e-5), {}, 0.1),
        (dptune.Budget.approximate_dp(2.01, 1e-5), {}, planning.USUAL_SHARE),
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
    assert (plan.share, plan.pure) == (share, share in planning.USUAL_OF_PURE)
    assert plan.estimate_mu > 0
    if plan.pure:
        assert pure_from_mu(plan.mu) == pytest.approx(budget.stated_epsilon)
        assert plan.eta == pytest.approx((1 - share) * (budget.stated_epsilon or 0.0))
    else:
        assert plan.choice_mu == pytest.approx(plan.mu * (1 - share) ** 0.5)


@pytest.mark.parametrize(("n", "share"), [(300, 0.1), (1300, 0.1), (1400, 0.25), (10_000, 0.25)])
def test_the_usual_share_is_large_where_it_leaves_the_choice_enough(n: int, share: float) -> None:
    rest = Allowance(PAIR.mu, PAIR.mu, (), PAIR)
    assert planning.Prices.of(rest, planning.Wanted(None, 1.0, None, None), 1 / n).usual_share(n) == share


def test_choice_and_estimate_take_all_of_the_pair(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), people(tmp_path, PAIR, noise=NoNoise())
    choice = dptune.PublicChoice(V, p, name="x", default=0)
    plan = choice._plan
    found = choice.choose({j: L[j] for j in choice.to_train})
    made, told = p.ledger.charges("x")
    assert (made.mu, told.mu) == (None, None)
    assert made.description["epsilon"] + told.description["epsilon"] == pytest.approx(1.0)
    assert told.description["epsilon"] == pytest.approx(plan.share)
    scale = 2 * plan.estimate_radius / (PEOPLE * told.description["epsilon"])
    assert told.description["scale"] == pytest.approx(scale, rel=1e-5)
    assert found.improvement is not None
    assert found.improvement.sigma == pytest.approx(2**0.5 * scale, rel=1e-5)
    low, high = found.improvement.interval()
    assert (high - low) / 2 == pytest.approx(scale * np.log(20), rel=1e-5)
    assert p.ledger.spent() == pytest.approx(p.ledger.mu)
    assert choice.outlook.shows == pytest.approx(scale * (np.log(20) + np.log(10)), rel=1e-5)
    assert dptune.PublicChoice(V, p, name="x", default=0).recorded() == found
    assert found.method == "permute-and-flip"
    assert found.cost == "epsilon=1"


def test_without_a_default_all_of_epsilon_is_for_the_choice(tmp_path: Path) -> None:
    choice = dptune.PublicChoice(losses(0, N), people(tmp_path, PAIR), name="x")
    assert choice._plan.eta == pytest.approx(1.0)
    assert choice.choose({j: losses(1, PEOPLE)[j] for j in choice.to_train}).improvement is None


@pytest.mark.parametrize("more", [2.0, 3.0])
def test_a_budget_raised_between_plan_and_choice_asks_for_another_name(tmp_path: Path, more: float) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), people(tmp_path, PAIR)
    dptune.PublicChoice(V, p, name="x", default=0)
    p.ledger.raise_budget(dptune.Budget.approximate_dp(more, 1e-5))
    with pytest.raises(dptune.errors.BudgetMismatch, match="give this choice another name="):
        dptune.PublicChoice(V, p, name="x", default=0)
    again = dptune.PublicChoice(V, p, name="y", default=0)
    assert again.choose({j: L[j] for j in again.to_train}).cost == f"epsilon={more:g}"


def test_a_budget_raised_after_the_choice_changes_nothing_of_its_answer(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), people(tmp_path, PAIR)
    choice = dptune.PublicChoice(V, p, name="x", default=0)
    found = choice.choose({j: L[j] for j in choice.to_train})
    p.ledger.raise_budget(dptune.Budget.approximate_dp(3.0, 1e-5))
    assert dptune.PublicChoice(V, p, name="x", default=0).recorded() == found
    assert found.cost == "epsilon=1"


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("share", [0.001, 0.5, 0.9, 0.999])
def test_no_share_is_a_rounding_error_too_much(tmp_path: Path, epsilon: float, share: float) -> None:
    L, p = losses(1, PEOPLE), people(tmp_path, dptune.Budget.approximate_dp(epsilon, 1e-5), noise=NoNoise())
    choice = dptune.PublicChoice(losses(0, N), p, name="x", default=0, estimate_share=share)
    found = choice.choose({j: L[j] for j in choice.to_train})
    assert (found.improvement is not None) is (found.index != 0)


# ---- the law of the choice -------------------------------------------------------------------------------------------


def scores() -> np.ndarray:
    return np.random.default_rng(0).normal(size=6) * 2


def test_the_law_of_permute_and_flip_is_that_of_noise_of_exponential_law() -> None:
    exponents, count = scores(), 400_000
    noise = np.random.default_rng(1).exponential(size=(count, len(exponents)))
    seen = np.bincount(np.argmin(exponents - noise, axis=1), minlength=len(exponents))
    assert chi2.sf(float(np.sum((seen - count * flip_law(exponents)) ** 2 / (count * flip_law(exponents)))), 5) > 1e-6
    assert flip_law(exponents) @ exponents < law(exponents) @ exponents, "it errs less for the same scale"


@pytest.mark.parametrize("m", [2, 3, 100, 101])
def test_the_law_sums_to_one_and_is_pure(m: int) -> None:
    """Neighbours move each exponent by epsilon / 2 at most; the worst case has one up and all others down."""
    rng, epsilon = np.random.default_rng(m), 0.7
    exponents = rng.normal(size=m)
    assert flip_law(exponents).sum() == pytest.approx(1.0, abs=1e-12)
    for _ in range(50):
        moved = exponents + epsilon / 2 * rng.choice([-1.0, 1.0], size=m)
        assert np.abs(np.log(flip_law(exponents) / flip_law(moved))).max() <= epsilon + 1e-9


def test_two_candidates_are_chosen_as_the_closed_form_says() -> None:
    for lead in (0.0, 0.4, 3.0, 30.0, 900.0):
        assert flip_law(np.array([0.0, lead]))[1] == pytest.approx(np.exp(-lead) / 2)


def drawn(noise: NoiseSource, making: Callable[..., Mechanism], losses: np.ndarray, count: int) -> np.ndarray:
    mechanism = making(noise, PRIOR)
    return np.array([mechanism.draw(losses, SCALE)[0] for _ in range(count)], dtype=int)


PRIOR, SCALE = (1.0, 5.0, 0.2, 1.0, 1.0, 20.0), 0.3


class ScaleForgotten(PermuteAndFlip):
    """Weighs the prior without the scale."""

    def draw(self, statistic: np.ndarray, scale: float) -> np.ndarray:
        return np.array([float(self.noise.permute_and_flip(statistic + self._handicap, scale))])


@pytest.mark.parametrize("noise", [OpenDPNoise(), SeededNoise(0)], ids=["OpenDP", "seeded"])
def test_the_index_has_that_law_with_a_prior(noise: NoiseSource) -> None:
    means, count = scores() * 0.3, 4000
    expected = count * flip_law(means / SCALE - np.log(PRIOR))

    def distance(making: Callable[..., Mechanism]) -> float:
        seen = np.bincount(drawn(noise, making, means, count), minlength=6)
        return float(np.sum((seen - expected) ** 2 / expected))

    assert chi2.sf(distance(PermuteAndFlip), 5) > 1e-6
    for wrong in (NoisyMin, ScaleForgotten):
        assert chi2.sf(distance(wrong), 5) < 1e-6


def test_the_mechanisms_have_other_names_scales_and_prices(tmp_path: Path) -> None:
    p = people(tmp_path, dptune.Budget.gdp(1.0))
    p.use_clip((-1.0, 1.0))
    for j in range(3):
        p.observe(str(j), np.zeros(PEOPLE))
    query = MeanQuery(("0", "1", "2"), np.eye(3), Box(-1.0, 1.0, 3), 0.5)
    made = p.release(query, scope="s", key="k", mechanism=partial(PermuteAndFlip, prior=[1.0, 2.0, 3.0]))
    (charge,) = p.ledger.charges("s")
    assert (charge.mu, charge.value) == (0.5, (made.scalar,))
    epsilon = charge.description["epsilon"]
    assert epsilon == pytest.approx(pure_from_mu(0.5))
    assert charge.description["sigma"] == pytest.approx(2 * (2 / PEOPLE) / epsilon, rel=1e-5)
    assert chooses(charge.description)
    assert not is_laplace(charge.description)
    assert PermuteAndFlip(OpenDPNoise(), [1.0, 2.0]).settings != NoisyMin(OpenDPNoise(), [1.0, 2.0]).settings


# ---- what an adversary proves ----------------------------------------------------------------------------------------


def worst_pair(making: Callable[..., Mechanism], epsilon: float, count: int) -> float:
    """Return the log-ratio, 1e-6 sure, of the likelier index of two neighbours: all of epsilon for two candidates."""
    mu, n = mu_from_pure(epsilon), 4
    scale = making(OpenDPNoise()).scale(MeanQuery(("a", "b"), np.eye(2), Box(-1.0, 1.0, 2), mu), 2 / n * 2**0.5)
    apart = 2 / n  # person 0 moves one mean up and the other down
    first = np.array([-apart / 2, apart / 2])

    def likely(means: np.ndarray) -> float:
        return float(np.mean([making(OpenDPNoise()).draw(means, scale)[0] == 1 for _ in range(count)]))

    a, b = likely(first), likely(-first)
    low, high = beta.ppf(5e-7, b * count, (1 - b) * count + 1), beta.ppf(1 - 5e-7, a * count + 1, (1 - a) * count)
    return float(np.log(low / high))


class HalfTheScale(PermuteAndFlip):
    """Takes the sensitivity of one mean for that of a difference of two."""

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        return super().scale(query, sensitivity) / 2


def test_an_adversary_proves_no_more_than_epsilon_and_finds_half_the_noise() -> None:
    """Randomised response of log(2 e^(epsilon / 2) - 1) at least."""
    assert 1.0 < worst_pair(PermuteAndFlip, 2.0, 4000) <= 2.0
    assert worst_pair(HalfTheScale, 2.0, 4000) > 2.0
