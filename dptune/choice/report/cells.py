"""The cell of an example: a function of the model's answer and the true one for this example alone.

The functions here run on private rows, after the charge, where :func:`dptune.losses.estimator.estimator_losses` runs
losses. No value may raise: an unknown label or group, or a score that is not a number, makes only the example's own
cell unknown, NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import getitem
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Indices, Vector
from dptune._checks import attempt, column_names
from dptune.choice.report.bins import Bins
from dptune.losses.estimator import EstimatorLosses
from dptune.losses.functions import label_codes, labels_and_proba
from dptune.losses.named import NamedLoss, Output
from dptune.losses.rows import Rows
from dptune.losses.user_function import call_guarded
from dptune.privacy.seal.parsing import as_array, entries_of, numbers
from dptune.privacy.table import code_of


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
                return codes, scores[:, self.positive]
        return codes, scores if self.positive != 0 else -scores


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


def read_codes(function: EstimatorLosses, model: Any) -> Any:
    """Return the codes (rows,) of the private examples; None, without a cause, if the model failed for all."""
    return call_guarded(function, model, np.asarray).or_raise()
