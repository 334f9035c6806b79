"""Mechanisms: how the bounded mean of a query becomes a release.

The privatizer stores losses, bounds each person's influence, charges and records. A mechanism sets the price and the
noise scale, and draws the noise. Pass your own subclass of :class:`Mechanism` to :meth:`dptune.LossPrivatizer.release`.
:class:`GaussianMechanism` is the default; :class:`NoisyMin` is the exponential mechanism, whose price does not grow
with the number of candidates. :class:`PermuteAndFlip` (a choice) and :class:`LaplaceMechanism` (one number) are for
pure differential privacy.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dptune._arrays import Vector
from dptune._checks import shown
from dptune.errors import InputError
from dptune.ledger.events import Event, FlipRelease, GaussianRelease, LaplaceRelease, SelectionRelease
from dptune.ledger.gdp import bounded_range_from_mu, pure_from_mu
from dptune.privacy.noise import SLACK, NoiseSource, laplace_scale, noise_scale
from dptune.privacy.query import Interval, Query, smallest_price
from dptune.privacy.table import TableQuery

AnyQuery: TypeAlias = Query | TableQuery  # a mechanism reads its price, and its statistic's length p and words


class Mechanism(ABC):
    """The charged event, the noise scale, and the draw.

    Attributes:
        adds_level: whether the release has the statistic's level, which is added after the noise.
        settings: a fingerprint of all else that determines the release's law; a retry must have the same.

    Args:
        noise: the privatizer's source of noise and the mechanism's only one: it decides whether the ledger records a
            release as private.
    """

    adds_level = True
    settings = ""

    def __init__(self, noise: NoiseSource) -> None:
        self.noise = noise

    @abstractmethod
    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> Event:
        """Return the event that the ledger charges; its docstring is the proof, its ``mu`` the price."""

    @abstractmethod
    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        """Return the noise scale, in units of the statistic."""

    @abstractmethod
    def draw(self, statistic: Vector, scale: float) -> Vector:
        """Return the released vector of a statistic (p,). Called after the charge, once."""


class GaussianMechanism(Mechanism):
    """The statistic plus N(0, sigma^2 I), priced in GDP.

    Guarantee: ``query.mu``-GDP under replacing one person, for the L2 sensitivity that the privatizer states;
    what rounding can add is in sigma (:mod:`dptune.privacy.noise`).
    """

    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> Event:
        return GaussianRelease(query.mu, sensitivity, scale, query.dimension, query.statistic)

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        return noise_scale(sensitivity=sensitivity, mu=query.mu, dimension=query.dimension)

    def draw(self, statistic: Vector, scale: float) -> Vector:
        return self.noise.add_gaussian(statistic, scale)


class LaplaceMechanism(Mechanism):
    """One number plus Laplace noise, priced in GDP by ``query.mu``; within a limit of pure releases by its epsilon.

    Guarantee: epsilon-DP with epsilon = pure_from_mu(query.mu), hence ``query.mu``-GDP, under replacing one person
    (:class:`dptune.ledger.events.LaplaceRelease`); what rounding can add is in the scale.
    """

    settings = "laplace"

    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> Event:
        deviation = math.sqrt(2) * scale
        return LaplaceRelease(query.mu, pure_from_mu(query.mu), sensitivity, scale, deviation, query.statistic)

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        if query.dimension != 1:
            raise InputError(f"LaplaceMechanism releases one number; the query has {query.dimension}.")
        return laplace_scale(sensitivity=sensitivity, epsilon=pure_from_mu(query.mu))

    def draw(self, statistic: Vector, scale: float) -> Vector:
        return np.array([self.noise.add_laplace(float(statistic.item()), scale)])


DEFAULT_ODDS = 10.0  # prior odds of the user's present configuration against all other candidates together


def odds_for(default: int, candidates: int) -> list[float]:
    """Return a prior (candidates,) for :class:`NoisyMin` that keeps candidate ``default`` unless another is better."""
    return [DEFAULT_ODDS * (candidates - 1) if j == default else 1.0 for j in range(candidates)]


class NoisyMin(Mechanism):
    """Releases only the index of a small entry of a vector of means.

    Candidate j is released with probability proportional to prior_j exp(-eta u_j / (2 Delta)). Replacing one person
    moves an entry by at most Delta: 1/sqrt(m) of the L2 sensitivity of a :class:`~dptune.privacy.query.Box`.

    Args:
        noise: the privatizer's source of noise.
        prior: (m,) positive public weights of the candidates, known before the losses are read; () for equal ones.

    Guarantee: ``query.mu``-GDP under replacing one person, whatever the prior
    (:class:`dptune.ledger.events.SelectionRelease`). Noisy entries are compared exactly. Rounding of the entries adds
    at most 8 2^-53 (H + n eta / 4) to the bounded range, with H >= 1 the largest entry of the handicap. SLACK eta in
    the scale covers it, unless eta is below the smallest price times H (docs/privacy.md).

    Raises:
        InputError: the prior is not valid, or the price is so small that rounding matters. Nothing was charged.
    """

    adds_level = False

    def __init__(self, noise: NoiseSource, prior: Sequence[float] = ()) -> None:
        super().__init__(noise)
        odds = np.asarray(prior, dtype=np.float64)
        if not (np.isfinite(odds) & (odds > 0)).all():
            raise InputError(
                f"prior must be positive and finite numbers; got {shown(list(prior))}. Nothing was charged."
            )
        self._candidates = len(prior)
        self._handicap = -np.log(odds) if len(prior) else np.zeros(1)  # (m,), in units of the scale
        self.settings = hashlib.sha256(odds.tobytes()).hexdigest() if len(prior) else ""

    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> Event:
        self._check(query)
        entry = self._entry(query, sensitivity)
        return SelectionRelease(query.mu, self._price(query), entry, scale, query.dimension, query.statistic)

    def _check(self, query: AnyQuery) -> None:
        """Refuse a prior with a different number of candidates."""
        if self._candidates not in (0, query.dimension):
            raise InputError(
                f"prior must have one number for each of {query.dimension} candidates; got {self._candidates}."
            )

    def _price(self, query: AnyQuery) -> float:
        """Return the bounded range eta, which determines the scale."""
        return bounded_range_from_mu(query.mu)

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        rounding = max(1.0, float(np.abs(self._handicap).max()))
        least = smallest_price(query.dimension) * rounding
        if query.mu < least:
            raise InputError(f"mu={query.mu:.3g} is too small for a choice among {query.dimension}; give {least:.3g}.")
        return 2 * self._entry(query, sensitivity) * (1 + SLACK) / self._price(query)

    def draw(self, statistic: Vector, scale: float) -> Vector:
        return np.array([float(self.noise.noisy_argmin(statistic + scale * self._handicap, scale))])

    def _entry(self, query: AnyQuery, sensitivity: float) -> float:
        """Return the most that replacing one person moves one mean: in a Ball, its diameter."""
        if not isinstance(query, Query) or not isinstance(query.clip, Interval):  # a Box is an Interval
            name = type(self).__name__
            raise InputError(f"{name} chooses among means that are clipped one by one: privatizer.means_query.")
        return sensitivity / math.sqrt(query.dimension)


class PermuteAndFlip(NoisyMin):
    """Releases only the index of a small entry of a vector of means, for pure differential privacy.

    Candidate j is released if u_j - scale (log prior_j + X_j) is smallest, X_j independent exponential variables of
    mean 1. For one epsilon it errs less than :class:`NoisyMin`; for one price in GDP it errs more.

    Guarantee: epsilon-DP with epsilon = pure_from_mu(query.mu), hence ``query.mu``-GDP, under replacing one person,
    whatever the prior (:class:`dptune.ledger.events.FlipRelease`). Rounding is as in NoisyMin.
    """

    def __init__(self, noise: NoiseSource, prior: Sequence[float] = ()) -> None:
        super().__init__(noise, prior)
        self.settings = f"permute-and-flip {self.settings}"

    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> Event:
        self._check(query)
        entry = self._entry(query, sensitivity)
        return FlipRelease(query.mu, pure_from_mu(query.mu), entry, scale, query.dimension, query.statistic)

    def _price(self, query: AnyQuery) -> float:
        return pure_from_mu(query.mu)

    def draw(self, statistic: Vector, scale: float) -> Vector:
        return np.array([float(self.noise.permute_and_flip(statistic + scale * self._handicap, scale))])
