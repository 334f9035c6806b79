"""What a vault is to run, as plain public settings that may be pickled and written to disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import dptune
from dptune.defaults import plan_for

TrialRun = dptune.GIBOSession | dptune.ValueRun
MODE = "mode"


class RunSettings(Protocol):
    """Which run a vault serves."""

    @property
    def scope(self) -> str:
        """The run's name in the ledger."""
        ...

    @property
    def mode(self) -> str:
        """ "min": the function returns losses; "max": it returns scores."""
        ...

    def begin(self, privatizer: dptune.LossPrivatizer) -> TrialRun:
        """Begin the run, or continue it from the ledger."""
        ...


@dataclass(frozen=True)
class GIBORun:
    """DP-GIBO on ``space``; the other attributes are as in :class:`dptune_ray.DPGIBOSearch`."""

    scope: str
    space: dptune.Space
    mode: str = "min"
    mu: float | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, privatizer: dptune.LossPrivatizer, mu: float, seed: int) -> dptune.GIBOPlan:
        """Return the plan for a budget and a seed."""
        return plan_for(privatizer, self.space, mu=mu, seed=seed, **self.settings)

    def begin(self, privatizer: dptune.LossPrivatizer) -> dptune.GIBOSession:
        """Begin the run, or continue it from the ledger."""
        agree_on_mode(privatizer.ledger, self.scope, self.mode)
        return dptune.GIBOSession(
            privatizer,
            scope=self.scope,
            space=self.space,
            make_plan=lambda mu, seed: self.plan(privatizer, mu, seed),
            mu=self.mu,
            seed=self.seed,
        )


@dataclass(frozen=True)
class ValuesRun:
    """Released values for any searcher; the attributes are as in :class:`dptune_ray.PrivateSearch`."""

    scope: str
    trials: int
    mode: str = "min"
    mu: float | None = None
    final_share: float = 0.05

    def begin(self, privatizer: dptune.LossPrivatizer) -> dptune.ValueRun:
        """Begin the run, or continue it from the ledger."""
        agree_on_mode(privatizer.ledger, self.scope, self.mode)
        return dptune.ValueRun(
            privatizer, scope=self.scope, trials=self.trials, mu=self.mu, final_share=self.final_share
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
