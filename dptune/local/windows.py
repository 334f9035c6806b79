"""The public windows of the hybrid mechanism of :mod:`dptune.local.hybrid`. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 30.0
DUCHI_ONLY = 0.61  # only Duchi's mechanism up to this epsilon
_CELLS, PARTS = 2**30, 2**60  # cells of the piecewise mechanism; whole-number unit of probability
_DOWN = 1 - 1e-12  # factor on e^epsilon: more than its rounding error


@dataclass(frozen=True)
class Window:
    """A mechanism of m cells: each cell in a window of k has the weight a, each other cell b."""

    m: int
    k: int
    a: int
    b: int

    @classmethod
    def of(cls, m: int, k: int, epsilon: float) -> Window:
        """Return the window with the largest a/b <= e^epsilon in whole numbers."""
        return cls(m, k, math.floor(math.exp(epsilon) * _DOWN * PARTS), PARTS)

    @property
    def total(self) -> int:
        """Return the weight of all cells."""
        return self.k * self.a + (self.m - self.k) * self.b

    @property
    def largest(self) -> float:
        """Return the largest reply, in half widths of the interval."""
        gain = self.k * (self.a - self.b) / self.total
        return (self.m - 1) / (gain * (self.m - self.k))

    @property
    def in_the_middle(self) -> float:
        """Return E[reply^2] of a window in the middle, in half widths squared: variances of uniform cells."""
        cells, window = (self.m**2 - 1) / 12, (self.k**2 - 1) / 12
        outside = self.m * cells - self.k * window  # sum of squares of all cells but the window's
        centred = (self.k * self.a * window + self.b * outside) / self.total
        return centred * (2 * self.largest / (self.m - 1)) ** 2

    def reply(self, t: float, below: Callable[[int], int]) -> float:
        """Return the reply to t in [-1, 1]; ``below(n)`` draws a whole number in [0, n)."""
        place = (self.m - self.k) * (min(max(t, -1.0), 1.0) + 1) / 2
        i = math.floor(place)
        i += below(PARTS) < int((place - i) * PARTS)
        r = below(self.total)
        if r < self.k * self.a:
            cell = i + r // self.a
        else:
            other = (r - self.k * self.a) // self.b
            cell = other if other < i else other + self.k
        return self.largest * (2 * cell - (self.m - 1)) / (self.m - 1)


def windows(epsilon: float) -> tuple[float, Window, Window]:
    """Return the probability of the piecewise mechanism, that mechanism, and Duchi's."""
    share = -math.expm1(-epsilon / 2) if epsilon > DUCHI_ONLY else 0.0
    k = max(1, round(_CELLS / (math.exp(epsilon / 2) + 1)))
    return share, Window.of(_CELLS, k, epsilon), Window.of(2, 1, epsilon)


def largest_reply(epsilon: float) -> float:
    """Return the largest distance of a reply from the middle, in half widths of the interval."""
    share, piecewise, duchi = windows(epsilon)
    return max(duchi.largest, piecewise.largest if share else 0.0)


def largest_variance(epsilon: float) -> float:
    """Return a reply's largest variance, in half widths squared; with both mechanisms it is the same at every t."""
    share, piecewise, duchi = windows(epsilon)
    return share * piecewise.in_the_middle + (1 - share) * duchi.largest**2
