"""Queries of algorithms, and their answers. Both are public.

The one primitive (proof in docs/privacy.md): person i has a loss L_i in R^m at m evaluated points; with
public weights W (p, m) and public person weights w,

    g_i = W L_i,   c_i = clip(g_i),   release  sum_i w_i c_i / sum_i w_i + N(0, sigma^2 I_p)

:class:`NormQuery` queries the share of people with ||g_i|| <= r, by which an algorithm can choose a radius.

An evaluation that failed has no losses. Each person's entry of L_i is then the upper clip. If ``failed_above`` is
given, it is instead the person's mean over the points that did not fail, plus ``failed_above``: the entry neither
dominates g_i nor looks good. Both depend only on the person's losses and on which points failed.

With ``saturate_above`` each person's L_i is then cut at the median of its entries plus ``saturate_above``, so that bad
points do not dominate g_i. The cut vector, too, depends only on the person's losses and on public numbers. It is still
one vector per person in the same ball, so the sensitivity is the same.

A query with ``centred_on`` k subtracts each person's median over the first k points before W is applied. The median
depends only on the person's losses, so the sensitivity is unchanged.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dptune._arrays import Matrix
from dptune._checks import attempt, kind, plain, positive, real, shown
from dptune.errors import InputError

SMALLEST, LARGEST = 1e-30, 1e30  # limits of clipping bounds: squares and float32 rows neither overflow nor vanish
GRID_EXPONENT = -40  # the noise's grid, in standard deviations


def smallest_price(dimension: int) -> float:
    """Return the least mu of a release of ``dimension`` coordinates; below it rounding to the grid would dominate."""
    return 1000 * math.sqrt(dimension) * 2.0**GRID_EXPONENT


@dataclass(frozen=True)
class Interval:
    """Clip a scalar to [low, high]; replacing one person moves it by at most high - low."""

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        if real(self.low) is None or real(self.high) is None or self.low >= self.high:
            raise InputError(
                f"clip must be two finite numbers low < high; got ({shown(self.low)}, {shown(self.high)}). "
                "Choose them from the meaning of the loss, not from the data."
            )
        if max(-self.low, self.high) > LARGEST or self.high - self.low < SMALLEST:
            raise InputError(f"clip must lie within +-{LARGEST:g} and be at least {SMALLEST:g} wide; scale the loss.")

    @classmethod
    def of(cls, clip: object) -> Interval:
        """Return the interval of a user's pair (low, high).

        Raises:
            InputError: not a valid interval.
        """
        if not (isinstance(clip, Sequence) and len(clip) == 2 and all(real(end) is not None for end in clip)):
            raise InputError("clip must be a pair of numbers (low, high), finite, the public range of one loss.")
        return cls(*clip)

    @property
    def diameter(self) -> float:
        """Return the largest distance between two clipped values."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Return the offset that is subtracted before clipping and added after the noise."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Box(Interval):
    """Clip each of ``dimension`` = p coordinates to [low, high].

    Replacing one person moves the vector by at most sqrt(p) (high - low) in L2.
    """

    dimension: int = 2

    @property
    def diameter(self) -> float:
        return math.sqrt(self.dimension) * (self.high - self.low)


@dataclass(frozen=True)
class Ball:
    """Scale a vector back to L2 norm <= radius; replacing one person moves it by at most 2 radius."""

    radius: float
    middle: ClassVar[float] = 0.0  # nothing is subtracted

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", plain(self.radius))
        if real(self.radius) is None or not SMALLEST <= self.radius <= LARGEST:
            raise InputError(
                f"the clipping radius must be positive and finite, {SMALLEST:g} to {LARGEST:g}; got "
                f"{shown(self.radius)}."
            )

    @property
    def diameter(self) -> float:
        return 2 * self.radius


class _Query:
    """The base of queries; two queries are equal if their fingerprints are."""

    points: tuple[str, ...]
    weights: Matrix
    mu: float
    failed_above: float | None
    saturate_above: float | None

    def _freeze(self) -> None:
        object.__setattr__(self, "points", names_of_points(self.points))
        object.__setattr__(self, "weights", _public_weights(self.points, self.weights))
        object.__setattr__(self, "mu", positive("mu", self.mu))
        for name in ("failed_above", "saturate_above"):
            if (limit := getattr(self, name)) is not None:
                if real(limit) is None:
                    raise InputError(f"{name} must be finite, or None; got {shown(limit)}.")
                object.__setattr__(self, name, real(limit))

    @property
    def _region(self) -> object:
        """Return the bounds of one person's contribution as JSON data."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return a fingerprint of the query, by which a retry is recognised."""
        failed = [] if self.failed_above is None else [self.failed_above]
        cut = [] if self.saturate_above is None else [{"saturate": self.saturate_above}]
        header = json.dumps([self.points, self.weights.shape, self._region, self.mu, *failed, *cut])
        return hashlib.sha256(header.encode() + self.weights.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())


