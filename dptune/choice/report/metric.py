"""A metric with its two intervals, the intervals of shares, and the rates of decisions at one threshold.

A table of counts x (m,) is read from a release as x + N(0, C). The public number of people is n, so the counts are
first moved onto the plane of that sum, along C 1. Their noise then has the covariance C - C 1 1^T C / (1^T C 1).

A share r = a.x / b.x (accuracy, sensitivity, precision, ...) is read from sums of cells that are **not** cut at 0:
cutting moves every sum up. Its interval holds all r that the release does not contradict (Fieller 1954)::

    {r in [0, 1]: (a.x - r b.x)^2 <= z^2 Var(a.x - r b.x)}

That is exact for Gaussian noise of known size, also near 0 and 1. The interval of a population adds the sampling
variance r (1 - r) b.x: each of b.x people is in a.x with probability r (Wilson 1927).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune._checks import plain

Range = tuple[float, float]

Z_95 = 1.959964
WHOLE = (0.0, 1.0)  # range of a share or an area
_STEPS, _CLOSE = 100, 1e-9  # most steps towards an end of a macro average, and the last step


@dataclass(frozen=True)
class Metric:
    """One metric of a released report; public.

    Attributes:
        name: as in ``sklearn.metrics``.
        value: the estimate; NaN if the release says nothing about it: the interval holds everything possible.
        interval: 95% interval of the metric of *these* people: it covers the privacy noise.
        population: 95% interval of the metric in the population that the people are a sample of: it covers the noise
            and the sampling.
    """

    name: str
    value: float
    interval: Range
    population: Range

    def __post_init__(self) -> None:
        (low, high), (least, most) = self.interval, self.population
        object.__setattr__(self, "population", (min(low, least), max(high, most)))  # it counts the noise, too
        for name in ("value", "interval", "population"):
            object.__setattr__(self, name, plain(getattr(self, name)))

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        if math.isnan(self.value):
            return f"{self.name}: the noise hides it"
        return f"{self.name}: {self.value:.3f} ({low:.3f} to {high:.3f})"

    def named(self, name: str) -> Metric:
        """Return a copy under another name."""
        return replace(self, name=name)

    def unless_hidden(self, whole: Range) -> Metric:
        """Return a copy, without a value if its interval is the whole range ``whole``."""
        hidden = self.interval[0] <= whole[0] and self.interval[1] >= whole[1]
        return replace(self, value=math.nan) if hidden else self

    def mapped(self, increasing: Callable[[float], float]) -> Metric:
        """Return an increasing function of the metric."""
        ranges = [(increasing(low), increasing(high)) for low, high in (self.interval, self.population)]
        return Metric(self.name, increasing(self.value), *ranges)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON data; a value that the noise hides is None."""
        value = None if math.isnan(self.value) else self.value
        return {"value": value, "interval": list(self.interval), "population": list(self.population)}


