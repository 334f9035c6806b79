"""A curator for simulations: the package's formulas with seeded noise, and a ledger in memory.

**A simulation.** `Curator` has what a `SearchRun` asks of a `LossPrivatizer`. It clips and averages as the privatizer
does, and draws numpy noise with the package's `noise_scale`. `Ledger` keeps charges and facts in lists: nothing is
durable, and only what a plan has no room for is refused. tests/benchmarks/test_loops.py checks both against the real
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.data import Array
from dptune import Budget
from dptune.errors import PlanComplete
from dptune.ledger.durable import Charge
from dptune.ledger.entries import Quota
from dptune.ledger.filter import Allowance, GdpFilter
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import PLAN, News
from dptune.privacy.noise import noise_scale
from dptune.privacy.privatizer import Released
from dptune.privacy.query import Ball, Box, Interval, MeanQuery, NormQuery, Query


class Ledger:
    """What a run asks of a `PrivacyLedger`, in memory."""

    def __init__(self, mu: float) -> None:
        self.budget, self.filter, self.mu = Budget.gdp(mu=mu), GdpFilter(Budget.gdp(mu=mu)), mu
        self.charges: list[Charge] = []
        self._by_key: dict[tuple[str, str], Charge] = {}
        self._facts: dict[tuple[str, str], object] = {}

    def fact(self, scope: str, name: str) -> object:
        """What was fixed, or None."""
        return self._facts.get((scope, name))

    def fix(self, scope: str, name: str, value: object) -> object:
        """Fix it; the first one stays."""
        return self._facts.setdefault((scope, name), value)

    def fix_plan(self, scope: str, make: Callable[[Allowance], object]) -> object:
        """Fix the plan of a run that begins with the whole budget."""
        return self.fix(scope, PLAN, make(self.allowance()))

    def check(self, mu: float) -> None:
        """Refuse nothing."""

    def allowance(self) -> Allowance:
        """All of it."""
        return Allowance(self.budget.mu, self.budget.mu, ())

    def charge(self, scope: str, key: str, query: Query, value: Array, sigma: float, note: Mapping[str, object]):
        """Keep what a release costs and its value."""
        description = {"sigma": sigma, "note": note}
        paid = Charge(len(self.charges) + 1, scope, key, query.mu, False, tuple(value.tolist()), description)
        self.charges.append(paid)
        self._by_key[scope, key] = paid
        return paid

    def count(self, scope: str, prefix: str) -> int:
        """How many charges have such keys."""
        return sum(charge.scope == scope and charge.key.startswith(prefix) for charge in self.charges)

    def find(self, scope: str, key: str) -> Charge | None:
        """The charge of a key."""
        return self._by_key.get((scope, key))

    def news(self, scope: str, *, after: int, again: object = (), write: bool = False) -> News:
        """The charges after number ``after``; what is spent is nobody's concern here."""
        return News(tuple(c for c in self.charges[after:] if c.scope == scope), Spent(), private=False)


class Curator:
    """Holds losses and answers queries; ``private=False`` adds no noise.

    Args:
        n: people.
        clip: (low, high) of one loss.
        seed: of the noise.
        private: whether to add it.
        mu: budget of the ledger.
    """

    def __init__(self, n: int, clip: tuple[float, float], *, seed: int, private: bool, mu: float = 1.0) -> None:
        self.interval, self.n, self.private = Interval(*clip), n, private
        self.loss_range, self.ledger = self.interval.diameter, Ledger(mu)
        self._rows: dict[str, Array] = {}
        self._failed: set[str] = set()
        self._rng = np.random.default_rng([seed, 2])

    def describe(self) -> dict[str, object]:
        """The public settings."""
        return {"n": self.n, "clip": [self.interval.low, self.interval.high], "private": False}

    def observe(self, name: str, losses: Array) -> None:
        """Keep the clipped losses (n,) of a point."""
        low, high = self.interval.low, self.interval.high
        self._rows[name] = np.clip(np.nan_to_num(losses, nan=high, posinf=high, neginf=low), low, high)

    def submit(self, name: str, losses: Array | None) -> None:
        """Keep the losses (n,) of a point; None: its evaluation failed."""
        if losses is not None:
            self.observe(name, losses)
            return
        self._rows[name] = np.full(self.n, self.interval.high)
        self._failed.add(name)

    def forget(self, name: str) -> None:
        """Forget a point."""
        self._rows.pop(name, None)

    def mean_query(self, name: str, mu: float) -> MeanQuery:
        """The question "the mean clipped loss at this point"."""
        return MeanQuery((name,), np.ones((1, 1)), self.interval, mu)

    def release(
        self,
        query: Query,
        *,
        scope: str,
        key: str,
        note: Mapping[str, object],
        quota: Quota | None = None,
    ) -> Released:
        """The answer, kept in the ledger."""
        if quota is not None and self.ledger.count(scope, quota.prefix) >= quota.count:
            raise PlanComplete("that is all")
        value, sigma = self.answer(query), self.sigma(query)
        return Released(value, self.ledger.charge(scope, key, query, value, sigma, note), sigma)

    def drew(self, charge: Charge) -> bool:
        """False: what is drawn is recorded."""
        return False

    def recorded(self, charge: Charge) -> Charge:
        """The charge as it is."""
        return charge

    def answer(self, query: Query) -> Array:
        """(1/n) sum_i clip(W L_i) + N(0, sigma^2 I), (p,); or the share of people in the ball, (1,)."""
        G = query.weights @ self._told(query)  # (p, n)
        if isinstance(query, NormQuery):
            mean = np.atleast_1d(np.mean(np.linalg.norm(G, axis=0) <= query.radius))
        else:
            mean = clip(G, query.clip).mean(axis=1)
        return mean + self.sigma(query) * self._rng.standard_normal(len(mean)) if self.private else mean

    def means_query(self, points: Sequence[str], mu: float) -> MeanQuery:
        """The question "the mean clipped losses at these points"."""
        return MeanQuery(tuple(points), np.eye(len(points)), Box(*vars(self.interval).values(), len(points)), mu)

    def _told(self, query: Query) -> Array:
        """The losses a query is about, (m, n), with its rules for failed and for bad evaluations."""
        rows = np.array([self._rows[name] for name in query.points])
        failed = np.array([name in self._failed for name in query.points])
        if query.failed_above is not None and not failed.all():
            rows[failed] = rows[~failed].mean(axis=0) + query.failed_above
        if query.saturate_above is not None:
            rows = np.minimum(rows, np.median(rows, axis=0) + query.saturate_above)
        return rows

    def sigma(self, query: Query) -> float:
        """The noise's standard deviation, per coordinate."""
        return noise_scale(sensitivity=query.clip.diameter / self.n, mu=query.mu, dimension=query.dimension)


def clip(G: Array, region: Ball | Interval) -> Array:
    """Each column of G (p, n) into the region."""
    if isinstance(region, Interval):
        return np.clip(G, region.low, region.high)
    return np.asarray(G * np.minimum(1.0, region.radius / np.maximum(np.linalg.norm(G, axis=0), 1e-300)))
