"""Numbers: which of a caller's values are some, and how they are written for people.

NumPy's scalars are converted to Python's; everything else is not a number.

Exact types only: a subclass may compare, hash and convert as it likes. NumPy is not imported, as a user's device has
none; where nobody has imported it, no value is one of its scalars.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cache
from typing import Any

COUNTABLE = 2**53  # up to here a float counts one by one
EXACT = Context(prec=50, rounding=ROUND_CEILING)  # for sums of what is spent: fifty digits, never too small


def _is_of(value: object, plain: tuple[type, ...], codes: tuple[str, ...]) -> bool:
    """Tell whether the type is one of ``plain``, or NumPy's scalar type of one of the kinds ``codes``."""
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
    """Return a number as JSON has it: infinity is a word."""
    return value if value != float("inf") else "infinity"


def rounded_up(value: float, digits: int = 4) -> str:
    """Return a loss of privacy in ``digits`` significant digits, rounded up: 4.37718 is "4.378".

    The nearest number would claim more than is proved half of the time. Up to 1e-9 of the value may be cut off.
    """
    return _rounded(value * (1 - _ROUNDING), digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """Return a budget that may be spent in ``digits`` significant digits, rounded down but for 1e-9 of it."""
    return _rounded(value * (1 + _ROUNDING), digits, ROUND_FLOOR)


_ROUNDING = 1e-9  # of sums and root finders, so that 3 stays "3"; dptune's noise scales have a slack of 1e-6


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{float(Context(prec=digits, rounding=direction).create_decimal_from_float(value)):.{digits}g}"
