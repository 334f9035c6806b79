"""The threshold at which a model's ``predict`` decides.

A report's decisions are those of ``predict``. Most models decide for the label with the largest probability, or by the
sign of the decision value. Some have a threshold of their own, and some decide by something else. The model's answers
for public rows show which one it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dptune._arrays import Indices, Mask, Vector
from dptune._checks import attempt, real
from dptune.choice.report.cells import DUST, Asked
from dptune.errors import InputError
from dptune.losses.functions import as_vector, label_codes

USUAL = {"predict_proba": 0.5, "decision_function": 0.0}  # thresholds
_NAMES = ("best_threshold_", "threshold")  # attributes of TunedThresholdClassifierCV and FixedThresholdClassifier
_DEEPEST = 5  # models within models
_ALONE = (
    "a model that has predict alone, whose report is of its labels, with held_out= or scores= (docs/report.md). "
    "Nothing was charged."
)


def threshold_of(model: Any, asked: Asked, own: Vector, predicted: Any, name: str) -> float | None:
    """Return the threshold of scores above which ``predict`` decides for the positive label; None of several labels.

    Args:
        own: the model's scores of public rows, (N,) of two labels or (N, k) of more.
        predicted: its ``predict`` of these rows.
        name: of the rows, in messages.

    Raises:
        InputError: ``predict`` decides some rows otherwise than the largest probability, or than any known threshold.
    """
    N, labels = len(own), asked.labels or ()
    decided: Indices = attempt(label_codes, as_vector(predicted), labels, failed=np.full(N, -1))
    if len(decided) != N:
        decided = np.full(N, -1)
    if asked.positive is None:
        if (apart := int((np.argmax(own, axis=1) != decided).sum())) == 0:
            return None
        raise InputError(f"{_otherwise(model, apart, N, name)} the largest probability does. Give {_ALONE}")
    yes, usual = decided == asked.positive, USUAL[asked.output]
    known = decided >= 0
    for cut in (*_own_thresholds(model, asked, usual), usual, usual - DUST, usual + DUST):
        if (((own > cut) == yes) & known).all():
            return cut
    score = "probability" if asked.output == "predict_proba" else "decision value"
    apart = int((((own > usual) != yes) | ~known).sum())
    raise InputError(
        f"{_otherwise(model, apart, N, name)} a {score} above {usual:g} does. Give threshold={usual:g} to report that "
        f"decision, or a threshold that you decide by{_range(own, yes) if known.all() else ''}. Or give {_ALONE}"
    )


def _otherwise(model: Any, apart: int, N: int, name: str) -> str:
    return f"predict of this {type(model).__name__} decides {apart} of {N} rows of {name} otherwise than"


def _own_thresholds(model: Any, asked: Asked, usual: float) -> Iterator[float]:
    """Yield thresholds of the report's score that a number of the model may mean, the likeliest first.

    The number is a threshold of the positive label's score, or of the other label's. A score that is equal to the
    number is decided for its label by scikit-learn, and perhaps against it by another model.
    """
    for _ in range(_DEEPEST):
        numbers = (real(attempt(getattr, model, name, failed=None)) for name in _NAMES)
        number = next((each for each in numbers if each is not None), None)
        of = attempt(getattr, model, "response_method", failed="auto")
        if number is not None and of not in ("auto", asked.output):
            raise InputError(
                f"this {type(model).__name__} decides by a threshold of its {of}, and a report reads its "
                f"{asked.output}. Give threshold=, one of {asked.output} that you decide by, or {_ALONE}"
            )
        if number is not None:
            other = 2 * usual - number
            cuts = [number - DUST, number + DUST, other + DUST, other - DUST]
            for cut in cuts if _of_positive(model, asked) else cuts[2:] + cuts[:2]:
                yield min(max(cut, 0.0), 1.0 - DUST) if asked.output == "predict_proba" else cut
        best = attempt(getattr, model, "best_estimator_", failed=None)
        model = attempt(_last_step, model, failed=None) if best is None else best


def _of_positive(model: Any, asked: Asked) -> bool:
    """Return whether the model's threshold is one of the positive label's score, as far as its parameters say."""
    label = attempt(getattr, model, "pos_label", failed=None)
    second = label is None or (asked.labels is not None and attempt(asked.labels.index, label, failed=1) == 1)
    return second == (asked.positive == 1)


def _last_step(pipeline: Any) -> Any:
    return pipeline.steps[-1][1]


def _range(own: Vector, yes: Mask) -> str:
    """Return in words which thresholds decide rows as ``yes`` (N,) says; "" if none does, or for rows of one label."""
    if yes.all() or not yes.any():
        return ""
    low, high = float(own[~yes].max()), float(own[yes].min())
    for digits in range(2, 16):
        unit = 10**digits
        least, most = math.ceil(low * unit) / unit + 0.0, math.floor(high * unit) / unit + 0.0
        if low <= least <= most < high:
            return f": any from {least!r} up to {most!r} decides these rows as predict does"
    return ""
