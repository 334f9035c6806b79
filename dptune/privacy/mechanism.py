"""Mechanisms: how the bounded mean of a query becomes a release.

The privatizer holds losses, bounds what one person can move, pays and records; a mechanism says what that costs, how
much noise it takes, and draws it. Another one is a function from a source of noise to a :class:`Mechanism`, handed to
:meth:`dptune.LossPrivatizer.release`. :func:`gaussian` is the default; :func:`noisy_min` is the exponential mechanism,
whose price does not grow with the number of candidates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dptune.errors import InputError
from dptune.ledger.events import Event, GaussianRelease, SelectionRelease
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.noise import SLACK, NoiseSource, noise_scale
from dptune.privacy.query import Interval, Query, smallest_price
from dptune.privacy.table import TableQuery

Vector = npt.NDArray[np.float64]
Asked = Query | TableQuery


@dataclass(frozen=True)
class Mechanism:
    """What is paid for, how large the noise is, and its draw.

    Attributes:
        event: (query, sensitivity, scale) -> what the ledger charges; its docstring is the proof, its ``mu`` the price.
        scale: (query, sensitivity) -> the noise's size, in units of the statistic.
        draw: (statistic (p,), scale) -> the released vector, with the source of noise that the privatizer gives: the
            ledger's stamp of what is private knows no other. Called after the charge, once.
        adds_to: 1 if the release has the statistic's level, which is added after the noise; 0 if it has none.
        settings: a fingerprint of what else decides the law of the release; a retry must have the same.
    """

    event: Callable[[Asked, float, float], Event]
    scale: Callable[[Asked, float], float]
    draw: Callable[[Vector, float], Vector]
    adds_to: int = 1
    settings: str = ""


def gaussian(noise: NoiseSource) -> Mechanism:
    """Return the Gaussian mechanism: the statistic plus N(0, sigma^2 I), priced in GDP.

    Guarantee: ``query.mu``-GDP under replacing one person, for the L2 sensitivity that the privatizer states;
    what rounding can add is in sigma (:mod:`dptune.privacy.noise`).
    """
    return Mechanism(
        event=lambda query, sensitivity, sigma: GaussianRelease(
            query.mu, sensitivity, sigma, query.dimension, query.statistic
        ),
        scale=lambda query, sensitivity: noise_scale(sensitivity=sensitivity, mu=query.mu, dimension=query.dimension),
        draw=noise.add_gaussian,
    )


DEFAULT_ODDS = 10.0  # beforehand, of a configuration that the user has today against all other candidates together


def odds_for(default: int, candidates: int) -> list[float]:
    """Return a prior (candidates,) for :func:`noisy_min` that keeps the one at ``default`` unless another is better."""
    return [DEFAULT_ODDS * (candidates - 1) if j == default else 1.0 for j in range(candidates)]


def noisy_min(noise: NoiseSource, prior: Sequence[float] = ()) -> Mechanism:
    """Return the mechanism that releases the index of a small entry of a vector of means, and nothing else.

    Candidate j is released with probability proportional to prior_j exp(-eta u_j / (2 Delta)), with Delta the most that
    replacing one person moves an entry: 1/sqrt(m) of the L2 sensitivity of a :class:`~dptune.privacy.query.Box`.

    Args:
        noise: of the privatizer.
        prior: (m,) positive public weights of the candidates, known before the losses are read; () for equal ones.

    Guarantee: ``query.mu``-GDP under replacing one person, whatever the prior
    (:class:`dptune.ledger.events.SelectionRelease`).

    Raises:
        InputError: the prior is not usable, or the price so small that rounding shows; before anything is charged.
    """
    odds = np.asarray(prior, dtype=np.float64)
    if not (np.isfinite(odds) & (odds > 0)).all():
        raise InputError(f"prior must be positive and finite numbers; got {list(prior)!r}. Nothing was charged.")
    handicap = -np.log(odds) if len(prior) else np.zeros(1)  # (m,), in units of the scale

    def entry(query: Asked, sensitivity: float) -> float:
        # a Box is an Interval; one entry of a vector in a Ball, or of a table, may move by all of it
        if isinstance(query, TableQuery) or not isinstance(query.clip, Interval):
            raise InputError("noisy_min chooses among means that are clipped one by one: privatizer.means_query.")
        return sensitivity / math.sqrt(query.dimension)

    def scale(query: Asked, sensitivity: float) -> float:
        least = smallest_price(query.dimension) * max(1.0, float(np.abs(handicap).max()))  # of what rounding moves
        if query.mu < least:
            raise InputError(f"mu={query.mu:.3g} is too small for a choice among {query.dimension}; give {least:.3g}.")
        return 2 * entry(query, sensitivity) * (1 + SLACK) / bounded_range_from_mu(query.mu)

    def event(query: Asked, sensitivity: float, sigma: float) -> SelectionRelease:
        if len(prior) not in (0, query.dimension):
            raise InputError(f"prior must have one number for each of {query.dimension} candidates; got {len(prior)}.")
        eta = bounded_range_from_mu(query.mu)
        return SelectionRelease(query.mu, eta, entry(query, sensitivity), sigma, query.dimension, query.statistic)

    return Mechanism(
        event=event,
        scale=scale,
        draw=lambda means, sigma: np.array([float(noise.noisy_argmin(means + sigma * handicap, sigma))]),
        adds_to=0,
        settings=hashlib.sha256(odds.tobytes()).hexdigest() if len(prior) else "",
    )
