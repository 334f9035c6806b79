"""A mechanism: how the bounded mean of a query becomes a release.

The privatizer holds losses, bounds what one person can move, pays and records; a mechanism says what that costs, how
much noise it takes, and draws it. Another mechanism is one file with one function from a source of noise to a
:class:`Mechanism`, handed to :meth:`dptune.LossPrivatizer.release`. :func:`gaussian` is the only one used by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dptune.accounting.events import Event, GaussianRelease
from dptune.privacy.noise import NoiseSource, noise_scale
from dptune.privacy.query import Query

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mechanism:
    """What is paid for, how large the noise is, and its draw.

    Attributes:
        event: (query, sensitivity, scale) -> what the ledger charges; its docstring is the proof, its ``mu`` the price.
        scale: (query, sensitivity) -> the noise's size, in units of the statistic.
        draw: (statistic (p,), scale) -> the released vector. Called after the charge, once.
        adds_to: 1 if the release has the statistic's level, which is added after the noise; 0 if it has none.
    """

    event: Callable[[Query, float, float], Event]
    scale: Callable[[Query, float], float]
    draw: Callable[[Vector, float], Vector]
    adds_to: int = 1


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
