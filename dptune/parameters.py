"""Parameters of a search space: numbers with ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptune._checks import boolean, plain, real, shown, whole
from dptune.errors import InputError

Value = float | int


@dataclass(frozen=True)
class Float:
    """A real parameter in [low, high], optionally on a log scale or in steps from low."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _settle(self)
        if self.step is not None and (self.log or real(self.step) is None or self.step <= 0):
            raise InputError(f"step must be positive and cannot go with log=True; got step={shown(self.step)}.")

    @property
    def cells(self) -> int | None:
        """Return the number of values, or None for a continuum."""
        return None if self.step is None else 1 + math.floor((self.high - self.low) / self.step + 1e-8)

    def decode(self, u: float) -> float:
        """Return the value at u in [0, 1]."""
        if self.step is not None and self.cells is not None:
            return min(self.low + self.step * _cell(u, self.cells), self.high)
        if self.log:
            value = math.exp(math.log(self.low) + u * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + u * (self.high - self.low)
        return min(max(value, self.low), self.high)

    def encode(self, value: float) -> float:
        """Return u in [0, 1] of a value in [low, high]."""
        if self.step is not None and self.cells is not None:
            return float(np.rint((value - self.low) / self.step) + 0.5) / self.cells  # rint lets NaN pass
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return 0.5 if low == high else (at - low) / (high - low)  # logarithms of ends that are close may be equal


@dataclass(frozen=True)
class Int:
    """A whole number low, low + step, ..., at most high; optionally on a log scale (step 1)."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        _settle(self)
        if whole(self.low) is None or whole(self.high) is None:
            raise InputError(
                f"the ends of a whole-number range must be whole; got {shown(self.low)} and {shown(self.high)}."
            )
        if whole(self.step) is None or self.step < 1 or (self.log and self.step != 1):
            raise InputError(f"step must be >= 1, and 1 with log=True; got step={shown(self.step)}.")

    @property
    def cells(self) -> int:
        """Return the number of values."""
        return 1 + (self.high - self.low) // self.step

    def decode(self, u: float) -> int:
        """Return the value at u in [0, 1]."""
        if self.log:
            low = math.log(self.low - 0.5)
            high = math.log(self.high + 0.5)
            return min(max(round(math.exp(low + u * (high - low))), self.low), self.high)
        return self.low + self.step * _cell(u, self.cells)

    def encode(self, value: float) -> float:
        """Return u in [0, 1] of a value in [low, high]."""
        if self.log:
            low = math.log(self.low - 0.5)
            high = math.log(self.high + 0.5)
            return (math.log(value) - low) / (high - low)
        return ((value - self.low) // self.step + 0.5) / self.cells


Parameter = Float | Int


def allows(p: Parameter, value: object) -> bool:
    """Return whether a parameter may have this value."""
    number = real(value)
    return number is not None and p.low <= number <= p.high


def _cell(u: float, cells: int) -> int:
    return min(max(math.floor(u * cells), 0), cells - 1)


def _settle(p: Float | Int) -> None:
    """Convert a range's ends and step to plain numbers, and refuse an invalid range."""
    for name in ("low", "high", "step"):
        object.__setattr__(p, name, plain(getattr(p, name)))
    object.__setattr__(p, "log", boolean("log", p.log))
    if real(p.low) is None or real(p.high) is None or p.low > p.high:
        raise InputError(f"a range needs finite low <= high; got low={shown(p.low)}, high={shown(p.high)}.")
    if real(p.high - p.low) is None:
        raise InputError(
            f"a range needs a finite width, high - low; got low={shown(p.low)}, high={shown(p.high)}. Narrow it."
        )
    if p.log and p.low <= 0:
        raise InputError(f"a log scale needs low > 0; got low={shown(p.low)}.")
