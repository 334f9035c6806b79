"""The user's function where nobody can interrupt it: whatever it does, it is a value, a failure or a public mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dptune.objective import Function, call_guarded
from dptune.privacy.private import bare

T = TypeVar("T")


def called_in_worker(function: Function, argument: Any, take: Callable[[Any], T]) -> T | None:
    """Return ``take`` of what the user's function returned, or None if it raised.

    Nobody presses Ctrl-C in a worker: a ``KeyboardInterrupt`` there is the function's own, and telling that it was
    raised would tell one bit of private data without noise. So is whatever an object that it returned raises.

    Raises:
        InputError: what came back is refused by its public shape or type; without frames that ever held a value.
    """
    outcome = call_guarded(function, argument, take)
    if isinstance(outcome, KeyboardInterrupt):
        return None
    if isinstance(outcome, BaseException):
        raise bare(outcome)
    return outcome
