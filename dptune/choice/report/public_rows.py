"""A model's cross-validated scores of public rows, and the method to call.

A model scores its training rows better than others. So bins, their number and the spread within them come from scores
of public rows under models that were trained without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dptune._arrays import Indices, Vector
from dptune._checks import attempt, shown
from dptune.choice.crossval import splitter_of
from dptune.choice.report.cells import Asked
from dptune.errors import InputError, MissingExtra
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
        scores: (N,) or (N, k) cross-validated scores; of a regression (N, 2), the answers and the predictions.
        seen: the model's answers for the first of them, by which it is recognised.
    """

    asked: Asked
    codes: Indices
    scores: Vector
    seen: list[float]


def how_to_ask(model: Any, positive: Any = None) -> Asked:
    """Return how to call a model: for probabilities, else decision values, else labels; a regressor for numbers.

    Raises:
        InputError: it has no ``predict``, or ``positive`` is not one of its two labels.
    """
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


def public_scores(model: Any, asked: Asked, public: Any, scores: Any, cv: Any) -> PublicScores:
    """Return the public rows' cross-validated scores, or read those that are given.

    Args:
        public: (X, y) of the model's training, or similar rows.
        scores: what the user has cross-validated: (N,) or (N, k) of ``asked.output``; None: it is done here.
        cv: as in :func:`dptune.choice.crossval.public_folds`.

    Raises:
        InputError: they do not fit the model, or are too few; or the model cannot be cloned.
        MissingExtra: scikit-learn is not installed.
    """
    if not isinstance(public, tuple | list) or len(public) != 2:
        raise InputError("public= must be (X_train, y_train), rows that need no protection. Nothing was charged.")
    X, y = public
    if (count := len(np.asarray(y))) < FEWEST:
        raise InputError(f"public= needs {FEWEST} rows at least; got {count}. Nothing was charged.")
    first = (X.tocsr() if hasattr(X, "tocsr") else X)[:_SEEN]  # not every sparse format has rows
    _, own = _read(asked, np.asarray(y)[:_SEEN], _answers(model, asked, first), "the model on public=")
    answers = _cross_validated(model, asked, X, y, cv) if scores is None else np.asarray(scores)
    if len(answers) != count:
        raise InputError(f"scores= must have one entry for each of {count} public rows. Nothing was charged.")
    codes, numbers = _read(asked, y, answers, "scores=" if scores is not None else "cross-validation on public=")
    if asked.labels is not None and len(np.unique(codes)) < 2:
        raise InputError("public= has one label only, so nothing can be compared. Nothing was charged.")
    seen = own if asked.labels is not None else own[:, 1]
    return PublicScores(asked, codes, numbers, [float(each) for each in seen.ravel()])


def _answers(model: Any, asked: Asked, X: Any) -> Any:
    try:
        return getattr(model, asked.output)(X)
    except Exception as error:  # noqa: BLE001 - the model's own; public rows only
        reason = f"{type(error).__name__}: {error}"
    raise InputError(f"the model does not answer rows of public= ({reason}). Nothing was charged.")


def _read(asked: Asked, y: Any, answers: Any, whose: str) -> tuple[Indices, Vector]:
    codes, scores = asked.scores(y, answers)
    if not np.isfinite(scores).all():
        what = "answers and predictions" if asked.labels is None else "scores"
        raise InputError(f"{whose}: {what} must be finite numbers. Nothing was charged.")
    if asked.output == "predict_proba" and not ((scores >= -_ROUNDING) & (scores <= 1 + _ROUNDING)).all():
        raise InputError(
            f"{whose}: probabilities must lie in [0, 1]; got {scores.min():.3g} to {scores.max():.3g}. The model is "
            "asked for predict_proba. A model without it is asked for decision_function, whose values may be any "
            "numbers. Nothing was charged."
        )
    if asked.labels is None:
        return codes, scores
    if (codes < 0).any():
        raise InputError(f"public= has labels that the model does not know: {asked.labels}. Nothing was charged.")
    return codes, scores


def _cross_validated(model: Any, asked: Asked, X: Any, y: Any, cv: Any) -> Any:
    try:
        from sklearn.base import clone
        from sklearn.model_selection import cross_val_predict
    except ImportError:
        raise MissingExtra('a report cross-validates with scikit-learn: pip install "dptune[sklearn]".') from None
    copied = attempt(clone, model, failed=None)
    if copied is None or not hasattr(copied, "fit"):
        raise InputError(
            f"this {type(model).__name__} cannot be trained again by scikit-learn. Give scores=, the {asked.output} of "
            "each public row by a model that was trained without it. Nothing was charged."
        )
    try:
        folds = splitter_of(cv, y, labels=asked.labels is not None)
        return cross_val_predict(copied, X, y, cv=folds, method=asked.output)
    except (ValueError, TypeError) as error:
        reason = str(error)
    raise InputError(f"the model cannot be cross-validated on public=: {reason} Nothing was charged.")
