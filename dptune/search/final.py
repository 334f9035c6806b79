"""The one final estimate of a run: the mean clipped loss of its recommendation, and the gain over the defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dptune.accounting.ledger import Charge
from dptune.algorithms.method import Plan
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search.estimate import Estimate
from dptune.search.names import DEFAULT, FINAL, as_stored, point_name
from dptune.space import Space, Value

Parameters = Mapping[str, Value]


@dataclass(frozen=True)
class FinalEstimate:
    """The last release that a run has planned.

    Attributes:
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        plan: of the run.
        space: its search space; None where another searcher proposes.
        default: the user's default configuration, or None.
    """

    privatizer: LossPrivatizer
    scope: str
    plan: Plan
    space: Space | None
    default: Parameters | None

    @property
    def charge(self) -> Charge | None:
        """What the ledger has of it, or None."""
        return self.privatizer.ledger.find(self.scope, FINAL)

    @property
    def made(self) -> bool:
        """Whether the ledger has it."""
        return self.charge is not None

    def recorded(self, parameters: Parameters) -> Estimate | None:
        """Return what was released about these parameters, the recommended ones or the defaults; None: nothing."""
        made = self.charge
        if made is None or made.value is None:
            return None
        stored = self._searched(parameters)
        if self._searched(made.note["parameters"]) == stored:
            return self._of(made, 0)
        return self._of(made, 1) if len(made.value) > 1 and made.note["default"] == stored else None

    def _searched(self, parameters: Mapping[str, Any]) -> Mapping[str, object]:
        """The searched ones of the parameters, as a ledger keeps them."""
        return as_stored({k: v for k, v in parameters.items() if self.space is None or k in self.space})

    def _of(self, made: Charge, i: int) -> Estimate:
        values, sigma = made.value or (), float(made.description["sigma"])
        improved = i == 0 and len(values) > 1
        gain = Estimate(values[1] - values[0], math.sqrt(2) * sigma, made.private) if improved else None
        return Estimate.of_loss(values[i], sigma, self.privatizer.interval, private=made.private, improvement=gain)

    def worse(self, parameters: Parameters) -> bool:
        """Tell whether the release says that these parameters are worse than the defaults."""
        known = self.recorded(parameters)
        return known is not None and known.improvement is not None and known.improvement.verdict == "worse"

    def check(self, parameters: Parameters) -> None:
        """Refuse, before a model is trained, an estimate that could not be paid or was made elsewhere.

        Raises:
            InputError: the plan has no final estimate, or the parameters are no point of the search space.
            BudgetExhausted: it does not fit.
            KeyConflict: it was made at other parameters.
        """
        if self.plan.final_mu == 0:
            raise InputError("this run was planned with final_share=0; there is no budget for a final estimate.")
        if self.space is not None and (wrong := self.space.wrong_with(parameters)):
            raise InputError(
                f"the run's one final estimate is for a point of its search space, and {wrong}. Ask for it at what "
                "recommend() returns; nothing was trained or spent."
            )
        made = self.charge
        if made is None:
            self.privatizer.ledger.check(self.plan.final_mu)
        elif self._searched(made.note["parameters"]) != self._searched(parameters) and not self.recorded(parameters):
            raise KeyConflict(
                f"the run {self.scope!r} has its one final estimate, at {made.note['parameters']}; nothing was trained "
                "or spent. Ask for it there, as often as you like; the loss at other parameters would be a release "
                "that the run did not plan."
            )

    def of_held(self, parameters: Parameters, point: str, default: str) -> None:
        """Release it for a held point and the held default configuration, if nobody has and the budget allows.

        Args:
            parameters: that the run recommends.
            point: name of their losses with the curator.
            default: name of the losses at the default configuration.
        """
        if self.charge is None and self.plan.final_mu > 0 and self.default is not None:
            names = self._names(parameters)
            for name, held in zip(names, (point, default), strict=True):
                self.privatizer.copy(held, name)
            with suppress(KeyConflict, BudgetExhausted):
                self._release(parameters, names)

    def release(self, parameters: Parameters, losses: Losses | None, default: Losses | None) -> Estimate:
        """Pay for it and release it, as :meth:`dptune.search.run.SearchRun.estimate` says."""
        self.check(parameters)
        known = self.recorded(parameters)
        if known is None:
            names = self._names(parameters)
            for name, vector in zip(names, (losses, default), strict=False):
                if vector is None:
                    self.privatizer.observe_failure(name)
                else:
                    self.privatizer.observe(name, vector)
            self._release(parameters, names)
            known = self.recorded(parameters)
        if known is None:
            raise InputError("the final estimate is paid for, and its value was lost with the process that drew it.")
        return known

    def _names(self, parameters: Parameters) -> list[str]:
        """Names of the points whose losses are released: of the parameters, and of the defaults if they are others."""
        names = [point_name(self.scope, FINAL, parameters)]
        if self.default is not None and as_stored(self.default) != self._searched(parameters):
            names.append(point_name(self.scope, DEFAULT, self.default))
        return names

    def _release(self, parameters: Parameters, names: list[str]) -> None:
        try:
            query = self.privatizer.means_query(names, self.plan.final_mu)
            note = {"parameters": as_stored(parameters), "default": self.default and as_stored(self.default)}
            self.privatizer.release(query, scope=self.scope, key=FINAL, note=note)
        finally:
            for name in names:
                self.privatizer.forget(name)
