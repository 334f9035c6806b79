"""Sums and printed forms of privacy losses and budgets: no rounding understates them."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

EXACT = Context(prec=50, rounding=ROUND_CEILING)  # for sums of spent privacy: fifty digits, rounded up


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
