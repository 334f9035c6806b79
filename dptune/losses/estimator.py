"""Per-example losses of a fitted estimator, asked so that a row on which it fails, or warns, tells of that row only."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._locks import ForkSafeLock
from dptune.errors import InputError
from dptune.losses.functions import Vector
from dptune.losses.named import NamedLoss, is_named, per_example_loss
from dptune.privacy.entries import as_array, attempt, listed


def estimator_losses(loss: str | NamedLoss, estimator: Any, X: Any, y: npt.ArrayLike) -> Vector:
    """Per-example losses (n,) of a fitted scikit-learn estimator on private rows X (n, d) and answers y (n,).

    The estimator must answer row by row, as scikit-learn's do: then entry i depends on person i and the model only.
    It may change the rows it is given, as `StandardScaler(copy=False)` does: every call gets a copy of them.
    If it fails on the whole of X, the rows it fails on alone become NaN, and the others are asked again without them:
    the failure and its message may be due to one person. An answer of another length, shape or kind is a failure, too:
    one row may be what a model drops, or answers with text. Warnings are silenced for the same reason. A method that
    fails on every row gives NaN throughout, unless it does on a row of zeros; try it on public rows first. It must
    answer one row as it answers many. A label unseen by the model gives NaN.

    Args:
        loss: a name, or what `per_example_loss` returned.
        estimator: anything with the needed method among predict, predict_proba and decision_function.
        X: an array, a list of rows (read as numbers row by row if the model has `n_features_in_`), a sparse matrix or
            a data frame.
        y: labels or numbers; a list or an array of objects is read entry by entry.

    Raises:
        InputError: the estimator is not fitted, lacks the method or `classes_`, does not give one row of zeros one
            answer, y is no array, or shapes do not fit.
    """
    loss = per_example_loss(loss) if isinstance(loss, str) else loss
    method, labels = _method(loss, estimator), _classes(loss, estimator)
    X = X.tocsr() if hasattr(X, "tocsr") else X  # other sparse formats cannot be sliced, or only without a bad row
    answers = as_array(y)
    if answers is None:
        raise InputError(f"y cannot be read as an array; it is a {type(y).__name__}")
    _check_rows(estimator, X, answers)
    X = _rows_of(X, getattr(estimator, "n_features_in_", None))
    _check_on_zeros(loss, estimator, method, X, labels)

    def ask(rows: npt.NDArray[np.intp]) -> npt.NDArray[Any] | None:
        output = _read(_quietly(lambda X: method(_copied(X, rows)), X))  # a copy: it must not change the next
        return output if _fits(loss, output, len(rows), labels) else None

    output, failing = _without_bad_rows(ask, len(answers))
    if output is None:
        return np.full(len(answers), np.nan)
    losses = _quietly(lambda y: loss(y, output, labels=labels), answers.copy())  # a copy: it may be the user's own
    if isinstance(losses, BaseException):
        raise losses
    return np.where(failing, np.nan, losses)


def _method(loss: NamedLoss, estimator: Any) -> Callable[[Any], Any]:
    method: Callable[[Any], Any] | None = getattr(estimator, loss.output, None)
    if method is None:
        raise InputError(
            f"{loss.name} needs {loss.output}, which this {type(estimator).__name__} does not have (it may need a "
            "setting, as probability=True). Allowed: zero_one_loss with predict, or another estimator."
        )
    return method


def _classes(loss: NamedLoss, estimator: Any) -> list[Any] | None:
    """The labels in the order of the estimator's columns, or None for a loss without labels."""
    if not loss.uses_labels:
        return None
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise InputError(f"{loss.name} needs a fitted classifier; this {type(estimator).__name__} has no classes_")
    return list(np.asarray(classes).tolist())


def _check_rows(estimator: Any, X: Any, answers: npt.NDArray[Any]) -> None:
    """Public shapes: one answer per row, and the columns the model was fitted on. A list has no columns."""
    shape: tuple[int, ...]
    if isinstance(X, list | tuple):
        shape, d = (len(X),), None
    elif hasattr(X, "shape"):
        shape, d = tuple(X.shape), getattr(estimator, "n_features_in_", None)
    else:
        raise InputError(f"X must be an array, a list of rows, a sparse matrix or a data frame; got {type(X).__name__}")
    if answers.ndim != 1 or shape[:1] != answers.shape:
        raise InputError(f"X has shape {shape} and y has shape {answers.shape}; allowed: (n, d) and (n,)")
    if d is not None and shape[1:] != (d,):
        raise InputError(f"X has shape {shape}, but this {type(estimator).__name__} was fitted on {d} columns")


def _rows_of(X: Any, d: object) -> Any:
    """A list of rows as objects (n, d), None where a row has not d: NumPy would give all the dtype of the oddest."""
    if not isinstance(X, list | tuple) or not isinstance(d, int):
        return X
    table = np.full((len(X), d), None, dtype=object)
    for i, row in enumerate(map(as_array, listed(X))):
        if row is not None and row.shape == (d,):
            table[i] = row
    return table


