"""What the released values of trials say together: a Gaussian process through them instead of the smallest noisy one.

Every released value carries noise of known size, and the smallest of many is small mostly by its noise. The posterior
mean uses the neighbours of a trial, too. A function of released values and public parameters: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune.gp.grouped import Group, GroupedRegression
from dptune.space import Space

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Released = tuple[Mapping[str, Any], float, float]  # parameters, value, standard deviation of its noise
FEWEST = 4  # values, below which there is nothing to fit
MEMORY = 250  # values that the model uses: the newest
MANY_SCALES = 100.0  # a positive parameter that spans more than this factor is seen on a log scale


def difference_of_values(
    space: Space, released: Sequence[Released], x: Vector, y: Vector
) -> tuple[float, float] | None:
    """Return what released values say about the mean loss at x (d,) less that at y, and its standard deviation."""
    inside = [one for one in released if space.contains(one[0])]
    if len(inside) < FEWEST:
        return None
    points = np.array([space.encode(parameters) for parameters, _, _ in inside])
    return _fitted(points, inside).difference(x, y)


def best_of_values(
    released: Sequence[Released], default: Mapping[str, Any] | None = None
) -> tuple[Mapping[str, Any], tuple[float, float] | None] | None:
    """Return the parameters whose mean loss is probably the smallest, and how much smaller than at ``default``.

    Any parameters, categories and conditions too: they are read off the trials. None if there is no released value.

    Args:
        released: parameters, value and noise of each trial.
        default: a configuration to compare with; the difference has the standard deviation that the model gives it.
    """
    newest = list(released[-MEMORY:])
    if len(newest) < FEWEST:
        return (min(newest, key=lambda one: one[1])[0], None) if newest else None
    asked = [parameters for parameters, _, _ in newest]
    points = features(asked if default is None else [*asked, default])
    model = _fitted(points[: len(newest)], newest)
    i = int(np.argmin(model.mean(points[: len(newest)])))
    return asked[i], None if default is None else model.difference(points[-1], points[i])


def features(trials: Sequence[Mapping[str, Any]]) -> Matrix:
    """Return trials as points of a unit cube, (m, d): numbers by their range, other choices one coordinate each.

    A parameter that a trial does not have is in the middle.
    """
    columns = []
    for name in sorted({name for trial in trials for name in trial}):
        values = [trial.get(name) for trial in trials]
        columns += _numbers(values) if _are_numbers(values) else _choices(values)
    return np.array(columns, dtype=np.float64).T.reshape(len(trials), -1)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


def _numbers(values: Sequence[Any]) -> list[Vector]:
    known = np.array([np.nan if value is None else float(value) for value in values])
    low, high = np.nanmin(known), np.nanmax(known)
    if low > 0 and high / low > MANY_SCALES:
        known, low, high = np.log(known), math.log(low), math.log(high)
    return [np.nan_to_num((known - low) / (high - low), nan=0.5)] if high > low else []


def _choices(values: Sequence[Any]) -> list[Vector]:
    kinds = sorted({repr(value) for value in values if value is not None})
    found = [np.array([0.5 if v is None else float(repr(v) == kind) for v in values]) for kind in kinds]
    return found if len(kinds) > 1 else []


def _fitted(points: Matrix, released: Sequence[Released]) -> GroupedRegression:
    values, sigmas = (np.array([one[i] for one in released]) for i in (1, 2))
    model = GroupedRegression(points.shape[1], memory=MEMORY)
    model.fit([Group(points[-MEMORY:], values[-MEMORY:], float(np.max(sigmas)))])
    return model
