"""Named per-example losses, and the metrics that are refused because one person's influence is unbounded.

A metric can be released when it is a mean over people of a loss that depends on one person and the model.
Everything else (ranks, ratios of counts, roots, K-fold scores) is refused here with a reason and an alternative,
before anything is trained. The loss functions themselves are in `dptune.losses.functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy.typing as npt

from dptune._arrays import Array, Vector
from dptune._checks import boolean, function, kind, plain, positive, shown, text
from dptune.errors import InputError, UnsupportedMetric
from dptune.losses.functions import (
    EPS,
    absolute_error,
    as_vector,
    brier_loss,
    hinge_loss,
    huber_loss,
    log_loss,
    pinball_loss,
    squared_error,
    zero_one_loss,
)
from dptune.privacy.seal.private import loss_vector

Output: TypeAlias = Literal["predict", "predict_proba", "decision_function"]


@dataclass(frozen=True)
class NamedLoss:
    """A loss function with what a front end must know to use it.

    Attributes:
        name: canonical name.
        function: (y, output, *, labels=..., options) -> (n,). Entry i must depend on entry i of y and output only. With
            ``uses_labels`` y has labels in the type of the model's ``classes_``; else float64, NaN for no number.
        output: the method of a fitted estimator whose result the function takes.
        uses_labels: whether the function takes the public labels.
        note: how the released mean relates to the metric that was asked for.
        most: the largest loss there is, where there is one; the smallest is 0.
        known_clip: whether (0, most) is a clip that need not be narrowed, so that none has to be chosen.
        options: names of the keyword-only settings `per_example_loss` accepts for it.
        checked: whether an answer of another shape than dptune's own losses take is a failure of its row.

    Raises:
        InputError: the name is not text, the function is not callable, or the method is not one of the three.
    """

    name: str
    function: Callable[..., Vector]
    output: Output = "predict"
    uses_labels: bool = False
    note: str = "The released value is a loss: lower is better, and scikit-learn's neg_ score is minus this value."
    options: tuple[str, ...] = ()
    most: float = math.inf
    known_clip: bool = False
    checked: bool = False

    def __post_init__(self) -> None:
        text("NamedLoss: name", self.name)
        function("NamedLoss: function", self.function)
        boolean("NamedLoss: uses_labels", self.uses_labels)
        boolean("NamedLoss: known_clip", self.known_clip)
        boolean("NamedLoss: checked", self.checked)
        most = plain(self.most)
        if type(most) is not float or most != math.inf:
            positive("NamedLoss: most", self.most)
        if not isinstance(self.note, str):
            raise InputError(f"NamedLoss: note must be a text; got {shown(self.note)}.")
        if not isinstance(self.output, str) or self.output not in get_args(Output):
            raise InputError(f"NamedLoss: output must be one of {get_args(Output)}; got {shown(self.output)}.")

    @property
    def own_range(self) -> tuple[float, float] | None:
        """Return (0, most) if that is a clip; None if one has to be chosen."""
        return (0.0, self.most) if self.known_clip else None

    def instead(self, model: object) -> str:
        """Return what to give instead of a model that lacks ``output``."""
        if self.output == "predict":
            return "Give a model with predict."
        if not hasattr(model, "predict_proba") and not hasattr(model, "decision_function"):
            return 'Give a classifier, or a loss of numbers, such as "squared_error".'
        if self.output == "decision_function":
            return 'Give loss="log_loss" or "zero_one".'
        return 'Give CalibratedClassifierCV(model), which has probabilities, or loss="zero_one"; of two labels "hinge".'

    def __call__(self, y: npt.ArrayLike, output: npt.ArrayLike, *, labels: Sequence[Any] | None = None) -> Vector:
        """Per-example losses (n,), of answers y (n,) and the estimator's output (n,) or (n, k).

        What the function returns is read entry by entry: an entry that is not a number is NaN.

        Raises:
            InputError: the loss needs labels, or its function does not return one entry per person.
        """
        if self.uses_labels and labels is None:
            raise InputError(f"{self.name} needs labels=, the public labels in the order of the columns")
        losses = loss_vector(self.function(y, output, labels=labels) if self.uses_labels else self.function(y, output))
        if len(losses) != len(cast("Sized", y)):
            raise InputError(f"NamedLoss: the function of {self.name} must return one loss per person.")
        return losses


_ACCURACY = "accuracy = 1 - the released loss: zero_one is minimised."
_BRIER = "brier sums over all labels, up to 2; with two labels it is of one of them, up to 1, like brier_score_loss."
_LOSSES = (
    NamedLoss("squared_error", squared_error),
    NamedLoss("absolute_error", absolute_error),
    NamedLoss("huber_loss", huber_loss, options=("c",)),
    NamedLoss("pinball_loss", pinball_loss, options=("quantile",)),
    NamedLoss("log_loss", log_loss, "predict_proba", uses_labels=True, options=("eps",), most=-math.log(EPS)),
    NamedLoss("brier_loss", brier_loss, "predict_proba", uses_labels=True, note=_BRIER, most=2.0, known_clip=True),
    NamedLoss("hinge_loss", hinge_loss, "decision_function", uses_labels=True),
    NamedLoss("zero_one_loss", zero_one_loss, uses_labels=True, note=_ACCURACY, most=1.0, known_clip=True),
)
_ALIASES = {
    "squared_error": ("mse", "mean_squared_error", "neg_mean_squared_error"),
    "absolute_error": ("mae", "mean_absolute_error", "neg_mean_absolute_error"),
    "huber_loss": ("huber",),
    "pinball_loss": ("pinball", "mean_pinball_loss", "neg_mean_pinball_loss"),
    "log_loss": ("neg_log_loss", "cross_entropy"),
    "brier_loss": ("brier", "brier_score_loss", "neg_brier_score"),
    "hinge_loss": ("hinge",),
    "zero_one_loss": ("zero_one", "accuracy", "error_rate"),
}
_BY_NAME = {alias: loss for loss in _LOSSES for alias in (loss.name, *_ALIASES[loss.name])}

_RANKS = ("it ranks all people against each other, so one person changes everyone's share", "log_loss or brier")
_COUNTS = ("it is a ratio of counts, in which one person of a rare class can move everything", "log_loss or accuracy")
_VARIANCE = ("it divides by the spread of the private answers, which has no lower bound", "squared_error")
_ORDER = ("it is an order statistic, which one person can move across the whole range", "absolute_error or huber")
_ROOT = ("the root of a mean is not a mean over people", "squared_error, and take the root of the released value")
_ROOT_LOG = (_ROOT[0], "squared_error of the logarithms, and take the root of the released value")
_REFUSED = {
    **dict.fromkeys(("roc_auc", "auc", "average_precision"), _RANKS),
    **dict.fromkeys(("f1", "fbeta", "precision", "recall", "jaccard", "balanced_accuracy"), _COUNTS),
    **dict.fromkeys(("mcc", "matthews_corrcoef", "cohen_kappa", "kappa"), _COUNTS),
    **dict.fromkeys(("r2", "explained_variance", "d2"), _VARIANCE),
    **dict.fromkeys(("median_absolute_error", "max_error"), _ORDER),
    **dict.fromkeys(("rmse", "root_mean_squared_error"), _ROOT),
    **dict.fromkeys(("rmsle", "root_mean_squared_log_error"), _ROOT_LOG),
}
_REPORTED = {"roc_auc", "auc", "f1", "precision", "recall", "balanced_accuracy", "r2", "median_absolute_error"}
_REPORTED |= {"rmse", "root_mean_squared_error"}


def too_wide(loss: str | NamedLoss | None, width: float) -> str:
    """Return a warning about a clip that is wider than the loss's range; "" if it is not, or the range is unbounded."""
    named = None if loss is None else as_loss(loss)
    if named is None or width <= named.most * (1 + 1e-9):
        return ""
    return (
        f"The clip is {width:g} wide, and {named.name} is at most {named.most:g}: the noise is "
        f"{width / named.most:.2g} times as large as with clip=(0, {named.most:g})."
    )


