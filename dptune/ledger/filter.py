"""The privacy filter: it decides whether one more release fits, by a rule fixed before the first release.

A budget in GDP has one limit: the squares mu_t^2 of all releases stay within mu^2. A budget in (epsilon, delta) has
two, which together keep the promised pair: mu of the Gaussian releases, and eta of one run's choices. Or one run uses
all of a small epsilon for pure releases, whose epsilons add up. The first charge divides the budget, as its run has
planned: no released value can influence the division.

A filter is immutable. A charge or a raise returns a new one, which the ledger stores in the charge's transaction
(:mod:`dptune.ledger.ledger`).

*Before its first charge* a budget in (epsilon, delta) states the worst of all divisions that may follow. At every other
delta, and with other releases, divisions differ: one choice that uses everything costs more than one such Gaussian.

*A bound for all divisions.* With mu(eta) the largest mu that fits with eta, the profile

    delta(e) = max over eta of the profiles of N(mu(eta), 1) x T(eta), and of randomised response of epsilon

is nowhere below the profile of any division. A pair with this profile therefore dominates the ledger for every
division, also one that depends on another ledger's results. Between eta_k and eta_(k+1) mu(eta) <= mu(eta_k), and
T(eta) is dominated by T(eta_(k+1)): so a grid of eta, rounded up on both sides, is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, reduce
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dptune._arrays import Vector
from dptune._checks import real
from dptune.errors import BudgetExhausted, InputError
from dptune.ledger.approximate import PURE_UP_TO, Limits, composed_delta, composed_deltas, divided, largest_plan
from dptune.ledger.gdp import Budget, Spent, gdp_of, mu_from_epsilon

if TYPE_CHECKING:
    from dptune.ledger.dominating import Profile

_ROUNDING = 1e-9  # relative, of delta
_COUNT = 250  # number of etas at which divisions are compared
_HALVINGS = 60  # steps of a bisection
_PRECISION = 1e-7  # relative, of a stated epsilon
PURE = "epsilon"  # key of a plan: above 0 if it takes all of a budget in (epsilon, delta) for pure releases


@dataclass(frozen=True)
class Allowance:
    """The part of a budget that is available to a new run."""

    left: float  # mu that is not spent
    unplanned: float  # mu that is neither spent nor planned by a run that has begun to spend
    holders: tuple[str, ...]  # the runs that have begun to spend and have not finished
    pair: Budget | None = None  # the budget that a plan may still divide between its choice and everything else

    @property
    def divides(self) -> bool:
        """Return whether the choice of a new run may have its own limit."""
        return self.pair is not None

    @property
    def pure(self) -> float:
        """Return epsilon of a new run that uses everything for pure releases; 0 if it cannot."""
        return 0.0 if self.pair is None else pure_epsilon(self.pair)

    def whole(self, choice_share: float) -> float:
        """Return mu of a plan that uses everything, with this share of mu^2 for a choice."""
        pair = self.pair
        if choice_share and pair is not None and pair.stated_epsilon is not None and pair.stated_delta is not None:
            return largest_plan(choice_share, pair.stated_epsilon, pair.stated_delta)
        return self.unplanned


@dataclass(frozen=True)
class GdpFilter:
    """The filter of a budget in GDP, and the base of every filter."""

    budget: Budget  # as created or raised
    division: Limits | None = None  # limits of a budget in (epsilon, delta), from its first charge on
    holder: str = ""  # the run whose choices, or pure releases, have their own limit

    @property
    def limits(self) -> Limits:
        return Limits(self.budget.mu) if self.division is None else self.division

    @property
    def exposure(self) -> Limits | Divisions:
        """Return the limits; or all divisions, while a charge may still divide the budget."""
        return self.limits

    @property
    def undivided(self) -> bool:
        """Return whether the next charge divides a budget in (epsilon, delta)."""
        return False

    def stored(self) -> dict[str, object] | None:
        """Return the limits as JSON data for the ledger, or None."""
        return None if self.division is None else {**asdict(self.division), "holder": self.holder}

    def after(self, scope: str, plan: Callable[[], object]) -> GdpFilter:
        """Return the filter for the next charge if the run ``scope``, whose plan is plan(), makes it."""
        return self

    def price(self, scope: str, mu: float, spent: Spent, *, eta: float = 0.0, epsilon: float = 0.0) -> float | None:
        """Return the price of one more release: ``mu`` in GDP, or None if it counts towards another limit.

        Args:
            eta: bounded range, if it is a choice that has one.
            epsilon: of a pure release.

        Raises:
            BudgetExhausted: it does not fit.
        """
        if not self.admits(spent, mu):
            raise BudgetExhausted(mu, self.left(spent), self.limits.mu)
        return mu

    def admits(self, spent: Spent, mu: float) -> bool:
        return spent.admits(mu, self.limits.mu)

    def left(self, spent: Spent) -> float:
        """Return mu of the largest single release that still fits."""
        return spent.remaining(self.limits.mu)

    def reserves(self, scope: str, plan: object) -> float:
        """Return how much of the limit of mu a run's plan takes."""
        return mu_and_choice_share(plan)[0]

    def allowance(self, spent: Spent, spent_of: Mapping[str, Spent], plans: Mapping[str, object]) -> Allowance:
        """Return what a new run may spend, given the plans of runs that have begun to spend."""
        planned = {scope: self.reserves(scope, plan) for scope, plan in plans.items()}
        reserved = {scope: spent_of[scope].remaining(mu) for scope, mu in planned.items() if mu > 0}
        unplanned = self.left(reduce(Spent.plus, reserved.values(), spent))
        holders = tuple(sorted(scope for scope in reserved if reserved[scope] > 0))
        return Allowance(self.left(spent), unplanned, holders)

    def raised(self, budget: Budget) -> GdpFilter:
        return GdpFilter(budget)


