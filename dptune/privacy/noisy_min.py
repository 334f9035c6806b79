"""The exponential mechanism: one of m candidates, chosen by its mean loss, at a price that does not grow with m."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dptune.accounting.events import SelectionRelease
from dptune.accounting.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import Mechanism
from dptune.privacy.noise import SLACK, NoiseSource
from dptune.privacy.query import Query


def noisy_min(noise: NoiseSource, prior: Sequence[float] = ()) -> Mechanism:
    """Return the mechanism that releases the index of a small entry of a vector of means, and nothing else.

    Candidate j is released with probability proportional to prior_j exp(-eta u_j / (2 Delta)), with Delta the most that
    replacing one person moves an entry: 1/sqrt(m) of the L2 sensitivity of a :class:`dptune.privacy.query.Box`.

    Args:
        noise: of the privatizer.
        prior: (m,) positive public weights of the candidates, known before the losses are read; () for equal ones.

    Guarantee: ``query.mu``-GDP under replacing one person, whatever the prior
    (:class:`dptune.accounting.events.SelectionRelease`).
    """
    handicap = -np.log(np.asarray(prior, dtype=np.float64)) if len(prior) else 0.0  # (m,), in units of the scale

    def entry(query: Query, sensitivity: float) -> float:
        return sensitivity / math.sqrt(query.dimension)

    def scale(query: Query, sensitivity: float) -> float:
        return 2 * entry(query, sensitivity) * (1 + SLACK) / bounded_range_from_mu(query.mu)

    def event(query: Query, sensitivity: float, sigma: float) -> SelectionRelease:
        eta = bounded_range_from_mu(query.mu)
        return SelectionRelease(query.mu, eta, entry(query, sensitivity), sigma, query.dimension, query.statistic)

    return Mechanism(
        event=event,
        scale=scale,
        draw=lambda means, sigma: np.array([float(noise.noisy_argmin(means + sigma * handicap, sigma))]),
        adds_to=0,
    )
