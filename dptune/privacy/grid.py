"""Sums over people that do not depend on their order: each contribution is a whole number of steps of a public grid.

A person's bounded contribution, divided by its largest entry, is rounded to a multiple of 2^-bits. Sums of whole
numbers are exact, so several places that add their own people get the sum of one place, to the last bit.

Rounding moves no end of an interval, so sensitivities of intervals and boxes are unchanged. It moves a point of a ball
by at most sqrt(p) / 2 steps, which ``noise.SLACK`` covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dptune._arrays import Matrix, Vector
from dptune.privacy.query import Ball, Query

Whole = npt.NDArray[np.int64]
MOST_BITS = 40  # sums of 2^13 contributions are exact in float64


@dataclass(frozen=True)
class Grid:
    """A public grid.

    Attributes:
        largest: the largest absolute entry of a person's contribution.
        bits: an entry is a whole number of steps of ``largest`` / 2^bits.
    """

    largest: float
    bits: int

    @classmethod
    def of(cls, n: int, query: Query | None = None) -> Grid:
        """Return the grid of a query, or of shares in [0, 1], for n people in all, whose sum fits 63 bits."""
        return cls(1.0 if query is None else _largest_entry(query), min(MOST_BITS, 62 - n.bit_length()))

    def whole(self, contributions: Matrix) -> Matrix:
        """Return contributions as whole numbers of steps."""
        return np.rint(contributions * (2.0**self.bits / self.largest))

    def mean(self, sums: Whole, largest_weight: float) -> Vector:
        """Return the mean over people, of the sum (p,) of contributions times weights over the largest weight."""
        return np.asarray(sums * (self.largest * 2.0**-self.bits * largest_weight))


def _largest_entry(query: Query) -> float:
    clip, middle = query.clip, query.middle
    return clip.radius if isinstance(clip, Ball) else max(clip.high - middle, middle - clip.low)
