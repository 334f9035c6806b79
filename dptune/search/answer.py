"""A run's recommendation, and the estimates of a model of all released values about it.

The model is a function of released values: it costs no budget and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune._checks import plain
from dptune.results import SEEDED, Estimate, improvement_in_words, next_step, parameters_in_words
from dptune.search.gp.grouped import Group, GroupedRegression
from dptune.space import Space

ReleasedValue = tuple[Mapping[str, Any], float, float]  # parameters, value, standard deviation of its noise
EDGE = 0.01  # share of a parameter's range, on its own scale
FEWEST = 4  # least number of values for a fit
MEMORY = 250  # number of newest values that the model uses
MANY_SCALES = 100.0  # a positive parameter whose range exceeds this factor is fitted on a log scale


@dataclass(frozen=True)
class RunFacts:
    """The public facts about a run for a summary.

    Attributes:
        made: the number of completed and planned trials, in words.
        people: number of private people.
        loss: the recommended parameters' released mean loss; None without one.
        left: a line on the rest of the ledger's budget.
        resume: how to resume an incomplete run in the user's front end.
        lost: a sentence on charged answers that were lost with their process; "" without one.
    """

    made: str
    people: int
    loss: Estimate | None
    left: str
    resume: str = ""
    lost: str = ""


class Recommendation(dict[str, Any]):
    """Recommended parameters: a dictionary with attributes about them.

    Attributes:
        defaults: the configuration that it is compared with: the user's, or the centre of the search space.
        improvement: mean clipped loss at the defaults minus that at the recommendation, from the run's final estimate.
            None before that, or without ``default=``. Its 95% interval covers the noise.
        hint: a Gaussian process's expected improvement given all released values, for displays. It ignores the effect
            of clipping, so it proves nothing, and is never called "better".
        at_edge: names of parameters at an end of their range: a wider range might be better.
        reason: why there is no improvement, in a sentence; "" if there is one.
        remedy: how to get an improvement.
        missing: remaining releases of the run and how to resume it; "" if it is complete.
        kept: whether the search has an answer, and it is the default configuration.
        run: the summary's facts about the run, or None.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        defaults: Mapping[str, Any],
        improvement: Estimate | None = None,
        hint: Estimate | None = None,
        at_edge: tuple[str, ...] = (),
        reason: str = "",
        remedy: str = "",
        missing: str = "",
        kept: bool = False,
        run: RunFacts | None = None,
    ) -> None:
        super().__init__(parameters)
        self.defaults = dict(defaults)
        self.improvement = improvement
        self.hint = hint
        self.at_edge = at_edge
        self.reason, self.remedy, self.missing, self.kept, self.run = reason, remedy, missing, kept, run

    def renamed(self, parameters: Mapping[str, Any], defaults: Mapping[str, Any], **changes: Any) -> Recommendation:
        """Return a copy with a front end's parameters and defaults, and other facts."""
        mine = {name: value for name, value in vars(self).items() if name != "defaults"}
        return Recommendation(parameters, defaults=defaults, **{**mine, **changes})

    def resumed(self, how: str) -> Recommendation:
        """Return a copy that states how to resume an incomplete run."""
        return self.renamed(self, self.defaults, run=None if self.run is None else replace(self.run, resume=how))

    @property
    def distinguishable(self) -> bool:
        """Return whether the released interval lies above 0, so that the recommendation is better.

        For the mean of these people's clipped losses, this is wrong in at most 2.5% of runs.
        """
        return self.improvement is not None and self.improvement.verdict == "better"

    def summary(self) -> str:
        """Return the verdict, the parameters, the private loss, lost answers, the budget left and the next step."""
        details = (self.hint, self.improvement, None if self.run is None else self.run.loss)
        seeded = any(one is not None and not one.private for one in details)
        lines = [SEEDED if seeded else "", self._verdict(), self._chosen()]
        if self.run is not None:
            loss = "not released" if self.run.loss is None else str(replace(self.run.loss, improvement=None))
            lines += [f"Private loss: {loss}. Public rows predicted none: this search asks private people throughout."]
            lines += [self.run.lost, self.run.left]
        return "\n".join(line for line in [*lines, self._next_step()] if line)

    def _verdict(self) -> str:
        than = parameters_in_words(self.defaults) or "the defaults"
        if self.kept:
            return f"Keep {than}: the search prefers no other configuration."
        if self.improvement is not None:
            return improvement_in_words(self.improvement, than)
        hint = "" if self.hint is None else f" A model of the released values expects {self.hint.value:.3g} less loss."
        return f"No comparison with {than} was released{self.reason and f': {self.reason}'}.{hint}"

    def _chosen(self) -> str:
        after = "" if self.run is None else f", after {self.run.made}"
        edge = f" At an end of its range, which may be too narrow: {', '.join(self.at_edge)}." if self.at_edge else ""
        return f"{'So far' if self.missing else 'Chosen'}: {parameters_in_words(self)}{after}.{edge}"

    def _next_step(self) -> str:
        if self.missing:
            return f"Next: {self.missing} {self.run.resume if self.run else ''}".rstrip()
        if self.kept:
            return "Next: keep what you have, and publish the statement."
        if self.improvement is not None:
            return next_step(self.improvement.verdict, None if self.run is None else self.run.people)
        return self.remedy and f"Next: {self.remedy}"


