"""The user's function between two things that must not see what is private: a framework and its storage.

**With ``loss=`` and ``data=``** the function is the public half. It trains on public data and returns a model: whatever
it raises is an ordinary failure, and :func:`call_guarded` lets it through with its traceback; nothing has been read or
paid then. The private half is dptune's: it asks the model for the losses of the private rows. A row that fails does so
alone, and whatever else is raised there becomes a failed evaluation for everybody. A function that trains on private
people says so (``training="private"``), and nothing of what it raises is shown.

**A function that returns the losses itself** sees private data throughout, so nothing that it raises is logged or
raised. What no guard can do: if *one person's record* decides whether it raises, it moves everybody's loss, and no
noise scaled to one person covers that. The promise needs functions whose i-th loss depends on person i alone.

Public mistakes raise: what dptune itself refuses by shapes, types and settings, in ``take`` or of the model.
``data=`` may be a function that loads the examples. If it fails there is nothing to train for: that is a public
mistake of which the type is told, and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar

import numpy.typing as npt

from dptune._checks import text
from dptune._locks import ForkSafeLock
from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.estimator import columns_of, private_losses, try_out
from dptune.losses.named import NamedLoss, as_loss
from dptune.losses.reachable import refuse_reachable
from dptune.losses.rows import Rows
from dptune.losses.table import Table, needs_columns, read_rows
from dptune.privacy.entries import as_array, attempt
from dptune.privacy.private import PerExampleLosses, bare

Function: TypeAlias = Callable[[Any], Any]
Data: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike] | Rows
Training: TypeAlias = Literal["public", "private"]
T = TypeVar("T")


def call_guarded(
    function: Function, argument: Any, take: Callable[[Any], T], stops: type[Exception] | tuple[()] = ()
) -> T | BaseException | None:
    """Return ``take`` of the losses, None if a private half failed, or the public error to raise without frames.

    Args:
        function, argument: what is called, and with what.
        take: makes of the losses what is returned.
        stops: what a function raises that heeds a request to stop; if the user's own part raised it in the private
            half, :class:`Stopped` is returned. Whether there was a request is for the caller to say.

    Raises:
        Exception: what the public half raised, training with ``loss=`` and ``data=``; let it through, nothing is paid.
    """
    try:
        losses = _private_half(function, argument)
    except ObjectiveRefused as error:
        return InputError(str(error))
    except KeyboardInterrupt:
        return KeyboardInterrupt()
    except Exception:
        raise
    except BaseException:  # noqa: BLE001 - SystemExit and panics are failures, wherever they come from
        return None
    heeded = () if _trains_in_public(function) else stops  # in public the user's own part has returned by now
    refused = ObjectiveRefused if isinstance(function, _EstimatorLosses) else ()  # else it is the user's, like all else
    try:
        result = losses()
    except refused as error:
        return InputError(str(error))
    except KeyboardInterrupt:
        return KeyboardInterrupt()
    except heeded:
        return Stopped()
    except BaseException:  # noqa: BLE001 - SystemExit and panics too: nothing of it may be seen
        return None
    try:
        return take(result)
    except InputError as error:
        return bare(error)
    except KeyboardInterrupt:
        return KeyboardInterrupt()
    except BaseException:  # noqa: BLE001 - raised by what the function returned, while it was read
        return None


def preflight(function: Function, argument: Any) -> None:
    """Train once and ask the model for one public row, so that mistakes are told before anything is read or paid.

    Every call does the same before it reads a private row; this is for a front end that wants to know first. It does
    nothing for a function that returns losses itself or trains on private people: nothing of these may be shown.

    Raises:
        Exception: what the training half raised.
        InputError: the data cannot be loaded, or the model lacks a method or does not answer a public row.
    """
    if _trains_in_public(function):
        function.try_out(function.train(argument))


def tried(losses: PerExampleLosses) -> str:
    """Return what may be said of a function that was tried out."""
    rows = f"the function returned one loss for each of the {len(losses)} rows"
    return f"try_out: {rows}. Nothing was released, stored or spent."


class Stopped(Exception):
    """Returned for a function that says it stops because it was told to."""


def _private_half(function: Function, argument: Any) -> Callable[[], Any]:
    """Do what is public, and return what is not."""
    if _trains_in_public(function):
        model = function.train(argument)
        return lambda: function.losses_of(model)
    return lambda: function(argument)


def _trains_in_public(function: Function) -> TypeGuard[_EstimatorLosses]:
    return isinstance(function, _EstimatorLosses) and function.trains_in_public


def losses_function(
    function: Function,
    loss: str | NamedLoss | None,
    data: Data | Callable[[], Data] | None,
    *,
    rows: int,
    training: Training = "public",
) -> Function:
    """Return the user's function as one that returns per-example losses (rows,).

    Args:
        function: argument -> per-example losses, or a fitted estimator if ``loss`` is given.
        loss: the per-example loss of a fitted estimator: a name, or a ``NamedLoss`` of your own.
        data: (X, y) or ``Rows`` of the private examples, or a function without arguments that loads them; with
            ``loss``. Data frames and text need ``Rows(X, y, like=public rows)``.
        rows: number of private examples.
        training: whether ``function`` trains on public data, so that what it raises may be seen, or on private people.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: ``function`` is none, only one of ``loss`` and ``data`` is given, ``data`` has other rows or needs
            ``like``, or ``function`` can reach it.
    """
    if not callable(function):
        raise InputError(f"the objective must be a function; got {type(function).__name__}.")
    if training not in ("public", "private"):
        raise InputError(f'training must be "public" or "private"; got {training!r}.')
    if data is None:
        if loss is None:
            return function
        raise InputError(f"loss={loss!r} needs data=(X, y), whose losses are asked of the model that is returned.")
    if loss is None:
        raise InputError(
            'data= needs loss=, what is minimised: a name as "log_loss", "zero_one" (1 - accuracy) or "squared_error", '
            "or a NamedLoss. Without data= return the losses yourself."
        )
    try:
        return _EstimatorLosses(function, loss, data, rows, training)
    except ObjectiveRefused as error:
        raise InputError(str(error)) from None


def losses_of_result(function: Function) -> Function:
    """Return what makes losses of what a function would return: of a model where dptune asks it, else as they are."""
    return function.losses_of if isinstance(function, _EstimatorLosses) else _as_it_is


def _as_it_is(losses: Any) -> Any:
    return losses


def declared_public(words: str | None, training: Training) -> str | None:
    """Return what a function's trials show as public, in the user's words; None: nothing.

    Raises:
        InputError: it is no text, or the function trains on private people.
    """
    if words is not None and training == "private":
        raise InputError(
            'public= cannot go with training="private": a model that was trained on private people depends on them, '
            "and so does whatever it says about public rows."
        )
    return None if words is None else text("public", words)


class _EstimatorLosses:
    """Load, train, then let dptune compute the losses of the private examples."""

    def __init__(
        self,
        function: Function,
        loss: str | NamedLoss,
        data: Data | Callable[[], Data],
        rows: int,
        training: Training,
    ) -> None:
        self._loss = as_loss(loss)  # refuses a metric that is no mean
        self._function, self._rows, self._data = function, rows, data
        self.trains_in_public = training == "public"
        self._loaded: Rows | None = None
        self._table: Table | None = None
        self._loading = ForkSafeLock()
        if callable(data):
            refuse_reachable(function, data)
        else:
            self._examples()

    def __call__(self, argument: Any) -> npt.NDArray[Any]:
        return self.losses_of(self.train(argument))

    def train(self, argument: Any) -> Any:
        """Return the user's model."""
        self._examples()  # first: without them there is nothing to train for
        return self._function(argument)

    def losses_of(self, model: Any) -> npt.NDArray[Any]:
        """Return the losses of the private examples (rows,)."""
        method, labels = self.try_out(model)
        return private_losses(self._loss, method, labels, self._rows_for(model), self._examples().y)

    def try_out(self, model: Any) -> tuple[Callable[[Any], Any], list[Any] | None]:
        """Refuse a model that does not answer one public row; in public, if its training is."""
        try:
            return try_out(self._loss, model, self._rows_for(model))
        except InputError as error:
            mistake = str(error) if self.trains_in_public else None
        raise ObjectiveRefused(mistake) if mistake else RuntimeError("the model was refused")

    def _rows_for(self, model: Any) -> Table:
        examples = self._examples()
        return self._table if self._table is not None else read_rows(examples.X, examples.like, columns_of(model))

    def _examples(self) -> Rows:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._read(_load(self._data) if callable(self._data) else self._data)
            return self._loaded

    def _read(self, data: Data) -> Rows:
        """Check the examples, and keep their rows as a model is given them."""
        examples = _checked(data, self._rows)
        try:
            refuse_reachable(self._function, examples.X, examples.y, loaded=callable(self._data))
            if not needs_columns(examples.X, examples.like):
                self._table = read_rows(examples.X, examples.like)
        except InputError as error:
            mistake = str(error)
        else:
            return examples
        raise ObjectiveRefused(mistake)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None, "_table": None}  # a copy in another process loads there


