"""Epsilon of what one population pays in all: plans fixed in advance, and budgets in GDP spent adaptively beside them.

The plans' steps have fixed dominating pairs, the adaptive releases a filter on mu. Interleaved in any way they are
dominated by the plans' pairs and one Gaussian of mu (docs/training.md has the proof), whose privacy loss distributions
dp-accounting convolves. Repeat and select alone has the better of two bounds: its own profile
(:mod:`dptune.training.selection_profile`) and Renyi DP. With anything beside it everything is composed in Renyi DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dptune._checks import positive
from dptune.accounting.gdp import bounded_range_from_mu, epsilon_from_mu, probability
from dptune.accounting.subsampled import dp_accounting, least_noise, pld_accountant
from dptune.training.plans import Repeats, SelectionPlan, TrainingPlan
from dptune.training.selection_profile import SelectionProfile

PLD = "privacy loss distributions (dp-accounting, add-or-remove relation, pessimistic rounding)"
RDP = "Renyi differential privacy (dp-accounting; repeat and select: Papernot & Steinke, theorems 2 and 6)"
PROFILE = (
    "the smaller of two bounds: the selection's privacy profile (docs/training.md), from the privacy loss distribution "
    "of one repeat (dp-accounting, add-or-remove relation); and Renyi DP (Papernot & Steinke, theorems 2 and 6)"
)
_ORDERS = [*(1.8 + k / 10 for k in range(92)), *range(11, 64), 128, 256, 512, 1024]  # lower: series may not converge


class Part(Protocol):
    """Something that a population pays."""

    def event(self) -> Any:
        """Return it as dp-accounting names it."""
        ...


@dataclass(frozen=True)
class Adaptive:
    """Releases chosen adaptively within a budget of mu-GDP: dominated by one Gaussian mechanism of mu."""

    mu: float

    def event(self) -> Any:
        """Return the Gaussian as dp-accounting names it."""
        return dp_accounting().GaussianDpEvent(1 / positive("mu", self.mu))


def removal_mu(mu: float) -> float:
    """Return the mu, under removing one person, of tuning releases that are mu-GDP together under replacing one.

    A removed person adds the middle of what anybody can add: nothing to a clipped vector or a row of features, the
    middle of the clip to a mean, one half to a share. Replacing moves a statistic by the diameter of that range,
    removing by half of it. So a Gaussian release of mu_t costs mu_t/2, and a choice of eta_t, whose means move half as
    far, has eta_t/2.

    Proof for choices. With h(s) = Phi^-1(1 / (1 + e^-s)) a choice costs 2 h(eta_t / 2) under replacing and 2 h(eta_t /
    4) under removing. h is concave on s > 0 (:func:`dptune.accounting.gdp.mu_from_bounded_range`) with h(0) = 0 and
    h'(0) = sqrt(2 pi) / 4, so the latter is at most sqrt(2 pi) / 8 eta_t; and eta_t / mu_t grows with mu_t, from 4 /
    sqrt(2 pi). So each release costs at most r mu_t, r = sqrt(2 pi) / 8 eta / mu >= 1/2 for the eta of the whole mu,
    and releases within a filter of mu stay within one of r mu, whatever is chosen adaptively. A thousandth more
    covers the grid of the noise, which halving does not halve (:func:`dptune.privacy.query.smallest_price`).
    """
    if mu == 0:
        return 0.0
    return min(mu, 1.001 * math.sqrt(2 * math.pi) / 8 * bounded_range_from_mu(mu))


def accountant_of(parts: Sequence[Part]) -> str:
    """Return in words how :func:`epsilon_of` accounts for the parts."""
    if not any(isinstance(part, SelectionPlan) for part in parts):
        return PLD
    return PROFILE if len(parts) == 1 else RDP


def epsilon_of(parts: Sequence[Part], delta: float) -> float:
    """Return an epsilon such that all parts together, on the same people, are (epsilon, delta)-DP.

    Raises:
        InputError: delta is not strictly between 0 and 1.
        MissingExtra: dp-accounting is not installed.
    """
    delta = probability("delta", delta)
    match parts:
        case [Adaptive(mu)]:  # exactly, without a grid
            return epsilon_from_mu(mu, delta)
        case [SelectionPlan() as plan]:
            once = pld_accountant().compose(plan.once())
            most = renyi_epsilon(parts, delta)
            return SelectionProfile(plan.repeats, once.get_delta, most=most).epsilon(delta)
    if accountant_of(parts) == RDP:
        return renyi_epsilon(parts, delta)
    accountant = pld_accountant()
    for part in parts:
        accountant.compose(part.event())
    return float(accountant.get_epsilon(delta))


def renyi_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Return an epsilon as :func:`epsilon_of`, by Renyi DP, which is what the papers on repeat and select print."""
    dp_accounting()
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(_ORDERS)
    for part in parts:
        accountant.compose(part.event())
    return float(accountant.get_epsilon(delta))


def noise_multipliers(
    *,
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    trainings: int,
    score_mu: float = 0.0,
    ways: Collection[str] = ("composition", "geometric", "poisson"),
) -> dict[str, float]:
    """Return the noise multiplier of each training that fits a budget, for several ways to make ``trainings`` of them.

    Args:
        epsilon, delta: the budget of the people who are trained on.
        sample_rate, steps: of one training.
        trainings: T; the mean of the random number where it is random.
        score_mu: GDP price of one score, if the same people score, too.
        ways: which to work out, seconds each.

    Returns:
        By name: "composition" (every model may be shown), and "geometric" and "poisson" (only the best ever is), which
        a single training does not have.

    Raises:
        InputError: a setting is out of range, or a noise multiplier would be above 1e4.
    """

    def composed(z: float) -> list[Part]:
        scores = [Adaptive(score_mu * trainings**0.5)] if score_mu else []
        return [TrainingPlan(z, sample_rate, steps, trainings), *scores]

    def selected(law: Callable[[float], Repeats]) -> Callable[[float], list[Part]]:
        return lambda z: [SelectionPlan(law(trainings), TrainingPlan(z, sample_rate, steps), score_mu or None)]

    known: dict[str, Callable[[float], list[Part]]] = {"composition": composed}
    if trainings > 1:
        known |= {"geometric": selected(Repeats.geometric), "poisson": selected(Repeats.poisson)}

    def least(parts: Callable[[float], list[Part]]) -> float:
        return least_noise(lambda z: epsilon_of(parts(z), delta), epsilon)

    return {way: least(parts) for way, parts in known.items() if way in ways}