def at_edge(space: Space, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the numbers at an end of their range, without those with few values."""
    u = space.encode(parameters)  # (d,)
    ends = {name for name, x in zip(space, u, strict=True) if not EDGE <= x <= 1 - EDGE}
    return tuple(name for name, p in space.items() if name in ends and (p.cells is None or p.cells > 1 / EDGE))


# ---- a model of all released values ---------------------------------------------------------------------------------


def best_of_values(
    released: Sequence[ReleasedValue], default: Mapping[str, Any] | None = None
) -> tuple[Mapping[str, Any], tuple[float, float] | None] | None:
    """Return the trial whose mean loss is probably the smallest, and how much smaller it is than at ``default``.

    The smallest of many noisy values is small mostly by its noise; the posterior mean of a Gaussian process uses the
    neighbours of a trial, too. Any parameters, categories as well: they are read off the trials. The
    difference has the standard deviation that the model gives it. None if there is no released value.
    """
    newest = list(released[-MEMORY:])
    if len(newest) < FEWEST:
        return (min(newest, key=lambda one: one[1])[0], None) if newest else None
    asked = [parameters for parameters, _, _ in newest]
    points = features(asked if default is None else [*asked, default])
    model = _fitted(points[: len(newest)], newest)
    i = int(np.argmin(model.mean(points[: len(newest)])))
    return asked[i], None if default is None else model.difference(points[-1], points[i])


def difference_of_values(
    space: Space, released: Sequence[ReleasedValue], x: Vector, y: Vector
) -> tuple[float, float] | None:
    """Return the mean loss at x (d,) minus that at y, and its standard deviation; None with too few values."""
    inside = [one for one in released if space.contains(one[0])]
    if len(inside) < FEWEST:
        return None
    points = np.array([space.encode(parameters) for parameters, _, _ in inside])
    return _fitted(points, inside).difference(x, y)


def _fitted(points: Matrix, released: Sequence[ReleasedValue]) -> GroupedRegression:
    values, sigmas = (np.array([one[i] for one in released]) for i in (1, 2))
    model = GroupedRegression(points.shape[1], memory=MEMORY)
    model.fit([Group(points[-MEMORY:], values[-MEMORY:], float(np.max(sigmas)))])
    return model


def features(trials: Sequence[Mapping[str, Any]]) -> Matrix:
    """Return trials as points of a unit cube, (m, d): numbers by their range, other choices one coordinate each.

    A parameter that a trial does not have is in the middle.
    """
    columns = []
    for name in sorted({name for trial in trials for name in trial}):
        values = [plain(trial.get(name)) for trial in trials]
        known = [value for value in values if value is not None]
        numbers = bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
        columns += _numbers(values) if numbers else _choices(values)
    return np.array(columns, dtype=np.float64).T.reshape(len(trials), -1)


def _numbers(values: Sequence[Any]) -> list[Vector]:
    numbers = np.array([np.nan if value is None else float(value) for value in values])
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    if low > 0 and high / low > MANY_SCALES:
        numbers, low, high = np.log(numbers), math.log(low), math.log(high)
    return [np.nan_to_num((numbers - low) / (high - low), nan=0.5)] if high > low else []


def _choices(values: Sequence[Any]) -> list[Vector]:
    kinds = sorted({repr(value) for value in values if value is not None})
    columns = [np.array([0.5 if v is None else float(repr(v) == kind) for v in values]) for kind in kinds]
    return columns if len(kinds) > 1 else []
