"""Where the agents of a federation may evaluate, from the parameters of a search space."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dptune.federated.agent import Cube, Points
from dptune.federated.settings import FTSSettings
from dptune.search.gp.points import FloatArray
from dptune.space import Space

_MOST_CELLS = 4096  # a space with at most this many combinations is searched point by point


class RoundedCube(Cube):
    """The cube of a space in which at least one parameter is rounded."""

    def __init__(self, settings: FTSSettings, space: Space) -> None:
        super().__init__(settings)
        self._space = space

    def snap(self, x: FloatArray) -> FloatArray:
        """The point (d,) at which the rounded parameters lie."""
        return self._space.encode(self._space.decode(x))


def domain_of(space: Space, settings: FTSSettings) -> Points:
    """Return every combination of a small discrete space, else the cube, rounded where the space is."""
    cells = [parameter.cells for parameter in space.numbers.values()]
    counts = [count for count in cells if count is not None]
    if not counts:
        return Cube(settings)
    if len(counts) < len(cells) or math.prod(counts) > _MOST_CELLS:
        return RoundedCube(settings, space)
    axes = [
        [p.encode(min(p.low + j * (p.step or 0), p.high)) for j in range(count)]
        for p, count in zip(space.numbers.values(), counts, strict=True)
    ]
    return Points(np.array(list(itertools.product(*axes))))
