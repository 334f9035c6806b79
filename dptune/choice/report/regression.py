"""A regression: bounded sums of the residuals and of the answers, and tables of residuals.

For residual r, |r| <= R after clipping, and answer y, v = (y - m) / S clipped to [-1, 1], one release has the sums of

    u - 1/2, u^2 - 1/2 with u = |r| / R;  a 1;  |r| in 8 bins;  v / 2, v^2 - 1/2;  (prediction, r) in 4 x 6 bins.

R, m, S and all bins come from public rows. Sums have less noise than sums of binned counts, as a
person adds at most 1 to each. Because of the halves, subgroups cost nothing: two people of different groups are as
close as two of one group. A person whose prediction failed has |r| = R and v = 0; with subgroups, they are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from dptune._arrays import Indices, Matrix, Vector
from dptune.choice.report.metric import Metric, Range, kept, nonnegative, ratio
from dptune.errors import InputError

_FINE = 400  # number of cells of |r| and of v
_BINS, _RESIDUAL_BINS, _PREDICTION_BINS = 8, 6, 4
_ROOM = 1.1  # the range is this times the public rows' range
WEIGHT = 0.7  # weight of counts relative to sums


@dataclass(frozen=True)
class Ranges:
    """Public ranges of residuals and answers, as JSON data.

    Attributes:
        most: R, in units of the answer.
        middle, reach: m and S.
        sizes: (7,) edges of the bins of |r|.
        residuals: (5,) edges of the bins of r; predictions: (3,) edges of those of predictions.
        fourth: (8,) mean of (|r| / R)^4 in each bin of |r|.
    """

    most: float
    middle: float
    reach: float
    sizes: tuple[float, ...]
    residuals: tuple[float, ...]
    predictions: tuple[float, ...]
    fourth: tuple[float, ...]

    @classmethod
    def of(cls, y: Vector, predictions: Vector) -> Self:
        """Return the ranges of public answers (N,) and cross-validated predictions.

        Raises:
            InputError: all answers are equal, or all predictions right.
        """
        r = predictions - y
        most = _ROOM * float(np.abs(r).max())
        middle = float(y.mean())
        reach = _ROOM * float(np.abs(y - middle).max())
        if not (most > 0 and reach > 0):
            raise InputError("the public rows have equal answers, or residuals of 0 only. Nothing was charged.")
        step = most / _FINE
        sizes = np.unique(np.round(_inner(np.abs(r), _BINS) / step)) * step  # on the fine cells' borders
        sizes = sizes[(sizes > 0) & (sizes < most)]
        place = np.searchsorted(sizes, np.abs(r), side="right")
        fourth = [float(np.mean((np.abs(r[place == b]) / most) ** 4)) if (place == b).any() else 0.0
                  for b in range(len(sizes) + 1)]  # fmt: skip
        residuals, of_predictions = (
            np.unique(_inner(r, _RESIDUAL_BINS)),
            np.unique(_inner(predictions, _PREDICTION_BINS)),
        )
        edges = [tuple(map(float, each)) for each in (sizes, residuals, of_predictions)]
        return cls(most, middle, reach, edges[0], edges[1], edges[2], tuple(fourth))

    def clipped(self) -> dict[str, list[float]]:
        """Return [low, high] of residuals and of answers, in units of the answer."""
        return {"residuals": [-self.most, self.most], "answers": [self.middle - self.reach, self.middle + self.reach]}

    def words(self) -> str:
        """Return these ranges in words for a statement."""
        ranges = (f"{name} in [{low:.4g}, {high:.4g}]" for name, (low, high) in self.clipped().items())
        return f"{' and '.join(ranges)} by public rows"

    # ---- the query --------------------------------------------------------------------------------

    @property
    def cells_of_a_group(self) -> tuple[int, int, int]:
        """Return the number of cells of each block that one group of people has."""
        return _FINE + 1, _FINE, (len(self.predictions) + 1) * (len(self.residuals) + 1)

    def blocks(self, groups: int | None) -> tuple[Matrix, Matrix, Matrix]:
        """Return the public matrices of the release; the last column of each is for people whose cell is unknown.

        Args:
            groups: number of subgroups; each has rows of its own, and people of no group are in none. None: there are
                no subgroups.
        """
        u = np.append((np.arange(_FINE) + 0.5) / _FINE, 1.0)  # the last cell holds R itself
        place = np.searchsorted(np.asarray(self.sizes) / self.most, u, side="right")
        counts = np.eye(len(self.sizes) + 1)[:, place]
        size = np.vstack([u - 0.5, u**2 - 0.5, WEIGHT * np.ones_like(u), WEIGHT * counts])
        v = np.linspace(-1.0, 1.0, _FINE)
        answer = np.vstack([v / 2, v**2 - 0.5])
        k = self.cells_of_a_group[2]
        if groups is None:
            return (
                np.column_stack([size, size[:, -1]]),
                np.column_stack([answer, [0.0, -0.5]]),
                np.eye(k + 1) * WEIGHT,
            )
        return _of_groups(groups, size), _of_groups(groups, answer), np.eye(groups * k + 1) * WEIGHT

    def cells(self, _: object, both: Matrix) -> list[Indices]:
        """Return the cell of each example in every block, without groups.

        Args:
            both: (n, 2) the true answers and the predictions.
        """
        y, predictions = both.T
        r = predictions - y
        fine = np.floor(np.minimum(np.abs(r) / self.most, 1.0) * _FINE)
        v = np.clip((y - self.middle) / self.reach, -1.0, 1.0)
        answer = np.round((v + 1) / 2 * (_FINE - 1))
        plot = np.searchsorted(self.predictions, predictions) * (len(self.residuals) + 1)
        plot = plot + np.searchsorted(self.residuals, r)
        finite = np.isfinite(r)
        return [np.where(finite, np.nan_to_num(each), -1).astype(np.intp) for each in (fine, answer, plot)]


def _of_groups(groups: int, block: Matrix) -> Matrix:
    """Return the block once for each group, and a column of zeros for people of none."""
    return np.pad(np.kron(np.eye(groups), block), ((0, 0), (0, 1)))


def _inner(values: Vector, bins: int) -> Vector:
    return np.quantile(values, np.arange(1, bins) / bins)


@dataclass(frozen=True, eq=False)
class Residuals:
    """The released sums and tables of some people and their metrics, under their names in ``sklearn.metrics``.

    Residuals beyond R count as R: metrics are of clipped residuals.

    Attributes:
        ranges: of the plan.
        sizes: (11,) sums over people of u - 1/2 and u^2 - 1/2, their number, and how many are in each bin of |r|.
        answers: (2,) sums of v / 2 and v^2 - 1/2.
        plot: people by bin of the prediction and of the residual.
        sigma: standard deviation of the noise of a sum; that of a number of people is sigma / WEIGHT.
        people: the number of people, public or noisy.
        people_noise: standard deviation of the noise of that number; 0 if it is public.
        unknown: how many of them are in no bin of the prediction and of the residual.
    """

    ranges: Ranges
    sizes: Vector = field(repr=False)
    answers: Vector = field(repr=False)
    plot: Vector = field(repr=False)
    sigma: float
    people: float
    people_noise: float
    unknown: float = 0.0

    @classmethod
    def of(
        cls, ranges: Ranges, blocks: Sequence[Vector], sigma: float, people: float | None = None, noise: float = 0.0
    ) -> Self:
        """Return the residuals of released blocks, each a sum over the people.

        Args:
            sigma: standard deviation of the noise of a sum; noise: that of the number of ``people``, whose default is
                the released one.
        """
        sizes = np.append(blocks[0][:2], blocks[0][2:] / WEIGHT)
        number, of_number = (float(sizes[2]), sigma / WEIGHT) if people is None else (people, noise)
        return cls(ranges, sizes, blocks[1], blocks[2] / WEIGHT, sigma, number, of_number)

    def _mean(self, name: str, unit: float, total: float, second: float) -> Metric:
        """Return unit * mean, of x in [0, 1] with this sum of x - 1/2 and this mean of x^2."""
        n, s = self.people, self.sigma
        if n <= 0:
            return Metric(name, math.nan, (0.0, unit), (0.0, unit))
        value = min(max(0.5 + total / n, 0.0), 1.0)
        sampling = max(second - value**2, 0.0) * n

        def kept(variance: float) -> Range:
            low, high = ratio(total, n, (variance, 0.0, self.people_noise**2))
            return (unit * min(max(0.5 + low, 0.0), value), unit * max(min(0.5 + high, 1.0), value))

        return Metric(name, unit * value, kept(s**2), kept(s**2 + sampling)).unless_hidden((0.0, unit))

    @property
    def mean_absolute_error(self) -> Metric:
        """Mean of |y - prediction|."""
        second = 0.5 + self.sizes[1] / max(self.people, 1.0)
        return self._mean("mean_absolute_error", self.ranges.most, float(self.sizes[0]), second)

    @property
    def _squared(self) -> Metric:
        fourth = float(self._shares @ np.asarray(self.ranges.fourth))
        return self._mean("mean_squared_error", self.ranges.most**2, float(self.sizes[1]), fourth)

    @property
    def root_mean_squared_error(self) -> Metric:
        """Root of the mean of (y - prediction)^2."""
        return self._squared.mapped(lambda x: math.sqrt(max(x, 0.0))).named("root_mean_squared_error")

    @cached_property
    def _shares(self) -> Vector:
        counts = self.sizes[3:]
        n = self.people
        return nonnegative(counts + (n - counts.sum()) / len(counts), n) / max(n, 1e-9)

    @property
    def median_absolute_error(self) -> Metric:
        """Median of |y - prediction|, read from its 8 bins: as many people are below it as above.

        Within a bin people are spread evenly, up to an error f (1 - f) D of them below its fraction f. D in [0, 1] is
        by how much their number differs from that of a neighbour: bins hold equal numbers of the public rows.
        """
        counts = self.sizes[3:]
        n = self.people
        R = self.ranges.most
        if n <= 0:
            return Metric("median_absolute_error", math.nan, (0.0, R), (0.0, R))
        edges = np.concatenate([[0.0], self.ranges.sizes, [R]])
        B = len(counts)
        f = np.linspace(0.0, 1.0, 501)
        grid = (edges[:-1, None] + np.outer(np.diff(edges), f)).ravel()
        apart = np.interp(grid, edges, np.concatenate([[0.0], np.cumsum(counts)])) - counts.sum() / 2
        known = np.maximum(counts, 1.0)
        steps = np.abs(np.diff(known)) / np.maximum(known[1:], known[:-1])
        uneven = np.maximum(np.append(steps, 0.0), np.append(0.0, steps)) * known
        noise = (self.sigma / WEIGHT) ** 2 * B / 4 + n / (4 * B) + np.outer(uneven, f * (1 - f)).ravel() ** 2
        value = float(np.interp(0.5, np.concatenate([[0.0], np.cumsum(self._shares)]), edges))

        interval, population = (kept(grid, apart, each, value) for each in (noise, noise + n / 4))
        return Metric("median_absolute_error", value, interval, population).unless_hidden((0.0, R))

    @property
    def r2_score(self) -> Metric:
        """Return 1 - mean squared error / variance of the answers."""
        n = self.people
        s2 = self.sigma**2
        of_people = self.people_noise**2
        unknown = (-math.inf, 1.0)
        if n <= 0:
            return Metric("r2_score", math.nan, unknown, unknown)
        unit = (self.ranges.most / self.ranges.reach) ** 2
        first, second = self.answers
        error = unit * max(self.sizes[1] + n / 2, 0.0)
        spread = second + n / 2 - 4 * (first**2 - s2) / n  # n times the variance of v
        by_people = 0.5 + 4 * (first / n) ** 2
        noise = (
            unit**2 * (s2 + of_people / 4),
            unit * of_people / 2 * by_people,
            s2 * (1 + (8 * first / n) ** 2) + of_people * by_people**2,
        )
        if spread <= 0:
            return Metric("r2_score", math.nan, unknown, unknown)
        fourth = float(self._shares @ np.asarray(self.ranges.fourth))
        of_errors = unit**2 * n * max(fourth - (error / unit / n) ** 2, 0.0)
        sampled = (noise[0] + of_errors, noise[1], noise[2] + 2 * spread**2 / n)
        ranges = [ratio(error, spread, each) for each in (noise, sampled)]
        both = [(1 - high, min(1 - max(low, 0.0), 1.0)) for low, high in ranges]
        return Metric("r2_score", 1 - error / spread, both[0], both[1]).unless_hidden(unknown)

    def residual_table(self) -> Matrix:
        """Return people by bin of the prediction (rows) and of the residual, none below 0."""
        n = max(self.people - self.unknown, 0.0)
        counts = nonnegative(self.plot + (n - self.plot.sum()) / len(self.plot), n)
        return counts.reshape(len(self.ranges.predictions) + 1, -1)

    def metrics(self) -> dict[str, Metric]:
        metrics = (self.mean_absolute_error, self.root_mean_squared_error, self.median_absolute_error, self.r2_score)
        return {metric.name: metric for metric in metrics}
