"""Scores of public rows by models that were not trained on them, and the method to call.

A model scores its training rows better than others. So bins, their number and the spread within them come from scores
of rows that did not train it. They are those of held-out rows or of refits, or the user's own.

Refits describe the given model only if its ``fit`` on the public rows makes it again, and if fewer rows make no less
sure a model. The first is checked. The second is extrapolated, for probabilities of two labels: regularised models that
were trained on fewer rows have probabilities nearer to the prevalence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit, logit

from dptune._arrays import Indices, Vector
from dptune._checks import attempt, kind, shown
from dptune.choice.crossval import Folds, divided, folds_of, indexable, refuse_other_answers, taken
from dptune.choice.report.cells import Asked
from dptune.choice.report.decisions import threshold_of
from dptune.errors import InputError, MissingExtra
from dptune.losses.models import classes_of, how_to_wrap
from dptune.losses.named import Output

FEWEST = 20  # public rows
_SEEN = 32  # number of public rows by whose scores a model is recognised
_ROUNDING = 1e-6  # rounding of a probability
_REFITS = 4  # refits that show how far a model's scores move by seeds and by the order of rows
_APART = 1.5  # a model is another one if it is this many times as far from each refit as two refits are apart
_EQUAL = 0.02  # two scores are equal up to this distance, in their standard deviations
_WEIGHTS = 'If fit() had options, give them here, too: fit_params={"sample_weight": w}.'
_INSTEAD = (
    "Give held_out=(X, y) in place of public=: public rows that did not train the model; its own scores are used. Or "
    "give scores=, what models that were trained in the same way without a public row answer for it. Nothing was "
    "charged."
)


@dataclass(frozen=True)
class PublicScores:
    """Public rows in the form of a report.

    Attributes:
        asked: how the model is called.
        codes: (N,) their classes; empty of a regression.
        scores: (N,) or (N, k), by models that did not see the row; of a regression (N, 2), answers and predictions.
        seen: the model's answers for the first of them, by which it is recognised.
        threshold: of two labels, that of the model's ``predict``; None if it is not known or not asked for.
    """

    asked: Asked
    codes: Indices
    scores: Vector
    seen: list[float]
    threshold: float | None = None


def how_to_ask(model: Any, positive: Any = None) -> Asked:
    """Return how to call a model: for probabilities, else decision values, else labels; a regressor for numbers.

    Raises:
        InputError: it has no ``predict``, is a native booster or a PyTorch module, or ``positive`` is not one of its
            two labels.
    """
    if isinstance(model, type):
        raise InputError(f"the model must be fitted; got the class {model.__name__}. Nothing was charged.")
    if hasattr(model, "report") and hasattr(model, "best_estimator_"):
        raise InputError(
            f"this {type(model).__name__} has a report() of its own. Call that, or give its .best_estimator_. Nothing "
            "was charged."
        )
    classes = classes_of(model)
    if classes is None:
        if wrap := how_to_wrap(model):
            raise InputError(f"this {type(model).__name__} does not say its labels. {wrap} Nothing was charged.")
        if positive is not None:
            raise InputError(
                "positive= goes with a classifier of two labels; this model has no classes_. Nothing was charged."
            )
        if not hasattr(model, "predict"):
            inner = " Give its .model." if hasattr(model, "model") else ""
            raise InputError(
                f"the model must be fitted and have predict; got {shown(model)}.{inner} Nothing was charged."
            )
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
    place = attempt(labels.index, positive, failed=None) if len(labels) == 2 else None
    if place is None:
        raise InputError(
            f"positive= must be one of the two labels of a classifier; got {shown(positive)} for {labels}. Nothing was "
            "charged."
        )
    return Asked(output, labels, place if output != "predict" else None)


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
    refuse_other_answers("public=" if held_out is None else "held_out=", *rows)
    return rows[0], rows[1]


def public_scores(
    model: Any,
    asked: Asked,
    rows: tuple[Any, Any],
    scores: Any,
    cv: Any,
    *,
    held_out: bool = False,
    fit_params: Mapping[str, Any] | None = None,
    decides: bool = True,
) -> PublicScores:
    """Return the scores of public rows by models that were not trained on them.

    Args:
        rows: (X, y) that trained the model, or with ``held_out`` that did not: the model itself scores them.
        scores: the user's own: (N,) or (N, k) of ``asked.output``; None: they are those of refits.
        cv: as in :func:`dptune.choice.crossval.public_folds`.
        fit_params: options with which the model's ``fit`` was called.
        decides: whether the report's decisions are those of ``predict``.

    Raises:
        InputError: they do not fit the model, or are too few; or ``fit`` does not make this model again.
        InputError: with ``decides``, ``predict`` decides by something else than the scores.
        MissingExtra: scikit-learn is not installed.
    """
    name = "held_out=" if held_out else "public="
    X, y = rows
    if not isinstance(fit_params, Mapping | None):
        raise InputError(f"fit_params= must be a dict of options of fit; got {shown(fit_params)}. Nothing was charged.")
    if fit_params and (held_out or scores is not None):
        raise InputError(
            f"{', '.join(f'{option}=' for option in fit_params)}: options of fit are for refits, and with "
            f"{'held_out=' if held_out else 'scores='} a report trains nothing: omit them. Nothing was charged."
        )
    count = attempt(lambda: len(np.asarray(y)), failed=None)
    if count is None:
        raise InputError(f"{name} must be (X, y) with one answer y a row; got {kind(y)}. Nothing was charged.")
    if count < FEWEST:
        raise InputError(f"{name} needs {FEWEST} rows at least; got {count}. Nothing was charged.")
    codes, own = _read(asked, y, _answers(model, asked.output, X, name), name, f"the model on {name}")
    threshold = None
    if (
        decides
        and asked.labels is not None
        and asked.output != "predict"
        and attempt(getattr, model, "predict", failed=None) is not None
    ):
        threshold = threshold_of(model, asked, own, _answers(model, "predict", X, name), name)
    if asked.labels is not None and len(np.unique(codes)) < 2:
        raise InputError(f"{name} has one label only, so nothing can be compared. Nothing was charged.")
    if scores is not None:
        given = attempt(np.asarray, scores, failed=None)
        if given is None or given.shape[:1] != (count,):
            raise InputError(
                f"scores= must have one entry for each of {count} public rows; got {kind(scores)}. Nothing was charged."
            )
        numbers = _read(asked, y, given, name, "scores=")[1]
    else:
        numbers = own if held_out else _scores_of_refits(model, asked, X, y, own, cv, fit_params or {})
        _check_finite(asked, numbers, f"refits on {name}")
    seen = own if asked.labels is not None else own[:, 1]
    return PublicScores(asked, codes, numbers, [float(each) for each in seen[:_SEEN].ravel()], threshold)


def _answers(model: Any, method: Output, X: Any, name: str) -> Any:
    try:
        return getattr(model, method)(X)
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


# ---- refits ---------------------------------------------------------------------------------------------------------


def _scores_of_refits(
    model: Any, asked: Asked, X: Any, y: Any, own: Vector, cv: Any, fit_params: Mapping[str, Any]
) -> Vector:
    """Return the scores of public rows (N,), (N, k) or (N, 2) by refits of the model without them.

    Args:
        own: the model's own scores of the rows, in the same form.
        cv: as in :func:`dptune.choice.crossval.public_folds`.

    Raises:
        InputError: ``fit`` on these rows does not make this model, or a refit fails.
        MissingExtra: scikit-learn is not installed.
    """
    unfitted = _unfitted(model)
    X, y = indexable(X, y)
    folds = folds_of(cv, X, y, labels=asked.labels is not None)

    def without(folds: Folds) -> Vector:
        found = cross_val_predict(unfitted, X, y, cv=folds, method=asked.output, params=dict(fit_params))
        return asked.scores(y, found)[1]

    try:
        from sklearn.model_selection import cross_val_predict

        _refuse_another(model, unfitted, asked, X, y, own, fit_params)
        scores = without(folds)
    except (ValueError, TypeError) as error:
        why = str(error).rstrip(".")
        raise InputError(f"{type(model).__name__} cannot be trained again on public=: {why}. {_INSTEAD}") from None
    if asked.output != "predict" and np.ptp(own) > 0 and np.array_equal(scores, own):
        raise InputError(f"fit() of this {type(model).__name__} does not train it. {_INSTEAD}")
    if asked.output != "predict_proba" or asked.positive is None:
        return scores
    fewer = [(_fewer(fit, after), test) for (fit, test), (_, after) in zip(folds, folds[1:] + folds[:1], strict=True)]
    smaller = attempt(without, fewer, failed=None)  # it fails where a label is too rare
    return scores if smaller is None else _with_all_rows(scores, smaller, folds, fewer)


def _unfitted(model: Any) -> Any:
    """Return an estimator that ``fit`` trains as the model was trained, for all that its parameters say."""
    try:
        from sklearn.base import clone
        from sklearn.frozen import FrozenEstimator
    except ImportError:
        raise MissingExtra('a report trains with scikit-learn: pip install "dptune[sklearn]".') from None
    unfitted = attempt(clone, model, failed=None)
    if unfitted is None or not hasattr(unfitted, "fit"):
        raise InputError(f"scikit-learn cannot train this {type(model).__name__} again. {_INSTEAD}")
    parts = [unfitted, *(unfitted.get_params() if hasattr(unfitted, "get_params") else {}).values()]
    if any(isinstance(part, FrozenEstimator) and hasattr(part, "predict") for part in parts):
        raise InputError(f"this {type(model).__name__} is or holds a FrozenEstimator: fit() trains nothing. {_INSTEAD}")
    return unfitted


def _refuse_another(
    model: Any, unfitted: Any, asked: Asked, X: Any, y: Any, own: Vector, fit_params: Mapping[str, Any]
) -> None:
    """Refuse a model that is farther from all refits on these rows than refits are from each other.

    Refits differ in seeds and in the order of rows. They are made only if the first one is not the model.

    Raises:
        InputError: the model is another one.
    """
    from sklearn.base import clone

    def refit(seed: int) -> Vector:
        made, order = clone(unfitted), np.arange(len(y))
        if seed:
            order = np.random.default_rng(seed).permutation(order)
            made.set_params(**{name: seed for name in made.get_params() if name.split("__")[-1] == "random_state"})
        options = {name: divided(each, order, len(y)) for name, each in fit_params.items()}
        made.fit(taken(X, order), taken(y, order), **options)
        return asked.scores(y, getattr(made, asked.output)(X))[1]

    first = refit(0)
    equal = _EQUAL * float(np.std(_of_model(asked, first)))

    def apart(a: Vector, b: Vector) -> float:
        return float(np.sqrt(np.mean(np.square(_of_model(asked, a) - _of_model(asked, b)))))

    if apart(own, first) <= equal:
        return
    others = [attempt(refit, seed, failed=None) for seed in range(1, _REFITS)]
    refits = [first, *(each for each in others if each is not None)]
    usual = max((apart(a, b) for a, b in combinations(refits, 2)), default=0.0)
    nearest = min(apart(own, each) for each in refits)
    if nearest > max(_APART * usual, equal):
        raise InputError(
            f"fit() on public= does not make this {type(model).__name__}: its {asked.output} differs by {nearest:.2g} "
            f"(root mean square), that of two refits by {usual:.2g} at most. Other rows, settings or weights, "
            f"partial_fit, a warm start, early stopping or a checkpoint do that. {_WEIGHTS} {_INSTEAD}"
        )


def _of_model(asked: Asked, scores: Vector) -> Vector:
    """Return what the model says, without the answers in the first column of a regression."""
    return scores if asked.labels is not None else scores[:, 1]


def _fewer(fit: Indices, after: Indices) -> Indices:
    """Return the rows of a fold's training without the next fold, or half of them if nothing else is left."""
    rest = np.setdiff1d(fit, after)
    return rest if len(rest) else fit[::2]


