"""Calls of the user's function, which hide private values from a framework and its storage.

**With ``loss=`` and ``data=``** the function is the public half. It trains on public data and returns a model. Its
errors are ordinary failures, which :func:`call_guarded` passes on with their traceback; nothing was read or charged
then. The private half is dptune's: it computes the losses of the private rows with the model. A failing row fails
alone, and any other error there becomes a failed evaluation for everybody. If a function trains on private people
(``training="private"``), none of its errors is shown.

**A function that returns the losses itself** sees private data throughout, so its errors are neither logged nor raised.
No guard helps if *one person's record* decides whether it raises: that moves everybody's loss, which noise scaled to
one person does not cover. The guarantee needs functions whose i-th loss depends on person i alone.

Public mistakes raise: dptune's refusals by shapes, types and settings, in ``take`` or of the model. ``data=`` may be a
function that loads the examples. Its failure is a public mistake: the error shows its type, and nothing is charged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeGuard, TypeVar

import numpy as np

from dptune._arrays import Vector
from dptune._checks import shown, text, users_function
from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.estimator import EstimatorLosses, Function
from dptune.losses.examples import Data
from dptune.losses.named import NamedLoss
from dptune.privacy.seal.private import PerExampleLosses, without_traceback

__all__ = ["Data", "Function", "Outcome", "Training", "call_guarded", "losses_function", "private_losses"]

Training: TypeAlias = Literal["public", "private"]
T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The outcome of a call of the user's function: losses, a public error, or, with neither, a failure.

    Attributes:
        losses: the result of ``take``; None if there is none.
        error: a public mistake or an interrupt.
        stopped: the function claims that it stopped on request; the caller must check the claim.
    """

    losses: T | None = None
    error: BaseException | None = None
    stopped: bool = False

    def or_raise(self) -> T | None:
        """Return the losses, or None for a failure, or raise the error; its frames never held a private value."""
        if self.error is not None:
            raise self.error
        return self.losses


def call_guarded(
    function: Function, argument: Any, take: Callable[[Any], T], stops: type[Exception] | tuple[()] = ()
) -> Outcome[T]:
    """Call the user's function and return its outcome, which hides errors of its private half.

    Args:
        function, argument: the function to call, and its argument.
        take: turns the losses into the result.
        stops: errors with which a function obeys a request to stop.

    Raises:
        Exception: the error of public training with ``loss=`` and ``data=``; pass it on, as nothing was charged.
    """
    try:
        losses = _private_half(function, argument)
    except ObjectiveRefused as error:
        return Outcome(error=InputError(str(error)))
    except KeyboardInterrupt:
        return Outcome(error=KeyboardInterrupt())
    except Exception:
        raise
    except BaseException:  # noqa: BLE001 - SystemExit and panics are failures, wherever they come from
        return Outcome()
    heeded = () if _trains_in_public(function) else stops  # a public training function has returned by now
    refused = ObjectiveRefused if isinstance(function, EstimatorLosses) else ()  # else the user's code raised it
    try:
        result = losses()
    except refused as error:
        return Outcome(error=InputError(str(error)))
    except KeyboardInterrupt:
        return Outcome(error=KeyboardInterrupt())
    except heeded:
        return Outcome(stopped=True)
    except BaseException:  # noqa: BLE001 - SystemExit and panics too: nothing of it may be seen
        return Outcome()
    try:
        return Outcome(take(result))
    except InputError as error:
        return Outcome(error=without_traceback(error))
    except KeyboardInterrupt:
        return Outcome(error=KeyboardInterrupt())
    except BaseException:  # noqa: BLE001 - raised by what the function returned, while it was read
        return Outcome()


def tried(losses: PerExampleLosses) -> str:
    """Return the public outcome of a trial call."""
    rows = f"the function returned one loss for each of the {len(losses)} rows"
    return f"try_out: {rows}. Nothing was released, stored or spent."


def _private_half(function: Function, argument: Any) -> Callable[[], Any]:
    """Run the public half, and return the private half."""
    if _trains_in_public(function):
        model = function.train(argument)
        return lambda: function.losses_of(model)
    return lambda: function(argument)


def _trains_in_public(function: Function) -> TypeGuard[EstimatorLosses]:
    return isinstance(function, EstimatorLosses) and function.trains_in_public


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
        training: whether ``function`` trains on public data, so that its errors may be shown, or on private people.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: ``function`` is not callable, only one of ``loss`` and ``data`` is given, ``data`` has other rows or
            needs ``like``, or ``function`` can reach it.
    """
    function = users_function("the objective", function)
    if training not in ("public", "private"):
        raise InputError(f'training must be "public" or "private"; got {shown(training)}.')
    if data is None:
        if loss is None:
            return function
        raise InputError(f"loss={shown(loss)} needs data=(X, y), whose losses are asked of the model that is returned.")
    if loss is None:
        raise InputError(
            'data= needs loss=, what is minimised: a name as "log_loss", "zero_one" (1 - accuracy) or "squared_error", '
            "or a NamedLoss. Without data= return the losses yourself."
        )
    try:
        return EstimatorLosses(function, loss, data, rows, trains_in_public=training == "public")
    except ObjectiveRefused as error:
        raise InputError(str(error)) from None


def declared_public(words: str | None, training: Training) -> str | None:
    """Return in the user's words what a function's trials show as public, or None.

    Raises:
        InputError: the words are not text, or the function trains on private people.
    """
    if words is not None and training == "private":
        raise InputError(
            'public= cannot go with training="private": a model that was trained on private people depends on them, '
            "and so does whatever it says about public rows."
        )
    return None if words is None else text("public", words)


def private_losses(function: Callable[[Any], Any], argument: Any, rows: int) -> PerExampleLosses | Vector:
    """Return the private people's losses (rows,); all NaN, the largest loss, if their computation failed.

    That failure is private, as a person's record may have caused it. Such a candidate stays a candidate.
    """
    losses = call_guarded(function, argument, PerExampleLosses).or_raise()
    return np.full(rows, np.nan) if losses is None else losses
