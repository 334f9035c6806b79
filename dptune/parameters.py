"""Parameters of a search space: numbers with ranges, and choices."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptune._arrays import Vector
from dptune._checks import boolean, shown
from dptune._numbers import plain, real, whole
from dptune.errors import InputError

Value = float | int | str | tuple[Any, ...] | None  # a bool is an int


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
        """Number of values, or None for a continuum."""
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
            return float(np.rint((value - self.low) / self.step) + 0.5) / self.cells  # also of a value that is NaN
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
        """Number of values."""
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


@dataclass(frozen=True)
class Categorical:
    """One of a few choices that have no order; with one choice, a constant, which needs no coordinate.

    Args:
        choices: text, numbers, True, False, None, or lists of such, which become tuples.

    Raises:
        InputError: there are none, one comes twice, or one is an object.
    """

    choices: Sequence[Any]

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence) or not self.choices:
            raise InputError(f"choices must be a list with at least one choice; got {shown(self.choices)}.")
        object.__setattr__(self, "choices", tuple(map(as_choice, self.choices)))
        if len(set(map(key_of, self.choices))) < len(self.choices):
            raise InputError(f"choices must differ; got {shown(self.choices)}.")

    @property
    def cells(self) -> int:
        """Number of values."""
        return len(self.choices)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.choices) if len(self.choices) > 1 else 0

    def decode(self, u: Vector) -> Value:
        """Return the choice whose coordinate is largest, u (width,)."""
        choice: Value = self.choices[int(np.argmax(u)) if len(u) else 0]
        return choice

    def encode(self, value: Value) -> Vector:
        """Return the coordinates of a choice, (width,)."""
        key = key_of(value)
        return np.array([float(key == key_of(choice)) for choice in self.choices[: self.width]])

    def contains(self, value: object) -> bool:
        """Return whether it is one of the choices."""
        return key_of(value) in map(key_of, self.choices)


Parameter = Float | Int | Categorical


def width_of(p: Parameter) -> int:
    """Return the number of a parameter's coordinates."""
    return p.width if isinstance(p, Categorical) else 1


def code_of(p: Parameter, value: Any) -> Vector:
    """Return the coordinates of a value, which is cut to the range, (width,)."""
    if isinstance(p, Categorical):
        return p.encode(value)
    return np.clip([p.encode(min(max(value, p.low), p.high))], 0.0, 1.0)


def snapped(p: Parameter, U: Vector) -> Vector:
    """Return where coordinates U (k, width) in [0, 1] really lie: choices and cells have one place each."""
    if isinstance(p, Categorical):
        return np.asarray(np.eye(p.width)[np.argmax(U, axis=1)] if p.width else U)
    if p.cells is None:
        return U if p.high > p.low else np.full_like(U, 0.5)
    return np.array([code_of(p, p.decode(float(u))) for u in U[:, 0]]).reshape(U.shape)


def allows(p: Parameter, value: object) -> bool:
    """Tell whether a parameter may have this value."""
    if isinstance(p, Categorical):
        return p.contains(value)
    number = real(value)
    return number is not None and p.low <= number <= p.high


def as_choice(value: Any) -> Value:
    """Return a choice as plain data that does not change."""
    if isinstance(value, list | tuple):
        return tuple(map(as_choice, value))
    simple = plain(value)
    if simple is None or isinstance(simple, str | bool) or real(simple) is not None:
        choice: Value = simple
        return choice
    raise InputError(
        f"a choice must be text, a number, True, False, None, or a list of such; got {type(value).__name__}. Choose "
        "among names, and look the objects up in your function."
    )


def key_of(value: object) -> str:
    """Return a name of a value by which equal ones are recognised: 2 and 2.0 are, 1 and True are not."""
    simple = plain(value)
    whole_number = isinstance(simple, float) and simple.is_integer()
    return json.dumps(int(simple) if whole_number else simple, default=repr)


def _cell(u: float, cells: int) -> int:
    return min(max(math.floor(u * cells), 0), cells - 1)


def _settle(p: Float | Int) -> None:
    """Make plain numbers of a range's ends and step, and refuse what is no range."""
    for name in ("low", "high", "step"):
        object.__setattr__(p, name, plain(getattr(p, name)))
    object.__setattr__(p, "log", boolean("log", p.log))
    if real(p.low) is None or real(p.high) is None or p.low > p.high:
        raise InputError(f"a range needs finite low <= high; got low={shown(p.low)}, high={shown(p.high)}.")
    if p.log and p.low <= 0:
        raise InputError(f"a log scale needs low > 0; got low={shown(p.low)}.")
