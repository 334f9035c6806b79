"""What scikit-learn users search: lists, scipy.stats distributions and grids, as a dptune space or as candidates."""

from __future__ import annotations

import difflib
import itertools
import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rv_discrete
from sklearn.base import clone
from sklearn.model_selection import ParameterSampler

from dptune._checks import shown
from dptune.errors import InputError
from dptune.space import Categorical, Float, Int, Space, Value
from dptune_sklearn.digest import of_parameters

Distributions = Mapping[str, Any] | Sequence[Mapping[str, Any]]
TAIL = 1e-3  # of a distribution without a range of its own, left out at each end
USUAL_TRIALS = 100
_LOG = ("loguniform", "reciprocal")
_REFUSALS = (ValueError, AttributeError, TypeError)  # of set_params; AttributeError: a step that is "passthrough"
WHICH = "which space"  # the category that says in which of several spaces a point lies


@dataclass(frozen=True)
class Coordinate:
    """One searched parameter."""

    parameter: Float | Int | Categorical
    user: Callable[[Any], Any]  # a value of the space -> what the estimator is given
    ours: Callable[[Any], Any]  # what an estimator was given -> a value of the space; raises if it is none
    nearest: Callable[[Any], Any]  # a number -> the nearest one that the estimator could be given; raises if it is none


class UserSpace:
    """A search space in the user's terms, for searches that propose points; a point lies in one of several spaces.

    Lists of numbers are searched in their order, by position; other lists as categories; ``uniform``, ``loguniform``
    and ``randint`` over their range; any other distribution by its quantiles.
    """

    def __init__(self, distributions: Distributions) -> None:
        self._spaces = _listed(distributions)
        self._searched: dict[str, Coordinate] = {}
        when: dict[str, Any] = {}
        for i, space in enumerate(self._spaces):
            coordinates = {self._name(i, name): _coordinate(name, values) for name, values in space.items()}
            self._searched |= {name: each for name, each in coordinates.items() if isinstance(each, Coordinate)}
            when |= {name: {WHICH: [i]} for name in coordinates if name in self._searched and len(self._spaces) > 1}
        if len(self._spaces) > 1:
            self._searched[WHICH] = _of_categories(list(range(len(self._spaces))))
        if not self._searched:
            raise InputError("param_distributions has no parameter with more than one value: nothing to search.")
        self.space = Space({name: each.parameter for name, each in self._searched.items()}, when=when)

    def _name(self, i: int, name: str) -> str:
        return name if len(self._spaces) == 1 else f"{i}/{name}"

    def user(self, point: Mapping[str, Value]) -> dict[str, Any]:
        """Return what the estimator is given at a point of the space."""
        chosen = point.get(WHICH)
        which = chosen if isinstance(chosen, int) else 0
        fixed = {name: values[0] for name, values in self._spaces[which].items() if _is_one(values)}
        names = {self._name(which, name): name for name in self._spaces[which]}
        return fixed | {names[ours]: self._searched[ours].user(value) for ours, value in point.items() if ours in names}

    def ours(self, parameters: Mapping[str, Any]) -> dict[str, Value] | None:
        """Return the point of an estimator's own parameters; None if they are no point of the space."""
        return next((point for i in range(len(self._spaces)) if (point := self._ours(i, parameters))), None)

    @property
    def finite(self) -> bool:
        """Whether the space is a grid, of which every point may be tried several times."""
        return not any(hasattr(values, "rvs") for space in self._spaces for values in space.values())

    def nearest(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Value] | None, list[str]]:
        """Return the nearest point to an estimator's own parameters, and the names of numbers that lie outside.

        None if a searched parameter is no number and none of the values, or where spaces are several.
        """
        if (point := self.ours(parameters)) is not None or len(self._spaces) > 1:
            return point, []
        outside = self.outside(parameters)
        try:
            moved = {name: self._searched[name].nearest(parameters[name]) for name in outside}
        except (KeyError, TypeError, ValueError):
            return None, []
        return self.ours({**parameters, **moved}), outside

    def outside(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return which of an estimator's own parameters are searched and lie outside; none where spaces are several."""
        if len(self._spaces) > 1:
            return []
        return [name for name in self._searched if not self._holds(name, parameters.get(name))]

    def _holds(self, name: str, value: Any) -> bool:
        try:
            return Space({name: self.space[name]}).contains({name: self._searched[name].ours(value)})
        except (TypeError, ValueError, InputError):
            return False

    def _ours(self, i: int, parameters: Mapping[str, Any]) -> dict[str, Value] | None:
        several = len(self._spaces) > 1
        space = self._spaces[i]
        fixed = {name: values[0] for name, values in space.items() if _is_one(values)}
        if several and any(repr(parameters.get(name)) != repr(value) for name, value in fixed.items()):
            return None
        searched = {ours: name for name in space if (ours := self._name(i, name)) in self._searched}
        try:
            point = {ours: self._searched[ours].ours(parameters[name]) for ours, name in searched.items()}
        except (KeyError, TypeError, ValueError, InputError):
            return None
        point |= {WHICH: i} if several else {}
        return point if self.space.contains(point) else None


def refuse_unknown(distributions: Distributions, estimator: Any) -> None:
    """Refuse an empty search, and by its name a parameter that the estimator has in none of a space's models."""
    for space in _listed(distributions):
        parts = {name: nested for name, values in space.items() if (nested := _estimators(values))}
        models = [clone(estimator)]
        for chosen in itertools.product(*parts.values()):
            with suppress(*_REFUSALS):  # a part that none of them has is told below
                models.append(clone(estimator).set_params(**dict(zip(parts, map(clone, chosen), strict=True))))
        for name, values in space.items():
            if not any(_takes(model, name, values) for model in models):
                parameters = {parameter for model in models for parameter in model.get_params(deep=True)}
                near = difflib.get_close_matches(name, parameters, n=1)
                meant = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(parameters))}."
                raise InputError(
                    f"param_distributions has {name!r}, which this {type(estimator).__name__} has not. {meant} Nothing "
                    "was trained or spent."
                )


