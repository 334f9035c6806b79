"""The options of a planner, as a front end passes them on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from dptune.errors import InputError

_SAID_ITSELF = ("mu", "seed", "trials")  # a front end has arguments of its own for these


def options_of(planner: Callable[..., Any], *, without: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a planner's arguments that a front end passes on.

    Args:
        planner: its signature has them.
        without: what the front end knows: the public facts about the people and the space.
    """
    return tuple(name for name in signature(planner).parameters if name not in (*_SAID_ITSELF, *without))


def refuse_unknown(given: Iterable[str], options: tuple[str, ...], *, front_end: str) -> None:
    """Refuse a misspelt option under the name of what the user called.

    Raises:
        InputError: it is none of the options; names them.
    """
    for name in given:
        if name not in options:
            raise InputError(f"{front_end} has no option {name!r}; it has n_trials, mu, seed, {', '.join(options)}.")
