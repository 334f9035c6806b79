"""The joint cost of adaptively composed parts: dominating pairs of laws, on a grid of privacy losses.

The *profile* of a part is delta(e) = max_E P(E) - e^e P'(E), the larger of both directions, for every real e. Below 0
it follows from above: delta(-e) = 1 - e^(-e) + e^(-e) delta(e). A pair of laws P, Q whose own profile is nowhere
smaller dominates the part. Pairs that dominate each part, whatever the other parts answered, dominate all parts
together as a product, in any adaptive order (Zhu, Dong & Wang 2022). A product adds the privacy losses l = log P/Q, so
that with the law of l under P

    delta(e) = E_P (1 - e^(e - l))_+ .

*Connect the dots* (Doroshenko et al. 2022). A profile is convex in x = e^e, hence below its chords between knots x_k.
The chords are the profile of a pair: under P its loss is log x_k with the probability x_k (change of slope at x_k).
With the remaining probability, at the last knot, the loss is infinite. An upper bound of a profile suffices at knots,
as chords between larger values lie higher. Where it is not convex, a negative probability is set to 0, which raises
delta.

*Basic composition.* If each part i is also epsilon_i-DP, whatever the other parts answered, all parts together are
epsilon-DP for the sum of the epsilon_i, in any adaptive order. The grid, which rounds up, may lie above that.

Units: losses and epsilons in nats; all knots are multiples of one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import log_ndtr

from dptune._arrays import Vector
from dptune.ledger.gdp import delta_from_mu, epsilon_from_mu, mu_from_bounded_range, mu_from_pure

_STEPS = 2**14  # grid steps, from 0 to where all parts' tails end
_TAILS = (1e-4, 1e-2, 0.5)  # shares of delta that each part's tail may add: the first with an epsilon is used
_ROUND_UP = 1 + 1e-9  # factor on delta: sums of 2^15 terms, all positive
_PRECISION = 1e-6  # relative, of epsilon


class Profile(Protocol):
    """The privacy profile of a part, or an upper bound of it, in both directions."""

    @property
    def knots(self) -> int:
        """Return the number of epsilons at which the profile may be computed."""

    @property
    def gdp(self) -> float:
        """Return a mu such that the part is mu-GDP; infinite if none is known."""

    def at(self, epsilon: Vector) -> Vector:
        """Return delta (k,) at epsilons (k,), ascending from 0 or more."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which the part's delta is at most this."""


