"""The joint cost of Gaussian releases and choices of bounded range in (epsilon, delta), tighter than through GDP.

The Gaussian releases of a ledger have mu together (mu^2 = sum of mu_t^2), its choices eta together (eta = sum of
eta_j, each eta_j-bounded range). Both may be chosen adaptively, prices included, in any order, within the two limits.

*One choice.* For neighbours the log-ratio of a choice's probabilities lies in some [t - eta, t]. The worst such pair
has two outcomes, of log-ratios t and t - eta (Dong, Durfee & Rogers 2020), and delta(e) = (1 - e^(t-eta)) (1 - e^(e-t))
/ (1 - e^-eta). An adversary may choose t after seeing everything else. The largest is at t = (eta + e) / 2:

    delta_eta(e) = (1 - e^(-(eta-e)/2))^2 / (1 - e^-eta),    -eta <= e <= eta,

0 above and 1 - e^e below. It is the profile of one pair of laws, P = T(eta) against its mirror image Q. Their log-ratio
l has the density e^(l/2) / (4 sinh(eta/2)) on [-eta, eta] under P, and -l has it under Q. So T(eta) dominates every
eta-bounded-range mechanism, in both directions.

*Several choices of one ledger.* T(a) and T(b) together are dominated by T(a + b). Given |l| = s, T(eta) is randomised
response of s, which is easier to distinguish for larger s. So it suffices that |l| is stochastically larger. The
density of |l| is proportional to cosh(s/2) g(s). For T(a + b), g is the density of a uniform law on [-eta, eta]; for
the pair, of a sum of two uniform laws, which falls in s. Hence the ratio of the two densities of |l| rises in s, which
implies the claim.

*With Gaussians.* Pairs that dominate each of two mechanisms, for every answer of the first, dominate both together as a
product (Zhu, Dong & Wang 2022). So N(mu, 1) against N(0, 1), times T(eta), dominates everything:

    delta(e) = integral of e^(l/2) / (4 sinh(eta/2)) delta_mu(e - l) dl,    delta_mu as in dptune.ledger.gdp.

An adversary who sees the Gaussians first and then chooses t attains it. docs/privacy.md has the filter's proof.

*Pure releases.* A run may take all of a budget in (epsilon, delta) for releases that are epsilon_1-DP, epsilon_2-DP,
..., chosen adaptively within a sum of epsilon. Together they are epsilon-DP, so randomised response of epsilon
dominates them: its log-ratio is epsilon with probability p = 1 / (1 + e^-epsilon), else -epsilon. With Gaussians of mu,
which only a raised budget has,

    delta(e) = p delta_mu(e - epsilon) + (1 - p) delta_mu(e + epsilon).

Only budgets of epsilon up to PURE_UP_TO may be used this way: an attacker may be right p of the time, 88% at 2.

*Several ledgers.* Each has its own limit, eta_1, eta_2, ..., and no adversary moves eta from one to another. The same
induction holds: a choice of eta_t leaves T(eta_1 - eta_t) of its ledger. So the Gaussians of all ledgers times T(eta_1)
x T(eta_2) x ... dominate everything (:mod:`dptune.ledger.dominating`), which is cheaper than T(eta_1 + eta_2 + ...).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from dptune._arrays import Vector
from dptune.errors import InputError
from dptune.ledger.gdp import (
    Budget,
    Spent,
    bounded_range_from_mu,
    delta_from_mu,
    epsilon_from_mu,
    gdp_of,
    mu_from_epsilon,
)

if TYPE_CHECKING:
    from dptune.ledger.dominating import Profile

ACCOUNTANT = (
    "the Gaussian releases as one Gaussian, the choices as one of the summed bounded range, composed exactly for the "
    "worst adaptive order (Dong, Durfee & Rogers 2020; docs/privacy.md)"
)
PURE_ACCOUNTANT = (
    "the pure releases of one run by their summed epsilon (basic composition, Dwork, McSherry, Nissim & Smith 2006), "
    "also where they are chosen adaptively within that sum (Rogers, Roth, Ullman & Vadhan 2016)"
)
PURE_UP_TO = 2.0  # largest epsilon of a budget for pure releases; above it, choices and Gaussians risk less
_ROUND_UP = 1e-13  # per term of the integral: several times the error of logarithms and exponentials
_ROUND_DOWN = 1 - 1e-8  # factor on the largest plan, so that its recomputed parts also fit
_FORGIVEN = 1 + 1e-13  # less than the filter forgives
_LOST = 2.0**-53  # largest rounding error of a share that is computed as 1 minus the others
_CRUMBS = 1e-6  # share of a budget's mu^2: rounding leaves this much of a plan that takes everything
_STEPS = 100  # bisection steps: past the last digit


@dataclass(frozen=True)
class Limits:
    """Limits on the total cost of a ledger's releases, fixed before the first release; 0 means no limit."""

    mu: float  # limit in GDP of the Gaussian releases together, and of all other choices
    eta: float = 0.0  # limit of one run's choices: their summed bounded range
    pure: float = 0.0  # the summed epsilon of one run's pure releases; always 0 where eta is not

    def __post_init__(self) -> None:
        if self.eta > 0 and self.pure > 0:
            raise InputError("choices of bounded range and pure releases have no limit together; this is a bug.")

    @classmethod
    def of(cls, spent: Spent) -> Limits:
        """Return limits that these costs just meet."""
        return cls(spent.gaussian, float(spent.choices), float(spent.pure))

    @property
    def divided(self) -> bool:
        """Return whether there is a limit in addition to mu."""
        return self.eta > 0 or self.pure > 0

    @property
    def gdp(self) -> float:
        return gdp_of(self.mu, self.eta, self.pure)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, rounded up, at which everything together is (epsilon, delta)-DP."""
        if self.pure == 0:
            return composed_epsilon(self.mu, self.eta, delta)
        high = self.pure + (epsilon_from_mu(self.mu, delta) if self.mu > 0 else 0.0)
        return high - _largest(lambda less: self.delta(high - less) <= delta, high)

    def delta(self, epsilon: float) -> float:
        """Return a delta, rounded up, at which everything together is (epsilon, delta)-DP; epsilon >= 0."""
        if self.pure > 0:
            return _delta_beside_pure(self.mu, self.pure, epsilon)
        return composed_delta(self.mu, self.eta, epsilon)

    def profiles(self) -> list[Profile]:
        """Return the parts that dominate all releases within the limits."""
        from dptune.ledger.dominating import Choices, Gaussian, Pure

        return [
            *[Gaussian(self.mu)] * (self.mu > 0), *[Choices(self.eta)] * (self.eta > 0),
            *[Pure(self.pure)] * (self.pure > 0),
        ]  # fmt: skip

    @classmethod
    def within(cls, budget: Budget, eta: float, *, planned: float = 0.0) -> Limits:
        """Return limits for choices of ``eta`` and the largest mu that still fits; if none fits, all is for mu.

        Args:
            planned: a mu that suffices, returned if hardly more fits.
        """
        epsilon, delta = budget.stated_epsilon, budget.stated_delta
        if epsilon is None or delta is None or eta == 0 or composed_delta(0.0, eta, epsilon) > delta:
            return cls(budget.mu)
        most = largest_mu(eta, epsilon, delta)
        crumbs = most**2 - planned**2 < _CRUMBS * budget.mu**2
        return cls(min(most, planned) if crumbs else most, eta)

    @classmethod
    def pure_within(cls, budget: Budget, pure: float) -> Limits:
        """Return limits for pure releases of ``pure``, and the largest mu that still fits into the budget.

        If ``pure`` uses the whole epsilon, mu is 0.
        """
        epsilon, delta = budget.stated_epsilon or 0.0, budget.stated_delta or 0.0
        if pure >= epsilon:
            return cls(0.0, pure=pure)
        return cls(_largest(lambda mu: cls(mu, pure=pure).delta(epsilon) <= delta, budget.mu), pure=pure)


def _delta_beside_pure(mu: float, pure: float, epsilon: float) -> float:
    """Return the delta of Gaussians of ``mu`` and randomised response of ``pure`` together, rounded up."""

    def gaussian(e: float) -> float:
        above = delta_from_mu(mu, abs(e)) if mu > 0 else 0.0
        return above if e >= 0 else -math.expm1(e) + math.exp(e) * above

    likely = 1 / (1 + math.exp(-pure))
    return min(1.0, (1 + _ROUND_UP) * (likely * gaussian(epsilon - pure) + (1 - likely) * gaussian(epsilon + pure)))


def composed_delta(mu: float, eta: float, epsilon: float) -> float:
    """Return a delta, rounded up, at which Gaussians of ``mu`` and choices of ``eta`` are (epsilon, delta)-DP together.

    Args:
        mu: of the Gaussian releases together, in GDP; 0 if there are none.
        eta: of the choices together, their summed bounded range; 0 if there are none.
        epsilon: at least 0.
    """
    if eta == 0:
        return delta_from_mu(mu, epsilon) if mu > 0 else 0.0
    if mu == 0:
        return 0.0 if epsilon >= eta else math.expm1((epsilon - eta) / 2) ** 2 / -math.expm1(-eta)
    upper, lower = (_antiderivative(mu, eta, epsilon, end, math.exp) for end in (eta, -eta))
    exact = math.fsum([*upper, *(-term for term in lower)])
    error = _ROUND_UP * math.fsum(map(abs, [*upper, *lower]))
    return min((exact + error) / -math.expm1(-eta), delta_from_mu(gdp_of(mu, eta), epsilon))


def _antiderivative(mu: Any, eta: Any, epsilon: Any, end: Any, exp: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Return the terms of the integral's antiderivative at one end, times e^(-eta/2); of numbers or of arrays."""
    u = (end - epsilon) / mu
    return (
        exp((end - eta) / 2 + log_ndtr(u + mu / 2)),
        exp(epsilon - (end + eta) / 2 + log_ndtr(u - mu / 2)),
        -2 * exp((epsilon - eta) / 2 - mu**2 / 8 + log_ndtr(u)),
    )


