"""The search space of a define-by-run objective, as far as its trials have shown it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

import dptune
from dptune.parameters import key_of
from dptune.space import Value
from dptune_optuna.distributions import to_space

MOST_VALUES = 32  # of a parameter that others may depend on


class Discovery:
    """Parameters, and the conditions under which trials suggested them.

    A parameter that some trials did not suggest depends on the first parameter, in the order of suggestion, that tells
    the trials with it from those without: it is active for the values that were seen with it. Where no parameter tells
    them apart, nobody knows when it is active. What is guessed wrongly is drawn at random once, and known then.

    Args:
        space: what is known already.
        trials: that have ended.
    """

    def __init__(self, space: dptune.Space, trials: Iterable[FrozenTrial] = ()) -> None:
        self._parameters = dict(space)
        self._order: dict[str, None] = {}  # names in the order of suggestion
        self._seen: dict[frozenset[tuple[str, str]], Mapping[str, Any]] = {}
        for trial in trials:
            self.add(trial.params, trial.distributions)

    def add(self, parameters: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]) -> None:
        """Take note of what a trial suggested."""
        found = to_space(distributions, choices=True)
        for name in parameters:
            if found is not None and name in found:
                self._parameters.setdefault(name, found[name])
                self._order.setdefault(name)
        told = {name: value for name, value in parameters.items() if name in self._parameters}
        kind = {(name, key_of(value) if self._may_decide(name) else "") for name, value in told.items()}
        self._seen.setdefault(frozenset(kind), told)

    def space(self) -> dptune.Space:
        """Return the space as the trials have shown it."""
        when = {name: self._condition(name) for name in self._parameters if not self._always(name)}
        return dptune.Space(self._parameters, when=when)

    def _always(self, name: str) -> bool:
        return all(name in trial for trial in self._seen.values())

    def _may_decide(self, name: str) -> bool:
        cells = self._parameters[name].cells
        return cells is not None and cells <= MOST_VALUES

    def _condition(self, name: str) -> dict[str, list[Value]] | None:
        with_it = [trial for trial in self._seen.values() if name in trial]
        without = [trial for trial in self._seen.values() if name not in trial]
        for other in self._order:
            if other == name:
                break
            if not self._may_decide(other) or any(other not in trial for trial in with_it):
                continue
            values = {key_of(trial[other]): trial[other] for trial in with_it}
            if not any(other in trial and key_of(trial[other]) in values for trial in without):
                return {other: list(values.values())}
        return None
