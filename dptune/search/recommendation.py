"""What a run ends with: parameters, how much better they are than the user's defaults, and what to look at twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptune.algorithms.method import SearchAlgorithm
from dptune.errors import InputError
from dptune.search.estimate import Estimate
from dptune.search.value_model import Released, best_of_values, difference_of_values
from dptune.space import Space, Value

EDGE = 0.01  # of a parameter's range, on its own scale


class Recommendation(dict[str, Any]):
    """Recommended parameters: a dictionary, with what is known about them beside it.

    Attributes:
        defaults: the configuration that it is compared with: the user's, or the centre of the search space.
        improvement: estimated mean clipped loss at the defaults less that at the recommendation, with the standard
            deviation of a Gaussian process given all released values; None if nothing comparable was released.
            A function of released values: it costs nothing, and its interval is as good as that model. Releases that
            clip and saturate may understate how much worse bad points are, and so a large improvement.
        at_edge: names of parameters at an end of their range: a wider range might be better.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        defaults: Mapping[str, Any],
        improvement: Estimate | None,
        at_edge: tuple[str, ...] = (),
    ) -> None:
        super().__init__(parameters)
        self.defaults, self.improvement, self.at_edge = dict(defaults), improvement, at_edge

    @property
    def distinguishable(self) -> bool:
        """Whether the 95% interval of the improvement lies above 0."""
        return self.improvement is not None and self.improvement.interval()[0] > 0

    def summary(self) -> str:
        """Return what is known about the recommendation, in a sentence or two."""
        edge = f" At an end of its range, which may be too narrow: {', '.join(self.at_edge)}." if self.at_edge else ""
        if self.improvement is None:
            return f"Nothing was released that compares it with {listed(self.defaults) or 'defaults'}.{edge}"
        low, high = self.improvement.interval()
        than = listed(self.defaults)
        seeded = "" if self.improvement.private else " NOT PRIVATE."
        gain = f"{self.improvement.value:.3g} (95% of the model: {low:.3g} to {high:.3g})"
        if self == self.defaults:
            return f"The search found nothing that it prefers to {than}: stay there.{seeded}"
        if not self.distinguishable:
            return (
                f"By a model of all released values not distinguishable from {than}: improvement {gain}.{edge}{seeded}"
            )
        return (
            f"By a model of all released values better in the mean by {gain} than with {than}; clipped and "
            f"saturated releases may understate large gains, a final estimate does not.{edge}{seeded}"
        )


def of_algorithm(
    algorithm: SearchAlgorithm,
    space: Space,
    found: Mapping[str, Value],
    default: Mapping[str, Value] | None,
    values: Sequence[Released],
    *,
    private: bool,
) -> Recommendation:
    """Return what an algorithm ends with, compared with the defaults by all answers, or without any by the values.

    Args:
        found: what the run ends with.
        default: the user's default configuration; None: the centre of the space.
        values: released values of trials.
        private: whether all noise was unseeded.
    """
    defaults = default or space.centre()
    x, y = space.encode(defaults), space.encode(found)
    gain = algorithm.difference(x, y) or difference_of_values(space, values, x, y)
    improvement = None if gain is None else Estimate(*gain, private)
    return Recommendation(found, defaults=defaults, improvement=improvement, at_edge=at_edge(space, found))


def among_values(values: Sequence[Released], default: Mapping[str, Value] | None, *, private: bool) -> Recommendation:
    """Return the trial that is best by a model of all released values, where another searcher proposed the trials.

    Raises:
        InputError: there is no value.
    """
    best = best_of_values(values, default)
    if best is None:
        raise InputError("no value was released yet; there is nothing to recommend.")
    found, gain = best
    improvement = None if gain is None else Estimate(*gain, private)
    return Recommendation(found, defaults=default or {}, improvement=improvement)


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
