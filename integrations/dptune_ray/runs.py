"""What a vault is to run, as plain public settings that may be pickled and written to disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dptune

MODE = "mode"


@dataclass(frozen=True)
class RunSettings:
    """Which run a vault serves.

    Attributes:
        method: what searches; :data:`dptune.search.values.VALUES` where another searcher proposes.
        scope: the run's name in the ledger.
        space: search space; None where another searcher proposes.
        mode: "min": the function returns losses; "max": it returns scores.
        mu, seed, settings: as for :class:`dptune.SearchRun`.
    """

    method: dptune.Method
    scope: str
    space: dptune.Space | None
    mode: str = "min"
    mu: float | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, privatizer: dptune.LossPrivatizer, mu: float, seed: int) -> dptune.Plan:
        """Return the plan for a budget and a seed.

        Raises:
            InputError: a setting is out of range.
        """
        return self.method.plan(privatizer, self.space, mu=mu, seed=seed, **self.settings)

    def begin(self, privatizer: dptune.LossPrivatizer) -> dptune.SearchRun:
        """Begin the run, or continue it from the ledger."""
        agree_on_mode(privatizer.ledger, self.scope, self.mode)
        return dptune.SearchRun(
            self.method, privatizer, scope=self.scope, space=self.space, mu=self.mu, seed=self.seed, **self.settings
        )


def agree_on_mode(ledger: dptune.PrivacyLedger, scope: str, mode: str) -> None:
    """Fix the run's mode in the ledger, or refuse another one than it was begun with.

    Raises:
        BudgetMismatch: the run was begun with the other mode: its values have the other sign.
    """
    if ledger.fix(scope, MODE, mode) != mode:
        raise dptune.BudgetMismatch(f"the run {scope!r} was begun with the other mode; give a new search a new name.")


def mode_of(ledger: dptune.PrivacyLedger, scope: str) -> str:
    """Return the mode the run was begun with; "min" if it has not begun."""
    return str(ledger.fact(scope, MODE) or "min")


def reflected(interval: dptune.Interval, value: Any) -> Any:
    """Turn scores into losses of the same clipping range, and back: the best score is the smallest loss."""
    return interval.low + interval.high - value
