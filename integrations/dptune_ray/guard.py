"""The user's function where nobody can interrupt it: whatever it does, it is a value, a failure or a public mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ray.exceptions import RayError

import dptune
from dptune.losses.user_function import Function, call_guarded
from dptune.privacy.private import bare
from dptune_ray.left_behind import nothing_left_behind

T = TypeVar("T")


def called_in_worker(function: Function, argument: Any, take: Callable[[Any], T]) -> T | None:
    """Return ``take`` of what the user's function returned, or None if it raised.

    Nobody presses Ctrl-C in a worker: a ``KeyboardInterrupt`` there is the function's own, and telling that it was
    raised would tell one bit of private data without noise. So is whatever an object that it returned raises.

    Raises:
        InputError: what came back is refused by its public shape or type; without frames that ever held a value.
    """
    with nothing_left_behind():
        outcome = call_guarded(function, argument, take)
    if isinstance(outcome, KeyboardInterrupt):
        return None
    if isinstance(outcome, BaseException):
        raise bare(outcome)
    return outcome


def told_by_type(call: Callable[[], T]) -> T:
    """Return what the call returns; of an error that is neither dptune's nor Ray's only the type is told.

    A thread or a timer of the user's function may raise in this thread when the function has ended.
    """
    try:
        return call()
    except (dptune.DptuneError, RayError) as error:
        failure: Exception = bare(error)
    except BaseException as error:  # noqa: BLE001 - whatever it is, its text may quote a private value
        failure = dptune.DptuneError(f"the trial was interrupted: {type(error).__name__}.")
    raise failure
