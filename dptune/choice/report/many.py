"""A classifier with several labels: the confusion matrix, and each class against the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.metric import WHOLE, Cells, Metric, averaged, nonnegative
from dptune.errors import InputError


@dataclass(frozen=True, eq=False)
class Confusion:
    """The released table of (true class, decided class) and its metrics, under their names in ``sklearn.metrics``.

    Attributes:
        classes: the k labels.
        released: (k k,) noisy counts, row by row.
        noise: (k k, k k) covariance of their noise.
        total: number of people if it is public; None for a subgroup.
        rest: one table for each class against the others; () if no curves were released.
    """

    classes: tuple[Any, ...]
    released: Vector = field(repr=False)
    noise: Matrix = field(repr=False)
    total: float | None
    rest: tuple[BinaryTable, ...] = field(default=(), repr=False)

    @cached_property
    def cells(self) -> Cells:
        """Return the counts (k k,) on their known sum; not cut at 0."""
        return Cells.of(self.released, self.noise, self.total)

    @property
    def _k(self) -> int:
        return len(self.classes)

    @cached_property
    def confusion_matrix(self) -> Matrix:
        """People by true class (rows) and decided class, moved to the nearest table without negative entries."""
        return nonnegative(self.cells.counts, float(self.cells.counts.sum())).reshape(self._k, self._k)

    def _where(self, rows: Any = slice(None), columns: Any = slice(None)) -> Vector:
        weights = np.zeros((self._k, self._k))
        weights[rows, columns] = 1.0
        return weights.ravel()

    @property
    def accuracy_score(self) -> Metric:
        """Share of right decisions."""
        return self.cells.share("accuracy_score", np.eye(self._k).ravel(), self._where())

    def _recall(self, j: int) -> tuple[Vector, Vector]:
        return self._where(j, j), self._where(j)

    def _precision(self, j: int) -> tuple[Vector, Vector]:
        return self._where(j, j), self._where(columns=j)

    def _either(self, j: int) -> tuple[Vector, Vector]:
        """Return the right decisions for class j, and all who are of it or decided to be."""
        return self._where(j, j), np.maximum(self._where(j), self._where(columns=j))

    def recall_of(self, j: int) -> Metric:
        """Share of the people of class j who are decided to be of it."""
        return self.cells.share(f"recall of {self.classes[j]}", *self._recall(j))

    def precision_of(self, j: int) -> Metric:
        """Share of the decisions for class j that are right."""
        return self.cells.share(f"precision of {self.classes[j]}", *self._precision(j))

    def f1_of(self, j: int) -> Metric:
        """Harmonic mean of precision and recall of class j."""
        return self.cells.share(f"f1 of {self.classes[j]}", *self._either(j)).mapped(lambda x: 2 * x / (1 + x))

    def share_of(self, j: int) -> Metric:
        """Share of the people who are of class j."""
        return self.cells.share(f"share of {self.classes[j]}", self._where(j), self._where())

    @property
    def balanced_accuracy_score(self) -> Metric:
        """Mean recall of the classes: the macro average."""
        return self.cells.macro("balanced_accuracy_score", [self._recall(j) for j in range(self._k)])

    @property
    def precision_score(self) -> Metric:
        """Mean precision of the classes: the macro average."""
        return self.cells.macro("precision_score (macro)", [self._precision(j) for j in range(self._k)])

    @property
    def f1_score(self) -> Metric:
        """Mean f1 of the classes: the macro average."""
        return self.cells.macro("f1_score (macro)", [self._either(j) for j in range(self._k)], f1=True)

    @property
    def roc_auc_score(self) -> Metric:
        """Mean over classes of the area under the ROC curve against the others: ``multi_class="ovr"``, macro."""
        name = "roc_auc_score (ovr, macro)"
        if not self.rest:
            raise InputError("a report has areas of 8 labels at most, of a model with predict_proba, and of everybody.")
        if any(math.isnan(table.roc_auc_score.value) for table in self.rest):
            return Metric(name, math.nan, WHOLE, WHOLE)
        v = np.array([table.read_area for table in self.rest])

        def variances(which: int, areas: Vector) -> Matrix:  # the errors of two tables are independent
            each = [table.variances_of_area(area)[which] for table, area in zip(self.rest, areas, strict=True)]
            return np.diag(np.array(each, dtype=np.float64))

        return averaged(name, v, partial(variances, 0), partial(variances, 1))

    def metrics(self) -> dict[str, Metric]:
        metrics = [self.accuracy_score, self.balanced_accuracy_score, self.precision_score, self.f1_score]
        metrics += [self.roc_auc_score] if self.rest else []
        for j, name in enumerate(self.classes):
            metrics += [self.share_of(j), self.recall_of(j), self.precision_of(j), self.f1_of(j)]
            if self.rest:
                metrics.append(self.rest[j].roc_auc_score.named(f"roc_auc of {name}"))
        return {metric.name: metric for metric in metrics}
