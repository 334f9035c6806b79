"""How a released gradient moves the iterate. A step is a pure function of the released gradients so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dptune._checks import check, check_fields, positive
from dptune.algorithms.rounds import Matrix, Vector

_NOTHING = 1e-150  # a size below it has lost its squares to underflow: no step


class StepRule(Protocol):
    """Turns the gradients released so far into the next displacement."""

    @property
    def eta(self) -> float:
        """Step size, in units of the unit cube for the adaptive rules."""
        ...

    def step(self, gradients: Matrix) -> Vector:
        """Return the displacement (d,) after the last of the gradients (t, d), t >= 1."""
        ...


@dataclass(frozen=True)
class _StepSize:
    eta: float = field(metadata=check(positive))

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class GradientDescent(_StepSize):
    """-eta g_t: line 8 of GIBO's Algorithm 1."""

    def step(self, gradients: Matrix) -> Vector:
        """Return the displacement (d,)."""
        return np.asarray(-self.eta * gradients[-1])


@dataclass(frozen=True)
class AdaGrad(_StepSize):
    """-eta g_t / sqrt(sum_s g_s^2), coordinate by coordinate (Duchi, Hazan, Singer 2011)."""

    def step(self, gradients: Matrix) -> Vector:
        """Return the displacement (d,)."""
        size = np.sqrt(np.sum(gradients**2, axis=0))
        return np.asarray(-self.eta * gradients[-1] / np.maximum(size, _NOTHING))


@dataclass(frozen=True)
class AdaGradNorm(_StepSize):
    """-eta sqrt(d) g_t / sqrt(sum_s |g_s|^2): one adaptive step size for all coordinates.

    (Ward, Wu, Bottou 2020.) A coordinate whose gradient is mostly noise moves little, where
    :class:`AdaGrad` would move it as far as the others.
    """

    def step(self, gradients: Matrix) -> Vector:
        """Return the displacement (d,)."""
        size = math.sqrt(max(float(np.sum(gradients**2)), np.finfo(float).tiny))
        return np.asarray(-self.eta * math.sqrt(gradients.shape[1]) * gradients[-1] / size)
