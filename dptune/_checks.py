"""Checks of public arguments: each returns the value in plain form, or refuses it by name and says what is allowed.

Standard library only: a user's device checks its arguments, too.
"""

from __future__ import annotations

import os

from dptune._numbers import COUNTABLE, real, whole
from dptune.errors import InputError


def at_least(name: str, value: object, least: int, most: int = COUNTABLE) -> int:
    """Return a whole number as an int, or refuse it by name.

    Raises:
        InputError: it is none, below ``least``, or above ``most``.
    """
    number = whole(value)
    if number is None or number < least:
        raise InputError(f"{name} must be a whole number >= {least}; got {value!r}.")
    if number > most:
        raise InputError(f"{name} must be at most {most}; got a number of {number.bit_length()} bits.")
    return number


def positive(name: str, value: object) -> float:
    """Return a number as a float, or refuse it by name.

    Raises:
        InputError: it is none, not finite, or not above 0.
    """
    number = real(value)
    if number is None or number <= 0:
        raise InputError(f"{name} must be a number, positive and finite; got {value!r}.")
    return number


def share(name: str, value: object) -> float:
    """Return a number in [0, 1) as a float, or refuse it by name.

    Raises:
        InputError: it is none.
    """
    number = real(value)
    if number is None or not 0 <= number < 1:
        raise InputError(f"{name} must lie in [0, 1); got {value!r}.")
    return number


def place(name: str, value: object) -> str:
    """Return a path or URL as text.

    Raises:
        InputError: it is neither text nor a path, or empty. None, an environment variable that is not set, would be a
            file of that name.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not (isinstance(text, str) and text.strip() and "\0" not in text):
        raise InputError(
            f"{name} must say where, as text or a Path; got {value!r}. Is an environment variable not set?"
        )
    return text