@dataclass(frozen=True, eq=False)
class Cells:
    """Noisy counts (m,) on the plane of their known sum, or unchanged without one.

    Attributes:
        counts: not cut at 0.
        noise: (m, m) covariance of their noise.
    """

    counts: Vector
    noise: Matrix

    @classmethod
    def of(cls, released: Vector, noise: Matrix, total: float | None) -> Cells:
        """Return the cells of noisy counts whose sum is ``total``, if that is public."""
        if total is None:
            return cls(released, noise)
        towards = noise.sum(axis=1)
        whole = towards.sum()
        return cls(released + towards * ((total - released.sum()) / whole), noise - np.outer(towards, towards) / whole)

    def covariance(self, a: Vector, b: Vector) -> float:
        """Return the covariance of the noise of a.x and b.x."""
        return float(a @ self.noise @ b)

    def variance(self, a: Vector) -> float:
        return max(self.covariance(a, a), 0.0)

    def share(self, name: str, a: Vector, b: Vector) -> Metric:
        """Return a.x / b.x, with 0 <= a <= b: the share of people in b who are in a."""
        A, B = float(a @ self.counts), float(b @ self.counts)
        forms = (self.covariance(a, a), self.covariance(a, b), self.covariance(b, b))
        value = min(max(A / B, 0.0), 1.0) if B > 0 else math.nan
        interval, population = (_share(A, B, forms, people) for people in (0.0, max(B, 0.0)))
        return Metric(name, value, interval, population).unless_hidden(WHOLE)

    def macro(self, name: str, parts: Sequence[tuple[Vector, Vector]], *, f1: bool = False) -> Metric:
        """Return the mean of shares a.x / b.x, or of 2 r / (1 + r) of each share r.

        A cell may be in several shares, so their errors (a - r b).x / b.x depend on each other.
        """
        metrics = [self.share(name, *part) for part in parts]
        if any(math.isnan(each.value) for each in metrics):
            return Metric(name, math.nan, WHOLE, WHOLE)
        a, b = (np.array(each) for each in zip(*parts, strict=True))  # (k, m)
        whole = b @ self.counts  # (k,)
        v = (a @ self.counts) / whole

        def error(r: Vector) -> Matrix:
            return np.asarray((a - r[:, None] * b) / whole[:, None])  # (k, m)

        inner = error((np.clip(v, *WHOLE) * whole + 0.5) / (whole + 1))  # not 0 where all are on one side
        sampled = (inner * np.maximum(self.counts, 0.0)) @ inner.T
        scale = np.sqrt(np.maximum(np.diag(sampled), 1e-300))
        together = sampled / np.outer(scale, scale)  # correlations of people's errors
        np.fill_diagonal(together, 1.0)

        def noise(r: Vector) -> Matrix:
            return np.asarray(error(r) @ self.noise @ error(r).T)

        def sampling(r: Vector) -> Matrix:
            spread = np.sqrt(r * (1 - r) / whole)
            return np.asarray(noise(r) + together * np.outer(spread, spread))

        return averaged(name, v, noise, sampling, f1=f1)

    def mean(self, name: str, first: Vector, second: Vector, *, unsure: float, rows: Vector) -> Metric:
        """Return the mean over all people of a loss in [0, 1] that is known up to its spread within a cell.

        Args:
            first, second: (m,) mean and mean square of the loss of each cell's people, as public rows have it.
            unsure: the possible error of the sum of the losses because of that spread.
            rows: (m,) number of public rows behind each mean.
        """
        ones = np.ones_like(first)
        people = np.maximum(self.counts, 0.0)
        A = float(first @ self.counts)
        B = float(self.counts.sum())
        spread = np.maximum(second - first**2, 0.0)
        reading = float(spread @ (people + people**2 / rows)) + unsure**2
        forms = (self.variance(first) + reading, self.covariance(first, ones), self.variance(ones))
        value = min(max(A / B, 0.0), 1.0) if B > 0 else math.nan
        variance = float(people @ second) / max(float(people.sum()), 1.0) - value**2
        scale = min(max(variance, 0.0) / max(value * (1 - value), 1e-9), 1.0) if B > 0 else 1.0
        interval, population = (_share(A, B, forms, people) for people in (0.0, max(B, 0.0) * scale))
        return Metric(name, value, interval, population).unless_hidden(WHOLE)


def ratio(a: float, b: float, noise: tuple[float, float, float]) -> Range:
    """Return all ratios that a / b does not contradict, with the variance of a, the covariance and the variance of b.

    A set that is not an interval is everything.
    """
    aa, ab, bb = noise
    square, linear, constant = b * b - Z_95**2 * bb, a * b - Z_95**2 * ab, a * a - Z_95**2 * aa
    root = linear**2 - square * constant
    if square <= 0 or root < 0:
        return -math.inf, math.inf
    return (linear - math.sqrt(root)) / square, (linear + math.sqrt(root)) / square


def _share(a: float, b: float, forms: tuple[float, float, float], people: float) -> Range:
    """Return all shares that a / b does not contradict, also for a sample from a population.

    Noise may put a outside [0, b]. It is moved to the nearer end: else what is left of the interval within [0, 1] would
    be the shorter, the further a is outside.
    """
    aa, ab, bb = forms
    low, high = ratio(min(max(a, 0.0), b), b, (aa, ab - people / 2, bb - people)) if b > 0 else WHOLE
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def kept(grid: Vector, apart: Vector, variance: float | Vector, value: float) -> Range:
    """Return the range of the grid (k,) that lies within 95% of such noise, the value among it."""
    values = [value, *grid[np.abs(apart) <= Z_95 * np.sqrt(np.maximum(variance, 0.0))].tolist()]
    return min(values), max(values)


def averaged(
    name: str,
    v: Vector,
    noise: Callable[[Vector], Matrix],
    sampling: Callable[[Vector], Matrix],
    *,
    f1: bool = False,
) -> Metric:
    """Return the mean of shares that are read as v (k,), or of 2 r / (1 + r) of each share r.

    Only the mean is cut at 0 and 1. Cutting each share would move the mean away from 0 and 1, and shorten its interval.
    With C the covariance of v and g the gradient of the mean, an end of an interval is the mean of
    r = v +- z C g / sqrt(g.C g). C and g are those at r itself, not at v. So the interval of one share is that of
    :meth:`Cells.share`.

    Args:
        noise, sampling: r (k,) in [0, 1] -> C (k, k) by noise, and by noise and sampling, if the shares are r.
    """

    def slope(r: Vector) -> Vector:
        return np.asarray(2 / (1 + r) ** 2 if f1 else np.ones_like(r))

    def mean(r: Vector) -> float:
        inside = np.clip(r, *WHOLE)
        values = 2 * inside / (1 + inside) if f1 else inside
        return float(np.mean(values + slope(inside) * (r - inside)))  # straight on beyond 0 and 1

    if not 0 <= mean(v) <= 1:
        v = np.full(len(v), float(mean(v) > 0))

    def end(sign: int, covariance: Callable[[Vector], Matrix]) -> float:
        r = v
        for _ in range(_STEPS):
            inside = np.clip(r, *WHOLE)
            C, g = covariance(inside), slope(inside)
            r, before = v + sign * Z_95 * (C @ g) / math.sqrt(max(float(g @ C @ g), 1e-300)), r
            if np.abs(r - before).max() < _CLOSE:
                break
        return min(max(sign * max(sign * mean(r), sign * mean(v)), 0.0), 1.0)

    interval, population = ((end(-1, each), end(1, each)) for each in (noise, sampling))
    return Metric(name, mean(v), interval, population)


