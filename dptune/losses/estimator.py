"""Per-example losses of a fitted estimator: a row on which it or the loss fails affects only that row's loss."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Indices, Mask, Vector
from dptune._checks import kind
from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.examples import Data, Examples, PrivateExamples
from dptune.losses.functions import Coded, label_codes
from dptune.losses.models import classes_of, how_to_wrap
from dptune.losses.named import NamedLoss, as_loss, is_named, one_each
from dptune.losses.own import mistake_of
from dptune.losses.rows import ParsedRows, Rows
from dptune.losses.steady import copied, depends_on_others
from dptune.privacy.seal.parsing import as_array, entries_of
from dptune.privacy.seal.reachable import refuse_shared
from dptune.privacy.seal.silence import quietly, silence

Function: TypeAlias = Callable[[Any], Any]


def estimator_losses(loss: str | NamedLoss, estimator: Any, X: Any, y: npt.ArrayLike, *, like: Any = None) -> Vector:
    """Per-example losses (n,) of a fitted scikit-learn estimator on private rows X (n, d) and answers y (n,).

    The estimator must answer row by row, as scikit-learn's do. Then **entry i depends on person i and the model only**:

    1. Rows and answers are read into a representation that the model, the loss and ``like`` call for
       (:class:`dptune.Rows`). A row with a cell that does not fit is NaN.
    2. A row with a missing or infinite cell is NaN if the model fails on a synthetic public row with such a cell.
       (Groups of columns are tested if there are more than 64.) So is a row with a category or text that no public row
       has, if the column's public rows repeat a few values.
    3. The model predicts all n rows in one call, in which another row replaces each row found so far. Shape and
       positions never change, so neither does the rounding of anybody's answer.
    4. If that fails, or the answers have another length, shape or kind, the rows on which the model fails *alone*
       become NaN. They are found by halving or, if they are many, one by one. Then step 3 is repeated.
    5. A row whose label the model does not know is NaN. The loss gets all others like the model in steps 3 and 4.
       Labels have the type of ``classes_``, other answers are float64, NaN for all that is not a number.

    Rows of steps 1 and 2 cost one public row for each kind of cell and column. Step 4 predicts every row at most
    twice more if failing rows are many, with a few calls for each if they are few. The model may change the rows it is
    given, as `StandardScaler(copy=False)` does: every call gets a copy. Warnings are silenced, since one row may cause
    them. If all rows fail, or the others do together, all are NaN.

    Args:
        loss: a name, or what `per_example_loss` returned.
        estimator: anything with the needed method among predict, predict_proba and decision_function.
        X: an array, a list of rows, a sparse matrix or a data frame.
        y: labels, read as the model's `classes_`, or numbers.
        like: public rows that say what the columns of X hold; needed for data frames and text (see `Rows`).

    Raises:
        InputError: the estimator is not fitted, lacks the method or `classes_`, or does not give one public row one
            answer. Or your own loss fails on every public row, X needs ``like``, y is not an array, or shapes do not
            fit. The error depends on no private cell.
    """
    named = as_loss(loss)
    refuse_shared(X, y, **{"like=": like, "the loss": _own(named)})
    with silence():
        examples = Examples.of(Rows(X, y, like), columns_of(estimator))
        return _Asked(named, estimator, examples).losses()


class EstimatorLosses:
    """Wraps a user's training function as one that returns losses: load, train, predict on the private examples.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        ObjectiveRefused: the data cannot be used, or the function can reach it.
    """

    def __init__(
        self,
        function: Function,
        loss: str | NamedLoss,
        data: Data | Callable[[], Data],
        rows: int,
        *,
        trains_in_public: bool,
    ) -> None:
        self._loss = as_loss(loss)  # refuses a metric that is not a mean
        self._function, self.trains_in_public = function, trains_in_public
        self._private = PrivateExamples(function, data, rows, _own(self._loss))

    def with_loss(self, loss: NamedLoss) -> EstimatorLosses:
        """Return the same for another loss of dptune, on the same rows."""
        other = copy(self)
        other._loss = loss
        return other

    def __call__(self, argument: Any) -> Array:
        """Return the losses (rows,) of the model trained at ``argument``."""
        return self.losses_of(self.train(argument))

    def load(self) -> None:
        self._private.load()

    def train(self, argument: Any) -> Any:
        """Return the user's model."""
        self.load()  # first: without the examples, training is useless
        return self._function(argument)

    def losses_of(self, model: Any) -> Array:
        """Return the losses of the private examples (rows,)."""
        with silence(trains=not self.trains_in_public):
            return self.try_out(model).losses()

    def try_out(self, model: Any) -> _Asked:
        """Refuse a model that does not answer one public row; the error is public if the training is."""
        self._private.load()
        try:
            with silence(trains=not self.trains_in_public):
                self._private.refuse_model(model)
                return _Asked(self._loss, model, self._private.read(columns_of(model)))
        except InputError as error:
            mistake = str(error) if self.trains_in_public else None
        raise ObjectiveRefused(mistake) if mistake else RuntimeError("the model was refused")