@np.errstate(under="ignore")
def composed_deltas(mu: Vector, eta: Vector, epsilon: Vector) -> Vector:
    """Return :func:`composed_delta` of arrays of one shape; mu and eta above 0."""
    upper, lower = (_antiderivative(mu, eta, epsilon, end, np.exp) for end in (eta, -eta))
    terms = [*upper, *(-term for term in lower)]
    exact = sum(terms)
    size = sum(map(np.abs, terms))
    return np.asarray(np.clip((exact + _ROUND_UP * size) / -np.expm1(-eta), 0.0, 1.0))


def composed_epsilon(mu: float, eta: float, delta: float) -> float:
    """Return the least epsilon, rounded up, at which both together are (epsilon, delta)-DP. Never above that of GDP."""
    if eta == 0:
        return epsilon_from_mu(mu, delta) if mu > 0 else 0.0
    high = epsilon_from_mu(gdp_of(mu, eta), delta)
    return high - _largest(lambda less: composed_delta(mu, eta, high - less) <= delta, high)


def largest_mu(eta: float, epsilon: float, delta: float) -> float:
    """Return the largest mu of Gaussians that fits with choices of ``eta``; 0 if none fits."""
    most = mu_from_epsilon(epsilon, delta)
    return _largest(lambda mu: composed_delta(mu, eta, epsilon) <= delta, most) if eta > 0 else most


def largest_plan(choice_share: float, epsilon: float, delta: float) -> float:
    """Return the largest mu, in GDP, of a plan that fits, with its choice priced at this share of mu^2."""
    least = mu_from_epsilon(epsilon, delta)
    if not choice_share:
        return least

    def fits(more: float) -> bool:
        gaussian, eta = divided(least + more, choice_share)
        return composed_delta(gaussian, eta, epsilon) <= delta

    more = least
    while fits(more):
        more *= 2
    return (least + _largest(fits, more)) * _ROUND_DOWN


def divided(mu: float, choice_share: float) -> tuple[float, float]:
    """Return mu of a plan's Gaussians and eta of its choice, which is priced at this share of mu^2."""
    eta = bounded_range_from_mu(mu * math.sqrt(choice_share)) if choice_share > 0 else 0.0
    rest = 1 - choice_share
    return mu * math.sqrt(rest + _LOST if rest > 0 else 0.0), eta


def _largest(fits: Callable[[float], bool], high: float) -> float:
    """Return the largest number in [0, high] that fits, by bisection from below; 0 needs no check."""
    if fits(high):
        return high
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
