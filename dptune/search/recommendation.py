"""What a run ends with: parameters, how much better they are than the user's defaults, and what to look at twice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dptune.algorithms.rounds import Matrix, Rounds, Vector
from dptune.errors import InputError
from dptune.gp.grouped import Group, GroupedRegression
from dptune.search.estimate import Estimate
from dptune.space import Space, Value

EDGE = 0.01  # of a parameter's range, on its own scale
Released = tuple[Mapping[str, Any], float, float]  # parameters, value, standard deviation of its noise
FEWEST = 4  # values, below which there is nothing to fit
MEMORY = 250  # values that the model uses: the newest
MANY_SCALES = 100.0  # a positive parameter that spans more than this factor is seen on a log scale


class Recommendation(dict[str, Any]):
    """Recommended parameters: a dictionary, with what is known about them beside it.

    Attributes:
        defaults: the configuration that it is compared with: the user's, or the centre of the search space.
        improvement: mean clipped loss at the defaults less that at the recommendation, as the run's final estimate
            released it; None as long as there is none, or no ``default=``. Its 95% interval covers the noise.
        hint: what a Gaussian process given all released values expects the improvement to be, for displays. Releases
            are clipped, and it knows nothing of what clipping took away: no evidence, and never called "better".
        at_edge: names of parameters at an end of their range: a wider range might be better.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        defaults: Mapping[str, Any],
        improvement: Estimate | None = None,
        hint: Estimate | None = None,
        at_edge: tuple[str, ...] = (),
    ) -> None:
        super().__init__(parameters)
        self.defaults, self.improvement, self.hint, self.at_edge = dict(defaults), improvement, hint, at_edge

    def told_as(self, parameters: Mapping[str, Any], defaults: Mapping[str, Any]) -> Recommendation:
        """Return the same with parameters and defaults as a front end's user writes them."""
        return Recommendation(
            parameters, defaults=defaults, improvement=self.improvement, hint=self.hint, at_edge=self.at_edge
        )

    @property
    def distinguishable(self) -> bool:
        """Whether it was released that it is better: the interval lies above 0. Wrong in at most 2.5% of runs."""
        return self.improvement is not None and self.improvement.verdict == "better"

    def summary(self) -> str:
        """Return what is known about the recommendation, in a sentence or two."""
        edge = f" At an end of its range, which may be too narrow: {', '.join(self.at_edge)}." if self.at_edge else ""
        than = listed(self.defaults) or "the defaults"
        if self == self.defaults and self.hint is not None:
            seeded = "" if self.hint.private else " NOT PRIVATE."
            return f"The search found nothing that it prefers to {than}: stay there.{seeded}"
        if self.improvement is not None:
            return f"In the mean {self.improvement.compared(than)}.{edge}"
        return f"Whether it is better than {than} was not released; the final estimate does that.{self._hinted()}{edge}"

    def _hinted(self) -> str:
        if self.hint is None:
            return ""
        seeded = "" if self.hint.private else " NOT PRIVATE."
        return f" A model of the clipped releases hints at an improvement of {self.hint.value:.3g}.{seeded}"


def of_algorithm(
    algorithm: Rounds,
    space: Space,
    found: Mapping[str, Value],
    default: Mapping[str, Value] | None,
    values: Sequence[Released],
    *,
    private: bool,
) -> Recommendation:
    """Return what an algorithm ends with, compared with the defaults.

    Args:
        found: what the run ends with.
        default: the user's default configuration; None: the centre of the space.
        values: released values of trials.
        private: whether all noise was unseeded.
    """
    defaults = default or space.centre()
    x, y = space.encode(defaults), space.encode(found)
    gain = algorithm.difference(x, y) or difference_of_values(space, values, x, y)
    hint = None if gain is None else Estimate(*gain, private)
    return Recommendation(found, defaults=defaults, hint=hint, at_edge=at_edge(space, found))


def among_values(values: Sequence[Released], default: Mapping[str, Value] | None, *, private: bool) -> Recommendation:
    """Return the trial that is best by a model of all released values, where another searcher proposed the trials.

    Raises:
        InputError: there is no value.
    """
    best = best_of_values(values, default)
    if best is None:
        raise InputError("no value was released yet; there is nothing to recommend.")
    found, gain = best
    return Recommendation(found, defaults=default or {}, hint=None if gain is None else Estimate(*gain, private))


def listed(parameters: Mapping[str, Any], quote: str = "") -> str:
    """Return parameters for people to read, numbers in four digits."""
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in parameters.items()}
    return ", ".join(f"{name} = {quote}{value}{quote}" for name, value in shown.items())


def at_edge(space: Space, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the numbers at an end of their range; of one with few values, an end is no news."""
    u = space.encode(parameters)  # (d,)
    many = [name for name, p in space.numbers.items() if p.cells is None or p.cells > 1 / EDGE]
    at = {name: float(u[space.columns[name]][0]) for name in many}
    return tuple(name for name, x in at.items() if x < EDGE or x > 1 - EDGE)


# ---- what released values say together ----------------------------------------------------------------------------
# Every released value carries noise of known size, and the smallest of many is small mostly by its noise. The posterior
# mean of a Gaussian process uses the neighbours of a trial, too. It is a function of released values: it costs nothing.


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
