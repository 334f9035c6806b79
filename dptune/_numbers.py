"""Numbers: which values of a caller count as numbers, and how numbers are printed.

NumPy's scalars are converted to Python's; everything else is not a number.

Only exact types count: a subclass may compare, hash and convert in its own way. NumPy is not imported, because a user's
device may lack it; before NumPy is imported, no value can be its scalar.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cache
from typing import Any

COUNTABLE = 2**53  # up to here a float counts one by one
EXACT = Context(prec=50, rounding=ROUND_CEILING)  # for sums of spent privacy: fifty digits, rounded up


def _is_of(value: object, plain: tuple[type, ...], codes: tuple[str, ...]) -> bool:
    """Return whether the type is one of ``plain``, or a NumPy scalar type of a kind in ``codes``."""
    return type(value) in plain or (sys.modules.get("numpy") is not None and type(value) in _scalar_types(codes))


@cache
def _scalar_types(codes: tuple[str, ...]) -> frozenset[type]:
    numpy = sys.modules["numpy"]
    return frozenset(numpy.dtype(c).type for kind in codes for c in numpy.typecodes[kind])


def whole(value: Any) -> int | None:
    """Return a whole number as an int, or None if it is something else (a bool, a float, text)."""
    return int(value) if _is_of(value, (int,), ("AllInteger",)) else None


def real(value: Any) -> float | None:
    """Return a finite real number as a float, or None if it is something else."""
    try:
        number = float(value) if _is_of(value, (int, float), ("AllInteger", "Float")) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's number, also in a tuple; everything else as it is."""
    if type(value) is tuple:
        return tuple(plain(each) for each in value)
    as_numbers = (whole(value), real(value))
    return next((number for number in as_numbers if number is not None), value)


def tupled(value: Any) -> Any:
    """Return plain JSON data with its lists as tuples, at every depth of lists."""
    return tuple(tupled(each) for each in value) if isinstance(value, list) else value


def finite(value: float) -> float | str:
    """Return a number for JSON, with infinity as a word."""
    return value if value != float("inf") else "infinity"


def rounded_up(value: float, digits: int = 4) -> str:
    """Return a privacy loss in ``digits`` significant digits, rounded up: 4.37718 is "4.378".

    The nearest number would understate the loss half of the time. Up to 1e-9 of the value may be cut off.
    """
    return _rounded(value * (1 - _ROUNDING), digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """Return a budget in ``digits`` significant digits, rounded down up to a relative 1e-9."""
    return _rounded(value * (1 + _ROUNDING), digits, ROUND_FLOOR)


_ROUNDING = 1e-9  # relative error of sums and root finders: 3 stays "3"; noise scales have a slack of 1e-6


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{float(Context(prec=digits, rounding=direction).create_decimal_from_float(value)):.{digits}g}"
