"""The cells of a report: score bins that public rows choose, and the cell of an example.

*Bins.* Edges are quantiles of cross-validated scores of the public rows, with equal weight on both classes. One edge is
the decision threshold, so that metrics of the decision are exact up to the noise. A part of the budget goes to the four
counts of (class, decision).

*Cells.* The cell of an example is a function of the model's answer and the true one for this example alone. It is
computed on private rows, after the charge, where :func:`dptune.losses.estimator.estimator_losses` runs losses. No value
may raise: an unknown label or group, or a score that is not a number, makes only the example's own cell unknown, NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Indices, Mask, Matrix, Vector
from dptune._checks import attempt, column_names
from dptune.losses.functions import as_vector, label_codes, labels_and_proba
from dptune.losses.named import NamedLoss, Output
from dptune.losses.rows import Rows
from dptune.privacy.seal.parsing import as_array, entries_of, numbers
from dptune.privacy.table import code_of

POINTS = 16  # number of points that represent the public scores of a bin
DUST = 1e-9  # rounding of a score


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


# ---- cells ----------------------------------------------------------------------------------------------------------


class Asked:
    """The public method and labels with which a report's plan reads a model's scores and decisions.

    Attributes:
        output: the model's method.
        labels: of a classifier, in the order of its columns; None of a regression.
        positive: the place of the positive label; None if there are not exactly two.
    """

    def __init__(self, output: Output, labels: Sequence[Any] | None, positive: int | None) -> None:
        self.output, self.labels, self.positive = output, labels, positive

    def scores(self, y: npt.ArrayLike, answers: npt.ArrayLike) -> tuple[Indices, Vector]:
        """Return the true class (n,), -1 for an unknown one, and scores (n,) of two classes or (n, k) of more.

        A regression has no classes: the true answers and the predictions, both (n,).
        """
        labels = self.labels
        if self.output != "predict_proba":
            answers = as_vector(answers)
        if labels is None:
            return np.zeros(0, dtype=np.intp), np.column_stack([_vector(y), _vector(answers)])
        codes = label_codes(y, labels)
        if self.output == "predict":
            return codes, label_codes(answers, labels).astype(np.float64)
        if self.output == "decision_function":
            scores = _vector(answers)
        else:
            codes, scores = labels_and_proba(y, answers, labels=labels)
            if self.positive is not None:
                return codes, _decided_as_largest(scores, self.positive)
        if self.positive != 0:
            return codes, scores
        return codes, np.where(scores == 0, np.finfo(np.float64).tiny, -scores)  # 0 is decided for the first label


def _decided_as_largest(p: Vector, positive: int) -> Vector:
    """Return the positive label's probability (n,) of (n, 2), above 0.5 where it is the largest: also of equal ones."""
    own, other = p[:, positive], p[:, 1 - positive]
    largest = own > other if positive else own >= other  # the first one of equal ones
    return np.where(np.abs(own - 0.5) < DUST, np.where(largest, np.nextafter(0.5, 1.0), 0.5), own)


def _vector(answers: npt.ArrayLike) -> Vector:
    array = as_array(answers)
    return numbers(np.empty(0) if array is None else array)[0]


def cells_loss(asked: Asked, cells: Any, sizes: Sequence[int]) -> NamedLoss:
    """Return the code of the cells as a loss, which :class:`EstimatorLosses` computes with all its guards.

    Args:
        asked: how the model is called.
        cells: (true classes, scores) -> a cell (n,) for each block, -1 where it is unknown.
        sizes: number of cells of each block.
    """

    def function(y: npt.ArrayLike, answers: npt.ArrayLike, *, labels: Sequence[Any] | None = None) -> Vector:
        with np.errstate(all="ignore"):
            places = cells(*asked.scores(y, answers))
            usable = np.all([cell >= 0 for cell in places], axis=0)
            return np.where(usable, code_of(places, sizes), np.nan)

    return NamedLoss("a report", function, asked.output, uses_labels=asked.labels is not None, checked=True)


def in_two_classes(codes: Indices, scores: Vector, positive: int, bins: Bins) -> list[Indices]:
    """Return the cells (n,) of (true class, score bin), the negative class first."""
    place = bins.of(scores)
    return [np.where((codes >= 0) & (place >= 0), (codes == positive) * bins.count + place, -1)]


def in_many_classes(codes: Indices, scores: Vector, k: int, each: Sequence[Bins]) -> list[Indices]:
    """Return the cells (n,) of (true class, decided class), and of (is it class j, bin of its probability) for each j.

    Scores are probabilities (n, k), of which the largest decides, or decided classes (n,).
    """
    decided = scores
    if scores.ndim > 1:
        decided = np.where(np.isfinite(scores).all(axis=1), np.argmax(np.nan_to_num(scores), axis=1), -1)
    decided = decided.astype(np.intp)
    blocks = [np.where((codes >= 0) & (decided >= 0), codes * k + decided, -1)]
    for j, bins in enumerate(each):
        place = bins.of(scores[:, j])
        blocks.append(np.where((codes >= 0) & (place >= 0), (codes == j) * bins.count + place, -1))
    return blocks


def with_groups(codes: Vector, groups: Indices, own: Sequence[int], sizes: Sequence[int]) -> Vector:
    """Return codes (n,) in which each group has cells of its own.

    Args:
        codes: as if all examples were of the first group.
        groups: (n,), -1: unknown.
        own: cells of a group in each block; 0 in a block without groups.
        sizes: cells of each block.
    """
    step = sum(each * math.prod(sizes[block + 1 :]) for block, each in enumerate(own))
    with np.errstate(all="ignore"):
        return np.where(groups >= 0, codes + groups * float(step), np.nan)


def group_codes(rows: Rows, n: int, column: Any, levels: Sequence[Any]) -> Indices:
    """Return the place of each private example's group among the public levels (n,), -1 for others."""
    values = attempt(column_of, rows.X, column, failed=None)
    unknown = np.full(n, -1, dtype=np.intp)
    return unknown if values is None else attempt(label_codes, values, levels, failed=unknown)


def column_of(X: Any, column: Any) -> Array:
    """Return a column (n,) of a data frame by its name, or of an array by its place."""
    if column_names(X) is not None:
        values = as_array(X[column])
        return np.empty(0) if values is None else values
    if hasattr(X, "tocsr"):
        return np.asarray(X.tocsr()[:, column].todense()).ravel()
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return X[:, column]
    return entries_of([attempt(getitem, row, column, failed=None) for row in entries_of(X)])
