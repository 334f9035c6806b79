"""A regression: bounded means of the residuals and of the answers, and tables of residuals.

For residual r, |r| <= R after clipping, and answer y, v = (y - m) / S clipped to [-1, 1], one release has

    means of u = |r| / R and u^2;  shares of |r| in 8 bins;  means of v / 2, v^2;  shares of (prediction, r) in 4 x 6.

R, m, S and all bins come from cross-validated public rows. Means have less noise than sums of binned counts, as a
person adds at most 1 to each. A person whose prediction failed has |r| = R and v = 0.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dptune._numbers import tupled
from dptune.choice.report.metric import Z_95, Metric, Range, Vector, nonnegative
from dptune.errors import InputError

Matrix = npt.NDArray[np.float64]

_FINE = 400  # cells of |r| and of v
_BINS, _RESIDUAL_BINS, _PREDICTION_BINS = 8, 6, 4
_ROOM = 1.1  # what public rows reach, times this, is the range
_WEIGHT = 0.7  # of counts beside means


@dataclass(frozen=True)
class Ranges:
    """What public rows say of residuals and answers. Public; JSON data.

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
        most, middle = _ROOM * float(np.abs(r).max()), float(y.mean())
        reach = _ROOM * float(np.abs(y - middle).max())
        if not (most > 0 and reach > 0):
            raise InputError("public= has equal answers, or residuals of 0 only. Nothing was charged.")
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

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the ranges of what :meth:`stored` returned."""
        return cls(**{name: tupled(value) for name, value in stored.items()})

    def stored(self) -> dict[str, Any]:
        """Return JSON data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    # ---- what is asked ---------------------------------------------------------------------------

    def blocks(self) -> tuple[Matrix, Matrix, Matrix]:
        """Return the public matrices of the release; the last column of each is for people whose cell is unknown."""
        u = np.append((np.arange(_FINE) + 0.5) / _FINE, 1.0)  # the last cell holds R itself
        place = np.searchsorted(np.asarray(self.sizes) / self.most, u, side="right")
        counts = np.eye(len(self.sizes) + 1)[:, place] * _WEIGHT
        size = np.vstack([u, u**2, counts])
        v = np.append(np.linspace(-1.0, 1.0, _FINE), 0.0)
        cells = (len(self.predictions) + 1) * (len(self.residuals) + 1) + 1
        return np.column_stack([size, size[:, -1]]), np.vstack([v / 2, v**2]), np.eye(cells) * _WEIGHT

    def cells(self, _: object, both: Matrix) -> list[npt.NDArray[np.intp]]:
        """Return the cell of each example in every block; the true answers and the predictions are (n, 2)."""
        y, predictions = both.T
        r = predictions - y
        fine = np.floor(np.minimum(np.abs(r) / self.most, 1.0) * _FINE)
        v = np.clip((y - self.middle) / self.reach, -1.0, 1.0)
        answer = np.round((v + 1) / 2 * (_FINE - 1))
        plot = np.searchsorted(self.predictions, predictions) * (len(self.residuals) + 1)
        plot = plot + np.searchsorted(self.residuals, r)
        known = np.isfinite(r)
        return [np.where(known, np.nan_to_num(each), -1).astype(np.intp) for each in (fine, answer, plot)]


def _inner(values: Vector, bins: int) -> Vector:
    return np.quantile(values, np.arange(1, bins) / bins)


