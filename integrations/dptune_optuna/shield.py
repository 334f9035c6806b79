"""What stands between the user's code, which sees private data, and Optuna, which must not.

The user's function gets a :class:`ShieldedTrial`, which can suggest but not report. Whatever the function
raises becomes "every person's loss is the upper clip": an exception, its text and its traceback could
depend on private data, so none of it is logged or raised, and the trial completes with a noisy value.
Public mistakes still raise: a refused method, a bad search space, losses of the wrong shape.

What no shield can do: if *one person's record* decides whether the function raises, it moves everybody's
loss, and no noise scaled to one person covers that. The promise needs functions whose i-th loss depends
on person i alone. With ``loss=`` and ``data=`` dptune calls the model itself and a failing row fails alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from optuna.trial import FixedTrial, Trial

import dptune
from dptune.run import Losses

Function = Callable[[Any], Any]
T = TypeVar("T")


class ShieldedTrial:
    """An Optuna trial that suggests parameters and takes nothing back.

    ``report``, ``should_prune`` and ``set_user_attr`` are refused: Optuna stores what they are given at once.
    """

    def __init__(self, trial: Trial | FixedTrial) -> None:
        self._trial = trial
        self._public_error: Exception | None = None

    @property
    def number(self) -> int:
        """The trial's number."""
        return self._trial.number

    @property
    def params(self) -> dict[str, Any]:
        """The parameters suggested so far."""
        return self._trial.params

    @property
    def datetime_start(self) -> datetime.datetime | None:
        """When the trial began."""
        return self._trial.datetime_start

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Suggest a real parameter; as Optuna's."""
        return self._public(lambda: float(self._trial.suggest_float(name, low, high, step=step, log=log)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Suggest a whole number; as Optuna's."""
        return self._public(lambda: int(self._trial.suggest_int(name, low, high, step=step, log=log)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest one of the choices; as Optuna's."""
        return self._public(lambda: self._trial.suggest_categorical(name, choices))

    def _public(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:
            self._public_error = error
            raise

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._public_error = dptune.PrivacyError(
            f"trial.{name} is refused inside a private objective: Optuna would store what it is given. "
            "Return the per-example losses; only their noisy mean is reported."
        )
        raise self._public_error


def evaluate(function: Function, trial: Trial | FixedTrial) -> Losses | None:
    """Return the losses of the user's function, or None if it raised.

    Raises:
        Exception: what Optuna raised for a bad suggestion, or PrivacyError for a refused method.
        InputError: what came back is not a vector of real numbers.
    """
    shielded = ShieldedTrial(trial)
    wrapped = _call(function, shielded)
    if shielded._public_error is not None:
        wrapped = shielded._public_error
    if isinstance(wrapped, BaseException):
        raise wrapped.with_traceback(None) from None  # no frame that ever held a loss
    return wrapped


def _call(function: Function, trial: ShieldedTrial) -> dptune.PerExampleLosses | BaseException | None:
    """Return the wrapped losses, None for a failure, or the public error to raise."""
    try:
        losses = function(trial)
    except KeyboardInterrupt:
        return KeyboardInterrupt()
    except BaseException:  # noqa: BLE001 - SystemExit and panics too: nothing of it may be seen
        return None
    if isinstance(losses, dptune.PerExampleLosses):
        return losses
    try:
        return dptune.PerExampleLosses(losses)
    except dptune.InputError as error:
        return error
