"""The privacy profile of repeat and select, from one repeat's profile and any law of the number of repeats K.

Notation: one repeat has the law P on these people and P' on their neighbours; delta(s) = max_E P(E) - e^s P'(E), the
larger of both directions; f(t) = E[t^K]; u(y) is the probability under P that a repeat beats the output y, and u'(y)
under P'. Ties are broken at random. The shown result has the densities

    P(y) f'(1 - u(y))   and   P'(y) f'(1 - u'(y)),        u' <= w(u) = min_s e^s u + delta(s),

and f' increases. With x = P'(y) / P(y) the selection is (epsilon, delta)-DP for

    delta = E_P h(x),      h(x) = max_u [f'(1 - u) - x e^epsilon f'(1 - w(u))]_+ .

h decreases and is convex, so it lies below its chords between knots x_k = e^(-s_k). By the definition of delta(s),
E_P (x_k - x)_+ <= x_k delta(s_k), so

    delta <= h(x_0) + sum_k c_k x_k delta(s_k),      c_k >= 0 the change of slope at x_k, x_0 the largest knot.

Koskela, Redberg & Wang, *Privacy Profiles for Private Selection* (ICML 2024), have bounds of the form
E[K] delta(epsilon - L). The one with the least such L, max_u of log f'(1 - u) - log f'(1 - w(u)), follows from the
above by bounding f'(1 - u) and the quotient one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dptune._arrays import Vector
from dptune.training.plans import Repeats

_PLACES, _KNOTS = 500, 500  # grid sizes of u and of s
_PRECISION = 1e-4  # absolute, for epsilon


class SelectionProfile:
    """Delta of repeat and select at any epsilon, rounded up.

    Args:
        repeats: the law of K.
        once: s (k,), ascending from 0 -> delta(s) (k,), at least that of one repeat, training and score together.
        most: an epsilon from another bound that is large enough for :meth:`epsilon`.
    """

    def __init__(self, repeats: Repeats, once: Callable[[Vector], Vector], *, most: float) -> None:
        s = np.linspace(-1.0, most + 4, _KNOTS)
        self._most = most
        self._x = np.exp(-s)
        self._once = _on_both_sides(once, s)
        u = np.concatenate([[0.0], np.geomspace(1e-3 * repeats.rare(), 1.0, _PLACES)])
        w = np.minimum(1.0, (np.exp(s)[:, None] * u[1:] + self._once[:, None]).min(axis=0))
        self._here = repeats.slope(u[:-1])  # at the worse end of each interval of u
        self._there = repeats.slope(w)

    def delta(self, epsilon: float) -> float:
        """Return a delta such that the selection is (epsilon, delta)-DP, epsilon >= 0."""
        x = self._x
        there = math.exp(epsilon) * self._there
        h = np.maximum(0.0, (self._here[:, None] - np.outer(there, x)).max(axis=0))  # (knots,)
        slopes = np.diff(h, append=self._here[0]) / -np.diff(x, append=0.0)  # the last chord ends at x = 0
        bends = np.diff(slopes, prepend=0.0)
        return min(1.0, float(h[0] + np.sum(bends * x * self._once)))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at ``delta``, rounded up; or ``most``, if that is smaller."""
        low = 0.0
        high = self._most
        while high - low > _PRECISION:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def _on_both_sides(once: Callable[[Vector], Vector], s: Vector) -> Vector:
    """Return delta(-s) = 1 - e^(-s) + e^(-s) times delta(s) of the other direction."""
    distinct, places = np.unique(np.abs(s), return_inverse=True)
    profile: Vector = np.asarray(once(distinct))[places]
    return np.where(s < 0, -np.expm1(s) + np.exp(s) * profile, profile)
