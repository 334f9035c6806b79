"""Calls into code that sees private values: whether and how they fail is private, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def attempt(call: Callable[..., T], *args: object, failed: T) -> T:
    """Return what the call returns, or ``failed`` whatever it raises, ``SystemExit`` and panics included.

    Only ``KeyboardInterrupt`` passes, as a new one: the other's frames hold private values.
    """
    try:
        return call(*args)
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001
        return failed
    raise KeyboardInterrupt
