"""Somebody else's code: what it reads, without running it, and calls whose errors tell nothing. Pure Python."""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def attempt(call: Callable[..., T], *args: object, failed: T) -> T:
    """Return what the call returns, or ``failed`` whatever it raises, ``SystemExit`` and panics included.

    Only ``KeyboardInterrupt`` passes, as a new one: the other's frames hold private values.
    """
    try:
        return call(*args)
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001 - a private entry may have caused it, and its text may quote that
        return failed
    raise KeyboardInterrupt


def undefined(function: Any) -> list[str]:
    """Return the globals that a function reads and nobody has defined."""
    if not isinstance(function, types.FunctionType):
        return []
    known = {*function.__globals__, *vars(builtins)}
    return sorted(set(globals_read(function.__code__, {"LOAD_GLOBAL"})) - known)


def globals_read(code: types.CodeType, loads: Collection[str] = ("LOAD_GLOBAL", "LOAD_NAME")) -> Iterator[str]:
    """The globals that code reads: an attribute of the same name, as in ``model.score``, is none."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in loads)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from globals_read(inner, loads)