class _Asked:
    """A copy of a fitted model that predicts on private examples for one loss; the original never sees them.

    Raises:
        InputError: the model cannot be copied, or does not give one public row one answer; the message names the fault.
    """

    def __init__(self, loss: NamedLoss, estimator: Any, examples: Examples) -> None:
        table, public = examples.rows, examples.public
        self._loss = loss
        self._table = table
        self._examples = examples
        self._name = type(estimator).__name__
        self._usual: Array | None = None  # a public answer: with a user's loss, all others must have its type and shape
        _method(loss, estimator)  # refuses before the copy
        model = copied(estimator)
        self._method, self._classes = _method(loss, model), _classes(loss, model)
        self._labels = None if self._classes is None else self._classes.tolist()
        row = table.synthetic_row()
        d = columns_of(model)
        if d is not None and np.shape(row)[1:2] not in ((), (d,)):  # scikit-learn counts d columns of images (n, d, w)
            raise InputError(
                f"the private X has {np.shape(row)[1]} columns, but this {self._name} was fitted on {d} columns"
            )
        output = quietly(self._method, row)
        if is_unfitted(output) and _seems_unfitted(model):
            raise InputError(f"this {self._name} is not fitted; fit it before asking for its losses")
        if not isinstance(output, BaseException):
            checked = self._checked(output)
            if is_named(loss):
                loss(np.zeros(1) if self._classes is None else self._classes[:1], checked, labels=self._labels)
            else:
                self._usual = checked
                self._try_out_loss(model, checked, public)
        elif table.synthetic_counts:
            zeros = "This is a row of zeros in float64: give data=Rows(X, y, like=X_train)."
            raise InputError(
                f"the {loss.output} of this {self._name} fails on one public row ({type(output).__name__}). Call "
                f"it on that row to see why. {zeros if examples.made_up else ''}".rstrip()
            )
        if public is not None and depends_on_others(self._ask, public):
            raise InputError(
                f"the {loss.output} of this {self._name} answers a public row differently when another row of the call "
                "is replaced or the call is repeated. One person's row would move everybody's loss. Fit every step on "
                "training rows, predict in evaluation mode, and avoid random predictions, such as those of "
                "IterativeImputer(sample_posterior=True). Nothing was charged for this model."
            )

    def _try_out_loss(self, model: Any, output: Array, public: ParsedRows | None) -> None:
        """Refuse a user's loss by its values on the answers to a few public rows, or to the given one."""
        if public is not None:
            odd = public.unreadable | public.infinite | public.gaps.any(axis=1)
            rows = np.flatnonzero(~odd)[:PAIRED]
            several = self._ask(public.take(rows), len(rows)) if len(rows) else None
            output = output if several is None else several
        if mistake := mistake_of(self._loss, model, self._classes, output):
            raise InputError(f"{mistake} Nothing was charged for this model.")

    def losses(self) -> Vector:
        """Run steps 2 to 5 of :func:`estimator_losses`; every error raised here is private."""
        output, failing = _without_bad_rows(self._ask_rows, self._refused())
        if output is None:
            return np.full(len(failing), np.nan)
        answers, unknown = self._examples.read_as(self._labels)
        losses, failing = _without_bad_rows(lambda rows: self._loss_of(answers[rows], output[rows]), failing | unknown)
        return np.full(len(failing), np.nan) if losses is None else np.where(failing, np.nan, losses)

    def _loss_of(self, answers: Array, output: Array) -> Vector | None:
        """Return the losses of m private rows, or None if their function fails; answers to labels are codes."""
        y: Any = answers
        if not is_named(self._loss):
            y, output = np.copy(answers) if self._classes is None else self._classes[answers], np.copy(output)
        elif self._classes is not None:
            y = Coded(answers)
        losses = quietly(lambda y: self._loss(y, output, labels=self._labels), y)
        return None if isinstance(losses, BaseException) else losses

    def _refused(self) -> Mask:
        """Return the rows (n,) to leave out: unreadable ones, and those with cells on which the model fails."""
        table = self._table

        def fails(odd: float, columns: Indices | slice) -> bool:
            return self._ask(table.synthetic_row(odd, columns), 1) is None

        everywhere = slice(None)
        refused = table.unreadable.copy()
        d = table.gaps.shape[1]
        if table.incomplete and fails(np.nan, everywhere):
            for columns in np.array_split(np.arange(d), min(d, COLUMNS)):  # it may impute some, and refuse others
                gaps = table.gaps[:, columns].any(axis=1)
                if gaps.any() and fails(np.nan, columns):
                    refused |= gaps
        if table.infinite.any() and fails(np.inf, everywhere):
            refused |= table.infinite
        for rows, made_up in table.unknown_values():
            if self._ask_of(made_up, 1) is None:
                refused |= rows
        return refused

    def _ask_rows(self, rows: Indices | slice) -> Array | None:
        if isinstance(rows, slice):
            return self._ask_of(self._table.everybody, len(self._table))
        return self._ask_of(partial(self._table.take, rows), len(rows))

    def _ask(self, rows: Any, m: int) -> Array | None:
        """Return the model's answers for m rows, or None if it fails."""
        return self._ask_of(lambda: rows, m)

    def _ask_of(self, build: Callable[[], Any], m: int) -> Array | None:
        """Return the model's answers for m private rows, or None if it fails or the rows cannot be built."""
        output = self._answers(quietly(lambda build: self._method(build()), build))
        return output if self._fits(output, m) else None

    def _answers(self, output: Any) -> Array | None:
        array = _read(output)
        return None if array is None else one_each(self._loss, array)

    def _checked(self, output: Any) -> Array:
        """Return the model's answer for one public row, if there is exactly one."""
        array = self._answers(output)
        loss = self._loss
        k = len(self._labels or ())
        if array is not None and self._fits(array, 1):
            return array
        if array is None:
            raise InputError(
                f"what the {loss.output} of this {self._name} returns, {type(output).__name__}, cannot be read as an "
                "array. Of a tensor give x.detach().float().cpu().numpy()"
            )
        wanted = f"(1, {k})" if loss.output == "predict_proba" else "(1,)"
        many = "; for more than two labels use log_loss or zero_one_loss" if array.shape == (1, k) else ""
        raise InputError(
            f"the {loss.output} of this {self._name} answers one public row with shape {array.shape} and dtype "
            f"{array.dtype}; {loss.name} needs {wanted}, one answer a row{many}"
        )

    def _fits(self, output: Array | None, m: int) -> bool:
        """Return whether the output has the number, shape and kind of answers to m rows; one row may spoil these."""
        if output is None or output.shape[:1] != (m,):
            return False
        own = not is_named(self._loss)
        labels = self._labels
        text = self._loss.output == "predict" and any(isinstance(each, str) for each in labels or ())
        text = text or (self._loss.name == "zero_one_loss" and labels is None)
        if output.dtype.kind not in ("biufOUST" if text or own else "biufO"):
            return False
        if own:
            return self._usual is None or _same_kind(output, self._usual)
        k = len(labels or ())
        if self._loss.output != "predict_proba" or output.dtype.kind == "O":  # objects are read row by row
            return output.ndim == 1
        return output.shape == (m, k) or (k == 2 and output.ndim == 1)


