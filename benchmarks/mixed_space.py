"""Spaces of the benchmarks' tasks: numbers, categories and conditions; the library's own spaces have numbers only.

A number is one coordinate of the unit cube. A category has a coordinate for each choice: 1 for the one chosen, 0 for
the others. A parameter that is not *active*, because a condition on another one does not hold, lies at the centre.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dptune
from benchmarks.data import Array
from dptune import Float, Int

Conditions = Mapping[str, Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Categorical:
    """One of a few choices that have no order."""

    choices: Sequence[Any]

    def decode(self, u: Array) -> Any:
        """The choice whose coordinate is largest, u (choices,)."""
        return self.choices[int(np.argmax(u))]

    def encode(self, value: Any) -> Array:
        """The coordinates of a choice, (choices,)."""
        return np.array([float(value == choice) for choice in self.choices])


Parameter = Float | Int | Categorical


class Space(Mapping[str, Parameter]):
    """Named parameters, in the order of their names; ``when``: name -> {another parameter: its values}."""

    def __init__(self, parameters: Mapping[str, Parameter], *, when: Conditions | None = None) -> None:
        self._parameters = dict(sorted(parameters.items()))
        self.when = when or {}
        widths = [len(p.choices) if isinstance(p, Categorical) else 1 for p in self.values()]
        ends = np.cumsum([0, *widths]).tolist()
        self.d = int(ends[-1])
        self.columns = {name: slice(*ends[j : j + 2]) for j, name in enumerate(self)}
        self._inactive = np.array([1 / width if width > 1 else 0.5 for width in widths for _ in range(width)])

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    @property
    def numbers(self) -> dptune.Space | None:
        """The same space for the package's searches; None if it has categories or conditions."""
        numbers = {name: p for name, p in self.items() if not isinstance(p, Categorical)}
        return dptune.Space(numbers) if len(numbers) == len(self) and not self.when else None

    def centre(self) -> dict[str, Any]:
        """Of every number the middle, of every category the first choice."""
        return self.decode(self._inactive)

    def decode(self, u: Array) -> dict[str, Any]:
        """The active parameters at u (d,), which is cut to the cube."""
        inside = np.clip(u, 0.0, 1.0)
        parts = {name: inside[self.columns[name]] for name in self}
        values = {
            name: p.decode(parts[name]) if isinstance(p, Categorical) else p.decode(float(parts[name][0]))
            for name, p in self.items()
        }
        return {name: value for name, value in values.items() if self.active(name, values)}

    def encode(self, parameters: Mapping[str, Any]) -> Array:
        """The point (d,) in the cube."""
        u = self._inactive.copy()
        for name in (name for name in self if self.active(name, parameters)):
            p, value = self[name], parameters[name]
            at = p.encode(value) if isinstance(p, Categorical) else p.encode(min(max(value, p.low), p.high))
            u[self.columns[name]] = np.clip(at, 0.0, 1.0)
        return u

    def active(self, name: str, parameters: Mapping[str, Any]) -> bool:
        """Whether a parameter is active in a configuration."""
        return all(
            self.active(other, parameters) and other in parameters and parameters[other] in values
            for other, values in self.when.get(name, {}).items()
        )

    def contains(self, parameters: Mapping[str, Any]) -> bool:
        """Whether every active parameter is there, with one of its values."""
        return all(
            name in parameters
            and (parameters[name] in p.choices if isinstance(p, Categorical) else p.low <= parameters[name] <= p.high)
            for name, p in self.items()
            if self.active(name, parameters)
        )


def suggest(trial: Any, space: Space) -> dict[str, Any]:
    """The configuration of an Optuna trial; what a parameter depends on stands before it."""
    found, waiting = dict[str, Any](), list(space)
    while waiting:
        name = next(name for name in waiting if not set(space.when.get(name, {})) & set(waiting))
        waiting.remove(name)
        if not space.active(name, found):
            continue
        p = space[name]
        if isinstance(p, Categorical):
            chosen = trial.suggest_categorical(name, [suggested(choice) for choice in p.choices])
            found[name] = next(choice for choice in p.choices if suggested(choice) == chosen)
        else:
            kind = trial.suggest_int if isinstance(p, Int) else trial.suggest_float
            found[name] = kind(name, p.low, p.high, log=p.log)
    return found


def suggested(choice: Any) -> Any:
    """A choice as Optuna stores it."""
    return str(choice) if isinstance(choice, tuple) else choice
