"""Per-example losses of a fitted estimator, asked so that a row on which it fails, or warns, tells of that row only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._locks import ForkSafeLock
from dptune.errors import InputError
from dptune.losses.columns import Mask
from dptune.losses.functions import Vector, label_codes
from dptune.losses.named import NamedLoss, as_loss, is_named
from dptune.losses.table import Table, read_rows
from dptune.privacy.entries import as_array, listed, numbers


def estimator_losses(loss: str | NamedLoss, estimator: Any, X: Any, y: npt.ArrayLike, *, like: Any = None) -> Vector:
    """Per-example losses (n,) of a fitted scikit-learn estimator on private rows X (n, d) and answers y (n,).

    The estimator must answer row by row, as scikit-learn's do. Then **entry i depends on person i and the model only**:

    1. Rows and answers are read into a representation that the model, the loss and ``like`` call for
       (:class:`dptune.Rows`). A row with a cell that does not fit is NaN.
    2. A row with a missing or infinite cell is NaN if the model fails on a made-up public row with such a cell; so is
       one with a category or text that no public row holds, in a column whose public rows share a few.
    3. The model is asked for all n rows in one call, in which another row takes the place of each row found so far:
       shape and positions never change, so neither does the rounding of anybody's answer.
    4. If that fails, or answers with another length, shape or kind, the rows on which the model fails *alone* are
       found, by halving or, if they are many, one by one, become NaN, and step 3 is done again.

    Rows of steps 1 and 2 cost one public row for each kind of cell. Step 4 asks for every row at most twice more where
    failing rows are many, a few calls for each where they are few. The model may change
    the rows it is given, as `StandardScaler(copy=False)` does: every call gets a copy. Warnings are silenced, since one
    row may cause them. If all rows fail, or the others do together, all are NaN. A label unseen by the model is NaN.

    Args:
        loss: a name, or what `per_example_loss` returned.
        estimator: anything with the needed method among predict, predict_proba and decision_function.
        X: an array, a list of rows, a sparse matrix or a data frame.
        y: labels, read as the model's `classes_`, or numbers.
        like: public rows that say what the columns of X hold; needed for data frames and text (see `Rows`).

    Raises:
        InputError: the estimator is not fitted, lacks the method or `classes_`, does not give one public row one
            answer, X needs ``like``, y is no array, or shapes do not fit. Nothing of it depends on a private cell.
    """
    loss = as_loss(loss)
    table = read_rows(X, like, columns_of(estimator))
    answers = as_array(y)
    if answers is None:
        raise InputError(f"y cannot be read as an array; it is a {type(y).__name__}")
    if answers.shape != (len(table),):
        raise InputError(f"X has {len(table)} rows and y has shape {answers.shape}; allowed: (n, d) and (n,)")
    return private_losses(loss, *try_out(loss, estimator, table), table, answers)


def private_losses(
    loss: NamedLoss, method: Callable[[Any], Any], labels: list[Any] | None, table: Table, answers: npt.NDArray[Any]
) -> Vector:
    """Steps 2 to 4 with what `try_out` returned: whatever is raised here is private."""

    def ask(rows: npt.NDArray[np.intp]) -> npt.NDArray[Any] | None:
        return _answers(loss, method, table.take(rows), len(rows), labels)

    output, failing = _without_bad_rows(ask, _refused_rows(loss, method, table, labels))
    if output is None:
        return np.full(len(answers), np.nan)
    losses = _quietly(lambda y: loss(y, output, labels=labels), _read_answers(answers, labels))
    if isinstance(losses, BaseException):
        raise losses
    return np.where(failing, np.nan, losses)


def columns_of(estimator: Any) -> int | None:
    """Return how many columns the model was fitted on, if it says so."""
    d = getattr(estimator, "n_features_in_", None)
    return d if isinstance(d, int) else None


def try_out(loss: NamedLoss, estimator: Any, table: Table) -> tuple[Callable[[Any], Any], list[Any] | None]:
    """Return the method to ask and the labels, once they gave one public row one loss.

    Raises:
        InputError: what is wrong with the model, the loss or ``like``.
    """
    method, labels = _method(loss, estimator), _classes(loss, estimator)
    name, d = type(estimator).__name__, columns_of(estimator)
    row = table.made_up()
    if d is not None and np.shape(row)[1:] not in ((), (d,)):
        raise InputError(f"X has {np.shape(row)[1:]} columns, but this {name} was fitted on {d} columns")
    output = _quietly(method, row)
    if _is_unfitted(output) and _seems_unfitted(estimator):
        raise InputError(f"this {name} is not fitted; fit it before asking for its losses")
    if not isinstance(output, BaseException):
        loss(np.array(labels[:1] if labels else [0.0]), _checked(loss, name, output, labels), labels=labels)
    elif table.made_up_counts:
        raise InputError(
            f"the {loss.output} of this {name} fails on one public row ({type(output).__name__}: {output}). Where no "
            "public rows are given, that is a row of zeros in float64: give data=Rows(X, y, like=X_train)"
        )
    return method, labels


def _refused_rows(loss: NamedLoss, method: Callable[[Any], Any], table: Table, labels: list[Any] | None) -> Mask:
    """Rows that the model is not asked for, (n,): unreadable, or with a cell on which a public row makes it fail."""

    def fails(odd: float, columns: Mask) -> bool:
        return _answers(loss, method, table.made_up(odd, columns), 1, labels) is None

    everywhere = np.ones(len(table.usual_gaps), dtype=bool)
    refused = table.unreadable.copy()
    if table.gaps.any():
        allowed = (columns for columns in (everywhere, table.usual_gaps) if not fails(np.nan, columns))
        refused |= (table.gaps & ~next(allowed, ~everywhere)).any(axis=1)
    if table.infinite.any() and fails(np.inf, everywhere):
        refused |= table.infinite
    for rows, row in table.strangers():
        if _answers(loss, method, row, 1, labels) is None:
            refused |= rows
    return refused


def _read_answers(y: npt.NDArray[Any], labels: list[Any] | None) -> npt.NDArray[Any]:
    """Numbers (n,); or the model's labels as objects, None for an unknown one. A copy: it may be the user's own."""
    if labels is None:
        return numbers(y)[0]
    known = np.array([*labels, None], dtype=object)
    return known[label_codes(y, labels)]  # the last one at -1


def _method(loss: NamedLoss, estimator: Any) -> Callable[[Any], Any]:
    method: Callable[[Any], Any] | None = getattr(estimator, loss.output, None)
    if method is None and isinstance(estimator, str | Number | None):
        what = "nothing" if estimator is None else f"a {type(estimator).__name__}, perhaps a score"
        raise InputError(
            f"the function returned {what}; with loss= and data= it returns the fitted model itself, and dptune asks "
            f"that for the {loss.name} of the private rows."
        )
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


def _answers(
    loss: NamedLoss, method: Callable[[Any], Any], rows: Any, m: int, labels: list[Any] | None
) -> npt.NDArray[Any] | None:
    """What the model says of m rows, None if it fails."""
    output = _read(_quietly(method, rows))
    return output if _fits(loss, output, m, labels) else None


def _checked(loss: NamedLoss, name: str, output: Any, labels: list[Any] | None) -> npt.NDArray[Any]:
    """Return what the model says of one public row, if it is one answer."""
    array = _read(output)
    if array is not None and _fits(loss, array, 1, labels):
        return array
    if array is None:
        raise InputError(
            f"what the {loss.output} of this {name} returns, {type(output).__name__}, cannot be read as an array. "
            "Of a tensor give x.detach().float().cpu().numpy()"
        )
    wanted = f"(1, {len(labels or ())})" if loss.output == "predict_proba" else "(1,)"
    many = "; for more than two labels use log_loss or zero_one_loss" if array.shape == (1, len(labels or ())) else ""
    raise InputError(
        f"the {loss.output} of this {name} answers one public row with shape {array.shape} and dtype {array.dtype}; "
        f"{loss.name} needs {wanted}, one answer a row{many}"
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


FEW = 16  # rows: if one of them fails, so many do that halving would ask for most rows many times
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
    ask: Callable[[npt.NDArray[np.intp]], npt.NDArray[Any] | None], failing: Mask
) -> tuple[npt.NDArray[Any] | None, Mask]:
    """The answers to n rows, and which rows fail (n,): those given, and those that fail on their own.

    Another row takes the place of a failing one, so that the call keeps its shape. Asking the others one by one instead
    would change the rounding of everybody's result (matrix-vector for matrix-matrix products), and with it n losses at
    once. No answers if all fail, or the others do together.
    """

    def ask_all() -> npt.NDArray[Any] | None:
        return None if failing.all() else ask(np.where(failing, np.argmin(failing), np.arange(len(failing))))

    output = ask_all()
    if output is not None or failing.all():
        return output, failing
    rows = np.flatnonzero(~failing)
    many = ask(rows[:FEW]) is None
    parts = np.array_split(rows, len(rows) if many else 2)
    while parts:
        part = parts.pop()
        if len(part) == 1:
            failing[part] = ask(part) is None
        elif ask(part) is None:
            parts += np.array_split(part, 2)
    return ask_all(), failing
