"""The points that agents of a federation may evaluate, from the parameters of a search space."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np

from dptune.federated.agent import Domain, cube
from dptune.federated.settings import FTSSettings
from dptune.search.gp.points import FloatArray
from dptune.space import Space

_MOST_CELLS = 4096  # a space with at most this many combinations is searched point by point


def domain_of(space: Space, settings: FTSSettings) -> Domain:
    """Return every combination of a small discrete space, else the cube, rounded in discrete coordinates."""
    cells = [parameter.cells for parameter in space.values()]
    counts = [count for count in cells if count is not None]
    if not counts:
        return cube(settings)
    if len(counts) < len(cells) or math.prod(counts) > _MOST_CELLS:
        return cube(settings, partial(_rounded, space))
    axes = [
        [p.encode(min(p.low + j * (p.step or 0), p.high)) for j in range(count)]
        for p, count in zip(space.values(), counts, strict=True)
    ]
    return Domain(np.array(list(itertools.product(*axes))))


def _rounded(space: Space, x: FloatArray) -> FloatArray:
    return space.encode(space.decode(x))