@dataclass(frozen=True)
class Gaussian:
    """N(mu, 1) against N(0, 1): dominates all Gaussian releases of mu together."""

    mu: float
    knots: int = _STEPS

    @property
    def gdp(self) -> float:
        return self.mu

    def at(self, epsilon: Vector) -> Vector:
        """Return Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), computed in logarithms."""
        first = log_ndtr(self.mu / 2 - epsilon / self.mu)
        second = epsilon + log_ndtr(-self.mu / 2 - epsilon / self.mu)
        return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))

    def delta(self, epsilon: float) -> float:
        return delta_from_mu(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        return epsilon_from_mu(self.mu, delta)


@dataclass(frozen=True)
class Choices:
    """T(eta) against its mirror image: dominates all choices of bounded range eta together.

    :mod:`dptune.ledger.approximate` has the proof. Two ledgers with limits a and b of their choices have T(a) x T(b).
    That is cheaper than T(a + b) of one ledger, where an adversary may divide a + b adaptively.
    """

    eta: float
    knots: int = _STEPS

    @property
    def gdp(self) -> float:
        return mu_from_bounded_range(self.eta)

    def at(self, epsilon: Vector) -> Vector:
        """Return (1 - e^(-(eta - e)/2))^2 / (1 - e^-eta) up to eta, then 0."""
        short = np.maximum(self.eta - epsilon, 0.0)
        return np.asarray(np.expm1(-short / 2) ** 2 / -math.expm1(-self.eta))

    def epsilon(self, delta: float) -> float:
        return self.eta  # beyond it nothing is left


@dataclass(frozen=True)
class Pure:
    """Randomised response of epsilon: dominates all releases together that are epsilon-DP together."""

    pure: float
    knots: int = _STEPS

    @property
    def gdp(self) -> float:
        return mu_from_pure(self.pure)

    def at(self, epsilon: Vector) -> Vector:
        """Return (e^pure - e^e) / (1 + e^pure) up to pure, then 0."""
        return np.asarray(-np.expm1(np.minimum(epsilon - self.pure, 0.0)) / (1 + math.exp(-self.pure)))

    def epsilon(self, delta: float) -> float:
        return self.pure  # beyond it nothing is left


@dataclass(frozen=True)
class Pair:
    """A dominating pair: the law of its privacy loss on multiples of ``step``."""

    step: float
    lowest: int  # the smallest loss, in steps
    law: Vector  # (k,) probability under P of the losses lowest, lowest + 1, ... steps; the rest has the loss -inf
    infinite: float  # probability of an infinite loss
    most: float = math.inf  # all the parts together are most-DP, by basic composition

    @classmethod
    def of(cls, profile: Profile, step: float, highest: int) -> Pair:
        """Connect the dots of a profile between -highest and highest steps."""
        every = max(1, math.ceil(highest / profile.knots))
        above = np.unique(np.append(np.arange(0, highest, every), highest))  # (k,), in steps
        upper = np.minimum(profile.at(above * step), 1.0)
        lower = -np.expm1(-above * step) + np.exp(-above * step) * upper  # at -above
        knots = np.concatenate([-above[:0:-1], above])  # (2k - 1,)
        values = np.concatenate([lower[:0:-1], upper])
        gaps = np.diff(knots) * step  # between knots
        falls = -np.diff(values)
        probabilities = np.append(1 - values[0], falls / -np.expm1(-gaps)) - np.append(falls / np.expm1(gaps), 0.0)
        law = np.zeros(2 * highest + 1)
        law[knots + highest] = np.maximum(probabilities, 0.0)
        return cls(step, -highest, law, float(values[-1]))

    def times(self, other: Pair) -> Pair:
        """Return the product of both pairs: losses add up. All terms are positive, so nothing cancels."""
        finite = (1 - self.infinite) * (1 - other.infinite)
        return Pair(self.step, self.lowest + other.lowest, np.convolve(self.law, other.law), 1 - finite)

    def delta(self, epsilon: float) -> float:
        """Return delta at an epsilon, rounded up."""
        if epsilon >= self.most:
            return 0.0
        losses = (self.lowest + np.arange(len(self.law))) * self.step
        above = losses > epsilon
        return min(1.0, _ROUND_UP * (float(self.law[above] @ -np.expm1(epsilon - losses[above])) + self.infinite))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0 at ``delta``, rounded up; infinite if there is none."""
        low = 0.0
        high = min((self.lowest + len(self.law)) * self.step, self.most)
        if self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return 0.0
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def together(profiles: Sequence[Profile], delta: float) -> Pair:
    """Return a pair that dominates all the parts together, fine enough for epsilon at ``delta`` and above."""
    reaches = [_reach(profile, delta) for profile in profiles]
    if not all(map(math.isfinite, reaches)):
        return Pair(1.0, 0, np.zeros(1), 1.0)
    most = math.fsum(_most(profile) for profile in profiles)
    step = max(math.fsum(reaches), 1e-6) / _STEPS
    pairs = [Pair.of(each, step, math.ceil(reach / step) + 1) for each, reach in zip(profiles, reaches, strict=True)]
    whole = pairs[0]
    for pair in pairs[1:]:
        whole = whole.times(pair)
    return replace(whole, most=most)


def _most(profile: Profile) -> float:
    """Return an epsilon such that the part is epsilon-DP, or infinity: for a choice |log-ratio| <= eta."""
    match profile:
        case Pure(most) | Choices(most):
            return most
    return math.inf


def _reach(profile: Profile, delta: float) -> float:
    """Return an epsilon beyond which a part adds almost nothing; infinite if its delta is never that small."""
    return next((r for share in _TAILS if math.isfinite(r := profile.epsilon(share * delta))), math.inf)
