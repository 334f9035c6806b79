"""Plain numbers from what callers pass: NumPy's scalars are converted, everything else is not a number.

Exact types only: a subclass may compare, hash and convert as it likes. NumPy is not imported, as a user's device has
none; where nobody has imported it, no value is one of its scalars.
"""

from __future__ import annotations

import math
import sys


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
