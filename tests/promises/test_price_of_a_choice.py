"""The exponential mechanism has its law, sensitivity and price, and audits find planted bugs."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from audit_tools import MISTAKE, answers, lower_bound, neighbours, noiseless
from choice_tools import half_the_scale, softmax
from dptune import InputError, LossPrivatizer
from dptune._arrays import Vector
from dptune.ledger.events import chooses, is_laplace
from dptune.ledger.gdp import bounded_range_from_mu, pure_from_mu
from dptune.privacy.mechanism import AnyQuery, Mechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.noise import SLACK, NoiseSource
from dptune.privacy.query import Box, MeanQuery, smallest_price
from noises import NoNoise

Making = Callable[[NoiseSource], Mechanism]


def released(
    losses: np.ndarray, mu: float, count: int, clip: tuple[float, float], making: Making = NoisyMin
) -> np.ndarray:
    """Return ``count`` releases about the same people, (count, p); losses are (m, n)."""
    m = len(losses)
    query = MeanQuery(tuple(f"x{j}" for j in range(m)), np.eye(m), Box(*clip, m), mu)
    return answers(query, losses, count, clip, making)


def audit_law(
    making: Making = NoisyMin, *, count: int = 600, mu: float = 1.0, prior: tuple[float, ...] = (1,) * 6
) -> None:
    """The index has the exact law, with the public prior that ``making`` has, and nothing but the index is released.

    Each count is binomial, and all six lie within bounds that each one passes with chance MISTAKE / 6.
    """
    rng, clip = np.random.default_rng(0), (0.5, 2.5)
    losses = np.clip(rng.uniform(0.4, 1.0, (6, 1)) + rng.normal(0, 0.3, (6, 20)), 0, 3)
    found = released(losses, mu, count, clip, making)
    assert found.shape == (count, 1), f"released {found.shape[1]} numbers, not one index"
    assert set(found.ravel().tolist()) <= set(range(6)), "released something that is no index"
    weights = softmax(losses, mu, clip) * np.array(prior)
    law = binom(count, weights / weights.sum())
    seen = np.bincount(found.ravel().astype(int), minlength=6)
    within = (law.ppf(MISTAKE / 12) <= seen) & (seen <= law.isf(MISTAKE / 12))
    assert within.all(), f"counts {seen.tolist()}: not the law of the exponential mechanism"


def audit_worst_pair(making: Making = NoisyMin, *, mu: float = 3.0, count: int = 1200, least: float = 0.7) -> float:
    """What an adversary proves about the worst pair is at most the claimed mu, and more than ``least`` of it.

    Two candidates; person 0 likes the first and hates the second, the neighbour does the opposite. An index errs with
    the known chance p of either data set, so k errors in ``count`` draws are binomial. Exact sums over both binomials:
    the bound passes mu by chance 2e-12, and stays below ``least`` with the chance that stands beside each ``least``.
    """
    people = np.full((2, 5), 0.5)
    people[:, 0] = -np.inf, np.inf
    a, b = (released(pair, mu, count, (0.0, 1.0), making)[:, 0] for pair in (people, people[::-1]))
    bound = lower_bound(a, b, 0.5)
    assert bound <= mu, f"an adversary proves mu >= {bound:.3f}, but only {mu:.3f} was paid"
    assert bound > least * mu, (
        f"the audit proves only mu >= {bound:.3f} of {mu:.3f}: it is blind or the noise too large"
    )
    return bound


@pytest.mark.parametrize(("making", "least"), [(NoisyMin, 0.55), (PermuteAndFlip, 0.35)])  # by chance 2e-14, 1.4e-13
def test_what_an_adversary_proves_is_below_the_claim_and_near_it(making: Making, least: float) -> None:
    audit_worst_pair(making, count=600, least=least)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "count", "least"), [pytest.param(0.5, 40_000, 0.75, marks=pytest.mark.minutes), (3.0, 6000, 0.85)]
)
def test_with_many_releases_the_proven_mu_comes_near(mu: float, count: int, least: float) -> None:
    """Of a law that is right 6,000 releases about each data set prove 92% of mu = 3, 40,000 prove 88% of 0.5.

    They stay below ``least`` by chance 1.1e-11 and 8.5e-13.
    """
    print(f"claimed {mu}, proven {audit_worst_pair(mu=mu, count=count, least=least):.3f}")
    audit_law(mu=mu, count=4000)


# ---- a public prior ----------------------------------------------------------------------------------------

PRIOR = (1.0, 5.0, 0.2, 1.0, 1.0, 20.0)


def test_the_index_has_the_law_of_the_definition_with_a_public_prior() -> None:
    audit_law(partial(NoisyMin, prior=PRIOR), prior=PRIOR, count=1000)


@pytest.mark.parametrize(
    ("making", "price", "odds"),
    [
        (NoisyMin, bounded_range_from_mu, 1e-300),
        (NoisyMin, bounded_range_from_mu, 0.1 / 100),
        (PermuteAndFlip, pure_from_mu, 1e-300),
    ],
)
def test_rounding_of_the_entries_stays_within_the_bounded_range(
    making: type[NoisyMin], price: Callable[[float], float], odds: float
) -> None:
    """Worst neighbours at the smallest price, in exact fractions of the floats that the source of noise compares."""
    rng, n, m, noise = np.random.default_rng(0), 50, 4, NoNoise()
    mu, entry = smallest_price(m) * -np.log(odds), 2.0 / n  # the most that one of n people moves a mean in [-1, 1]
    query = MeanQuery(tuple("abcd"), np.eye(m), Box(-1.0, 1.0, m), mu)
    mechanism, eta = making(noise, prior=[odds, 1.0, odds, 1.0]), Fraction(price(mu))
    scale, apart = mechanism.scale(query, entry * np.sqrt(m)), np.array([entry, -entry, -entry, entry])
    ranges = []
    for u in rng.uniform(entry - 1, 1 - entry, (500, m)):
        exact = []
        for statistic in (u, u + apart):
            mechanism.draw(statistic, scale)
            exact.append([Fraction(x) for x in (noise.statistic / noise.sigma).tolist()])
        moved = [a - b for a, b in zip(*exact, strict=True)]
        ranges.append(max(moved) - min(moved))
    unrounded = eta / (1 + Fraction(SLACK))
    assert unrounded < max(ranges) <= eta


# ---- planted bugs ----------------------------------------------------------------------------------------


def drawn(draw: Callable[[NoisyMin, Vector, float], Any]) -> type[NoisyMin]:
    """The exponential mechanism with another draw."""
    return type("Drawn", (NoisyMin,), {"draw": draw})


class PriorLeftOut(NoisyMin):
    """Says that it has a prior, and draws without it."""


class SensitivityOfAllMeans(NoisyMin):
    """Takes the L2 sensitivity of m means for the one of an entry: private, and noisier than what is claimed."""

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        return super().scale(query, sensitivity * query.dimension)


WithoutTheFactorTwo = half_the_scale(NoisyMin)
ValuesReleased = drawn(lambda self, means, scale: means)
IndexWithoutNoise = drawn(lambda self, means, scale: np.array([float(np.argmin(means))]))
PriorOfTheLosses = drawn(lambda self, means, scale: NoisyMin(self.noise, np.exp(-means / scale)).draw(means, scale))
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("audit", "bug", "settings", "complaint"),
    [
        # The counts do not find the bug by chance 4e-9, 4e-17 and 3e-25.
        (audit_law, WithoutTheFactorTwo, {"count": 2000}, "not the law"),
        (audit_law, SensitivityOfAllMeans, {"count": 1000}, "not the law"),
        (audit_law, PriorLeftOut, {"count": 400, "prior": PRIOR}, "not the law"),
        (audit_law, ValuesReleased, {"count": 10}, "not one index"),
        (audit_law, IndexWithoutNoise, {"count": 200}, "not the law"),
        # The worst pair does not find the bug by chance 3e-29, 9e-17, 2e-32 and 6e-59.
        pytest.param(audit_worst_pair, WithoutTheFactorTwo, {"count": 1000}, "an adversary proves", marks=SLOW),
        pytest.param(
            audit_worst_pair,
            half_the_scale(PermuteAndFlip),
            {"mu": 2.0, "count": 3000},
            "an adversary proves",
            marks=SLOW,
        ),
        pytest.param(audit_worst_pair, SensitivityOfAllMeans, {"count": 500}, "it is blind", marks=SLOW),
        pytest.param(audit_worst_pair, PriorOfTheLosses, {"mu": 2.0}, "an adversary proves", marks=SLOW),
    ],
)
def test_the_audit_finds_the_planted_bug(audit: Any, bug: Making, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        audit(bug, **settings)


# ---- sensitivity -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(neighbours(st.integers(2, 5)), st.floats(1e-3, 20))
def test_the_noise_covers_what_one_person_moves_any_difference(case: Any, mu: float) -> None:
    losses, other, chosen = case
    m, eta = len(losses), bounded_range_from_mu(mu)
    query = MeanQuery(tuple("abcde"[:m]), np.eye(m), Box(*chosen["clip"], m), mu)
    (means, scale), (means2, scale2) = (
        noiseless(query, each, mechanism=NoisyMin, **chosen) for each in (losses, other)
    )
    assert scale == scale2
    moved = means2 - means
    assert (moved.max() - moved.min()) / scale <= eta


# ---- paid and recorded -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("making", "price", "name", "words"),
    [
        (NoisyMin, bounded_range_from_mu, "eta", "exponential mechanism"),
        (PermuteAndFlip, pure_from_mu, "epsilon", "permute-and-flip"),
    ],
)
def test_what_is_paid_and_kept_is_of_the_mechanism(
    privatizer: Callable[..., LossPrivatizer], making: Any, price: Any, name: str, words: str
) -> None:
    mine = privatizer()
    for point in "abc":
        mine.observe(point, np.zeros(4))
    mechanism = partial(making, prior=[1.0, 2.0, 3.0])
    released = mine.release(mine.means_query("abc", 0.7), scope="s", key="k", mechanism=mechanism)
    assert mine.ledger.spent() == pytest.approx(0.7)
    (charge,) = mine.ledger.charges()
    assert (charge.mu, charge.value) == (0.7, (released.scalar,))
    about = charge.description
    assert (about["dimension"], about["sensitivity"]) == (3, pytest.approx(0.25))
    assert about[name] == pytest.approx(price(0.7))
    assert about["sigma"] == pytest.approx(2 * 0.25 / price(0.7), rel=1e-5)
    assert chooses(about)
    assert not is_laplace(about)
    assert words in mine.ledger.statement(delta=1e-5).to_text()


def test_the_settings_of_the_mechanisms_differ() -> None:
    assert PermuteAndFlip(NoNoise(), [1.0, 2.0]).settings != NoisyMin(NoNoise(), [1.0, 2.0]).settings


LEAST = smallest_price(2)


@pytest.mark.parametrize(
    ("making", "prior", "least", "words"),
    [
        (NoisyMin, (), LEAST, "too small for a choice among 2"),
        (NoisyMin, (1.0, 1e-300), -np.log(1e-300) * LEAST, "too small for a choice among 2"),
        (NoisyMin, (1.0, 1e300), np.log(1e300) * LEAST, "too small for a choice among 2"),
        (PermuteAndFlip, (1.0, 1.0), LEAST, "too small for a choice among 2"),
        (NoisyMin, (0.0, 1.0), 2.0, "prior must"),
        (NoisyMin, (float("nan"), 1.0), 2.0, "prior must"),
        (NoisyMin, (1.0, 1.0, 1.0), 2.0, "prior must"),
    ],
)
def test_invalid_priors_and_prices_are_refused_before_the_charge(
    privatizer: Callable[..., LossPrivatizer], making: type[NoisyMin], prior: Any, least: float, words: str
) -> None:
    """A price is too low if the grid is too coarse for its noise."""
    mine, mechanism = privatizer(), partial(making, prior=prior)
    mine.observe("a", np.zeros(4))
    mine.observe("b", np.ones(4))
    with pytest.raises(InputError, match=words):
        mine.release(mine.means_query("ab", least / 2), scope="s", key="k", mechanism=mechanism)
    assert mine.ledger.count() == 0
    if words != "prior must":
        mine.release(mine.means_query("ab", 2 * least), scope="s", key="k", mechanism=mechanism)