def _load(loader: Callable[[], Data]) -> Data:
    try:
        return loader()
    except KeyboardInterrupt:
        failure = None
    except BaseException as error:  # noqa: BLE001 - its message and its frames may hold private values
        failure = type(error).__name__
    if failure is None:
        raise KeyboardInterrupt
    raise ObjectiveRefused(
        f"the function given as data= failed ({failure}); nothing was trained or paid. Call it yourself to see why."
    )


def _checked(data: Any, rows: int) -> Rows:
    """Return X and y as an array, if they are that and of so many rows; all of this is public."""
    examples = data if isinstance(data, Rows) else attempt(_pair, data, failed=None)
    if examples is None:
        raise ObjectiveRefused(
            f"data= must be (X, y), Rows(X, y, like=...), or a function that returns them; got {type(data).__name__}."
        )
    y = as_array(examples.y)  # once: a y that can never be read must not fail in every paid trial
    if y is None:
        raise ObjectiveRefused(
            f"the y of data= cannot be read as an array of {rows} answers; it is a {type(examples.y).__name__}. Give "
            "an array or a list (of a tensor, y.detach().cpu().numpy())."
        )
    if not (attempt(_has_rows, examples.X, rows, failed=False) and y.shape[:1] == (rows,)):
        raise ObjectiveRefused(
            f"X and y of data= must have {rows} rows each, as the privatizer was told by n= or groups=."
        )
    if y.ndim > 1:
        raise ObjectiveRefused(f"the y of data= has shape {y.shape}; allowed: ({rows},), one answer a row.")
    return Rows(examples.X, y, examples.like)


def _pair(data: Any) -> Rows | None:
    if not isinstance(data, tuple | list):
        return None
    X, y = data
    return Rows(X, y)


def _has_rows(X: Any, rows: int) -> bool:
    shape = getattr(X, "shape", None)
    n = len(X) if shape is None else next(iter(shape))
    return bool(n == rows)
