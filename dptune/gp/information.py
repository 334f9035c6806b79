"""Closed-form orders of the maximal information gain gamma_t, in nats; the unknown constant is taken as 1.

Srinivas, Krause, Kakade, Seeger, *Information-theoretic regret bounds for Gaussian process optimization in the bandit
setting* (2012), Theorem 5. The gain of the points actually played, log det(I + K_t/lambda)/2, needs no constant:
:class:`dptune.bandits.tgp.LDPTGP` uses it by default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dptune._checks import at_least, positive


@dataclass(frozen=True)
class Gain:
    """t -> t^power (ln t)^log_power; plain data, so that settings can be pickled and compared.

    Attributes:
        power: of t.
        log_power: of ln t.
    """

    power: float
    log_power: float

    def __call__(self, t: int) -> float:
        """Return gamma_t; 0 for t = 0 and 1."""
        t = max(t, 1)
        return float(t**self.power * math.log(t) ** self.log_power)


def rbf_gain(d: int) -> Gain:
    """Return t -> (ln t)^(d + 1) for the squared exponential kernel in d dimensions."""
    return Gain(0.0, at_least("d", d, 1) + 1)


def matern_gain(d: int, nu: float = 2.5) -> Gain:
    """Return t -> t^(d (d + 1) / (2 nu + d (d + 1))) ln t for the Matern kernel of smoothness nu in d dimensions."""
    c = at_least("d", d, 1) * (d + 1)
    return Gain(c / (2 * positive("nu", nu) + c), 1.0)