def _listed(distributions: Distributions) -> list[Mapping[str, Any]]:
    spaces = [distributions] if isinstance(distributions, Mapping) else distributions
    listed = list(spaces) if isinstance(spaces, Sequence) and not isinstance(spaces, str) else []
    if not any(listed) or not all(isinstance(space, Mapping) for space in listed):
        raise InputError(
            'param_distributions must be a dict as {"C": loguniform(1e-3, 1e3)}, or a list of such dicts, with at '
            f"least one parameter; got {shown(distributions)}. Nothing was trained or spent."
        )
    return listed


def _takes(model: Any, name: str, setting: Any) -> bool:
    """Tell whether a model takes a parameter: some, as skorch's, take more than they list."""
    values = [setting.rvs(random_state=0)] if hasattr(setting, "rvs") else setting if np.iterable(setting) else []
    try:
        clone(model).set_params(**{name: next(iter(values), None)})
    except _REFUSALS:
        return False
    return True


def _estimators(domain: Any) -> list[Any]:
    return (
        [value for value in domain if hasattr(value, "get_params")] if isinstance(domain, Sequence | np.ndarray) else []
    )


def candidates(
    distributions: Distributions, n_trials: int | None, seed: int, *, first: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return what a selection chooses among: the whole grid where all are lists, else random draws without repetition.

    At most ``n_trials``; by default the whole grid, or 100 draws. ``first`` is one of them, in front of the others.
    """
    if first is not None and not isinstance(first, Mapping):
        raise InputError(f"default must be a dict, of names and values; got {type(first).__name__}.")
    spaces = _listed(distributions)
    for name, values in (each for space in spaces for each in space.items()):
        if not hasattr(values, "rvs") and not len(values):
            raise InputError(f"param_distributions[{name!r}] is empty: give it a value to try, or leave it out.")
    lists = all(not hasattr(values, "rvs") for space in spaces for values in space.values())
    grid = sum(math.prod(len(values) for values in space.values()) for space in spaces) if lists else USUAL_TRIALS
    most = min(n_trials or grid, grid) if lists else n_trials or USUAL_TRIALS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of a grid that is searched whole
        sampled = list(ParameterSampler(distributions, most, random_state=seed))
    if first is None:
        return sampled
    others = [point for point in sampled if of_parameters(point) != of_parameters(first)]
    return [dict(first), *others][: n_trials or max(most, len(others) + lists)]


def _coordinate(name: str, domain: Any) -> Coordinate | None:
    """The coordinate of a parameter; None of a list with one value."""
    if hasattr(domain, "ppf") and hasattr(domain, "support"):
        return _of_distribution(domain)
    if isinstance(domain, Sequence | np.ndarray) and not isinstance(domain, str) and len(domain) > 0:
        values = list(domain)
        ordered = all(isinstance(v, numbers.Real) and not isinstance(v, bool | np.bool_) for v in values)
        return None if _is_one(domain) else _of_numbers(values) if ordered else _of_categories(values)
    raise InputError(
        f"param_distributions[{name!r}] must be a list of values or a frozen scipy.stats distribution; got "
        f"{shown(domain)}."
    )


def _is_one(domain: Any) -> bool:
    return not hasattr(domain, "ppf") and len(domain) == 1


def _of_numbers(values: list[Any]) -> Coordinate:
    ordered = sorted(set(values))

    def nearest(value: Any) -> Any:
        number = _number(value)
        return min(ordered, key=lambda each: abs(each - number))

    return Coordinate(Int(0, len(ordered) - 1), lambda place: ordered[place], ordered.index, nearest)


def _of_categories(values: list[Any]) -> Coordinate:
    """Text and the like by itself, anything else by its place in the list."""
    plain = all(isinstance(value, str | int | float | bool | None) for value in values)
    named = Categorical(values if plain else range(len(values)))

    def ours(value: Any) -> Any:
        return value if plain else [repr(each) for each in values].index(repr(value))

    return Coordinate(named, lambda choice: values[int(np.argmax(named.encode(choice)))], ours, _number)


def _of_distribution(frozen: Any) -> Coordinate:
    low, high = frozen.support()
    distribution = getattr(frozen, "dist", frozen)  # rv_discrete(values=...) and rv_histogram(...) are not frozen
    kind = distribution.name

    def nearest(value: Any) -> Any:
        return min(max(_number(value), low), high)

    if kind == "randint":
        return Coordinate(Int(int(low), int(high)), int, int, nearest)
    if kind == "uniform" or (kind in _LOG and low > 0 and _unshifted(frozen)):
        return Coordinate(Float(float(low), float(high), log=kind in _LOG), float, float, nearest)
    tails = Float(TAIL if math.isinf(low) else 0.0, 1 - TAIL if math.isinf(high) else 1.0)
    if not isinstance(distribution, rv_discrete):
        return Coordinate(tails, lambda q: frozen.ppf(q).item(), lambda value: float(frozen.cdf(value)), nearest)

    def value_at(q: float) -> int | float:
        """Return the quantile, a whole number where it is one; of q = 0 scipy says one less than the lowest."""
        value = max(frozen.ppf(q).item(), float(low))
        return int(value) if value.is_integer() else value

    def middle(value: Any) -> float:
        chance = float(frozen.pmf(value))
        if chance <= 0:
            raise ValueError("none of the distribution's values")
        return min(max(float(frozen.cdf(value)) - chance / 2, tails.low), tails.high)

    return Coordinate(tails, value_at, middle, nearest)


def _number(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError("not a number")
    return float(value)


def _unshifted(frozen: Any) -> bool:
    """Tell whether a log-uniform distribution is even in the logarithm: its median is the middle there."""
    low, high = frozen.support()
    return math.isclose(frozen.median(), math.sqrt(low * high))
