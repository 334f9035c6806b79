"""The one final estimate of a run: the mean clipped loss of its recommendation, and the gain over the defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dptune.algorithms.method import Plan
from dptune.errors import InputError, KeyConflict
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search.estimate import Estimate
from dptune.search.names import DEFAULT, FINAL, as_stored, point_name
from dptune.space import Space, Value


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
    default: Mapping[str, Value] | None

    @property
    def made(self) -> bool:
        """Whether the ledger has it."""
        return self.privatizer.ledger.find(self.scope, FINAL) is not None

    def check(self, parameters: Mapping[str, Value]) -> None:
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
        ledger = self.privatizer.ledger
        made = ledger.find(self.scope, FINAL)
        if made is None:
            ledger.check(self.plan.final_mu)
        elif made.note["parameters"] != as_stored(parameters):
            raise KeyConflict(
                f"the run {self.scope!r} has its one final estimate, at {made.note['parameters']}; nothing was trained "
                "or spent. Ask for it there, as often as you like; the loss at other parameters would be a release "
                "that the run did not plan."
            )

    def release(self, parameters: Mapping[str, Value], losses: Losses | None, default: Losses | None) -> Estimate:
        """Pay for it and release it, as :meth:`dptune.search.run.SearchRun.estimate` says."""
        self.check(parameters)
        handed_in = {point_name(self.scope, FINAL, parameters): losses}
        if self.default is not None:
            handed_in[point_name(self.scope, DEFAULT, self.default)] = default
        points = list(handed_in)
        try:
            for point, vector in handed_in.items():
                if vector is None:
                    self.privatizer.observe_failure(point)
                else:
                    self.privatizer.observe(point, vector)
            query = self.privatizer.means_query(points, self.plan.final_mu)
            note = {"parameters": as_stored(parameters), "default": self.default and as_stored(self.default)}
            released = self.privatizer.release(query, scope=self.scope, key=FINAL, note=note)
        finally:
            for point in points:
                self.privatizer.forget(point)
        private = released.charge.private
        loss, *other = released.value.tolist()
        gain = Estimate(other[0] - loss, math.sqrt(2) * released.sigma, private) if other else None
        return Estimate.of_loss(loss, released.sigma, self.privatizer.interval, private=private, improvement=gain)
