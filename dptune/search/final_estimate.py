"""The last release of a run: the loss of its recommendation, and the improvement over the default.

Guarantee: ``plan.final_mu``-GDP under replacing one person, by the Gaussian mechanism.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dptune._checks import kind
from dptune.errors import InputError, KeyConflict
from dptune.ledger.ledger import Charge
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.results import Estimate
from dptune.search.algorithms.method import RunPlan
from dptune.space import Space, Value

Parameters = Mapping[str, Value]
FINAL = "final"  # key of the estimate, and name of the point that is recommended
DEFAULT = "default"  # name of the point of the default configuration


@dataclass(frozen=True)
class FinalEstimate:
    """The mean clipped loss of a run's recommendation, and the gain over the default, released together."""

    privatizer: LossPrivatizer
    scope: str
    plan: RunPlan
    space: Space | None
    default: Parameters | None

    @property
    def charge(self) -> Charge | None:
        """Return the estimate's charge in the ledger, or None."""
        return self.privatizer.ledger.find(self.scope, FINAL)

    def recorded(self, parameters: Parameters) -> Estimate | None:
        """Return the release about these parameters, the recommended ones or the defaults, or None."""
        made = self.charge
        if made is None or made.value is None:
            return None
        values = made.value
        sigma = float(made.description["sigma"])
        searched = self._searched(parameters)
        of_loss = partial(Estimate.of_loss, sigma=sigma, clip=self.privatizer.interval, private=made.private)
        compared = len(values) > 1
        if self._searched(made.note["parameters"]) == searched:
            cut = self.privatizer.interval.high
            both = math.sqrt(2) * sigma
            gain = Estimate(values[1] - values[0], both, made.private, cut=cut) if compared else None
            return of_loss(values[0], improvement=gain)
        return of_loss(values[1]) if compared and made.note["default"] == searched else None

    def _searched(self, parameters: Mapping[str, Any]) -> Mapping[str, object]:
        return as_stored({k: v for k, v in parameters.items() if self.space is None or k in self.space})

    def worse(self, parameters: Parameters) -> bool:
        """Return whether these parameters are worse than the defaults according to the release."""
        estimate = self.recorded(parameters)
        return estimate is not None and estimate.improvement is not None and estimate.improvement.verdict == "worse"

    def lacking(self) -> tuple[str, str]:
        """Return why recommendation and default were not released together, and what to do."""
        if not self.default:
            return "the run has no default=", "give the next run default=, the configuration that you use today."
        if self.plan.final_mu == 0:
            return "final_share=0 reserves no budget for it", "leave final_share= out in the next run."
        if self.charge is not None:
            made = "the run has made its one final estimate at other parameters, or without the default"
            return made, "begin another run to compare the two."
        remedy = "call estimate() with this recommendation. It releases both losses."
        return "the final estimate is not made yet", remedy

    def check(self, parameters: Parameters) -> None:
        """Refuse, before training, an estimate that could not be charged or was made at other parameters."""
        if self.plan.final_mu == 0:
            raise InputError("this run was planned with final_share=0; there is no budget for a final estimate.")
        if self.space is not None and (wrong := self.space.validation_error(parameters)):
            raise InputError(
                f"the run's one final estimate is for a point of its search space: {wrong}. Give what recommend() "
                "returns. Nothing was trained or spent."
            )
        made = self.charge
        if made is None:
            self.privatizer.ledger.check(self.plan.final_mu)
        elif self._searched(made.note["parameters"]) != self._searched(parameters) and not self.recorded(parameters):
            raise KeyConflict(
                f"the run {self.scope!r} has its one final estimate, at {made.note['parameters']}; nothing was "
                "trained or spent. Estimating there again is free. The run plans no release at other parameters."
            )

    def release(self, parameters: Parameters, losses: Losses | None, default: Losses | None) -> Estimate:
        """Charge and release the estimate for :meth:`dptune.search.run.SearchRun.estimate`."""
        self.check(parameters)
        recorded = self.recorded(parameters)
        if recorded is None:
            names = self._names(parameters)[: 1 if default is None else 2]
            for name, vector in zip(names, (losses, default), strict=False):
                self.privatizer.submit(name, vector)
            self._release(parameters, names)
            recorded = self.recorded(parameters)
        if recorded is None:
            raise InputError("the final estimate was charged, but its value was lost with the process that drew it.")
        return recorded

    def _names(self, parameters: Parameters) -> list[str]:
        """Return the names of the released points: the parameters, and the defaults if they differ."""
        names = [point_name(self.scope, FINAL, parameters)]
        if self.default is not None and as_stored(self.default) != self._searched(parameters):
            names.append(point_name(self.scope, DEFAULT, self.default))
        return names

    def _release(self, parameters: Parameters, names: list[str]) -> None:
        try:
            query = self.privatizer.means_query(names, self.plan.final_mu)
            default = as_stored(self.default) if self.default is not None and len(names) > 1 else None
            note = {"parameters": as_stored(parameters), "default": default}
            self.privatizer.release(query, scope=self.scope, key=FINAL, note=note)
        finally:
            for name in names:
                self.privatizer.forget(name)


def refuse_name(trial: str) -> None:
    """Refuse a trial that has the name of a point of the final estimate."""
    if trial in (FINAL, DEFAULT):
        raise InputError(f"{trial!r} names a point of a run's final estimate; give the trial another name.")


def point_name(scope: str, trial: str, parameters: Mapping[str, Value]) -> str:
    """Return a name for the trial's losses that no other run and no other parameters share."""
    if not isinstance(parameters, Mapping):  # a frame of private rows would be stored with the charge
        raise InputError(f"parameters must be a dict of names and values; got {kind(parameters)}. Nothing was charged.")
    where = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()[:12]
    return json.dumps([scope, trial, where])


def as_stored(parameters: Mapping[str, Value]) -> Mapping[str, object]:
    """Return parameters as JSON data for a ledger."""
    kept: dict[str, object] = json.loads(json.dumps(dict(parameters), default=str), parse_constant=str)
    return kept
