"""Cross-validation of public rows: each row's loss under the model that was trained without its fold.

Example::

    folds = public_folds(X, y, cv=5, loss="log_loss")
    models = [LogisticRegression(C=C) for C in (0.1, 1, 10)]
    answers = [cross_validated_answers(model.fit, X, y, folds, loss, {}) for model in models]
    V = [losses_of(each, loss) for each in answers]  # loss: a NamedLoss

Public rows are read unchanged, and models' errors are shown: nothing here is for private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune._arrays import Indices
from dptune._checks import attempt, kind, length_of, not_a_vector, readable, shown, whole
from dptune.choice.public import rounded
from dptune.errors import InputError, MissingExtra
from dptune.losses.estimator import is_unfitted
from dptune.losses.named import NamedLoss, as_loss, one_each
from dptune.privacy.seal.parsing import numbers

Folds: TypeAlias = Sequence[tuple[Indices, Indices]]


FOLDS_OF_GROUPS = "give its folds, cv=list(cv.split(X, y, groups)), with an entry of groups for each public row"


def public_folds(
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    loss: str | NamedLoss,
    groups: npt.ArrayLike | None = None,
    remedy: str = FOLDS_OF_GROUPS,
) -> Folds:
    """Return the folds of public rows, (rows that train, rows that are tested) each, the same for all models.

    Args:
        X, y: public rows (N, d) and answers (N,).
        cv: number of folds, a scikit-learn splitter, or the folds themselves. For losses that use labels whole numbers
            mean stratified folds, like in scikit-learn; for numbers, which may be sorted, folds that are shuffled.
        groups: of the public rows (N,), for splitters that need them.
        remedy: how the user gives groups, for an error.

    Raises:
        InputError: the splitter fails or needs groups, or a row is tested in none.
    """
    X, y = indexable(X, y, groups)[:2]
    folds = folds_of(cv, X, y, groups, labels=as_loss(loss).uses_labels, remedy=remedy)
    tested = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
    if missing := int((tested == 0).sum()):
        raise InputError(
            f"cv={shown(cv)} never tests {missing} of the {len(y)} public rows; every row must be in a test fold. Give "
            "a number of folds, KFold, StratifiedKFold, GroupKFold or repeated ones; not TimeSeriesSplit. Nothing was "
            "charged."
        )
    return folds


def kept_folds(cv: Any) -> Any:
    """Return ``cv``; of a generator of folds the folds, which are needed more than once."""
    if not isinstance(cv, Iterator):
        return cv
    folds: list[Any] = readable("cv=", list, cv)
    if folds:
        return folds
    raise InputError(
        "cv= is a generator that has yielded its folds already: give list(...) of it. Nothing was charged."
    )


def folds_of(
    cv: Any, X: Any, y: Any, groups: Any = None, *, labels: bool, remedy: str = FOLDS_OF_GROUPS
) -> list[tuple[Indices, Indices]]:
    """Return scikit-learn's folds of public rows; a number of folds of answers that are not ``labels`` is shuffled.

    Raises:
        InputError: ``cv`` is something else, scikit-learn refuses the folds, or the splitter needs groups; ``remedy``
            says how the user gives them.
    """
    selection = _sklearn().model_selection
    splits = callable(getattr(cv, "split", None)) and not isinstance(cv, str | bytes | np.ndarray)
    if cv is not None and whole(cv) is None and not splits:
        if (pairs := attempt(_pairs, cv, len(y), failed=None)) is not None:
            return pairs
        raise InputError(
            "cv= must be a number of folds, a splitter of scikit-learn, or a list of folds; got "
            f"{kind(cv)}. A fold is a pair of arrays: the places from 0 to {len(y) - 1} of the public rows that train, "
            "and of those that are tested. Nothing was charged."
        )
    try:
        if not splits and not labels:
            cv = selection.KFold(5 if cv is None else cv, shuffle=True, random_state=0)
        splitter = selection.check_cv(cv, y, classifier=labels)
        return [(np.asarray(fit), np.asarray(test)) for fit, test in splitter.split(X, y, groups)]
    except Exception as error:
        if groups is None and "group" in str(error).lower():
            raise InputError(
                f"cv={shown(cv)} needs groups of the public rows: {remedy}. Nothing was charged."
            ) from error
        if not isinstance(error, ValueError):
            raise
        raise InputError(f"cv={shown(cv)} and {len(y)} public rows: {error} Nothing was charged.") from error


def _pairs(folds: Any, n: int) -> list[tuple[Indices, Indices]] | None:
    """Return folds that are given as places of n rows; None if they are something else."""
    pairs = [tuple(np.asarray(rows) for rows in pair) for pair in folds]
    for rows in (rows for pair in pairs for rows in pair):
        if rows.ndim != 1 or not (rows.dtype.kind in "iu" or rows.size == 0) or not ((rows >= 0) & (rows < n)).all():
            return None
    return [(fit.astype(np.intp), test.astype(np.intp)) for fit, test in pairs] or None


@dataclass(frozen=True)
class FoldAnswers:
    """A model's answers for rows on which it was not trained.

    Attributes:
        test: places of these rows (r,).
        y: their answers (r,).
        output: what the model says of them, (r,) or (r, k).
        labels: of the columns; None where the loss uses none.
    """

    test: Indices
    y: npt.NDArray[Any]
    output: npt.NDArray[Any]
    labels: list[Any] | None


Answers: TypeAlias = list[FoldAnswers]  # one entry per fold


def cross_validated_answers(
    train: Callable[..., Any], X: Any, y: Any, folds: Folds, loss: NamedLoss, fit_params: Mapping[str, Any]
) -> Answers:
    """Return what models answer for the public rows, each trained without the row's fold."""
    X, y = indexable(X, y)
    found = []
    for fit, test in folds:
        options = {name: divided(each, fit, len(y)) for name, each in fit_params.items()}
        model = train(taken(X, fit), taken(y, fit), **options)
        found.append(FoldAnswers(test, np.asarray(taken(y, test)), *_output(loss, model, taken(X, test))))
    return found