def nonnegative(counts: Vector, total: float) -> Vector:
    """Return the nearest vector without negative entries that sums to ``total``: the projection on a simplex."""
    if total <= 0:
        return np.zeros_like(counts)
    ordered = np.sort(counts)[::-1]
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(counts) + 1)
    shift = shifts[np.flatnonzero(ordered > shifts)[-1]]
    return np.asarray(np.maximum(counts - shift, 0.0))


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions at one threshold, and their metrics.

    Attributes:
        cells: the table (2 B,), the negative class first.
        above: (B,) share of each bin that is decided positive.
    """

    cells: Cells = field(repr=False)
    above: Vector = field(repr=False)

    def metrics(self) -> dict[str, Metric]:
        first = (self.accuracy_score, self.balanced_accuracy_score, self.recall_score, self.specificity)
        more = (self.precision_score, self.negative_predictive_value, self.f1_score, self.prevalence)
        return {metric.name: metric for metric in first + more}

    def __str__(self) -> str:
        return "\n".join(map(str, self.metrics().values()))

    @property
    def _forms(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return tn, fp, fn, tp as sums of cells."""
        none = np.zeros_like(self.above)
        below = 1 - self.above
        return (
            np.concatenate([below, none]),
            np.concatenate([self.above, none]),
            np.concatenate([none, below]),
            np.concatenate([none, self.above]),
        )

    @cached_property
    def confusion_matrix(self) -> Matrix:
        """[[tn, fp], [fn, tp]] in people, moved to the nearest one without negative entries and with the same sum."""
        sums = np.array([form @ self.cells.counts for form in self._forms])
        return nonnegative(sums, float(sums.sum())).reshape(2, 2)

    @property
    def error(self) -> float:
        """Return the summed standard errors by noise of three rates; infinite if noise hides a class."""
        tn, fp, fn, tp = self._forms
        error = 0.0
        for part, whole in ((tn + tp, tn + fp + fn + tp), (tp, tp + fn), (tn, tn + fp)):
            A, B = float(part @ self.cells.counts), float(whole @ self.cells.counts)
            error += math.sqrt(self.cells.variance(part - A / B * whole)) / B if B > 0 else math.inf
        return error

    @property
    def accuracy_score(self) -> Metric:
        """Share of right decisions."""
        tn, _, _, tp = self._forms
        return self.cells.share("accuracy_score", tn + tp, np.ones_like(tn))

    @property
    def balanced_accuracy_score(self) -> Metric:
        """Mean of sensitivity and specificity."""
        tn, fp, fn, tp = self._forms
        return self.cells.macro("balanced_accuracy_score", [(tp, tp + fn), (tn, tn + fp)])

    @property
    def recall_score(self) -> Metric:
        """Sensitivity: share of the positive people who are decided positive."""
        _, _, fn, tp = self._forms
        return self.cells.share("recall_score", tp, tp + fn)

    @property
    def specificity(self) -> Metric:
        """Share of the negative people who are decided negative: recall of the negative class."""
        tn, fp, _, _ = self._forms
        return self.cells.share("specificity", tn, tn + fp)

    @property
    def precision_score(self) -> Metric:
        """Positive predictive value: share of the positive decisions that are right."""
        _, fp, _, tp = self._forms
        return self.cells.share("precision_score", tp, tp + fp)

    @property
    def negative_predictive_value(self) -> Metric:
        """Share of the negative decisions that are right."""
        tn, _, fn, _ = self._forms
        return self.cells.share("negative_predictive_value", tn, tn + fn)

    @property
    def f1_score(self) -> Metric:
        """Return 2 tp / (2 tp + fp + fn), which rises with tp / (tp + fp + fn)."""
        _, fp, fn, tp = self._forms
        return self.cells.share("f1_score", tp, tp + fp + fn).mapped(lambda j: 2 * j / (1 + j))

    @property
    def prevalence(self) -> Metric:
        """Share of positive people."""
        tn, fp, fn, tp = self._forms
        return self.cells.share("prevalence", fn + tp, tn + fp + fn + tp)
