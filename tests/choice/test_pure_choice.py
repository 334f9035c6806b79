"""A pure choice uses a whole (epsilon, delta) budget: permute-and-flip, shares, and an estimate with Laplace noise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2

import dptune
from audit_tools import MISTAKE
from choice_tools import CANDIDATES, PAIR, PEOPLE, PUBLIC, N, chosen, losses, privatizer
from dptune.choice import planning
from dptune.choice.public import flip_law, law
from dptune.ledger.filter import Allowance
from dptune.privacy.mechanism import Mechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.noise import NoiseSource, OpenDPNoise, SeededNoise
from noises import NoNoise


@pytest.mark.parametrize(
    ("budget", "asked", "share"),
    [
        (PAIR, {}, 0.1),
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
    choice = dptune.PublicChoice(V, privatizer(tmp_path, budget=budget), name="x", default_place=0, **asked)
    plan = choice._plan
    assert (plan.share, plan.pure) == (share, share in planning.USUAL_OF_PURE)
    assert plan.estimate_mu > 0
    if plan.pure:
        assert plan.epsilon == budget.stated_epsilon
        assert plan.eta == (1 - share) * plan.epsilon
    else:
        assert plan.choice_mu == pytest.approx(plan.mu * (1 - share) ** 0.5)


@pytest.mark.parametrize(("n", "share"), [(300, 0.1), (1300, 0.1), (1400, 0.25), (10_000, 0.25)])
def test_the_usual_share_is_large_where_it_leaves_the_choice_enough(n: int, share: float) -> None:
    rest = Allowance(PAIR.mu, PAIR.mu, (), PAIR)
    assert planning.usual_share(rest, planning.Wanted(None, 1.0, None, None), n) == share


def test_choice_and_estimate_take_all_of_the_pair(tmp_path: Path) -> None:
    V, p = PUBLIC, privatizer(tmp_path, budget=PAIR, noise=NoNoise())
    choice = dptune.PublicChoice(V, p, name="x", default_place=0)
    plan = choice._plan
    found = chosen(choice)
    made, told = p.ledger.charges("x")
    assert (made.mu, told.mu) == (None, None)
    assert made.description["epsilon"] + told.description["epsilon"] == pytest.approx(1.0)
    assert told.description["epsilon"] == pytest.approx(plan.share)
    scale = 2 * told.note["radius"] / (PEOPLE * told.description["epsilon"])
    assert told.description["scale"] == pytest.approx(scale, rel=1e-5)
    assert found.improvement is not None
    assert found.improvement.sigma == pytest.approx(2**0.5 * scale, rel=1e-5)
    low, high = found.improvement.interval()
    assert (high - low) / 2 == pytest.approx(scale * np.log(20), rel=1e-5)
    assert p.ledger.spent() == pytest.approx(p.ledger.mu)
    assert choice.outlook.shows == pytest.approx(scale * (np.log(20) + np.log(10)), rel=1e-5)
    assert dptune.PublicChoice(V, p, name="x", default_place=0).recorded() == found
    assert found.method == "permute-and-flip"
    assert found.cost == "epsilon=1"
    used = dict(p.ledger.statement(delta=1e-5).mechanisms)
    assert [name.partition(" on the ")[0] for name in used] == ["permute-and-flip", "Laplace mechanism"]


def test_a_budget_raised_between_plan_and_choice_asks_for_another_plan(tmp_path: Path) -> None:
    V, p = PUBLIC, privatizer(tmp_path, budget=PAIR)
    planned = dptune.PublicChoice(V, p, name="x", default_place=0)
    p.ledger.raise_budget(dptune.Budget.approximate_dp(2.0, 1e-5))
    with pytest.raises(dptune.errors.BudgetMismatch, match="Plan it again"):
        chosen(planned)
    found = chosen(dptune.PublicChoice(V, p, name="x", default_place=0))
    assert found.cost == "epsilon=2"
    p.ledger.raise_budget(dptune.Budget.approximate_dp(3.0, 1e-5))  # after the choice: its answer stays
    assert dptune.PublicChoice(V, p, name="x", default_place=0).recorded() == found


@pytest.mark.parametrize(("epsilon", "share"), [(0.05, 0.001), (0.1, 0.999), (1.0, 0.9), (2.0, 0.5)])
def test_no_share_is_a_rounding_error_too_much(tmp_path: Path, epsilon: float, share: float) -> None:
    p = privatizer(tmp_path, budget=dptune.Budget.approximate_dp(epsilon, 1e-5), noise=NoNoise())
    about: dict[str, Any] = {"estimate_share": share, "even_if_hopeless": True}
    found = chosen(dptune.PublicChoice(PUBLIC, p, name="x", default_place=0, **about))
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
    for lead in (0.0, 0.4, 3.0, 30.0, 900.0):  # the closed form of two
        assert flip_law(np.array([0.0, lead]))[1] == pytest.approx(np.exp(-lead) / 2)


@pytest.mark.parametrize("m", [2, 3, 101])
def test_the_law_sums_to_one_and_is_pure(m: int) -> None:
    """Neighbours move each exponent by epsilon / 2 at most; the worst case has one up and all others down."""
    rng, epsilon = np.random.default_rng(m), 0.7
    exponents = rng.normal(size=m)
    assert flip_law(exponents).sum() == pytest.approx(1.0, abs=1e-12)
    for _ in range(50):
        moved = exponents + epsilon / 2 * rng.choice([-1.0, 1.0], size=m)
        assert np.abs(np.log(flip_law(exponents) / flip_law(moved))).max() <= epsilon + 1e-9


class ScaleForgotten(PermuteAndFlip):
    """Weighs the prior without the scale."""

    def draw(self, statistic: np.ndarray, scale: float) -> np.ndarray:
        return np.array([float(self.noise.permute_and_flip(statistic + self._handicap, scale))])


PRIOR, SCALE = (1.0, 5.0, 0.2, 1.0, 1.0, 20.0), 0.3


@pytest.mark.parametrize(
    ("noise", "count", "wrong"),
    [(OpenDPNoise(), 2500, ()), (SeededNoise(0), 4000, (NoisyMin, ScaleForgotten))],
    ids=["OpenDP", "seeded"],
)
def test_the_index_has_that_law_with_a_prior(
    noise: NoiseSource, count: int, wrong: tuple[Callable[..., Mechanism], ...]
) -> None:
    means = scores() * 0.3
    counts = binom(count, flip_law(means / SCALE - np.log(PRIOR)))

    def within(making: Callable[..., Mechanism]) -> bool:
        """Each of six counts lies within bounds that it passes with chance MISTAKE / 6."""
        mechanism = making(noise, PRIOR)
        seen = np.bincount([int(mechanism.draw(means, SCALE)[0]) for _ in range(count)], minlength=6)
        return bool(((counts.ppf(MISTAKE / 12) <= seen) & (seen <= counts.isf(MISTAKE / 12))).all())

    assert within(PermuteAndFlip)
    assert not any(within(bug) for bug in wrong)