def _check_on_zeros(
    loss: NamedLoss, estimator: Any, method: Callable[[Any], Any], X: Any, labels: list[Any] | None
) -> None:
    """Public mistakes that show on a row of zeros, where the model takes one: no private row may decide about them."""
    name = type(estimator).__name__
    output = _quietly(method, np.zeros((1, (*getattr(X, "shape", ()), 1, 1)[1])))
    if _is_unfitted(output) and _seems_unfitted(estimator):
        raise InputError(f"this {name} is not fitted; fit it before asking for its losses")
    array = _read(output)
    if isinstance(output, BaseException) or _fits(loss, array, 1, labels):
        return
    if array is None:
        raise InputError(
            f"what the {loss.output} of this {name} returns, {type(output).__name__}, cannot be read as an array. "
            "Of a tensor give x.detach().float().cpu().numpy()"
        )
    wanted = f"(1, {len(labels or ())})" if loss.output == "predict_proba" else "(1,)"
    raise InputError(
        f"the {loss.output} of this {name} answers one row of zeros with shape {array.shape} and dtype {array.dtype}; "
        f"{loss.name} needs {wanted}, one answer a row"
    )


def _seems_unfitted(estimator: Any) -> bool:
    try:
        from sklearn.utils.validation import check_is_fitted
    except ImportError:
        return True
    return _is_unfitted(_quietly(check_is_fitted, estimator))


def _read(output: Any) -> npt.NDArray[Any] | None:
    """An array; of objects (m,), whether they are a matrix may be due to one of them. None for what was raised."""
    array = None if isinstance(output, BaseException) else as_array(output)
    return listed(array) if array is not None and array.dtype.kind == "O" and array.ndim > 1 else array


def _fits(loss: NamedLoss, output: npt.NDArray[Any] | None, m: int, labels: list[Any] | None) -> bool:
    """Tell whether it can be the answers to m rows: their number, shape and kind, which one row may spoil."""
    if output is None or output.shape[:1] != (m,):
        return False
    text = loss.name == "zero_one_loss" and (labels is None or any(isinstance(label, str) for label in labels))
    if output.dtype.kind not in ("biufOUST" if text or not is_named(loss) else "biufO"):
        return False
    if not is_named(loss):  # the user's own
        return True
    k = len(labels or ())
    if loss.output != "predict_proba" or output.dtype.kind == "O":  # objects are read row by row
        return output.ndim == 1
    return output.shape == (m, k) or (k == 2 and output.ndim == 1)


def _is_unfitted(result: Any) -> bool:
    return any(c.__name__ == "NotFittedError" for c in type(result).__mro__)


_SILENCE = ForkSafeLock()  # the filters of warnings belong to the process: two threads would restore each other's


def _quietly(method: Callable[[Any], Any], X: Any) -> Any:
    """The method's result, or what it raised, panics included; without a warning, which one person could cause."""
    with _SILENCE, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return method(X)
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - one person's record may have caused it
            return error
    raise KeyboardInterrupt  # a new one: the other's frames hold private values


def _without_bad_rows(
    ask: Callable[[npt.NDArray[np.intp]], npt.NDArray[Any] | None], n: int
) -> tuple[npt.NDArray[Any] | None, npt.NDArray[np.bool_]]:
    """The answers to n rows, and which rows fail on their own (n,); in their place another row keeps the call's shape.

    Whether a row fails alone depends on that row only. They are found by halving: a part fails if one of its rows does.
    Asking the others one by one instead would change the rounding of everybody's result (matrix-vector for
    matrix-matrix products), and with it n losses at once. No answers if all fail, or the others do together.
    """
    everyone, failing = np.arange(n), np.zeros(n, dtype=bool)
    output = ask(everyone)
    if output is not None:
        return output, failing
    parts = [everyone]
    while parts:
        part = parts.pop()
        if len(part) == 1:
            failing[part] = ask(part) is None
        elif len(part) == n or ask(part) is None:
            parts += np.array_split(part, 2)
    return None if failing.all() else ask(np.where(failing, np.argmin(failing), everyone)), failing


_each_copied = np.frompyfunc(copy.deepcopy, 1, 1)  # one by one: a row taken twice is not one object twice


def _copied(X: Any, rows: npt.NDArray[np.intp]) -> Any:
    if isinstance(X, list | tuple):
        return [copy.deepcopy(X[i]) for i in rows]
    if isinstance(X, np.ndarray):
        return _each_copied(X[rows]) if X.dtype.kind == "O" else X[rows]  # indexed by an array: a copy
    taken = (X.iloc if hasattr(X, "iloc") else X)[rows]
    if hasattr(X, "tocsr"):
        return taken
    taken = attempt(copy.deepcopy, taken, failed=taken)  # a tensor with a gradient refuses; what was taken is a copy
    if hasattr(X, "iloc") and hasattr(X, "index") and len(rows) == X.shape[0]:
        taken.index = X.index  # a row that stands in for another has its label: models align by labels
    return taken
