"""The joint cost of Gaussian releases and choices equals mpmath, dp-accounting and enumerated adversaries."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dptune.ledger.approximate import (
    composed_delta,
    composed_epsilon,
    divided,
    gdp_of,
    largest_mu,
    largest_plan,
)
from dptune.ledger.gdp import (
    epsilon_from_mu,
    mu_from_bounded_range,
    mu_from_epsilon,
)

PAIRS = [(0.15, 0.4), (1.0, 0.3), (2.0, 4.0)]
DELTAS = [1e-3, 1e-5, 1e-8]
MUS, ETAS = st.floats(1e-3, 10), st.floats(1e-3, 20)
Array = np.ndarray


def extreme_pairs(eta: float, count: int = 801) -> tuple[Array, Array, Array]:
    """P of the first outcome, and the log-ratios t and t - eta of both, for all worst pairs of bounded range."""
    t = np.linspace(eta / count, eta * (1 - 1 / count), count)
    return np.exp(t) * (1 - np.exp(t - eta)) / (np.exp(t) - np.exp(t - eta)), t, t - eta


def after(later: object, eta: float, epsilon: Array) -> Array:
    """The worst delta of a choice, t the adversary's, after which comes what has the profile ``later``."""
    p, first, second = (each[:, None] for each in extreme_pairs(eta, 201))
    return np.max(p * later(epsilon - first) + (1 - p) * later(epsilon - second), axis=0)


def nothing(epsilon: Array) -> Array:
    return np.maximum(-np.expm1(epsilon), 0.0)


def on_grid(profile: object, most: float) -> object:
    grid = np.linspace(-most, most, 4001)
    known = profile(grid)
    return lambda epsilon: np.where(epsilon < -most, nothing(epsilon), np.interp(epsilon, grid, known))


@pytest.mark.parametrize(("mu", "eta"), PAIRS)
def test_delta_is_the_integral_in_forty_digits(mu: float, eta: float) -> None:
    with mpmath.workdps(40):

        def gaussian(e: mpmath.mpf) -> mpmath.mpf:
            return mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)

        for epsilon in (0.0, 0.5):
            within = [-eta, *(x for x in (epsilon - 4 * mu, epsilon) if -eta < x < eta), eta]
            integral = mpmath.quad(lambda loss, e=epsilon: mpmath.exp(loss / 2) * gaussian(e - loss), within)
            exact = float(integral / (4 * mpmath.sinh(mpmath.mpf(eta) / 2)))
            assert exact <= composed_delta(mu, eta, epsilon) <= exact + 1e-11


def test_one_choice_is_the_worst_of_all_extreme_pairs() -> None:
    for eta in (0.1, 1.0, 4.0):
        p, first, second = extreme_pairs(eta, 20001)
        for epsilon in np.linspace(0, eta, 9):
            ratio = [nothing(epsilon - loss) for loss in (first, second)]
            worst = np.max(p * ratio[0] + (1 - p) * ratio[1])
            assert composed_delta(0.0, eta, epsilon) == pytest.approx(worst, abs=1e-7)
        assert composed_delta(0.0, eta, eta) == 0.0  # pure


@pytest.mark.parametrize(("mu", "eta"), PAIRS)
def test_an_adversary_who_sees_the_gaussians_first_attains_it(mu: float, eta: float) -> None:
    """A black-box lower bound: for each answer of the Gaussian the worst pair, enumerated."""
    z, weights = np.polynomial.hermite_e.hermegauss(200)
    epsilon = composed_epsilon(mu, eta, 1e-3)
    attacked = after(nothing, eta, epsilon - mu * z - mu**2 / 2) @ weights / math.sqrt(2 * math.pi)
    assert attacked <= composed_delta(mu, eta, epsilon) * (1 + 5e-3)  # of the quadrature
    assert attacked >= composed_delta(mu, eta, epsilon) * 0.99


@pytest.mark.parametrize(("a", "b", "mu"), [(0.2, 1.5, 0.5), (1.5, 0.2, 0.5), (1.0, 1.0, 1.0)])
def test_no_order_of_two_choices_and_a_gaussian_costs_more(a: float, b: float, mu: float) -> None:
    """All adaptive adversaries, by enumeration from the last answer to the first."""

    def gaussian(e: Array) -> Array:
        return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)

    def then_a_choice(later: object) -> object:
        return on_grid(lambda e: after(later, b, e), a + b + 8 * mu)

    last, middle = then_a_choice(nothing), then_a_choice(on_grid(gaussian, a + b + 8 * mu))
    for epsilon in (0.3, 1.0, (a + b) * 0.8):
        assert after(last, a, np.array([epsilon]))[0] <= composed_delta(0.0, a + b, epsilon) + 1e-6
        assert after(middle, a, np.array([epsilon]))[0] <= composed_delta(mu, a + b, epsilon) + 1e-5


@given(MUS, ETAS, st.sampled_from(DELTAS))
def test_it_is_never_above_gdp_nor_below_its_parts(mu: float, eta: float, delta: float) -> None:
    both = composed_epsilon(mu, eta, delta)
    assert both <= epsilon_from_mu(gdp_of(mu, eta), delta)
    assert both >= max(epsilon_from_mu(mu, delta), composed_epsilon(0.0, eta, delta)) * (1 - 1e-9)
    assert composed_delta(mu, eta, both) <= delta
    assert both == pytest.approx(0, abs=1e-9) or composed_delta(mu, eta, both * (1 - 1e-6)) > delta * (1 - 1e-9)


@given(st.floats(0.05, 8), st.sampled_from(DELTAS), st.sampled_from([0.3, 0.95, 1.0]))
def test_the_largest_plan_fits_and_no_larger_one(epsilon: float, delta: float, share: float) -> None:
    mu = largest_plan(share, epsilon, delta)
    assert mu >= mu_from_epsilon(epsilon, delta) == largest_plan(0.0, epsilon, delta)
    gaussian, eta = divided(mu, share)
    assert composed_delta(gaussian, eta, epsilon) <= delta
    larger = divided(mu * (1 + 1e-6), share)
    assert composed_delta(*larger, epsilon) > delta
    assert largest_mu(eta, epsilon, delta) >= gaussian


def test_planted_bugs_claim_less_than_an_adversary_attains() -> None:
    """Delta counted once for two plans; mu, the price of a choice, taken for its eta."""
    gaussian, eta = divided(largest_plan(0.5, 1.0, 1e-5), 0.5)
    assert composed_delta(math.sqrt(2) * gaussian, 2 * eta, 1.0) > 100 * 1e-5
    attacked = after(nothing, 1.0, np.array([0.7]))[0]
    assert attacked > 0.03 > composed_delta(0.0, mu_from_bounded_range(1.0), 0.7) == 0.0
