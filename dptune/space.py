"""Search spaces: named parameters on the unit cube, with rounding.

Every parameter maps to one coordinate in [0, 1]. Integers and steps get cells of equal width; a log
scale is even in the logarithm. ``decode`` rounds, and ``encode(decode(u))`` is where a rounded point
really lies: the algorithm is told that point, not the one it asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._numbers import plain, real, whole
from dptune.errors import InputError

Vector = npt.NDArray[np.float64]
Value = float | int


@dataclass(frozen=True)
class Float:
    """A real parameter in [low, high], optionally on a log scale or in steps from low."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        _check_range(self.low, self.high, log=self.log)
        if self.step is not None and (self.log or real(self.step) is None or self.step <= 0):
            raise InputError(f"step must be positive and cannot go with log=True; got step={self.step!r}.")

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
            return (round((value - self.low) / self.step) + 0.5) / self.cells
        if self.high == self.low:
            return 0.5
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Int:
    """A whole number low, low + step, ..., at most high; optionally on a log scale (step 1)."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        _check_range(self.low, self.high, log=self.log)
        if whole(self.low) is None or whole(self.high) is None:
            raise InputError(f"the ends of a whole-number range must be whole; got {self.low!r} and {self.high!r}.")
        if whole(self.step) is None or self.step < 1 or (self.log and self.step != 1):
            raise InputError(f"step must be >= 1, and 1 with log=True; got step={self.step!r}.")

    @property
    def cells(self) -> int:
        """Number of values."""
        return 1 + (self.high - self.low) // self.step

    def decode(self, u: float) -> int:
        """Return the value at u in [0, 1]."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(low + u * (high - low))), self.low), self.high)
        return self.low + self.step * _cell(u, self.cells)

    def encode(self, value: float) -> float:
        """Return u in [0, 1] of a value in [low, high]."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return (math.log(value) - low) / (high - low)
        return ((value - self.low) // self.step + 0.5) / self.cells


class Space(Mapping[str, Float | Int]):
    """An ordered set of named parameters; the unit cube [0, 1]^d.

    Args:
        parameters: name -> :class:`Float` or :class:`Int`.

    Raises:
        InputError: it is empty, or holds something else.
    """

    def __init__(self, parameters: Mapping[str, Float | Int]) -> None:
        for name, parameter in parameters.items():
            if not isinstance(parameter, Float | Int):
                raise InputError(f"parameter {name!r} must be a Float or an Int; got {type(parameter).__name__}.")
        if not parameters:
            raise InputError("a search space needs at least one numerical parameter.")
        self._parameters = dict(sorted(parameters.items()))

    def __getitem__(self, name: str) -> Float | Int:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    @property
    def resolution(self) -> Vector:
        """Cell width of each coordinate, 0 for a continuum: (d,)."""
        return np.array([0.0 if p.cells is None else 1.0 / p.cells for p in self._parameters.values()])

    def decode(self, u: Vector) -> dict[str, Value]:
        """Return the parameters at u (d,), which is cut to the cube."""
        inside = np.clip(u, 0.0, 1.0)
        return {name: p.decode(float(x)) for (name, p), x in zip(self.items(), inside, strict=True)}

    def encode(self, parameters: Mapping[str, Value]) -> Vector:
        """Return the point (d,) in the cube; parameters outside their range are cut to it.

        Raises:
            InputError: a parameter is missing.
        """
        missing = [name for name in self if name not in parameters]
        if missing:
            raise InputError(f"parameters {missing} are missing.")
        values = {name: min(max(parameters[name], p.low), p.high) for name, p in self.items()}
        return np.clip([p.encode(values[name]) for name, p in self.items()], 0.0, 1.0)

    def contains(self, parameters: Mapping[str, Value]) -> bool:
        """Tell whether every parameter of the space is there and within its range."""
        given = {name: real(parameters.get(name)) for name in self}
        return all((value := given[name]) is not None and p.low <= value <= p.high for name, p in self.items())

    def describe(self) -> dict[str, dict[str, object]]:
        """Return plain JSON data."""
        return {name: {"type": type(p).__name__, **vars(p)} for name, p in self.items()}

    @classmethod
    def from_description(cls, described: Mapping[str, Mapping[str, Any]]) -> Space:
        """Return the space that :meth:`describe` described."""
        kinds: dict[str, type[Float] | type[Int]] = {"Float": Float, "Int": Int}
        return cls({name: kinds[d["type"]](d["low"], d["high"], d["log"], d["step"]) for name, d in described.items()})


def _cell(u: float, cells: int) -> int:
    return min(max(math.floor(u * cells), 0), cells - 1)


def _check_range(low: float, high: float, *, log: bool) -> None:
    if real(low) is None or real(high) is None or low > high:
        raise InputError(f"a range needs finite low <= high; got low={low!r}, high={high!r}.")
    if log and low <= 0:
        raise InputError(f"a log scale needs low > 0; got low={low!r}.")
