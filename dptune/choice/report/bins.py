"""Score bins that public rows choose: their edges, and how scores are spread within them.

Edges are quantiles of cross-validated scores of the public rows, with equal weight on both classes. One edge is the
decision threshold, so that metrics of the decision are exact up to the noise.

A part of the budget goes to the four counts of (class, decision).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from dptune._arrays import Array, Indices, Mask, Matrix, Vector
from dptune._checks import tupled

POINTS = 16  # number of points that represent the public scores of a bin


@dataclass(frozen=True)
class Bins:
    """B bins of a score, and how public scores are spread in each. Public; JSON data.

    Attributes:
        edges: (B - 1,) increasing; a score on an edge is in the bin below it.
        threshold: the edge above which the positive class is predicted.
        table: (2, B) public rows of the negative and of the positive class.
        points: (B, 16) means of sixteenths of the bin's scores, increasing.
        on_decisions: w in (0, 1), see :attr:`strategy`.
    """

    edges: tuple[float, ...]
    threshold: float
    table: tuple[tuple[float, ...], ...]
    points: tuple[tuple[float, ...], ...]
    on_decisions: float

    @property
    def count(self) -> int:
        """Return B."""
        return len(self.edges) + 1

    @property
    def cut(self) -> int:
        """Return the first bin whose people are predicted positive."""
        return int(np.searchsorted(self.edges, self.threshold, side="left")) + 1

    def of(self, scores: Vector) -> Indices:
        """Return the bin of each score (n,); a score that is NaN is in none, -1."""
        with np.errstate(all="ignore"):
            place = np.zeros(len(scores), dtype=np.min_scalar_type(-self.count))
            for edge in self.edges:  # ten times as fast as a search
                place += scores > edge
            place[np.isnan(scores)] = -1
        return place.astype(np.intp)

    @cached_property
    def strategy(self) -> Matrix:
        """Return (4 + 2 B, 2 B), of counts of (class, bin): sqrt(w) times the four counts of (class, decision), then
        sqrt(1 - w) times the counts themselves.

        Two columns are at most sqrt(2) apart, like columns of the counts alone: the first part adds no noise.
        """
        w = self.on_decisions
        up = np.arange(self.count) >= self.cut
        none = np.zeros(self.count)
        decisions = np.block([[~up, none], [up, none], [none, ~up], [none, up]])
        return np.vstack([math.sqrt(w) * decisions, math.sqrt(1 - w) * np.eye(2 * self.count)])

    def noise(self, sigma: float) -> Matrix:
        """Return the covariance (2 B, 2 B) of counts that are read from :attr:`strategy` by least squares."""
        return np.asarray(sigma**2 * np.linalg.inv(self.strategy.T @ self.strategy))

    @cached_property
    def rows(self) -> Vector:
        """Public rows in each bin (B,); of an empty bin one is made up."""
        return np.asarray(np.maximum(np.sum(self.table, axis=0), 1.0))

    @cached_property
    def ranks(self) -> Matrix:
        """Rank in (0, 1) of each point (B, 16) among all public scores; equal points of a bin have one rank."""
        share = self.rows / self.rows.sum()
        middles = (np.cumsum(share) - share)[:, None] + share[:, None] * (np.arange(POINTS) + 0.5) / POINTS
        for points, ranks in zip(np.asarray(self.points), middles, strict=True):
            _, group = np.unique(points, return_inverse=True)
            ranks[:] = (np.bincount(group, ranks) / np.bincount(group))[group]
        return np.asarray(middles)

    @cached_property
    def behind(self) -> Array:
        """Return (B, 16, 16): 1 where the second point of a bin has the smaller score, 1/2 where both are equal."""
        points = np.asarray(self.points)
        first = points[:, :, None]
        second = points[:, None, :]
        return np.asarray((second < first) + (second == first) / 2)

    @classmethod
    def at(cls, edges: Vector, threshold: float, scores: Vector, positive: Mask, on_decisions: float = 0.3) -> Self:
        """Return the bins with these edges, and the spread of public scores (N,) of either class in them."""
        bins = np.searchsorted(edges, scores, side="left")
        count = len(edges) + 1
        ends = np.concatenate([[min(scores.min(), edges[0])], edges, [max(scores.max(), edges[-1])]])
        points = tuple(_points(scores[bins == b], ends[b], ends[b + 1]) for b in range(count))
        table = tuple(tuple(np.bincount(bins[kind], minlength=count).tolist()) for kind in (~positive, positive))
        return cls(tuple(edges.tolist()), threshold, table, points, on_decisions)

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the bins of JSON data of their fields."""
        return cls(**{name: tupled(value) for name, value in stored.items()})


def _points(scores: Vector, low: float, high: float) -> tuple[float, ...]:
    """Return means of sixteenths of a bin's scores, in eight significant digits; an empty bin's are even."""
    s = np.sort(scores) if len(scores) else np.linspace(low, high, POINTS)
    return tuple(float(f"{each:.8g}") for each in np.repeat(s, POINTS).reshape(POINTS, -1).mean(axis=1))


def edges_of(scores: Vector, positive: Mask, threshold: float, bins: int) -> Vector:
    """Return edges of about ``count`` bins: quantiles, with equal weight on both classes, and the threshold."""
    order = np.argsort(scores, kind="stable")
    weights = np.where(positive, 0.5 / max(positive.sum(), 1), 0.5 / max((~positive).sum(), 1))[order]
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), np.arange(1, bins) / bins)
    edges = np.unique(scores[order][np.minimum(places, len(scores) - 1)])
    edges = edges[edges < scores.max()]  # the last bin has no upper edge
    if len(edges) and threshold not in edges:
        near = int(np.argmin(np.abs(edges - threshold)))
        low, high = sorted((float(edges[near]), threshold))
        if weights[(scores[order] > low) & (scores[order] <= high)].sum() < 0.5 / bins:
            edges[near] = threshold  # less than half a bin away: moved; else one more edge
    return np.unique(np.append(edges, threshold))
