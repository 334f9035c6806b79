"""People's losses in a privatizer, one row per point, and the bounded mean that answers a query.

This file bounds one person's influence: their rows become one loss, a query's function of it is clipped, and the mean
has public weights. The clip alone determines the sensitivity, whatever the losses are.

Sums over people do not depend on their order: a person's bounded contribution, divided by its largest entry, is rounded
to a multiple of 2^-bits. Sums of whole numbers are exact, so several places that add their own people get the sum of
one place, to the last bit. Rounding moves no end of an interval, so sensitivities of intervals and boxes are unchanged.
It moves a point of a ball by at most sqrt(p) / 2 steps, which ``noise.SLACK`` covers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Indices, Matrix, Vector
from dptune._checks import at_least, attempt, kind, whole
from dptune.errors import InputError
from dptune.privacy.query import Ball, Interval, MeanQuery, NormQuery, Query
from dptune.privacy.seal.parsing import entries_of

Whole = npt.NDArray[np.int64]
MOST_BITS = 40  # sums of 2^13 contributions are exact in float64
_ROWS_PER_BLOCK = 64
_PEOPLE_PER_CHUNK = 8192  # G of one chunk, (p, 8192) float64, stays in cache; additional memory is O(p * 8192)


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
        return np.rint(contributions * (2.0**self.bits / self.largest))

    def mean(self, sums: Whole, largest_weight: float) -> Vector:
        """Return the mean over people, of the sum (p,) of contributions times weights over the largest weight."""
        return np.asarray(sums * (self.largest * 2.0**-self.bits * largest_weight))


def _largest_entry(query: Query) -> float:
    clip, middle = query.clip, query.middle
    return clip.radius if isinstance(clip, Ball) else max(clip.high - middle, middle - clip.low)


@dataclass(frozen=True, eq=False)
class People:
    """The people of the rows: public, except which row belongs to whom.

    Attributes:
        rows: number of examples.
        of_row: (rows,) the number of each row's person, from 0 on; None if every row is one person.
        weights: (n,) public weights of the mean; they sum to 1.
    """

    rows: int
    of_row: Indices | None
    weights: Vector

    @classmethod
    def of(cls, n: object, groups: npt.ArrayLike | None, weights: npt.ArrayLike | None) -> People:
        """Return the people of a privatizer's arguments."""
        if (n is None) == (groups is None):
            raise InputError("give either n= (a person an example) or groups= (one identifier per example).")
        if groups is None:
            count = at_least("n", n, 1)
            return cls(count, None, _public_weights(weights, count))
        if weights is not None:
            raise InputError("person_weights cannot go with groups: a weight would follow a person's place in a list.")
        array = attempt(np.asarray, groups, failed=None)
        if array is None or array.ndim != 1 or array.size == 0:
            raise InputError(f"groups must be a vector with one identifier per example; got {kind(groups)}.")
        if isinstance(groups, list | tuple) and array.dtype.kind not in "iu":
            array = entries_of(groups)  # one entry decides of which type NumPy makes the others
        masked = isinstance(groups, np.ma.MaskedArray) and attempt(np.any, np.ma.getmask(groups), failed=True)
        names, of_row = np.unique(_identifiers(array, masked=bool(masked)), return_inverse=True)
        return cls(len(array), of_row, _public_weights(None, len(names)))

    @property
    def n(self) -> int:
        """Return the number of people."""
        return len(self.weights)

    @property
    def relative_weights(self) -> Vector | None:
        """Return the weights (n,) over the largest one; None if all are equal."""
        return None if (self.weights == self.weights[0]).all() else self.weights / self.weights.max()

    def weights_digest(self) -> str | None:
        """Return a digest of the public weights, by which a run is recognised; None if all are equal."""
        return None if self.relative_weights is None else hashlib.sha256(self.weights.tobytes()).hexdigest()[:16]

    def means(self, values: Vector) -> Vector:
        """Return each person's mean (n,) over their rows (rows,)."""
        if self.of_row is None:
            return values
        return np.bincount(self.of_row, values, self.n) / np.bincount(self.of_row, minlength=self.n)


def _identifiers(array: Array, *, masked: bool) -> Array:
    """Return identifiers (rows,) as an array of whole numbers or text; those of a frame's column of text are objects.

    Each entry is read by itself: 1 and "1" are one person.
    """
    if array.dtype.kind in "iuUSb" and not masked:
        return array
    read = array.dtype.kind in "OT" and not masked  # the second one is NumPy's StringDType
    entries = [_identifier(entry) for entry in array.tolist()] if read else [None]
    if None in entries:
        got = "another entry" if read else f"entries of type {array.dtype.type.__name__}"
        got = "a masked array" if masked else got
        raise InputError(f"groups must be whole numbers or text, without missing ones; got {got}.")
    return np.array(entries, dtype=object)


