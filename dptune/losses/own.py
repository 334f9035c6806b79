"""Tests of a user's loss in public, on pairs of an answer and a model's prediction for a public row.

Its i-th entry must depend on the i-th answer and prediction only. A loss that ranks people, or subtracts their mean,
lets one person move everybody's loss. Violations on a few public pairs are refused. For all else, the guarantee depends
on the user.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dptune._arrays import Array, Vector
from dptune._checks import attempt
from dptune.losses.models import classes_of
from dptune.losses.named import NamedLoss
from dptune.losses.steady import alike
from dptune.privacy.seal.parsing import numbers
from dptune.privacy.seal.silence import quietly

_ANSWERS = 3  # answers that are paired with each public prediction


def mistake_of(loss: NamedLoss, model: Any, classes: Array | None, predictions: Array) -> str:
    """Return a loss's fault in words; "" if none is found.

    Args:
        loss: a loss with a user's function.
        model: the fitted estimator.
        classes: (k,) labels of the model; None for a loss without labels.
        predictions: (m, ...) the model's outputs for public rows.
    """
    answers = _as_private_ones(model, predictions) if classes is None else classes[:_ANSWERS]
    y = np.repeat(answers, len(predictions))
    output = predictions[np.tile(np.arange(len(predictions)), len(answers))]
    labels = None if classes is None else classes.tolist()

    def ask(*rows: int) -> Any:
        places = list(rows)
        return quietly(lambda y: loss(y, output[places], labels=labels), y[places])

    def compared(_: None) -> str:
        alone = [ask(i) for i in range(len(y))]
        if not any(_is_number(each) for each in alone):
            return _fails(loss, y, classes is None, next((e for e in alone if isinstance(e, BaseException)), None))
        usable = [i for i, each in enumerate(alone) if not isinstance(each, BaseException)]
        for rows in (usable, usable[::-1]):
            together = ask(*rows)
            if isinstance(together, BaseException):
                return f"The function of {loss.name} fails on several rows, and not on one ({_said(together)})."
            if not alike(together, np.concatenate([alone[i] for i in rows])):
                return (
                    f"The function of {loss.name} gives a public row another loss when other rows are in the call, or "
                    "when it is called again. One person's row would move everybody's loss. Entry i must depend on the "
                    "i-th answer and prediction only: do not rank rows, subtract their mean, or draw at random."
                )
        return ""

    found = quietly(compared, None)  # in one silence, so that random draws differ
    return found if isinstance(found, str) else f"The function of {loss.name} cannot be tried out ({_said(found)})."


def _as_private_ones(model: Any, predictions: Array) -> Vector:
    """Return answers as losses without labels receive them: float64, NaN for all that is not a number."""
    classes = attempt(lambda: np.asarray(classes_of(model)), failed=None)
    if classes is not None and classes.ndim == 1:
        return np.append(numbers(classes[:_ANSWERS])[0], np.nan)
    said = numbers(predictions)[0] if predictions.ndim == 1 else np.empty(0)
    return np.array([0.0, 1.0, *said[np.isfinite(said)][:_ANSWERS], np.nan])


def _is_number(one: Any) -> bool:
    return not isinstance(one, BaseException) and not np.isnan(one[0])


def _fails(loss: NamedLoss, y: Array, as_numbers: bool, error: BaseException | None) -> str:
    how = "gives no number" if error is None else f"fails ({_said(error)})"
    form = f"labels in the type of the model's classes_, {y.dtype}"
    if as_numbers:
        form = "float64, NaN for what is not a number. For labels set NamedLoss(..., uses_labels=True)"
    return (
        f"The function of {loss.name} {how} for every public pair of an answer and a prediction. It must return one "
        f"number for each row, also for a single one. Answers come as {form}."
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