def _with_all_rows(scores: Vector, smaller: Vector, folds: Folds, fewer: Folds) -> Vector:
    """Extrapolate probabilities (N,) of models of fewer rows, and of still fewer, to a model of all rows.

    On the logit scale, the standard deviation and the mean change with the number m of rows. The change is continued
    halfway between one that is linear in m and one that is linear in 1 / m. It is left out if it differs between folds
    by more than its size.
    """
    N = len(scores)
    large, small = (logit(np.clip(each, 0.5 / N, 1 - 0.5 / N)) for each in (scores, smaller))
    tests = [test for _, test in folds if len(test) > 1]
    scales = np.array([[each[test].std() for test in tests] for each in (large, small)])
    if not scales.all():
        return scores
    logs = np.log(scales[0] / scales[1])
    shifts = np.array([(large - small)[test].mean() for test in tests])
    m, less = (float(np.mean([len(fit) for fit, _ in each])) for each in (folds, fewer))
    power = ((N - m) / (m - less) + (1 / m - 1 / N) / (1 / less - 1 / m)) / 2

    def continued(change: Vector) -> float:
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.inf
        return power * float(change.mean()) if abs(change.mean()) > 2 * error else 0.0

    scale, shift = np.exp(continued(logs)), continued(shifts)
    if scale == 1 and shift == 0:
        return scores
    middle = large.mean()
    return np.asarray(expit(middle + shift + scale * (large - middle)))