def is_named(loss: NamedLoss) -> bool:
    """Return whether the function is dptune's, or takes answers of the same shape."""
    known = _BY_NAME.get(loss.name)
    return loss.checked or (known is not None and getattr(loss.function, "func", loss.function) is known.function)


def one_each(loss: NamedLoss, output: Array) -> Array:
    """Return labels or numbers as a vector (n,); a loss of the user's own gets what the model answers."""
    vector: Array = as_vector(output) if is_named(loss) and loss.output != "predict_proba" else output
    return vector


def per_example_loss(name: str, **options: float) -> NamedLoss:
    """Return the loss of a name known from scikit-learn, for example `per_example_loss("pinball", quantile=0.9)`.

    Raises:
        UnsupportedMetric: the metric is not a mean over people; says why, and what to release instead.
        InputError: an unknown name (lists the allowed ones) or option.
    """
    loss = _BY_NAME.get(name) if isinstance(name, str) else None
    if loss is None:
        raise _refusal(name)
    if unknown := sorted(set(options) - set(loss.options)):
        raise InputError(f"{name!r} has no option {unknown}; allowed: {list(loss.options)}")
    if loss.name == "pinball_loss" and "quantile" not in options:
        raise InputError(f"{name!r} needs quantile=, strictly between 0 and 1")
    most = -math.log(options["eps"]) if 0 < options.get("eps", 0) < 1 else loss.most
    return replace(loss, function=partial(loss.function, **options), most=most) if options else loss


def as_loss(loss: str | NamedLoss) -> NamedLoss:
    """Return the loss of a name, or a given loss; refuse all else like :func:`per_example_loss`."""
    return loss if isinstance(loss, NamedLoss) else per_example_loss(loss)


def _refusal(name: object) -> InputError:
    called = name if isinstance(name, str) else getattr(getattr(name, "_score_func", name), "__name__", "")
    stem = called.removeprefix("neg_")  # the name may be of a scorer or metric of scikit-learn
    for refused, (reason, alternative) in _REFUSED.items():
        if stem == refused or stem.startswith(f"{refused}_"):
            later = " Of the final model dptune.report releases it." if refused in _REPORTED else ""
            return UnsupportedMetric(f"{called!r} cannot be released: {reason}. Release {alternative} instead.{later}")
    quoted = repr(name) if isinstance(name, str) else kind(name)
    close = get_close_matches(called, _BY_NAME, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    own = "a NamedLoss of your own"
    return InputError(f"{quoted} is not the name of a loss.{meant} Allowed: {', '.join(sorted(_BY_NAME))}, or {own}")
