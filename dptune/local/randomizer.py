"""CTL on the user's device: clamp one user's value to a public interval, and add Laplace noise.

Zhou, Tan, *Local Differential Privacy for Bayesian Optimization* (2020), Curator 1. Notation::

    [low, high]    public interval; the paper's is [-(B + R), B + R]
    L              Laplace scale, (high - low) / epsilon
    z              (clamped value - middle) / L, in [-epsilon/2, epsilon/2]
    reply          L (round(z) + Laplace(1)) + middle, on OpenDP's grid of 2^-40 in units of L

**Promise.** For any two values y, y' of the user, infinite and not-a-number included, and any set S of replies,
P(reply(y) in S) <= e^epsilon P(reply(y') in S): one reply is epsilon-LDP. k replies of one user cost k epsilon.

The noise has unit scale, so the grid is 2^-40 of it for every interval. Rounding z to the grid moves two values apart
by at most 2^-40. The scale covers this, and SLACK covers floating-point errors in z::

    L = (high - low) (1 + SLACK) / (epsilon - 2^-40)

Without the clamp the promise is false for every value outside the interval. Only OpenDP and the standard library
are imported: no NumPy, SciPy, SQLAlchemy or Optuna.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, SupportsFloat

from opendp.domains import atom_domain
from opendp.measurements import make_laplace
from opendp.metrics import absolute_distance
from opendp.mod import enable_features

from dptune._checks import attempt, between, real, shown
from dptune.errors import InputError

Ends = tuple[float, float]

GRID = 2.0**-40  # in units of the Laplace scale
SLACK = 1e-6
SMALLEST_EPSILON = 1e-8
LARGEST_SCALE = 1e300  # a reply beyond the largest number has probability below e^(-10^7)
enable_features("contrib")


class Randomizer(Protocol):
    """Turns a private value into a public reply."""

    @property
    def private(self) -> bool:
        """Return whether the reply is private."""

    @property
    def epsilon(self) -> float:
        """Return the price of one reply in epsilon-LDP."""

    def randomize(self, value: SupportsFloat | None) -> float:
        """Return the public reply."""

    def describe(self) -> dict[str, object]:
        """Return the public settings as plain JSON data."""


class Clamped:
    """The base of the randomisers: a price, a public interval, and a value that is cut to it."""

    mechanism = ""
    private = True

    def __init__(self, epsilon: float, bound: float | Ends, *, invalid: float | None = None) -> None:
        self.epsilon = epsilon
        self.low, self.high = _ends(bound)
        self.invalid = between("invalid", self.low if invalid is None else invalid, self.low, self.high)
        self.middle = self.low + (self.high - self.low) / 2

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.private:
            raise TypeError("a seeded randomiser cannot be copied or pickled: both would draw the same noise.")
        return partial(type(self), self.epsilon, (self.low, self.high), invalid=self.invalid), ()

    def clamp(self, value: SupportsFloat | None) -> float:
        """Return the private value cut to the interval; all that is not a number becomes ``invalid``."""
        number = math.nan if value is None else attempt(float, value, failed=math.nan)
        return self.invalid if math.isnan(number) else min(max(number, self.low), self.high)

    def describe(self) -> dict[str, object]:
        """Return the public settings as plain JSON data."""
        return {name: getattr(self, name) for name in ("mechanism", "epsilon", "private", "low", "high", "invalid")}

    def __repr__(self) -> str:
        warning = "" if self.private else "NOT PRIVATE, "
        return f"{type(self).__name__}({warning}epsilon={self.epsilon!r}, bound={(self.low, self.high)!r})"


class LocalRandomizer(Clamped):
    """The epsilon-LDP reply of one user: clamp, then Laplace noise from OpenDP, unseeded.

    Args:
        epsilon: price of one reply, >= 1e-8.
        bound: the public interval: a number b > 0 for [-b, b], the paper's b = B + R; or (low, high).
        invalid: public stand-in for a value that is not a number (NaN, None, text); default ``low``. Where small values
            are good, give ``high``: by default what fails counts as the best.
    """

    mechanism = "CTL"

    def __init__(self, epsilon: float, bound: float | Ends, *, invalid: float | None = None) -> None:
        super().__init__(between("epsilon", epsilon, SMALLEST_EPSILON, sys.float_info.max), bound, invalid=invalid)
        if not (sys.float_info.min <= self.scale <= LARGEST_SCALE):
            raise InputError(
                f"bound={_shown(bound)} at epsilon={epsilon!r} needs noise too small or too large for floating point."
            )
        self._noise: Callable[[float], float] = make_laplace(
            atom_domain(T=float, nan=False), absolute_distance(T=float), scale=1.0, k=-40
        )

    @property
    def scale(self) -> float:
        """Return L, the Laplace scale in units of the value; rounding included."""
        return (self.high - self.low) * (1 + SLACK) / (self.epsilon - GRID)

    def randomize(self, value: SupportsFloat | None) -> float:
        """Return the public reply to a private value. Never raises because of the value."""
        return self._noise(self.standardised(value)) * self.scale + self.middle

    def standardised(self, value: SupportsFloat | None) -> float:
        """Return z before it is rounded to the grid, private."""
        return (self.clamp(value) - self.middle) / self.scale


class InsecureRandomizer(LocalRandomizer):
    """NOT PRIVATE. The same clamp with reproducible floating-point noise, for tests and figures only."""

    private = False

    def __init__(
        self, epsilon: float, bound: float | Ends, *, insecure_seed: int, invalid: float | None = None
    ) -> None:
        super().__init__(epsilon, bound, invalid=invalid)
        generator = random.Random(insecure_seed)
        self._noise = lambda z: z + generator.expovariate(1.0) - generator.expovariate(1.0)


def _ends(bound: float | Ends) -> Ends:
    half = real(bound)
    ends = (real(bound[0]), real(bound[1])) if isinstance(bound, tuple) and len(bound) == 2 else (half and -half, half)
    low, high = (math.nan if end is None else end for end in ends)
    if not (sys.float_info.min <= high - low < math.inf):
        raise InputError(
            f"bound must be a number b > 0, for [-b, b], or a pair (low, high) of finite numbers; got {_shown(bound)}. "
            f"The distance from low to high must be at least {sys.float_info.min:g}. "
            "Choose it from the meaning of the value, not from anybody's data."
        )
    return low, high


def _shown(bound: object) -> str:
    if isinstance(bound, tuple) and len(bound) == 2:
        return f"({shown(bound[0])}, {shown(bound[1])})"
    return shown(bound)