def losses_of(answers: Answers, loss: NamedLoss) -> npt.NDArray[np.float64]:
    """Return each public row's loss (N,) under what models answer for it."""
    tested = [(each.test, _of_output(loss, each.y, each.output, each.labels)) for each in answers]
    return of_rows(1 + max(int(test.max()) for test, _ in tested if len(test)), tested, loss)


def as_losses(evaluated: Sequence[Any], loss: NamedLoss) -> list[Any]:
    """Return the losses of what models answer for public rows; losses and exceptions stay what they are."""
    answers = [isinstance(each, list) and all(isinstance(fold, FoldAnswers) for fold in each) for each in evaluated]
    return [losses_of(each, loss) if is_one else each for each, is_one in zip(evaluated, answers, strict=True)]


def of_rows(
    rows: int, tested: Iterable[tuple[Indices, npt.NDArray[np.float64]]], loss: NamedLoss
) -> npt.NDArray[np.float64]:
    """Return each row's mean loss (N,) over the folds that test it; the largest loss for one without a number."""
    tests = list(tested)
    finite = np.concatenate([losses[np.isfinite(losses)] for _, losses in tests])
    if not finite.size:
        raise InputError(f"no public row has a finite {loss.name}: check the labels and predictions of the models.")
    largest = loss.most if math.isfinite(loss.most) else finite.max()
    total, times = np.zeros(rows), np.zeros(rows)
    for test, losses in tests:
        total[test] += np.where(np.isfinite(losses), losses, largest)
        times[test] += 1
    return total / times


def refuse_unseeded(losses: Any, again: Any) -> None:
    """Refuse a training whose losses of public rows differ when it is repeated: no restart would find its choice."""
    if isinstance(losses, Exception) or isinstance(again, Exception) or rounded(losses) == rounded(again):
        return
    raise InputError(
        "a configuration that was cross-validated twice has different public losses: its training has no seed. After a "
        "crash no rerun could find the choice and its answer. Set the seed of the model and of the rows that it draws "
        "(random_state=, torch.manual_seed), or give public_losses=. Nothing was charged."
    )


def _sklearn() -> Any:
    try:
        import sklearn.model_selection
        import sklearn.utils
    except ImportError:
        raise MissingExtra('cross-validation needs scikit-learn: pip install "dptune[sklearn]".') from None
    return sklearn


def indexable(*rows: Any) -> list[Any]:
    """Return containers of equal length whose rows can be indexed, like scikit-learn's."""
    made: list[Any] = _sklearn().utils.indexable(*rows)
    return made


def refuse_other_answers(name: str, X: Any, y: Any) -> None:
    """Refuse public answers that have columns, or not one entry for each row."""
    if mistake := not_a_vector(f"the y of {name}", y):
        raise InputError(f"{mistake} Nothing was charged.")
    rows, answers = map(length_of, (X, y))
    if rows != answers and None not in (rows, answers):
        raise InputError(f"{name} has {rows} rows and {answers} answers: give one for each. Nothing was charged.")


def taken(rows: Any, places: Indices) -> Any:
    """Return the rows at these places, in the container in which they came."""
    if hasattr(rows, "iloc"):
        return rows.iloc[places]
    if hasattr(rows, "to_pylist"):  # a table of pyarrow
        return rows.take(places)
    return [rows[i] for i in places] if isinstance(rows, list | tuple) else rows[places]


def _output(loss: NamedLoss, model: Any, X: Any) -> tuple[npt.NDArray[Any], list[Any] | None]:
    """Return what a model answers, and its labels where the loss uses them."""
    if model is None or isinstance(model, type | str | Number):
        what = f"the class {model.__name__}" if isinstance(model, type) else kind(model)
        raise InputError(f"the training must return the fitted model; got {what}. Nothing was charged.")
    method = getattr(model, loss.output, None)
    if method is None:
        raise InputError(
            f"{loss.name} needs {loss.output}, which this {type(model).__name__} does not have. "
            f"{loss.instead(model)} Nothing was charged."
        )
    try:
        answers = np.asarray(method(X))
    except Exception as error:
        if is_unfitted(error):
            raise InputError(
                f"the training returned a {type(model).__name__} that is not fitted: return model.fit(X, y). Nothing "
                "was charged."
            ) from None
        raise
    return one_each(loss, answers), np.asarray(model.classes_).tolist() if loss.uses_labels else None


def _of_output(
    loss: NamedLoss, y: npt.NDArray[Any], output: npt.NDArray[Any], labels: list[Any] | None
) -> npt.NDArray[np.float64]:
    answers = y if loss.uses_labels else numbers(y)[0]  # like private ones
    if not loss.uses_labels and len(y) and np.isnan(answers).all():
        raise InputError(
            f"{loss.name} needs answers that are numbers, and no answer of the public rows is one. Of labels give "
            'loss="log_loss" or "zero_one". Nothing was charged.'
        )
    return np.asarray(loss(answers, output, labels=labels), dtype=np.float64)


def divided(option: Any, rows: Indices, n: int) -> Any:
    """Return the entries of these rows, of an option that has one for each of n rows, as scikit-learn counts them."""
    shape = getattr(option, "shape", None)
    if shape is None:
        shape = (len(option),) if isinstance(option, Sized) and not isinstance(option, str | bytes | Mapping) else ()
    return taken(option, rows) if tuple(shape[:1]) == (n,) else option
