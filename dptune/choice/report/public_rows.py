"""Scores of public rows by models that were not trained on them, and the method to call.

A model scores its training rows better than others. So bins, their number and the spread within them come from scores
of rows that did not train it. They are those of held-out rows or of refits, or the user's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dptune._arrays import Indices, Vector
from dptune._checks import attempt, shown
from dptune.choice.report.cells import Asked
from dptune.choice.report.refits import scores_of_refits
from dptune.errors import InputError
from dptune.losses.models import how_to_wrap
from dptune.losses.named import Output

FEWEST = 20  # public rows
_SEEN = 32  # number of public rows by whose scores a model is recognised
_ROUNDING = 1e-6  # rounding of a probability


@dataclass(frozen=True)
class PublicScores:
    """Public rows in the form of a report.

    Attributes:
        asked: how the model is called.
        codes: (N,) their classes; empty of a regression.
        scores: (N,) or (N, k), by models that did not see the row; of a regression (N, 2), answers and predictions.
        seen: the model's answers for the first of them, by which it is recognised.
    """

    asked: Asked
    codes: Indices
    scores: Vector
    seen: list[float]


def how_to_ask(model: Any, positive: Any = None) -> Asked:
    """Return how to call a model: for probabilities, else decision values, else labels; a regressor for numbers.

    Raises:
        InputError: it has no ``predict``, is a native booster or a PyTorch module, or ``positive`` is not one of its
            two labels.
    """
    if wrap := how_to_wrap(model):
        raise InputError(f"this {type(model).__name__} does not say its labels. {wrap} Nothing was charged.")
    classes = getattr(model, "classes_", None)
    if classes is None:
        if positive is not None:
            raise InputError(
                "positive= goes with a classifier of two labels; this model has no classes_. Nothing was charged."
            )
        if not hasattr(model, "predict"):
            raise InputError(f"the model must be fitted and have predict; got {shown(model)}. Nothing was charged.")
        return Asked("predict", None, None)
    labels = list(np.asarray(classes).tolist())
    if len(labels) < 2:
        raise InputError(f"this model knows one label only, {labels}: there is nothing to report. Nothing was charged.")
    methods: tuple[Output, ...] = ("predict_proba", "decision_function", "predict")
    if len(labels) > 2:
        methods = ("predict_proba", "predict")
    output = next((each for each in methods if attempt(getattr, model, each, failed=None) is not None), None)
    if output is None:
        raise InputError(f"this {type(model).__name__} has neither predict_proba nor predict. Nothing was charged.")
    if positive is None:
        return Asked(output, labels, 1 if len(labels) == 2 and output != "predict" else None)
    if len(labels) != 2 or positive not in labels:
        raise InputError(
            f"positive= must be one of the two labels of a classifier; got {shown(positive)} for {labels}. Nothing was "
            "charged."
        )
    return Asked(output, labels, labels.index(positive) if output != "predict" else None)


def given_rows(public: Any, held_out: Any) -> tuple[Any, Any]:
    """Return the pair of public rows, those that trained the model or those that did not.

    Raises:
        InputError: neither is given, or both are, or it is not a pair.
    """
    rows = public if held_out is None else held_out
    if (public is None) == (held_out is None) or not isinstance(rows, tuple | list) or len(rows) != 2:
        raise InputError(
            "give public=(X_train, y_train), the rows that trained the model, or held_out=(X, y), public rows that did "
            "not: one of them. Nothing was charged."
        )
    return rows[0], rows[1]


def public_scores(
    model: Any, asked: Asked, rows: tuple[Any, Any], scores: Any, cv: Any, *, held_out: bool = False
) -> PublicScores:
    """Return the scores of public rows by models that were not trained on them.

    Args:
        rows: (X, y) that trained the model, or with ``held_out`` that did not: the model itself scores them.
        scores: the user's own: (N,) or (N, k) of ``asked.output``; None: they are those of refits.
        cv: as in :func:`dptune.choice.crossval.public_folds`.

    Raises:
        InputError: they do not fit the model, or are too few; or ``fit`` does not make this model again.
        MissingExtra: scikit-learn is not installed.
    """
    name = "held_out=" if held_out else "public="
    X, y = rows
    if (count := len(np.asarray(y))) < FEWEST:
        raise InputError(f"{name} needs {FEWEST} rows at least; got {count}. Nothing was charged.")
    codes, own = _read(asked, y, _answers(model, asked, X, name), name, f"the model on {name}")
    if scores is not None:
        if len(given := np.asarray(scores)) != count:
            raise InputError(f"scores= must have one entry for each of {count} public rows. Nothing was charged.")
        numbers = _read(asked, y, given, name, "scores=")[1]
    else:
        numbers = own if held_out else scores_of_refits(model, asked, X, y, own, cv)
        _check_finite(asked, numbers, f"refits on {name}")
    if asked.labels is not None and len(np.unique(codes)) < 2:
        raise InputError(f"{name} has one label only, so nothing can be compared. Nothing was charged.")
    seen = own if asked.labels is not None else own[:, 1]
    return PublicScores(asked, codes, numbers, [float(each) for each in seen[:_SEEN].ravel()])


def _answers(model: Any, asked: Asked, X: Any, name: str) -> Any:
    try:
        return getattr(model, asked.output)(X)
    except Exception as error:  # noqa: BLE001 - the model's own; public rows only
        reason = f"{type(error).__name__}: {error}"
    raise InputError(f"the model does not answer rows of {name} ({reason}). Nothing was charged.")


def _check_finite(asked: Asked, scores: Vector, whose: str) -> None:
    if not np.isfinite(scores).all():
        what = "answers and predictions" if asked.labels is None else "scores"
        raise InputError(f"{whose}: {what} must be finite numbers. Nothing was charged.")


def _read(asked: Asked, y: Any, answers: Any, name: str, whose: str) -> tuple[Indices, Vector]:
    codes, scores = asked.scores(y, answers)
    _check_finite(asked, scores, whose)
    if asked.output == "predict_proba" and not ((scores >= -_ROUNDING) & (scores <= 1 + _ROUNDING)).all():
        raise InputError(
            f"{whose}: probabilities must lie in [0, 1]; got {scores.min():.3g} to {scores.max():.3g}. The model is "
            "asked for predict_proba. A model without it is asked for decision_function, whose values may be any "
            "numbers. Nothing was charged."
        )
    if asked.labels is not None and (codes < 0).any():
        raise InputError(f"{name} has labels that the model does not know: {asked.labels}. Nothing was charged.")
    return codes, scores