@dataclass(frozen=True)
class PairFilter(GdpFilter):
    """The filter of a budget in (epsilon, delta).

    The choices of its holder count as eta, or its pure releases as epsilon.
    """

    @property
    def exposure(self) -> Limits | Divisions:
        return Divisions.of(self.budget) if self.division is None else self.division

    @property
    def undivided(self) -> bool:
        return self.division is None

    def after(self, scope: str, plan: Callable[[], object]) -> PairFilter:
        """Return the filter with the budget divided, if no charge has divided it."""
        if self.division is not None:
            return self
        planned = plan() if scope else None
        mu, share = mu_and_choice_share(planned)
        pure = pure_epsilon(self.budget)
        if pure > 0 and isinstance(planned, Mapping) and real(planned.get(PURE)) == pure:  # planned for this budget
            return PairFilter(self.budget, Limits(0.0, pure=pure), scope)
        gaussian, eta = divided(mu, share) if share else (mu, 0.0)
        return self.divided(gaussian, eta, scope)

    def divided(self, mu: float, eta: float, run: str) -> PairFilter:
        """Return the filter with choices of ``eta`` and the largest fitting mu; ``mu`` if hardly more fits."""
        limits = Limits.within(self.budget, eta, planned=mu)
        return PairFilter(self.budget, limits, run if limits.eta > 0 else "")

    def price(self, scope: str, mu: float, spent: Spent, *, eta: float = 0.0, epsilon: float = 0.0) -> float | None:
        """Count a release of the holder towards its own limit if it fits, else towards mu."""
        chosen = eta > 0 and spent.admits_choice(eta, self.limits.eta)
        counts = chosen or (epsilon > 0 and spent.admits_pure(epsilon, self.limits.pure))
        return None if counts and scope and scope == self.holder else super().price(scope, mu, spent)

    def reserves(self, scope: str, plan: object) -> float:
        """Return a plan's part of the limit of mu, without what counts as eta or as pure."""
        mu, share = mu_and_choice_share(plan)
        own = 1.0 if self.limits.pure > 0 else share
        return mu * sqrt(1 - own) if scope == self.holder else mu

    def allowance(self, spent: Spent, spent_of: Mapping[str, Spent], plans: Mapping[str, object]) -> Allowance:
        allowance = super().allowance(spent, spent_of, plans)
        return replace(allowance, pair=self.budget if self.undivided else None)

    def raised(self, budget: Budget) -> PairFilter:
        """Return the filter of a larger budget: mu grows, and the other limits stay."""
        if not is_pair(budget):
            raise InputError(
                "this budget is kept in (epsilon, delta): raise it with Budget.approximate_dp, or on the command line "
                "with --epsilon and --delta."
            )
        if self.division is None:
            return PairFilter(budget)
        new = PairFilter(budget).divided(0.0, self.division.eta, self.holder)
        if self.division.pure > 0:
            new = PairFilter(budget, Limits.pure_within(budget, self.division.pure), self.holder)
        promised = (new.budget.stated_epsilon or 0.0, new.budget.stated_delta or 0.0)
        kept = new.limits.delta(promised[0]) <= promised[1] * (1 + _ROUNDING)
        if new.limits.mu < self.division.mu or new.limits.eta < self.division.eta or not kept:
            raise InputError(
                f"a budget is only raised: what is planned of {_pair(self.budget)} does not fit into {_pair(budget)}. "
                "Give a larger epsilon or delta."
            )
        return new