@dataclass(frozen=True, eq=False)
class MeanQuery(_Query):
    """The entire privacy contract of one release. Frozen and public.

    Attributes:
        points: names of the m observed points, as given to ``LossPrivatizer.observe``.
        weights: W (p, m), public, finite, read-only float64.
        clip: :class:`Interval` for p = 1, or :class:`Ball`.
        mu: GDP price, > 0.
        failed_above: what an evaluation that failed counts as, for each person, above their mean over the other
            points; None: the upper clip.
        saturate_above: where each person's losses are cut, above their median over the points; None: nowhere.
        centred_on: over how many of the points, the first ones, each person's median is taken off before W is applied;
            0: nothing is taken off.

    Raises:
        InputError: shapes do not match, or a setting is not finite or not positive.
    """

    points: tuple[str, ...]
    weights: Matrix
    clip: Interval | Ball
    mu: float
    failed_above: float | None = None
    saturate_above: float | None = None
    centred_on: int = 0

    def __post_init__(self) -> None:
        self._freeze()
        if not 0 <= self.centred_on <= len(self.points):
            raise InputError(f"centred_on must be 0 to {len(self.points)}, a number of points; got {self.centred_on}.")
        if not isinstance(self.clip, Interval | Ball):
            raise InputError(f"clip must be an Interval, a Ball or a Box; got {type(self.clip).__name__}.")
        if isinstance(self.clip, Interval) and self.weights.shape[0] != getattr(self.clip, "dimension", 1):
            raise InputError("an Interval clips a scalar; use a Ball, or a Box of as many dimensions, for a vector.")

    @property
    def dimension(self) -> int:
        """Return p, the length of the released vector."""
        return int(self.weights.shape[0])

    @property
    def statistic(self) -> str:
        """Return the released statistic in words, for the statement."""
        if self.centred_on:
            return f"mean losses of {self.dimension} evaluated points, less each person's median, clipped"
        if isinstance(self.clip, Box):
            return f"mean clipped losses of {self.clip.dimension} evaluated points"
        if isinstance(self.clip, Interval) and len(self.points) == 2:
            return "mean clipped difference of the losses at two evaluated points"
        if isinstance(self.clip, Interval):
            return "mean clipped loss of one evaluated point"
        return "mean clipped linear statistic of the losses"

    @property
    def middle(self) -> float:
        """Return the offset that is subtracted before the noise and added after it."""
        return self.clip.middle

    @property
    def _region(self) -> object:
        region = list(vars(self.clip).values())
        return {"centred": region, "on": self.centred_on} if self.centred_on else region


@dataclass(frozen=True, eq=False)
class NormQuery(_Query):
    """The weighted share of people whose g_i = W L_i has L2 norm at most ``radius``. Frozen and public.

    A person is counted or not, so replacing one person moves the share by at most the largest person weight, 1/n.
    A norm that is not finite is not counted.

    Attributes:
        radius: r, public, in units of g_i. The others are those of :class:`MeanQuery`.

    Raises:
        InputError: shapes do not match, or a setting is not finite or not positive.
    """

    points: tuple[str, ...]
    weights: Matrix
    radius: float
    mu: float
    failed_above: float | None = None
    saturate_above: float | None = None

    def __post_init__(self) -> None:
        self._freeze()
        object.__setattr__(self, "radius", float(Ball(self.radius).radius))

    @property
    def clip(self) -> Interval:
        """Return the range of one person's contribution."""
        return Interval(0.0, 1.0)

    dimension: ClassVar[int] = 1  # dimension of the release
    middle: ClassVar[float] = 0.5
    statistic: ClassVar[str] = "share of people whose linear statistic of the losses lies in a public ball"

    @property
    def _region(self) -> object:
        return {"norm at most": self.radius}


Query = MeanQuery | NormQuery


@dataclass(frozen=True)
class Question:
    """An algorithm's next public query.

    Attributes:
        key: names the release in its run, as "step/3".
        query: what to release.
        note: what is needed to learn the answer in another process, as JSON data.
    """

    key: str
    query: Query
    note: Mapping[str, Any]


def names_of_points(points: object) -> tuple[str, ...]:
    """Return the names of observed points; refuse all else."""
    if not (isinstance(points, list | tuple) and all(isinstance(p, str) for p in points)):
        raise InputError(f"points must be a list or tuple of names, as given to observe; got {shown(points)}.")
    return tuple(points)


def _public_weights(points: tuple[str, ...], weights: Matrix) -> Matrix:
    """Return a read-only copy (p, m)."""
    copy: Matrix | None = attempt(partial(np.array, dtype=np.float64, ndmin=2), weights, failed=None)
    if copy is None:
        raise InputError(f"weights must be a matrix of numbers; got {kind(weights)}.")
    if copy.ndim != 2 or copy.shape[1] != len(points) or copy.size == 0:
        raise InputError(f"weights must be (p, {len(points)}) for these points; got {copy.shape}.")
    if not np.isfinite(copy).all():
        raise InputError("weights must be finite.")
    if len(set(points)) != len(points):
        raise InputError("points must be named once each.")
    copy.setflags(write=False)
    return copy