def _identifier(entry: object) -> str | None:
    """Return an identifier as text; None if it is missing, or neither text nor a whole number."""
    if isinstance(entry, str):
        return str.__str__(entry)  # a subclass may have a text of its own
    if isinstance(entry, bytes):
        return bytes.decode(entry, "latin-1")
    number = whole(entry)
    return None if number is None else str(number)


def _public_weights(weights: npt.ArrayLike | None, n: int) -> Vector:
    if weights is None:
        return np.broadcast_to(1.0 / n, n)  # one number in memory
    array = attempt(partial(np.array, dtype=np.float64), weights, failed=np.empty(0))
    if array.shape != (n,) or not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(
            f"person_weights must be {n} positive finite numbers, one per person, and public; got {kind(weights)}."
        )
    array = array / array.max()  # first, so that the sum is finite
    return np.asarray(array / array.sum())


class StoredLosses:
    """Rows of clipped losses minus the middle of their range, by the names of their points.

    A block holds 64 rows of n numbers and never moves. ``numpy.empty`` commits memory as rows are written, so m points
    keep about m * n * itemsize bytes: 850 points of 10^6 people take 3.4 GB in float32.

    Args:
        people: the rows' people.
        interval: public range of a loss.
        dtype: float32 or float64.
    """

    def __init__(self, people: People, interval: Interval, dtype: type[np.float32] | type[np.float64]) -> None:
        self.people, self.interval, self.dtype = people, interval, dtype
        self.failed: set[str] = set()  # points whose evaluation failed: as private as the losses
        self.blocks: list[npt.NDArray[np.floating[Any]]] = []
        self._slot: dict[str, int] = {}  # name -> slot; block = slot // 64
        self._unused: list[int] = []

    def __contains__(self, point: str) -> bool:
        return point in self._slot

    def points(self) -> tuple[str, ...]:
        """Return the names of points in order of arrival."""
        return tuple(self._slot)

    # ---- rows ------------------------------------------------------------------------------------

    def clean(self, losses: Vector) -> Vector:
        """Return each person's loss (n,) from their rows (rows,): clipped to the range, averaged, minus its middle."""
        low, high = self.interval.low, self.interval.high
        return self.people.means(_within(losses, low, high) - self.interval.middle)

    def add(self, point: str, row: npt.NDArray[np.floating[Any]], *, failed: bool = False) -> None:
        """Store a row (n,) of :meth:`clean` under a new name."""
        if not self._unused:
            first = len(self.blocks) * _ROWS_PER_BLOCK
            self.blocks.append(np.empty((_ROWS_PER_BLOCK, self.people.n), dtype=self.dtype))
            self._unused = list(range(first + _ROWS_PER_BLOCK - 1, first - 1, -1))
        slot = self._unused[-1]
        self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK] = row
        self._slot[point] = self._unused.pop()
        self.failed.update([point] if failed else [])

    def row(self, point: str) -> npt.NDArray[np.floating[Any]]:
        """Return a copy of a stored row, (n,)."""
        slot = self._slot[point]
        return np.array(self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK])

    def drop(self, point: str) -> None:
        """Forget a row: its values are overwritten and its memory is reused."""
        slot = self._slot.pop(point)
        self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK] = 0
        self._unused.append(slot)
        self.failed.discard(point)

    def stacked(self, points: tuple[str, ...], people: slice = slice(None)) -> Matrix:
        """Return L for the people of a slice, (m, people), as float64; the middle is not in L."""
        slots = [self._slot[point] for point in points]
        rows = [self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK, people] for slot in slots]
        return np.array(rows, dtype=np.float64)

    def combine(self, points: tuple[str, ...], weights: Matrix, people: slice = slice(None)) -> Matrix:
        """Return G = W L for the people of a slice: (p, m) times (m, people), as float64; the middle is not in L."""
        if len(points) <= 2:  # a difference is the same whichever blocks have its rows
            return np.asarray(weights @ self.stacked(points, people))
        slots = np.array([self._slot[point] for point in points])  # (m,)
        total = np.zeros((len(weights), len(range(*people.indices(self.people.n)))))
        for index in np.unique(slots // _ROWS_PER_BLOCK):
            mine = slots // _ROWS_PER_BLOCK == index
            rows = slots[mine] % _ROWS_PER_BLOCK
            spread = np.zeros((len(weights), int(rows.max()) + 1), dtype=self.dtype)  # (p, used rows)
            spread[:, rows] = weights[:, mine]
            total += spread @ self.blocks[index][: spread.shape[1], people]
        return total

    # ---- the statistic of a query ----------------------------------------------------------------

    def mean(self, query: Query) -> Vector:
        """Return sum_i w_i clip(W L_i) minus ``query.middle``, (p,), as rounding errors are largest far from 0."""
        grid = Grid.of(self.people.n, query)
        return grid.mean(self.sums(query, grid), float(self.people.weights.max()))

    def sums(self, query: Query, grid: Grid) -> Whole:
        """Return sum_i w_i clip(W L_i) / max w (p,) in steps of the grid, each vector minus ``query.middle``."""
        total = np.zeros(query.dimension, dtype=np.int64)
        relative = self.people.relative_weights
        with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
            for first in range(0, self.people.n, _PEOPLE_PER_CHUNK):
                people = slice(first, min(first + _PEOPLE_PER_CHUNK, self.people.n))
                bounded = per_person(self._asked(query, people), query)
                weighted = bounded if relative is None else bounded * relative[people]
                total += grid.whole(weighted).sum(axis=1).astype(np.int64)  # exact: whole numbers below 2^53
        return total

    def _asked(self, query: Query, people: slice) -> Matrix:
        """Return W L_i of these people, each minus the middle if the query is a mean, (p, people)."""
        W = query.weights
        middle = query.middle if isinstance(query, MeanQuery) else 0.0
        if isinstance(query, MeanQuery) and query.centred_on:
            L = self.stacked(query.points, people)
            return _times(W, L - np.median(L[: query.centred_on], axis=0)) - middle
        if query.saturate_above is None:
            weights, offset = self._with_failures(query, W)
            return self.combine(query.points, weights, people) + (offset - middle)[:, None]
        weights, offset = self._with_failures(query, np.eye(W.shape[1]))
        L = self.combine(query.points, weights, people) + offset[:, None]  # (m, people)
        return W @ np.minimum(L, np.median(L, axis=0) + query.saturate_above) - middle

    def _with_failures(self, query: Query, W: Matrix) -> tuple[Matrix, Vector]:
        """Return the matrix that replaces W (p, m) for the stored rows, and an offset (p,)."""
        failed = np.array([point in self.failed for point in query.points])  # (m,)
        offset = self.interval.middle * W.sum(axis=1)
        if query.failed_above is None or not failed.any() or failed.all():
            return W, offset
        theirs = W[:, failed].sum(axis=1)  # (p,), weights of the others' mean plus failed_above
        return np.where(failed, 0.0, W + theirs[:, None] / np.sum(~failed)), offset + query.failed_above * theirs


def _times(W: Matrix, L: Matrix) -> Matrix:
    """Return W L; a diagonal W, as that of a choice, is not multiplied as a matrix."""
    diagonal = np.diagonal(W)
    if W.shape[0] == W.shape[1] and np.array_equal(W, np.diag(diagonal)):
        return np.asarray(diagonal[:, None] * L)
    return np.asarray(W @ L)


def _within(values: Array, low: float, high: float) -> Array:
    """Return values in [low, high]; NaN is the upper end."""
    finite = values if np.isfinite(values).all() else np.nan_to_num(values, nan=high, posinf=high, neginf=low)
    return np.asarray(np.clip(finite, low, high))


def per_person(g: Matrix, query: Query) -> Matrix:
    """Return each person's bounded contribution minus ``query.middle``, (p, people), from the columns of g."""
    if isinstance(query, NormQuery):  # a norm that is NaN or infinite compares as too large
        return np.asarray(_norms(g) <= query.radius, dtype=np.float64)[None, :] - query.middle
    return clipped(g, query.clip, query.middle)


def clipped(g: Matrix, clip: Interval | Ball, middle: float) -> Matrix:
    """Clip each person's column of g (p, people) minus the middle; overflows become an end of the range, or zero."""
    if isinstance(clip, Interval):
        ends = replace(clip, low=clip.low - middle, high=clip.high - middle)
        return np.asarray(_within(g, ends.low, ends.high))
    norms = _norms(g)  # (people,)
    factor = np.minimum(1.0, clip.radius / np.maximum(norms, np.finfo(float).tiny))
    finite = np.isfinite(norms)
    if finite.all():
        return np.asarray(g * factor)
    return np.asarray(np.where(finite, g, 0.0) * np.where(finite, factor, 0.0))


def _norms(g: Matrix) -> Vector:
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", g, g)))
