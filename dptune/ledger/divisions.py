"""A budget in (epsilon, delta) before its first charge: the worst of all divisions that may follow.

The first charge of such a ledger divides its budget into Gaussians of mu and choices of eta (:class:`Limits`), of which
both together keep the promised pair; or it takes all of a small epsilon for pure releases. At every other delta, and
beside other releases, divisions differ: one choice of all of it costs more than one Gaussian of all of it. Until then
nothing less than the worst may be stated.

*What covers all of them.* With mu(eta) the most that fits beside eta, the profile

    delta(e) = max over eta of that of N(mu(eta), 1) x T(eta), and of randomised response of epsilon

is nowhere below that of any division. A pair with this profile therefore dominates the ledger whichever division
follows, also one that another ledger's results decide. Between eta_k and eta_(k+1) mu(eta) <= mu(eta_k), and T(eta) is
dominated by T(eta_(k+1)): so a grid of eta, rounded up on both sides, is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dptune._arrays import Vector
from dptune.ledger.approximate import PURE_UP_TO, composed_delta, composed_deltas
from dptune.ledger.dominating import Profile, Pure
from dptune.ledger.gdp import Budget, gdp_of, mu_from_epsilon

_COUNT = 250  # of eta
_HALVINGS = 60
_PRECISION = 1e-7  # of epsilon, relative


@dataclass(frozen=True)
class Divisions:
    """Several pairs of limits, of which one will hold."""

    mu: tuple[float, ...]  # (k,) of the Gaussians, each above 0
    eta: tuple[float, ...]  # (k,) of the choices, each above 0
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
        mu = np.concatenate([[mu_from_epsilon(epsilon, delta)], high[:-1]])  # the most beside the eta before
        pure = epsilon if epsilon <= PURE_UP_TO else 0.0
        return cls(tuple(mu.tolist()), tuple(eta.tolist()), (epsilon, delta), pure)

    @property
    def gdp(self) -> float:
        return max(*map(gdp_of, self.mu, self.eta), gdp_of(0.0, 0.0, self.pure))

    def at(self, epsilon: Vector) -> Vector:
        """Return the largest delta (k,) at epsilons (k,)."""
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
    """Return an eta, rounded up, beyond which no choice fits: delta rises with it."""
    low = epsilon
    high = epsilon + 1
    while composed_delta(0.0, high, epsilon) <= delta:
        low = high
        high = high + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_delta(0.0, middle, epsilon) <= delta else (low, middle)
    return high
