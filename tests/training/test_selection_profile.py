"""The profile of repeat and select equals a sum over all probabilities, for every order of outputs."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dptune.ledger.dominating import Gaussian
from dptune.training import Repeats, SelectionPlan, TrainingPlan
from dptune.training.profiles import accountant_of, curve_of, epsilon_of, renyi_epsilon
from dptune.training.selection_profile import SelectionProfile

DELTA = 1e-5
LAWS = [Repeats.geometric(4), Repeats.logarithmic(6), Repeats(9, 2.5), Repeats.poisson(5)]


def law_of(repeats: Repeats) -> np.ndarray:
    """P(K = k), k = 0..2999, by the definitions of the page and not by their generating function."""
    k = np.arange(3000.0)
    if repeats.shape is None:
        return np.exp(-repeats.mean + k * math.log(repeats.mean) - np.array([math.lgamma(i + 1) for i in k]))
    ratios = np.log1p(-repeats.gamma()) + np.log((k[1:-1] + repeats.shape) / (k[1:-1] + 1))
    law = np.exp(np.concatenate([[-np.inf, 0.0], np.cumsum(ratios)]))
    return law / law.sum()


def shown(once: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Probability of each output to be the best of K, outputs in ascending order of their scores."""
    worse = np.concatenate([[0.0], np.cumsum(once)])
    below = np.array([np.sum(law * np.minimum(1, t) ** np.arange(len(law))) for t in worse])
    return np.diff(below)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def profile_of(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.array([max(hockey_stick(p, q, e), hockey_stick(q, p, e)) for e in s])


@pytest.mark.parametrize("repeats", LAWS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_order_of_the_outputs_exceeds_the_profile(repeats: Repeats, seed: int) -> None:
    random, law = np.random.default_rng(seed), law_of(repeats)
    p, q = random.dirichlet(np.ones(5)), random.dirichlet(np.ones(5))
    p, q = (0.7 * p + 0.3 * q, q) if seed else (p, q)
    bound = SelectionProfile(repeats, lambda s: profile_of(p, q, s), most=6.0)
    epsilons = [0.2, 0.7, 1.5, 3.0]
    worst = np.zeros(len(epsilons))
    for order in permutations(range(5)):
        both = shown(p[list(order)], law), shown(q[list(order)], law)
        worst = np.maximum(worst, profile_of(*both, np.array(epsilons)))
    found = np.array([bound.delta(e) for e in epsilons])
    assert np.all(worst <= found * (1 + 1e-9))
    assert worst.max() > 0


class Flat(Repeats):
    """A planted bug: with f' = 1 everywhere the bound is that of one repeat."""

    def slope(self, u: np.ndarray) -> np.ndarray:
        return np.ones_like(u)


def test_a_profile_that_forgets_how_often_an_output_wins_is_found() -> None:
    repeats = Flat.geometric(2.0)
    p, q = np.array([0.90, 0.09, 0.01]), np.array([0.90, 0.02, 0.08])
    bound = SelectionProfile(repeats, lambda s: profile_of(p, q, s), most=6.0)
    seen = hockey_stick(shown(p, law_of(repeats)), shown(q, law_of(repeats)), 0.5)
    assert seen > bound.delta(0.5)


def gaussian(mu: float, s: np.ndarray) -> np.ndarray:
    return np.asarray(norm.cdf(mu / 2 - s / mu) - np.exp(s) * norm.cdf(-mu / 2 - s / mu))


def integrated(repeats: Repeats, mu: float, epsilon: float) -> float:
    """Delta of the selection among N(0, 1) against N(mu, 1) in which the largest or the smallest output wins."""
    y, exact = np.linspace(-14, 14 + mu, 10001), 0.0
    for a, b in ((0.0, mu), (mu, 0.0)):
        for beaten in (norm.sf, norm.cdf):
            here, there = (norm.pdf(y - m) * repeats.slope(beaten(y - m)) for m in (a, b))
            exact = max(exact, float(np.trapezoid(np.maximum(here - math.exp(epsilon) * there, 0), y)))
    return exact


@pytest.mark.parametrize(
    ("repeats", "mu"), [(Repeats.geometric(100), 0.25), (Repeats.poisson(20), 0.25), *((law, 2.0) for law in LAWS)]
)
def test_gaussian_repeats_of_which_the_likeliest_under_a_neighbour_wins(repeats: Repeats, mu: float) -> None:
    """N(0, 1) against N(mu, 1), the largest or the smallest output wins; integrated."""
    bound = SelectionProfile(repeats, lambda s: gaussian(mu, s), most=12.0)
    for epsilon in (0.2, 1.0, 2.0):
        exact = integrated(repeats, mu, epsilon)
        assert exact <= bound.delta(epsilon) * (1 + 1e-6)
        assert mu < 2 or exact > 0.3 * bound.delta(epsilon), "near the truth where a repeat costs much"


def test_the_page_says_how_near_the_integral_comes_in_delta_and_in_epsilon() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs/research/training.md").read_text(encoding="utf-8").split())
    repeats = Repeats.geometric(100)
    bound = SelectionProfile(repeats, lambda s: gaussian(2.0, s), most=12.0)
    shares = [integrated(repeats, 2.0, e) / bound.delta(e) for e in (0.2, 1.0, 2.0)]
    assert f"{min(shares) * 100:.0f} to {max(shares) * 100:.0f}% of the bound's" in page
    pairs = []
    for mu in (2.0, 0.25):
        exact = float(brentq(lambda e, mu=mu: integrated(repeats, mu, e) - DELTA, 0, 40))
        pairs += [exact, epsilon_of([SelectionPlan(repeats, score_mu=mu)], DELTA)]
    assert "{:.1f} where the bound says {:.1f}, and {:.2f} where it says {:.2f}".format(*pairs) in page


@pytest.mark.parametrize(("mean", "mu"), [(10, 1.0), (100, 0.25)])
def test_never_above_the_form_of_the_paper(mean: int, mu: float) -> None:
    """E[K] delta(epsilon - (1 + eta) s) with e^s = 1 + (1/gamma - 1) delta(s); geometric."""
    gamma = 1 / mean
    s = brentq(lambda s: math.expm1(s) - (1 / gamma - 1) * gaussian(mu, np.array(s)), 0, 20)
    theirs = 2 * s + brentq(lambda e: mean * gaussian(mu, np.array(e)) - DELTA, 0, 30)
    ours = epsilon_of([SelectionPlan(Repeats.geometric(mean), score_mu=mu)], DELTA)
    assert 0.8 * theirs < ours <= theirs + 0.01


def test_the_smaller_bound_is_taken_alone_and_beside_other_parts() -> None:
    plan = SelectionPlan(Repeats.geometric(10), TrainingPlan(2.0, 0.1, 20), score_mu=0.25)
    assert epsilon_of([plan], DELTA) < 0.8 * renyi_epsilon([plan], DELTA)
    assert accountant_of([plan]) != accountant_of([plan, Gaussian(0.1)])
    many = [SelectionPlan(Repeats.poisson(1000), score_mu=0.01), Gaussian(2.0)]  # of which Renyi DP says less
    assert epsilon_of(many, DELTA) == renyi_epsilon(many, DELTA) < curve_of(many, DELTA).epsilon(0.999 * DELTA)
