"""Closed-form orders of the maximal information gain gamma_t, in nats, up to a constant that is taken as 1.

Srinivas, Krause, Kakade, Seeger, *Information-theoretic regret bounds for Gaussian process optimization in the bandit
setting* (2012), Theorem 5. The gain of the points actually played, log det(I + K_t/lambda)/2, needs no constant and
is what :class:`dptune.algorithms.ldp_tgp.LDPTGP` uses unless told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dptune.gp.arrays import as_count, as_positive

Gain = Callable[[int], float]


def rbf_gain(d: int) -> Gain:
    """Return t -> (ln t)^(d + 1) for the squared exponential kernel in d dimensions."""
    power = as_count(d, name="d") + 1
    return lambda t: math.log(max(t, 1)) ** power


def matern_gain(d: int, nu: float = 2.5) -> Gain:
    """Return t -> t^(d (d + 1) / (2 nu + d (d + 1))) ln t for the Matern kernel of smoothness nu in d dimensions."""
    c = as_count(d, name="d") * (d + 1)
    power = c / (2 * as_positive(nu, name="nu") + c)
    return lambda t: max(t, 1) ** power * math.log(max(t, 1))