def _own(loss: NamedLoss) -> Callable[..., Any] | None:
    """Return the function of a user's loss."""
    return None if is_named(loss) else loss.function


def columns_of(estimator: Any) -> int | None:
    """Return the number of columns on which the model was fitted, if it has one."""
    d = getattr(estimator, "n_features_in_", None)
    return d if isinstance(d, int) and d > 0 else None  # a copy of a CatBoost model says 0


def _same_kind(a: Array, b: Array) -> bool:
    """Return whether answers have one type (texts of any length) and rows of one shape."""
    return a.shape[1:] == b.shape[1:] and (a.dtype == b.dtype or a.dtype.kind == b.dtype.kind in "US")


def _method(loss: NamedLoss, estimator: Any) -> Callable[[Any], Any]:
    method: Callable[[Any], Any] | None = getattr(estimator, loss.output, None)
    if method is None and isinstance(estimator, str | Number | None):
        what = "None" if estimator is None else f"{kind(estimator).partition(' of ')[0]}, perhaps a score,"
        raise InputError(
            f"got {what} in place of a fitted model. With loss= and data= a function returns the model itself, and "
            f"dptune asks that for the {loss.name} of the private rows."
        )
    if method is None:
        raise InputError(
            f"{loss.name} needs {loss.output}, which this {type(estimator).__name__} does not have. "
            f"{how_to_wrap(estimator) or loss.instead(estimator)}"
        )
    return method


