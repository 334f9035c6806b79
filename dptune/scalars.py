"""Plain numbers from what callers pass: NumPy's scalars are converted, everything else is not a number.

Exact types only: a subclass may compare, hash and convert as it likes. NumPy is not imported, as a user's device has
none; where nobody has imported it, no value is one of its scalars.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from dptune.errors import InputError

COUNTABLE = 2**53  # up to here a float counts one by one


def _is_of(value: object, plain: tuple[type, ...], codes: tuple[str, ...]) -> bool:
    """Tell whether the type is one of ``plain``, or NumPy's scalar type of one of the kinds ``codes``."""
    if type(value) in plain:
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and any(
        type(value) is numpy.dtype(c).type for kind in codes for c in numpy.typecodes[kind]
    )


def whole(value: object) -> int | None:
    """Return a whole number as an int, or None if it is something else (a bool, a float, text)."""
    return int(value) if _is_of(value, (int,), ("AllInteger",)) else None  # type: ignore[call-overload]


def real(value: object) -> float | None:
    """Return a finite real number as a float, or None if it is something else."""
    try:
        number = float(value) if _is_of(value, (int, float), ("AllInteger", "Float")) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's number, also in a tuple; everything else as it is."""
    if type(value) is tuple:
        return tuple(plain(each) for each in value)
    found = (whole(value), real(value))
    return next((number for number in found if number is not None), value)


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
