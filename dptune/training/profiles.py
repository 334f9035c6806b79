"""The total cost for one population: plans that are fixed in advance, and budgets that are spent adaptively.

The plans' steps have fixed dominating pairs, the adaptive releases filters. The product of the plans' and the filters'
pairs dominates any interleaving (docs/training.md has the proof). The library dp-accounting composes trainings and
Gaussians; :mod:`dptune.ledger.dominating` composes parts with choices or a selection. A selection has the better of two
bounds, its profile (:mod:`dptune.training.selection_profile`) and Renyi DP, alone and with other parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dptune._arrays import Vector
from dptune._statement import Curve
from dptune.ledger.approximate import Limits
from dptune.ledger.dominating import Gaussian, Profile, together
from dptune.ledger.filter import Divisions
from dptune.ledger.gdp import probability
from dptune.ledger.subsampled import Composed, composed, dp_accounting, least_noise, resolved
from dptune.training.plans import Repeats, SelectionPlan, TrainingPlan
from dptune.training.selection_profile import SelectionProfile

PLD = "privacy loss distributions (dp-accounting, add-or-remove relation, pessimistic rounding)"
PRODUCT = "what is composed with it: the product of dominating pairs (Zhu, Dong & Wang 2022)"
PROFILE = (
    "the smaller of two bounds: the selection's privacy profile (docs/training.md), from the privacy loss distribution "
    "of one repeat (dp-accounting, add-or-remove relation); and Renyi DP (Papernot & Steinke, theorems 2 and 6)"
)
_GRID = 1.001  # factor on the cost of removing: the noise's grid does not become finer with a smaller move
_ORDERS = [*(1.8 + k / 10 for k in range(92)), *range(11, 64), 128, 256, 512, 1024]  # lower: series may not converge


def removal_mu(mu: float) -> float:
    """Return the mu, under removing one person, of tuning releases that are mu-GDP together under replacing one.

    A removed person contributes the centre of the smallest ball around all possible contributions. Replacing moves a
    statistic by the diameter D of that set, removing by the ball's radius. That is D/2 for an interval, a box, a ball
    or rows of features. It is at most D/sqrt(2) for any set, such as a report's table, whose cells are corners of a
    simplex (Jung 1901). So a Gaussian release of mu_t costs at most mu_t/sqrt(2).

    Earlier results may decide which kinds of release follow. So the worst kind is assumed for the whole filter, spent
    or not: the spent part of each kind is an odometer's reading, not a promise.

    A choice of eta_t, which clips each loss, has eta_t/2, and costs at most mu_t/sqrt(2), too. *Proof.* With x = mu/2
    and s = eta/2 the price is s = logit Phi(x). d(x^2)/ds = 2 x R(x) Phi(x) with R = (1 - Phi)/phi. As R > x / (1 +
    x^2), (x R)' = (1 + x^2) R - x > 0. So x^2 is a convex function of s and 0 at 0: halving s at least halves x^2.
    """
    return _GRID * math.sqrt(0.5) * mu


def removed(exposure: Limits | Divisions) -> list[Profile]:
    """Return the parts that dominate a tuning ledger's releases under removing one person.

    Releases within the limit of mu cost :func:`removal_mu`. The limits of choices and of pure releases contain only
    means and differences of clipped losses, which move half as far: eta/2 and epsilon/2.
    """
    half = _GRID / 2
    if isinstance(exposure, Divisions):
        etas = tuple(half * eta for eta in exposure.eta)
        return [Divisions(tuple(map(removal_mu, exposure.mu)), etas, pure=half * exposure.pure)]
    return Limits(removal_mu(exposure.mu), half * exposure.eta, half * exposure.pure).profiles()


@dataclass(frozen=True)
class SelectionBound:
    """Repeat and select composed with other parts, by its profile (:mod:`dptune.training.selection_profile`).

    The profile holds for every law of a repeat, also for one that depends on earlier releases. Its dominating pair
    composes with those of the other parts, in any adaptive order.
    """

    plan: SelectionPlan
    once: Composed
    knots: int = 150
    gdp: float = math.inf

    def at(self, epsilon: Vector) -> Vector:
        """Return the bound of delta at epsilons (k,)."""
        profile = self._profile(float(epsilon[-1]))
        return np.array([profile.delta(float(each)) for each in epsilon])

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at ``delta``, by the better of two bounds."""
        most = renyi_epsilon([self.plan], delta)
        return self._profile(most).epsilon(delta)

    def _profile(self, most: float) -> SelectionProfile:
        return SelectionProfile(self.plan.repeats, self.once.at, most=most)


