"""The last release of a run: one estimate of what it recommends, and of how much better that is than the default.

Guarantee: ``plan.final_mu``-GDP under replacing one person, by the Gaussian mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dptune.errors import InputError, KeyConflict
from dptune.ledger.ledger import Charge
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.results.estimate import Estimate
from dptune.search.algorithms.method import RunPlan
from dptune.search.replay import DEFAULT, FINAL, as_stored, point_name
from dptune.space import Space, Value

Parameters = Mapping[str, Value]


@dataclass(frozen=True)
class FinalEstimate:
    """The mean clipped loss of a run's recommendation, and the gain over the default, released together.

    ``scopes`` are the run's own, first, and those of the runs that it extends.
    """

    privatizer: LossPrivatizer
    scopes: Sequence[str]
    plan: RunPlan
    space: Space | None
    default: Parameters | None

    @property
    def charge(self) -> Charge | None:
        """What the ledger has of it, or None."""
        return self.privatizer.ledger.find(self.scopes[0], FINAL)

    def recorded(self, parameters: Parameters) -> Estimate | None:
        """Return what was released about these parameters, the recommended ones or the defaults; None: nothing."""
        return self._about(self.charge, parameters)

    def latest(self, parameters: Parameters) -> Estimate | None:
        """Return the same, or else what a run that this one extends has released about them."""
        made = (self.privatizer.ledger.find(scope, FINAL) for scope in self.scopes)
        return next((estimate for charge in made if (estimate := self._about(charge, parameters)) is not None), None)

    def _about(self, made: Charge | None, parameters: Parameters) -> Estimate | None:
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

    def lacks(self, parameters: Parameters) -> bool:
        """Whether no release compares these parameters with the defaults, and the run's own estimate still may."""
        estimate = self.latest(parameters)
        made = self.charge
        if estimate is not None and estimate.improvement is not None:
            return False
        return made is None or (made.value is None and self._compares(made, parameters))

    def _compares(self, made: Charge, parameters: Parameters) -> bool:
        return made.note["default"] is not None and self._searched(made.note["parameters"]) == self._searched(
            parameters
        )

    def worse(self, parameters: Parameters) -> bool:
        """Tell whether the release says that these parameters are worse than the defaults."""
        estimate = self.latest(parameters)
        return estimate is not None and estimate.improvement is not None and estimate.improvement.verdict == "worse"

    def check(self, parameters: Parameters) -> None:
        """Refuse, before a model is trained, an estimate that could not be paid or was made at other parameters."""
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
                f"the run {self.scopes[0]!r} has its one final estimate, at {made.note['parameters']}; nothing was "
                "trained or spent. Estimating there again is free. The run plans no release at other parameters."
            )

    def release_held(self, parameters: Parameters, point: str, default: str) -> None:
        """Release it for losses that are held as ``point`` and ``default``."""
        names = self._names(parameters)
        for name, held in zip(names, (point, default), strict=True):
            self.privatizer.copy(held, name)
        self._release(parameters, names)

    def release(self, parameters: Parameters, losses: Losses | None, default: Losses | None) -> Estimate:
        """Pay for it and release it, as :meth:`dptune.search.run.SearchRun.estimate` says."""
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
        """Names of the points whose losses are released: of the parameters, and of the defaults if they are others."""
        names = [point_name(self.scopes[0], FINAL, parameters)]
        if self.default is not None and as_stored(self.default) != self._searched(parameters):
            names.append(point_name(self.scopes[0], DEFAULT, self.default))
        return names

    def _release(self, parameters: Parameters, names: list[str]) -> None:
        try:
            query = self.privatizer.means_query(names, self.plan.final_mu)
            default = as_stored(self.default) if self.default is not None and len(names) > 1 else None
            note = {"parameters": as_stored(parameters), "default": default}
            self.privatizer.release(query, scope=self.scopes[0], key=FINAL, note=note)
        finally:
            for name in names:
                self.privatizer.forget(name)