def _classes(loss: NamedLoss, estimator: Any) -> Array | None:
    """Return the labels (k,) in the order of the estimator's columns, or None for a loss without labels."""
    if not loss.uses_labels:
        return None
    classes = classes_of(estimator)
    if classes is None:
        raise InputError(
            f"{loss.name} needs a fitted classifier; this {type(estimator).__name__} has no classes_. "
            f"{how_to_wrap(estimator)}".rstrip()
        )
    labels = np.asarray(classes)
    label_codes(labels, labels.tolist())  # refuses labels that are equivalent
    return labels


def _seems_unfitted(estimator: Any) -> bool:
    try:
        from sklearn.utils.validation import check_is_fitted
    except ImportError:
        return True
    return is_unfitted(quietly(check_is_fitted, estimator))


def _read(output: Any) -> Array | None:
    """Return an array, or None for an error; objects become (m,), as one may decide whether they form a matrix."""
    array = None if isinstance(output, BaseException) else as_array(output)
    return entries_of(array) if array is not None and array.dtype.kind == "O" and array.ndim > 1 else array


def is_unfitted(result: Any) -> bool:
    """Return whether it is scikit-learn's error of a model that is not fitted."""
    return any(c.__name__ == "NotFittedError" for c in type(result).__mro__)


COLUMNS = 64  # tried one by one, or in as many groups of neighbours; public, unlike the columns with gaps
PAIRED = 4  # public rows whose answers test a user's loss
FEW = 16  # rows: if one of so few fails, halving would read most rows many times


def _without_bad_rows(ask: Callable[[Indices | slice], Array | None], failing: Mask) -> tuple[Array | None, Mask]:
    """Return the answers to n rows, and which rows fail (n,): the given ones, and those that fail alone.

    Another row replaces a failing one, so that the call keeps its shape. Single calls would change the rounding of all
    n losses (matrix-vector instead of matrix-matrix products). There are no answers if all rows fail, or if the others
    fail together.
    """

    def ask_all() -> Array | None:
        if not failing.any():
            return ask(slice(None))
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
