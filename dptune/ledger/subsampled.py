"""The Poisson-subsampled Gaussian mechanism, for a plan that is fixed before the first step.

Each of `steps` steps draws a secret sample, every agent independently with probability q. It sums vectors of norm at
most C over the sample and adds N(0, (z C)^2 I). Neighbours differ in one agent, whose message is present or replaced by
zero (zero-out adjacency, with N and q public). So a step's sum moves by at most C, and only if the agent was drawn.
With P = N(0, z^2), Q = N(1, z^2), one step is dominated by the pair

    P   against   M = (1 - q) P + q Q,      in both directions.

The plan must not depend on anything released on the way: checking these figures before each *adaptively chosen* step
is not sound. Units: z in multiples of the sensitivity C; epsilon in nats.
Sources: Koskela, Jaelkoe & Honkela (2020) and Doroshenko et al. (2022) for PLD, which dp-accounting computes: without
it every function here raises :class:`dptune.errors.MissingExtra`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import real, shown, whole
from dptune.errors import InputError, MissingExtra
from dptune.ledger.gdp import probability

VALUE_DISCRETIZATION_INTERVAL = 1e-3  # nats; the privacy loss is rounded up to this grid
_LARGEST_Z, _PRECISION = 1e4, 1e-3  # largest z of the search, and its relative precision
_CUT = 1.5e-15  # probability of the tails that dp-accounting cuts off; it counts them in delta itself
_ROUNDING = 2.0**-52  # added to delta for each step: the FFT was wrong by up to 0.08 of it, for up to 1e5 steps
_SMALLEST_Z = 0.1  # below it the grid needs gigabytes, and a plan gives no protection


@dataclass(frozen=True)
class SubsampledGaussian:
    """Poisson-subsampled Gaussian steps, whose number and noise are fixed in public.

    Attributes:
        q: sampling probability of each agent in each step, in (0, 1].
        z: noise multiplier, the standard deviation over the norm bound C; at least 0.1.
        steps: number of releases, at least 1. Count every release: a loop t = 0..T makes T + 1.

    Raises:
        InputError: a setting outside its range.
    """

    q: float
    z: float
    steps: int

    def __post_init__(self) -> None:
        q, z, steps = real(self.q), real(self.z), whole(self.steps)
        if q is None or not 0 < q <= 1:
            raise InputError(f"the sampling rate (q, or sample_rate) must lie in (0, 1]; got {shown(self.q)}.")
        if z is None or not z >= _SMALLEST_Z:
            raise InputError(
                f"the noise multiplier (z, or noise_multiplier) must be finite and at least {_SMALLEST_Z}; got "
                f"{shown(self.z)}. Less noise protects nobody."
            )
        if steps is None or steps < 1:
            raise InputError(f"steps must be a whole number >= 1; got {shown(self.steps)}.")
        for name, value in (("q", q), ("z", z), ("steps", steps)):
            object.__setattr__(self, name, value)

    def event(self) -> Any:
        """Return the plan as dp-accounting names it."""
        dp = dp_accounting()
        step = dp.PoissonSampledDpEvent(self.q, dp.GaussianDpEvent(self.z))
        return dp.SelfComposedDpEvent(step, self.steps)


def epsilon_pld(plan: SubsampledGaussian, delta: float) -> float:
    """Return the least epsilon such that the plan is (epsilon, delta)-DP, rounded up.

    Raises:
        InputError: delta is smaller than the accountant resolves.
    """
    return resolved(composed([plan.event()]).epsilon, delta)


def resolved(epsilon_at: Callable[[float], float], delta: float) -> float:
    """Return epsilon at ``delta``.

    Raises:
        InputError: it is infinite: delta is smaller than what the accountant cuts off and rounds.
    """
    epsilon = epsilon_at(delta)
    if math.isfinite(epsilon):
        return epsilon
    larger = (10.0**k for k in range(math.ceil(math.log10(max(delta, _CUT))), 0))
    least = next((each for each in larger if math.isfinite(epsilon_at(each))), None)
    remedy = "No delta has one" if least is None else f"Give a larger delta: {least:g} has one"
    raise InputError(
        f"no finite epsilon is known at delta = {delta:g}. The accountant of plans counts in delta what it cuts off "
        f"and rounds: {_CUT:g}, and {_ROUNDING:.1g} for each step. {remedy}."
    )


@dataclass(frozen=True)
class Composed:
    """Mechanisms that are fixed in advance, composed by privacy loss distributions; see :func:`composed`."""

    accountant: Any
    rounding: float  # added to delta: the accountant's sums are rounded
    knots: int = 4000
    gdp: float = math.inf

    @np.errstate(under="ignore")
    def delta(self, epsilon: float) -> float:
        """Return a delta such that all together are (epsilon, delta)-DP."""
        return min(1.0, float(self.accountant.get_delta(epsilon)) + self.rounding)

    @np.errstate(under="ignore")
    def epsilon(self, delta: float) -> float:
        """Return an epsilon such that all together are (epsilon, delta)-DP; infinite if delta is not resolved."""
        rest = probability("delta", delta) - self.rounding
        return float(self.accountant.get_epsilon(rest)) if rest > 0 else math.inf

    @np.errstate(under="ignore")
    def at(self, epsilon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return :meth:`delta` of epsilons (k,), the larger of both directions."""
        return np.asarray(self.accountant.get_delta(epsilon), dtype=np.float64) + self.rounding


@np.errstate(under="ignore")
def composed(events: Sequence[Any]) -> Composed:
    """Return the joint cost of mechanisms that are fixed in advance, given as dp-accounting's events."""
    accountant = pld_accountant()
    for event in events:
        accountant.compose(event)
    return Composed(accountant, _ROUNDING * sum(map(_steps, events)))


def _steps(event: Any) -> int:
    """Return the number of composed mechanisms."""
    dp = dp_accounting()
    match event:
        case dp.SelfComposedDpEvent():
            return int(event.count) * _steps(event.event)
        case dp.ComposedDpEvent():
            return sum(map(_steps, event.events))
    return 1


def noise_multiplier(*, q: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the smallest z, rounded up to 0.1%, for which the plan (q, z, steps) is (epsilon, delta)-DP by PLD.

    Raises:
        InputError: a setting is out of range, or z would be above 1e4.
    """
    return least_noise(lambda z: epsilon_pld(SubsampledGaussian(q, z, steps), delta), epsilon)


def least_noise(price: Callable[[float], float], epsilon: float) -> float:
    """Return the smallest noise multiplier, to 0.1% and rounded up, whose price is at most ``epsilon``."""
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon={epsilon} must be positive and finite")
    low = _SMALLEST_Z
    high = 1.0
    while price(high) > epsilon:
        low = high
        high = min(2 * high, _LARGEST_Z)
        if low == high:
            raise InputError(f"epsilon={epsilon} needs a noise multiplier above {_LARGEST_Z:g}")
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= epsilon else (middle, high)
    return high


def pld_accountant() -> Any:
    """Return a new accountant of dp-accounting: privacy loss distributions, pessimistic, add-or-remove relation."""
    dp_accounting()
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    return PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, VALUE_DISCRETIZATION_INTERVAL)


def dp_accounting() -> Any:
    """Return dp-accounting's module of events."""
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise MissingExtra('PLD accounting needs dp-accounting: pip install "dptune[federated]"') from error
    return dp_event