def accountant_of(parts: Sequence[Any]) -> str:
    """Return in words how :func:`curve_of` accounts for the parts."""
    accountant = PROFILE if any(isinstance(part, SelectionPlan) for part in parts) else PLD
    alike = len(parts) == 1 or all(isinstance(part, TrainingPlan | Gaussian) for part in parts)
    return accountant if alike else f"{accountant}; {PRODUCT}"


def curve_of(parts: Sequence[TrainingPlan | SelectionPlan | Profile], delta: float) -> Curve:
    """Return the joint cost of all parts on the same people: (epsilon, delta)-DP for each epsilon.

    Args:
        parts: plans, and dominating parts of tuning releases.
        delta: at which the curve must be tight.
    """
    return _curve_of(tuple(sorted(parts, key=repr)), probability("delta", delta))


@lru_cache(maxsize=32)  # takes seconds for a selection, and every statement calls it
def _curve_of(parts: tuple[TrainingPlan | SelectionPlan | Profile, ...], delta: float) -> Curve:
    match parts:
        case [Gaussian() as alone]:  # exactly, without a grid
            return alone
        case [SelectionPlan() as plan]:
            return SelectionProfile(plan.repeats, composed([plan.once()]).at, most=renyi_epsilon(parts, delta))
    trainings = [part for part in parts if isinstance(part, TrainingPlan)]
    selections = [SelectionBound(part, composed([part.once()])) for part in parts if isinstance(part, SelectionPlan)]
    releases = [part for part in parts if not isinstance(part, TrainingPlan | SelectionPlan)]
    if not selections and all(isinstance(part, Gaussian) for part in releases):
        return composed(_events(parts))
    fixed = [composed(_events(trainings))] * bool(trainings)
    whole = together([*releases, *selections, *fixed], delta)
    return _Smaller(whole, delta, renyi_epsilon(parts, delta)) if selections else whole


@dataclass(frozen=True)
class _Smaller:
    """The smaller of two bounds: a curve, and one epsilon at one delta."""

    curve: Curve
    at: float
    most: float

    def delta(self, epsilon: float) -> float:
        delta = self.curve.delta(epsilon)
        return min(delta, self.at) if epsilon >= self.most else delta

    def epsilon(self, delta: float) -> float:
        epsilon = self.curve.epsilon(delta)
        return min(epsilon, self.most) if delta >= self.at else epsilon


def _events(parts: Sequence[TrainingPlan | SelectionPlan | Profile]) -> list[Any]:
    """Return parts as dp-accounting's events, with releases as one Gaussian of their mu in GDP."""
    gaussian = dp_accounting().GaussianDpEvent
    return [
        part.event() if isinstance(part, TrainingPlan | SelectionPlan) else gaussian(1 / part.gdp) for part in parts
    ]


def epsilon_of(parts: Sequence[TrainingPlan | SelectionPlan | Profile], delta: float) -> float:
    """Return an epsilon such that all parts together, on the same people, are (epsilon, delta)-DP; see `curve_of`.

    Raises:
        InputError: delta is smaller than the accountant resolves.
    """
    return resolved(lambda each: curve_of(parts, each).epsilon(each), probability("delta", delta))


def renyi_epsilon(parts: Sequence[TrainingPlan | SelectionPlan | Profile], delta: float) -> float:
    """Return an epsilon like :func:`epsilon_of`, by Renyi DP, like the papers on repeat and select."""
    dp_accounting()
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(_ORDERS)
    for event in _events(parts):
        accountant.compose(event)
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

    scores = [Gaussian(score_mu * trainings**0.5)] if score_mu else []
    laws = {"geometric": Repeats.geometric, "poisson": Repeats.poisson} if trainings > 1 else {}

    def parts(way: str, z: float) -> list[Any]:
        if way == "composition":
            return [TrainingPlan(z, sample_rate, steps, trainings), *scores]
        return [SelectionPlan(laws[way](trainings), TrainingPlan(z, sample_rate, steps), score_mu or None)]

    def least(way: str) -> float:
        return least_noise(lambda z: epsilon_of(parts(way, z), delta), epsilon)

    return {way: least(way) for way in ("composition", *laws) if way in ways}
