"""A classifier with two labels: metrics from one noisy table of (true class, score bin).

Counts are c_y(b) for class y in {0, 1} and bin b, n_y = sum_b c_y(b). Sums of cells are never cut at 0 before a metric
is read from them. Two biases are subtracted from the area under the ROC curve:

- *Spread within a bin.* Of two people in one bin the positive one tends to have the larger score. A bin's people have
  the scores of its public rows, points of rank r. The share of positives there is proportional to
  h(r) = 1 / (1 + exp(-alpha - beta logit r)), fitted to the released table and the public rows'. The fit misses the
  true order in a bin by 0.03 to 0.04 (one standard deviation), for 4 to 12 bins of six tables:
  ``python -m benchmarks.final_reports --within``.
- *Known sum.* Moving the counts onto their known sum correlates the noise of the two classes. The sum of these
  covariances over all pairs is subtracted from the numerator, and from n_0 n_1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, logit

from dptune._arrays import Matrix, Vector
from dptune._checks import real, shown
from dptune.choice.report.cells import DUST, POINTS, Bins
from dptune.choice.report.metric import WHOLE, Cells, Decisions, Metric, Range, kept, nonnegative
from dptune.errors import InputError

WITHIN = 0.04  # standard deviation of how often the positive of two people in a bin is ahead, about what is fitted
_GRID = np.linspace(0.0, 1.0, 2001)  # hypothetical areas


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """The released table and its metrics, under their names in ``sklearn.metrics``.

    Attributes:
        bins: of the scores.
        released: (2, B) noisy counts, the negative class first.
        noise: (2 B, 2 B) covariance of their noise.
        total: number of people if it is public; None for a subgroup.
        probabilities: whether scores are probabilities, so that they can be calibrated.
    """

    bins: Bins
    released: Matrix = field(repr=False)
    noise: Matrix = field(repr=False)
    total: float | None
    probabilities: bool = True

    @cached_property
    def cells(self) -> Cells:
        """Return the counts (2 B,) on their known sum; not cut at 0."""
        return Cells.of(self.released.ravel(), self.noise, self.total)

    @cached_property
    def _counts(self) -> Matrix:
        return self.cells.counts.reshape(2, -1)

    @cached_property
    def table(self) -> Matrix:
        """Return the counts (2, B), moved to the nearest table without negative entries and with the same sum."""
        return nonnegative(self.cells.counts, float(self.cells.counts.sum())).reshape(2, -1)

    def with_noise(self, noise: Matrix) -> BinaryTable:
        """Return the same table with other noise; if its sum is ``total``, the spread within bins stays."""
        other = replace(self, noise=noise)
        other.__dict__["ahead"] = self.ahead
        return other

    # ---- decisions -------------------------------------------------------------------------------

    def at(self, threshold: float) -> Decisions:
        """Return the quality of the decisions "positive above this threshold".

        On an edge of the bins that is exact up to the noise. Else the bin around the threshold is divided, and both
        intervals count the error of the division.

        Raises:
            InputError: the threshold is not a number.
        """
        if real(threshold) is None and not (isinstance(threshold, float) and math.isinf(threshold)):
            raise InputError(f"at() takes a threshold, a number; got {shown(threshold)}.")
        if abs(threshold - self.bins.threshold) <= 2 * DUST:
            threshold = self.bins.threshold  # that of a model may be just below the number that is printed
        if threshold in self.bins.edges:
            above = np.arange(self.bins.count) > self.bins.edges.index(threshold)
        elif math.isinf(threshold) or (self.probabilities and not 0 <= threshold < 1):
            above = np.full(self.bins.count, threshold < 0)
        else:
            return self._divided(int(np.searchsorted(self.bins.edges, threshold)), threshold)
        return Decisions(self.cells, above.astype(np.float64))

    def _divided(self, b: int, threshold: float) -> Decisions:
        """Return the decisions at a threshold inside bin b, whose two cells are divided into four.

        The part of a class that is above is halfway between that of the bin's public rows and that of :attr:`_spread`.
        Three errors add to the variance of people who are moved across the threshold:

        - each of the p people of a class is above with probability f: p f (1 - f);
        - the m public rows, and the 16 points that stand for them, know f up to f (1 - f) / m + 1 / (12 16^2);
        - what the spread of the classes changes is unsure.

        The last two are common to both classes.
        """
        B, m = self.bins.count, self.bins.rows[b]
        up = np.asarray(self.bins.points)[b] > threshold
        plain = up.mean()
        tilted = np.array([q[b, up].sum() for q in self._spread])  # (2,)
        f, unsure = (plain + tilted) / 2, tilted - plain
        people = np.maximum(self._counts[:, b], 0.0)

        def chance(share: Vector) -> Vector:
            some = (m * share + 0.5) / (m + 1)  # not 0 where all public rows are on one side
            return np.asarray(some * (1 - some))

        known = chance(plain) / m + 1 / (12 * POINTS**2)
        common = known + np.outer(unsure, unsure)  # (2, 2)
        moved = np.diag(people * chance(f)) + common * np.outer(people, people)
        parts, across = np.zeros((2, B + 1, 2, B)), np.zeros((2, B + 1, 2))
        for y in (0, 1):
            parts[y, :, y] = np.insert(np.eye(B), b, 0.0, axis=0)
            parts[y, b : b + 2, y, b] = 1 - f[y], f[y]
            across[y, b : b + 2, y] = -1.0, 1.0
        T, E = parts.reshape(2 * B + 2, 2 * B), across.reshape(-1, 2)
        cells = Cells(T @ self.cells.counts, T @ self.cells.noise @ T.T + E @ moved @ E.T)
        return Decisions(cells, (np.arange(B + 1) > b).astype(np.float64))

    @cached_property
    def decisions(self) -> Decisions:
        """Those of the model: above its own threshold."""
        return self.at(self.bins.threshold)

    @property
    def confusion_matrix(self) -> Matrix:
        """Return [[tn, fp], [fn, tp]] at the model's threshold, in people, none below 0."""
        return self.decisions.confusion_matrix

    # ---- area under the ROC curve ----------------------------------------------------------------

    @cached_property
    def _spread(self) -> tuple[Matrix, Matrix]:
        """Return the shares of a bin's negatives and positives at its points, (B, 16) each."""
        x = logit(self.bins.ranks)
        alpha, beta = _logistic_fit(x.mean(axis=1), self.table + np.asarray(self.bins.table))
        h = np.clip(expit(alpha + beta * x), 1e-6, 1 - 1e-6)
        return (1 - h) / (1 - h).sum(axis=1, keepdims=True), h / h.sum(axis=1, keepdims=True)

    @cached_property
    def ahead(self) -> Vector:
        """(B,) how often, of a negative and a positive in one bin, the positive has the larger score, less 1/2."""
        q0, q1 = self._spread
        return np.asarray(np.einsum("bi,bij,bj->b", q1, self.bins.behind, q0) - 0.5)

    def area(self) -> float:
        """Return the area under the ROC curve alone, without intervals; NaN if the noise hides a class."""
        return float(np.clip(self.read_area, *WHOLE))

    @cached_property
    def _area(self) -> tuple[float, float]:
        """Return the numerator and the number of pairs n_0 n_1."""
        c0, c1 = self._counts
        below = np.cumsum(c0) - c0 / 2
        B = self.bins.count
        tied = self.cells.noise[B:, :B]
        p0, p1 = self.table
        within = float(p0 * p1 @ self.ahead)
        n0, n1 = float(c0.sum()), float(c1.sum())
        pairs = n0 * n1 - float(tied.sum()) if min(n0, n1) > 0 else 0.0
        return float(c1 @ below) - float((tied * _order(B)).sum()) + within, pairs

    @cached_property
    def roc_auc_score(self) -> Metric:
        """Area under the ROC curve: the chance that a positive person has a larger score than a negative one."""
        numerator, pairs = self._area
        if pairs <= 0:
            return Metric("roc_auc_score", math.nan, WHOLE, WHOLE)
        value = min(max(self.read_area, 0.0), 1.0)
        apart = numerator / pairs - _GRID
        interval, population = (kept(_GRID, apart, each, value) for each in self.variances_of_area(_GRID))
        return Metric("roc_auc_score", value, interval, population).unless_hidden(WHOLE)

    @property
    def read_area(self) -> float:
        """Return the area that is read, which noise may move beyond 0 or 1; NaN if the noise hides a class."""
        numerator, pairs = self._area
        return numerator / pairs if pairs > 0 else math.nan

    def variances_of_area(self, area: Vector) -> tuple[Vector, Vector]:
        """Return the variances of the area that is read, by noise, and by noise and sampling, if it is ``area``."""
        n0, n1 = self._counts.sum(axis=1)
        _, pairs = self._area
        noise = (self._area_variance(area) + self._unread) / pairs**2
        people = self._area_variance(area) / pairs**2 + _sampling_variance(
            area, max(min(n0, n1), 1.0), max(n0, n1, 1.0)
        )
        return noise, people

    def _area_variance(self, area: Vector) -> Vector:
        """Return the variance of (numerator - area n_0 n_1) by noise, and by the unreleased order within bins."""
        c0, c1 = self._counts
        B = self.bins.count
        n0 = float(c0.sum())
        n1 = float(c1.sum())
        a = np.concatenate([np.cumsum(c1[::-1])[::-1] - c1 / 2, np.cumsum(c0) - c0 / 2])  # gradient of the numerator
        b = np.repeat([n1, n0], B)  # and of n_0 n_1
        noise0 = self.cells.noise[:B, :B]
        noise1 = self.cells.noise[B:, B:]
        K = _order(B)
        pairs = np.ones((B, B))
        of, cross, whole = (
            float(((left @ noise0 @ right.T) * noise1).sum()) for left, right in ((K, K), (K, pairs), (pairs, pairs))
        )
        squares = of - 2 * area * cross + area**2 * whole  # variance of what products of two noises add
        noise = self.cells.variance(a) - 2 * area * self.cells.covariance(a, b) + area**2 * self.cells.variance(b)
        return np.asarray(noise + squares + self._misfit)

    @property
    def _misfit(self) -> float:
        """Return the variance of the numerator by the error of the fitted order within bins."""
        return WITHIN**2 * float((self.table.prod(axis=0) ** 2).sum())

    @property
    def area_misfit(self) -> float:
        """Standard deviation of the area's bias, over tables and models; infinite if noise hides a class."""
        _, pairs = self._area
        return math.sqrt(self._misfit) / pairs if pairs > 0 else math.inf

    @property
    def _unread(self) -> float:
        """Return the variance of the numerator by the unreleased order of the few people in a bin."""
        p0, p1 = self.table
        return float((p0 * p1 * (p0 + p1)).sum()) / 12

    @property
    def area_error(self) -> float:
        """Standard error of the area by noise and by what is not read within bins; infinite if noise hides a class."""
        _, pairs = self._area
        variance = float(self._area_variance(np.array(self.area()))) + self._unread
        return math.sqrt(variance) / pairs if pairs > 0 else math.inf

    # ---- probabilities ---------------------------------------------------------------------------

    @cached_property
    def brier_score_loss(self) -> Metric:
        """Mean squared difference of probability and outcome."""
        p = np.asarray(self.bins.points)
        q0, q1 = self._spread
        first = np.concatenate([(q0 * p**2).sum(axis=1), (q1 * (1 - p) ** 2).sum(axis=1)])  # mean loss in each cell
        second = np.concatenate([(q0 * p**4).sum(axis=1), (q1 * (1 - p) ** 4).sum(axis=1)])
        plain = np.concatenate([(p**2).mean(axis=1), ((1 - p) ** 2).mean(axis=1)])
        shift = float(self.table.ravel() @ (first - plain)) / 2  # what the spread of the classes changes: half of it
        return self.cells.mean("brier_score_loss", first, second, unsure=shift, rows=np.tile(self.bins.rows, 2))

    def calibration_curve(self) -> list[tuple[float, Metric]]:
        """Return (mean predicted probability, share of positives) of each bin."""
        B = self.bins.count
        both = np.eye(B)
        nothing = np.zeros(B)
        return [
            (
                float(np.mean(self.bins.points[b])),
                self.cells.share(f"bin {b}", np.concatenate([nothing, both[b]]), np.tile(both[b], 2)),
            )
            for b in range(B)
        ]

    @cached_property
    def calibration_error(self) -> Metric:
        """Expected calibration error: mean over people of |share of positives - mean probability| in their bin.

        Noise alone makes a sum of absolute values positive. With z the released differences and a >= 0, the interval
        has the errors a |z| for which the released sum is likely. The value is the error for which the released sum is
        the median.
        """
        points = np.asarray(self.bins.points)
        p = points.mean(axis=1)
        c = self._counts
        z = c[1] - p * c.sum(axis=0)
        own = self.table.sum(axis=0)
        gaps = np.hstack([np.diag(-p), np.diag(1 - p)])
        noise = np.diag(gaps @ self.cells.noise @ gaps.T) + np.var(points, axis=1) * (own + own**2 / self.bins.rows)
        with np.errstate(all="ignore"):
            people = noise + np.nan_to_num(self.table.prod(axis=0) / own)
        value, interval = _scaled_sum(z, np.sqrt(noise))
        _, population = _scaled_sum(z, np.sqrt(people))
        total = self.total or max(float(own.sum()), 1.0)

        def per_person(x: float) -> float:
            return min(x / total, 1.0)

        return Metric(
            "expected_calibration_error",
            per_person(value),
            (per_person(interval[0]), per_person(interval[1])),
            (per_person(population[0]), per_person(population[1])),
        ).unless_hidden(WHOLE)

    def metrics(self) -> dict[str, Metric]:
        """Return all metrics by their names; those of probabilities only where scores are probabilities."""
        more = [self.brier_score_loss, self.calibration_error] if self.probabilities else []
        return self.decisions.metrics() | {metric.name: metric for metric in (self.roc_auc_score, *more)}

    # ---- curves ----------------------------------------------------------------------------------

    def roc_curve(self) -> tuple[Vector, Vector, Vector]:
        """Return (false positive rates, true positive rates, thresholds), from the highest threshold on.

        From the table without negative entries, so that both rates increase.
        """
        negatives, positives, thresholds = self._cumulative()
        with np.errstate(all="ignore"):
            return negatives / negatives[-1], positives / positives[-1], thresholds

    def precision_recall_curve(self) -> tuple[Vector, Vector, Vector]:
        """Return (precision, recall, thresholds), from the lowest threshold on, as scikit-learn does."""
        negatives, positives, thresholds = self._cumulative()
        with np.errstate(all="ignore"):
            precision = positives / (positives + negatives)
            recall = positives / positives[-1]
        precision[0] = 1.0
        return precision[::-1], recall[::-1], thresholds[::-1]

    def _cumulative(self) -> tuple[Vector, Vector, Vector]:
        """Return negatives and positives above each threshold, spread within a bin like the classes there."""
        q0, q1 = self._spread
        negatives = [0.0]
        positives = [0.0]
        thresholds = [math.inf]
        for b in reversed(range(self.bins.count)):
            n0, n1 = negatives[-1], positives[-1]
            for part in range(POINTS // 4, POINTS + 1, POINTS // 4):  # quarters of the bin, from its upper end down
                negatives.append(n0 + self.table[0, b] * float(q0[b, POINTS - part :].sum()))
                positives.append(n1 + self.table[1, b] * float(q1[b, POINTS - part :].sum()))
                lower = self.bins.edges[b - 1] if b else -math.inf
                thresholds.append(
                    lower if part == POINTS else float(np.mean(self.bins.points[b][-part - 1 : -part + 1]))
                )
        return np.array(negatives), np.array(positives), np.array(thresholds)


def _order(B: int) -> Matrix:
    """Return (B, B): how often a positive of the first bin is above a negative of the second."""
    return np.tri(B, k=-1) + np.eye(B) / 2


def _logistic_fit(x: Vector, counts: Matrix) -> tuple[float, float]:
    """Return alpha and beta >= 0 of 1 / (1 + exp(-alpha - beta x)), likeliest for counts (2, B) at x (B,).

    Half a person is added to each cell, so that a table that separates the classes has a finite slope.
    """
    no, yes = counts + 0.5
    n = no + yes
    theta = np.array([math.log(yes.sum() / no.sum()), 0.0])
    A = np.column_stack([np.ones_like(x), x])
    for _ in range(12):
        p = expit(A @ theta)
        step = np.linalg.solve((A.T * (n * p * (1 - p))) @ A + 1e-6 * np.eye(2), A.T @ (yes - n * p))
        theta = theta + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-4:
            break
    return float(theta[0]), max(float(theta[1]), 0.0)


def _sampling_variance(area: Vector, few: float, many: float) -> Vector:
    """Return the area's variance for so many people of the two labels of a population with ``area``.

    The formula (Hanley & McNeil 1982) names one label positive. The rarer one gives the larger variance: with the other
    one it is half of what two normal classes have.
    """
    q1 = area / (2 - area)
    q2 = 2 * area**2 / (1 + area)
    return np.asarray((area * (1 - area) + (few - 1) * (q1 - area**2) + (many - 1) * (q2 - area**2)) / (few * many))


def _scaled_sum(z: Vector, sigma: Vector) -> tuple[float, Range]:
    """Return the sum of |z| without its noise, and its 95% interval: multiples a of z, by the sum that they lead to."""
    total = float(np.abs(z).sum())
    draws = np.random.default_rng(0).normal(size=(800, len(z))) * sigma
    scales = np.linspace(0.0, 2.4, 25)
    sums = np.sort([np.abs(a * z + draws).sum(axis=1) for a in scales], axis=1)  # (scales, draws)
    least, usual, most = (np.maximum.accumulate(sums[:, k]) for k in (9, 400, 790))  # 98%: z is not the true direction
    low, value, high = (float(np.interp(total, each, scales, left=0.0)) for each in (most, usual, least))
    if total < least[0]:  # less than noise alone: |z| is at most its own sum and that of the noise
        return 0.0, (0.0, total + float(most[0]))
    return value * total, (low * total, high * total)