def filter_of(budget: Budget, *, pair: bool, stored: Mapping[str, Any] | None) -> GdpFilter:
    """Return the filter of a ledger's budget, from the ledger's stored data."""
    if not pair:
        return GdpFilter(budget)
    if stored is None:
        return PairFilter(budget)
    return PairFilter(budget, Limits(stored["mu"], stored["eta"], stored["pure"]), stored["holder"])


def is_pair(budget: Budget) -> bool:
    """Return whether the budget is stated in (epsilon, delta) and its mu is not below the pair's."""
    epsilon, delta = budget.stated_epsilon, budget.stated_delta
    return epsilon is not None and delta is not None and budget.same_promise(Budget.approximate_dp(epsilon, delta))


def _pair(budget: Budget) -> str:
    return f"epsilon={budget.stated_epsilon:.6g} at delta={budget.stated_delta:.6g}"


def pure_epsilon(budget: Budget) -> float:
    """Return epsilon of a budget in (epsilon, delta) that a run may take for pure releases; 0 if it is too large."""
    epsilon = budget.stated_epsilon or 0.0
    return epsilon if epsilon <= PURE_UP_TO else 0.0


def mu_and_choice_share(plan: object) -> tuple[float, float]:
    """Return the mu of a plan, or 0, and the share of mu^2 for its choice."""
    settings = plan if isinstance(plan, dict) else {}
    shares = settings.get("shares")
    mu = real(settings.get("mu")) or 0.0
    share = real(shares.get("choice") if isinstance(shares, dict) else 0.0) or 0.0
    return mu, share if mu > 0 and 0 < share <= 1 else 0.0


# ---- before the first charge --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Divisions:
    """Several pairs of limits, one of which will apply."""

    mu: tuple[float, ...]  # (k,) limits of the Gaussians, each above 0
    eta: tuple[float, ...]  # (k,) limits of the choices, each above 0
    pair: tuple[float, float] | None = None  # (epsilon, delta) that holds with each, if one was promised
    pure: float = 0.0  # epsilon, if all may be for pure releases
    knots: int = 500

    @classmethod
    @lru_cache
    def of(cls, budget: Budget) -> Divisions:
        """Return all divisions of a budget in (epsilon, delta)."""
        epsilon, delta = budget.stated_epsilon or 0.0, budget.stated_delta or 0.0
        eta = np.linspace(0.0, _largest_eta(epsilon, delta), _COUNT + 1)[1:]  # (k,)
        low = np.zeros(_COUNT)
        high = np.full(_COUNT, mu_from_epsilon(epsilon, delta))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = composed_deltas(middle, eta, np.full(_COUNT, epsilon)) <= delta
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        mu = np.concatenate([[mu_from_epsilon(epsilon, delta)], high[:-1]])  # the largest mu with the eta before
        pure = epsilon if epsilon <= PURE_UP_TO else 0.0
        return cls(tuple(mu.tolist()), tuple(eta.tolist()), (epsilon, delta), pure)

    @property
    def gdp(self) -> float:
        return max(*map(gdp_of, self.mu, self.eta), gdp_of(0.0, 0.0, self.pure))

    def at(self, epsilon: Vector) -> Vector:
        """Return the largest delta (k,) at epsilons (k,)."""
        from dptune.ledger.dominating import Pure

        shape = (len(self.mu), len(epsilon))
        mu, eta = (np.broadcast_to(np.array(each)[:, None], shape) for each in (self.mu, self.eta))
        worst = composed_deltas(mu, eta, np.broadcast_to(epsilon, shape)).max(axis=0)
        worst = np.maximum(worst, Pure(self.pure).at(epsilon))
        if self.pair is None:
            return np.asarray(worst)
        return np.asarray(np.where(epsilon >= self.pair[0], np.minimum(worst, self.pair[1]), worst))

    def delta(self, epsilon: float) -> float:
        return float(self.at(np.array([epsilon]))[0])

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, rounded up, that every division keeps at ``delta``."""
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low = high
            high = 2 * high
        if self.pair is not None and delta >= self.pair[1]:
            high = min(high, self.pair[0])
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def profiles(self) -> list[Profile]:
        return [self]


def _largest_eta(epsilon: float, delta: float) -> float:
    """Return an eta, rounded up, beyond which no choice fits: delta rises with eta."""
    low = epsilon
    high = epsilon + 1
    while composed_delta(0.0, high, epsilon) <= delta:
        low = high
        high = high + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_delta(0.0, middle, epsilon) <= delta else (low, middle)
    return high
