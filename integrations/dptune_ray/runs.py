"""What a vault is to run, as plain public settings that may be pickled and written to disk."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import dptune
from dptune import centred
from dptune.defaults import plan_for
from dptune.space import Value

TrialRun = dptune.GIBOSession | dptune.CentredCMASession | dptune.ValueRun
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

    def propose(self, run: Any, number: int) -> Mapping[str, Value]:
        """Return what a trial should try, {} if that is another searcher's choice.

        Args:
            run: what :meth:`begin` returned.
            number: of the trial, 0, 1, ... in the order in which the vault was asked.
        """
        ...


@dataclass(frozen=True)
class SpaceRun(abc.ABC):
    """A run that searches ``space``; the other attributes are as in :class:`dptune_ray.space_search.SpaceSearch`."""

    scope: str
    space: dptune.Space
    mode: str = "min"
    mu: float | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    _session: ClassVar[Callable[..., Any]]  # the run's class

    @abc.abstractmethod
    def plan(self, privatizer: dptune.LossPrivatizer, mu: float, seed: int) -> Any:
        """Return the plan for a budget and a seed.

        Raises:
            InputError: a setting is out of range.
        """

    @abc.abstractmethod
    def propose(self, run: Any, number: int) -> Mapping[str, Value]:
        """Return what a trial should try."""

    def begin(self, privatizer: dptune.LossPrivatizer) -> Any:
        """Begin the run, or continue it from the ledger."""
        agree_on_mode(privatizer.ledger, self.scope, self.mode)
        return self._session(
            privatizer,
            scope=self.scope,
            space=self.space,
            make_plan=lambda mu, seed: self.plan(privatizer, mu, seed),
            mu=self.mu,
            seed=self.seed,
        )


class GIBORun(SpaceRun):
    """DP-GIBO."""

    _session = dptune.GIBOSession

    def plan(self, privatizer: dptune.LossPrivatizer, mu: float, seed: int) -> dptune.GIBOPlan:
        """Return the plan for a budget and a seed."""
        return plan_for(privatizer, self.space, mu=mu, seed=seed, **self.settings)

    def propose(self, run: dptune.GIBOSession, number: int) -> Mapping[str, Value]:
        """Return the next point around the newest iterate."""
        return run.ask()


class CentredCMARun(SpaceRun):
    """CMA-ES on centred releases."""

    _session = dptune.CentredCMASession

    def plan(self, privatizer: dptune.LossPrivatizer, mu: float, seed: int) -> dptune.CentredCMAPlan:
        """Return the plan for a budget and a seed."""
        return centred.plan_for(privatizer, self.space, mu=mu, seed=seed, **self.settings)

    def propose(self, run: dptune.CentredCMASession, number: int) -> Mapping[str, Value]:
        """Return the present generation's proposal of that number, as in Optuna."""
        return run.ask(number)


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

    def propose(self, run: dptune.ValueRun, number: int) -> Mapping[str, Value]:
        """Leave it to the other searcher."""
        return {}


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
