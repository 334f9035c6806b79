"""Plain numbers from what callers pass: NumPy's scalars are converted, everything else is not a number.

Exact types only: a subclass may compare, hash and convert as it likes.
"""

from __future__ import annotations

import numpy as np

_INTEGERS = frozenset({int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])})
_REALS = _INTEGERS | {float, *(np.dtype(code).type for code in np.typecodes["Float"])}


def whole(value: object) -> int | None:
    """Return a whole number as an int, or None if it is something else (a bool, a float, text)."""
    return int(value) if type(value) in _INTEGERS else None  # type: ignore[call-overload]


def real(value: object) -> float | None:
    """Return a finite real number as a float, or None if it is something else."""
    try:
        number = float(value) if type(value) in _REALS else float("nan")  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if np.isfinite(number) else None
