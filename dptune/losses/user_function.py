"""The user's function, which sees private data, between two things that must not: a framework and its storage.

Whatever the function raises becomes "every person's loss is the upper clip": an exception, its text and its traceback
could depend on private data, so none of it is logged or raised. Public mistakes still raise: what dptune itself
refuses by shapes, dtypes and settings, in ``take`` or, with ``loss=`` and ``data=``, of the model it is given.

What no guard can do: if *one person's record* decides whether the function raises, it moves everybody's loss, and no
noise scaled to one person covers that. The promise needs functions whose i-th loss depends on person i alone. With
``loss=`` and ``data=`` dptune calls the model itself and a failing row fails alone.

``data=`` may be a function that loads the examples. If it fails there is nothing to train for: that is a public
mistake of which the type is told, and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy.typing as npt

from dptune._locks import ForkSafeLock
from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss, per_example_loss
from dptune.privacy.entries import as_array, attempt
from dptune.privacy.private import bare

Function = Callable[[Any], Any]
Data = tuple[npt.ArrayLike, npt.ArrayLike]
T = TypeVar("T")


def call_guarded(function: Function, argument: Any, take: Callable[[Any], T]) -> T | BaseException | None:
    """Return ``take`` of what the user's function returned, None if it raised, or the public error to raise."""
    try:
        result = function(argument)
    except _PublicMistake as error:
        return InputError(str(error))
    except KeyboardInterrupt:
        return KeyboardInterrupt()
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


def losses_function(
    function: Function,
    loss: str | NamedLoss | None,
    data: Data | Callable[[], Data] | None,
    *,
    rows: int,
) -> Function:
    """Return the user's function as one that returns per-example losses (rows,).

    Args:
        function: argument -> per-example losses, or a fitted estimator if ``loss`` is given.
        loss: the per-example loss of a fitted estimator: a name, or a ``NamedLoss`` of your own.
        data: (X, y) of the private examples, or a function without arguments that loads them; with ``loss``.
        rows: number of private examples.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: ``function`` is none, only one of ``loss`` and ``data`` is given, or ``data`` has other rows.
    """
    if not callable(function):
        raise InputError(f"the objective must be a function; got {type(function).__name__}.")
    if (loss is None) != (data is None):
        raise InputError("give loss= and data=(X, y) together, or return the losses yourself.")
    if loss is None or data is None:
        return function
    try:
        return _EstimatorLosses(function, loss, data, rows)
    except _PublicMistake as error:
        raise InputError(str(error)) from None


class _PublicMistake(InputError):
    """What dptune's own part of an objective refuses; not to be taken for an error that the user's part raises."""


class _EstimatorLosses:
    """Load, fit, then let dptune compute the losses of the private examples."""

    def __init__(self, function: Function, loss: str | NamedLoss, data: Data | Callable[[], Data], rows: int) -> None:
        self._loss = per_example_loss(loss) if isinstance(loss, str) else loss  # refuses a metric that is no mean
        self._function, self._rows = function, rows
        self._data = data if callable(data) else _checked(data, rows)
        self._loaded: Data | None = None
        self._loading = ForkSafeLock()

    def __call__(self, argument: Any) -> npt.NDArray[Any]:
        X, y = self._examples()  # first: without them there is nothing to train for
        model = self._function(argument)
        try:
            return estimator_losses(self._loss, model, X, y)
        except InputError as error:
            raise _PublicMistake(str(error)) from None

    def _examples(self) -> Data:
        if not callable(self._data):
            return self._data
        with self._loading:
            if self._loaded is None:
                self._loaded = _checked(_load(self._data), self._rows)
            return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}  # a copy in another process loads there


def _load(loader: Callable[[], Data]) -> Data:
    try:
        return loader()
    except KeyboardInterrupt:
        failure = None
    except BaseException as error:  # noqa: BLE001 - its message and its frames may hold private values
        failure = type(error).__name__
    if failure is None:
        raise KeyboardInterrupt
    raise _PublicMistake(
        f"the function given as data= failed ({failure}); nothing was trained or paid. Call it yourself to see why."
    )


def _checked(data: Any, rows: int) -> Data:
    """Return X and y as an array, if they are that and of so many rows; all of this is public."""
    pair = attempt(_pair, data, failed=None)
    if pair is None:
        raise _PublicMistake(f"data= must be (X, y), or a function that returns them; got {type(data).__name__}.")
    X, answers = pair[0], as_array(pair[1])  # once: a y that can never be read must not fail in every paid trial
    if answers is None:
        raise _PublicMistake(
            f"the y of data= cannot be read as an array of {rows} answers; it is a {type(pair[1]).__name__}. Give an "
            "array or a list (of a tensor, y.detach().cpu().numpy())."
        )
    if not (attempt(_has_rows, X, rows, failed=False) and answers.shape[:1] == (rows,)):
        raise _PublicMistake(f"the X and y of data= must have {rows} rows each, as many as the privatizer's examples.")
    if answers.ndim > 1:
        raise _PublicMistake(f"the y of data= has shape {answers.shape}; allowed: ({rows},), one answer a row.")
    return X, answers


def _pair(data: Any) -> tuple[Any, Any] | None:
    if not isinstance(data, tuple | list):
        return None
    X, y = data
    return X, y


def _has_rows(X: Any, rows: int) -> bool:
    shape = getattr(X, "shape", None)
    n = len(X) if shape is None else next(iter(shape))
    return bool(n == rows)
