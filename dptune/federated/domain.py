"""Where the agents of a federation may evaluate, from the parameters of a search space."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dptune.algorithms.fts import Cube, Domain, Points
from dptune.algorithms.fts_settings import FTSSettings
from dptune.space import Float, Int, Space

_MOST_CELLS = 4096  # a space of so few combinations is searched point by point


def domain_of(space: Space, settings: FTSSettings) -> Domain:
    """Return every combination of a small discrete space, else the cube."""
    cells = [parameter.cells for parameter in space.values()]
    known = [count for count in cells if count is not None]
    if len(known) < len(cells) or math.prod(known) > _MOST_CELLS:
        return Cube(settings)
    axes = [[parameter.encode(value) for value in _values(parameter)] for parameter in space.values()]
    return Points(np.array(list(itertools.product(*axes))))


def _values(parameter: Float | Int) -> list[float]:
    if isinstance(parameter, Int):
        return list(range(parameter.low, parameter.high + 1, parameter.step))
    step = parameter.step or 0.0
    return [min(parameter.low + j * step, parameter.high) for j in range(parameter.cells or 0)]
