"""Decisions at one threshold: a confusion matrix and its rates, from a table of noisy counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune.choice.report.metric import Cells, Metric, mean_of, nonnegative


@dataclass(frozen=True)
class Decisions:
    """Decisions at one threshold, and their metrics.

    Attributes:
        cells: the table (2 B,), the negative class first.
        above: (B,) share of each bin that is decided positive.
    """

    cells: Cells = field(repr=False)
    above: Vector = field(repr=False)

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
        return mean_of("balanced_accuracy_score", [self.recall_score, self.specificity])

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