@dataclass(frozen=True)
class Residuals:
    """The released means and tables and their metrics, under their names in ``sklearn.metrics``.

    Residuals beyond R count as R: metrics are of clipped residuals.

    Attributes:
        ranges: of the plan.
        sizes, answers, plot: the released vector's three parts, per person.
        sigma: standard deviation of the noise of each number, per person.
        n: number of people.
    """

    ranges: Ranges
    sizes: Vector = field(repr=False)
    answers: Vector = field(repr=False)
    plot: Vector = field(repr=False)
    sigma: float
    n: float

    @property
    def mean_absolute_error(self) -> Metric:
        """Mean of |y - prediction|."""
        R, spread = self.ranges.most, max(self.sizes[1] - self.sizes[0] ** 2, 0.0)
        return _linear("mean_absolute_error", R * self.sizes[0], R * self.sigma, R * math.sqrt(spread / self.n))

    @property
    def _squared(self) -> Metric:
        R2, fourth = self.ranges.most**2, float(self._shares @ np.asarray(self.ranges.fourth))
        sampling = R2 * math.sqrt(max(fourth - self.sizes[1] ** 2, 0.0) / self.n)
        return _linear("mean_squared_error", R2 * self.sizes[1], R2 * self.sigma, sampling)

    @property
    def root_mean_squared_error(self) -> Metric:
        """Root of the mean of (y - prediction)^2."""
        return self._squared.mapped(lambda x: math.sqrt(max(x, 0.0))).named("root_mean_squared_error")

    @cached_property
    def _shares(self) -> Vector:
        """Shares of people in the bins of |r|, none below 0."""
        counts = self.sizes[2:] / _WEIGHT
        return nonnegative(counts + (1 - counts.sum()) / len(counts), 1.0)

    @property
    def median_absolute_error(self) -> Metric:
        """Median of |y - prediction|, read from its 8 bins."""
        counts = self.sizes[2:] / _WEIGHT
        B = len(counts)
        edges = np.concatenate([[0.0], self.ranges.sizes, [self.ranges.most]])
        below = np.concatenate([[0.0], np.cumsum(counts + (1 - counts.sum()) / B)])
        grid = np.linspace(0.0, self.ranges.most, 4001)
        F = np.interp(grid, edges, below)
        k = np.interp(grid, edges, np.arange(B + 1))
        noise = (self.sigma / _WEIGHT) ** 2 * k * (1 - k / B) + 1 / (4 * B * self.n)
        value = float(np.interp(0.5, np.concatenate([[0.0], np.cumsum(self._shares)]), edges))

        def kept(variance: Vector) -> Range:
            found = grid[np.abs(F - 0.5) <= Z_95 * np.sqrt(variance)]
            return (min(float(found[0]), value), max(float(found[-1]), value)) if len(found) else (value, value)

        return Metric("median_absolute_error", value, kept(noise), kept(noise + 0.25 / self.n))

    @property
    def r2_score(self) -> Metric:
        """1 - mean squared error / variance of the answers."""
        S2, middle = self.ranges.reach**2, 2 * self.answers[0]
        variance = S2 * (self.answers[1] - middle**2 + (2 * self.sigma) ** 2)
        noise = S2 * self.sigma * math.sqrt(1 + (4 * middle) ** 2)
        error, unknown = self._squared, (-math.inf, 1.0)
        if variance <= 0:
            return Metric("r2_score", math.nan, unknown, unknown)
        of_error = [(high - low) / (2 * Z_95) for low, high in (error.interval, error.population)]
        of_variance = [noise, math.hypot(noise, variance * math.sqrt(2 / self.n))]
        ranges = [_ratio(error.value, variance, a, b) for a, b in zip(of_error, of_variance, strict=True)]
        both = [(1 - high, min(1 - low, 1.0)) for low, high in ranges]
        return Metric("r2_score", 1 - error.value / variance, both[0], both[1])

    def residual_table(self) -> Matrix:
        """Return people by bin of the prediction (rows) and of the residual, none below 0."""
        counts = self.n * self.plot / _WEIGHT
        known = nonnegative(counts + (self.n - counts.sum()) / len(counts), self.n)[:-1]
        return known.reshape(len(self.ranges.predictions) + 1, -1)

    def metrics(self) -> dict[str, Metric]:
        """Return all metrics by their names."""
        found = (self.mean_absolute_error, self.root_mean_squared_error, self.median_absolute_error, self.r2_score)
        return {metric.name: metric for metric in found}


def _linear(name: str, value: float, noise: float, sampling: float) -> Metric:
    both = math.hypot(noise, sampling)
    ranges: list[Range] = [(max(value - Z_95 * s, 0.0), max(value + Z_95 * s, 0.0)) for s in (noise, both)]
    return Metric(name, max(value, 0.0), ranges[0], ranges[1])


def _ratio(a: float, b: float, sigma_a: float, sigma_b: float) -> Range:
    """All ratios >= 0 that a / b does not contradict; the noises are independent."""
    square, root = b * b - Z_95**2 * sigma_b**2, 0.0
    if square > 0:
        root = (a * b) ** 2 - square * (a * a - Z_95**2 * sigma_a**2)
    if square <= 0 or root < 0:
        return 0.0, math.inf
    return max((a * b - math.sqrt(root)) / square, 0.0), (a * b + math.sqrt(root)) / square
