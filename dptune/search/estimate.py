"""A released number for people to read, with its noise and an interval; and the one final estimate that a run makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtri

from dptune.accounting.ledger import Charge
from dptune.algorithms.method import Plan
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.privacy.query import Interval
from dptune.search.names import DEFAULT, FINAL, as_stored, point_name
from dptune.space import Space, Value

AT_THE_CLIP = (
    ", which reaches the upper clip: what a NaN counts as, and the loss of a label that the model has not seen, as of "
    "'1' for 1"
)


@dataclass(frozen=True)
class Estimate:
    """A released mean clipped loss and its privacy noise.

    Attributes:
        value: released mean clipped loss, in units of the loss.
        sigma: standard deviation of the privacy noise, same units.
        private: False if the noise was seeded.
        improvement: the user's defaults' loss less this one, released together with it, which no model has a part in;
            None without defaults.
        at_clip: whether the 95% interval reaches the upper clip, and not the lower half of its range.
    """

    value: float
    sigma: float
    private: bool
    improvement: Estimate | None = None
    at_clip: bool = False

    @classmethod
    def of_loss(
        cls, value: float, sigma: float, clip: Interval, *, private: bool, improvement: Estimate | None = None
    ) -> Estimate:
        """Return the estimate of a mean loss clipped to ``clip``."""
        found = cls(value, sigma, private, improvement)
        low, high = found.interval()
        return replace(found, at_clip=high >= clip.high and low > (clip.low + clip.high) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only, not how far these people are from a population.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        half = float(-ndtri((1 - confidence) / 2)) * self.sigma
        return self.value - half, self.value + half

    @property
    def verdict(self) -> str:
        """What the 95% interval of an improvement says: "better", "worse" or "not distinguishable"."""
        low, high = self.interval()
        return "better" if low > 0 else "worse" if high < 0 else "not distinguishable"

    def compared(self, defaults: str) -> str:
        """Return in words what an improvement over ``defaults`` says; these words stand wherever one is shown."""
        low, high = self.interval()
        than = f"{self.verdict} {'from' if self.verdict.startswith('not') else 'than'} {defaults}"
        seeded = "" if self.private else " NOT PRIVATE"
        return (
            f"{than}: improvement {self.value:.4g} (95%: {low:.4g} to {high:.4g}), by one release and no model{seeded}"
        )

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        at_clip = AT_THE_CLIP if self.at_clip else ""
        text = f"{self.value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}{at_clip}){seeded}"
        return text if self.improvement is None else f"{text}, {self.improvement.compared('the defaults')}"


@dataclass(frozen=True)
class FinalEstimate:
    """The last release a run has planned: its recommendation's mean clipped loss, and the gain over the default.

    ``scopes`` are the run's own, first, and those of the runs that it extends.
    """

    privatizer: LossPrivatizer
    scopes: Sequence[str]
    plan: Plan
    space: Space | None
    default: Mapping[str, Value] | None

    @property
    def scope(self) -> str:
        """The run's own."""
        return self.scopes[0]

    @property
    def charge(self) -> Charge | None:
        """What the ledger has of it, or None."""
        return self.privatizer.ledger.find(self.scope, FINAL)

    def recorded(self, parameters: Mapping[str, Value]) -> Estimate | None:
        """Return what was released about these parameters, the recommended ones or the defaults; None: nothing."""
        return self._about(self.charge, parameters)

    def latest(self, parameters: Mapping[str, Value]) -> Estimate | None:
        """Return the same, or else what a run that this one extends has released about them."""
        ledger = self.privatizer.ledger
        known = (self._about(ledger.find(scope, FINAL), parameters) for scope in self.scopes)
        return next((estimate for estimate in known if estimate is not None), None)

    def _about(self, made: Charge | None, parameters: Mapping[str, Value]) -> Estimate | None:
        if made is None or made.value is None:
            return None
        stored = self._searched(parameters)
        if self._searched(made.note["parameters"]) == stored:
            return self._of(made, 0)
        return self._of(made, 1) if len(made.value) > 1 and made.note["default"] == stored else None

    def _searched(self, parameters: Mapping[str, Any]) -> Mapping[str, object]:
        return as_stored({k: v for k, v in parameters.items() if self.space is None or k in self.space})

    def _of(self, made: Charge, i: int) -> Estimate:
        values, sigma = made.value or (), float(made.description["sigma"])
        improved = i == 0 and len(values) > 1
        gain = Estimate(values[1] - values[0], math.sqrt(2) * sigma, made.private) if improved else None
        return Estimate.of_loss(values[i], sigma, self.privatizer.interval, private=made.private, improvement=gain)

    def worse(self, parameters: Mapping[str, Value]) -> bool:
        """Tell whether the release says that these parameters are worse than the defaults."""
        known = self.latest(parameters)
        return known is not None and known.improvement is not None and known.improvement.verdict == "worse"

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
        made = self.charge
        if made is None:
            self.privatizer.ledger.check(self.plan.final_mu)
        elif self._searched(made.note["parameters"]) != self._searched(parameters) and not self.recorded(parameters):
            raise KeyConflict(
                f"the run {self.scope!r} has its one final estimate, at {made.note['parameters']}; nothing was trained "
                "or spent. Ask for it there, as often as you like; the loss at other parameters would be a release "
                "that the run did not plan."
            )

    def of_held(self, parameters: Mapping[str, Value], point: str, default: str) -> None:
        """Release it for losses that are held, if nobody has and the budget allows.

        Args:
            parameters: that the run recommends.
            point, default: names of their losses and of those at the default configuration, with the curator.
        """
        if self.charge is None and self.plan.final_mu > 0 and self.default is not None:
            names = self._names(parameters)
            for name, held in zip(names, (point, default), strict=True):
                self.privatizer.copy(held, name)
            with suppress(KeyConflict, BudgetExhausted):
                self._release(parameters, names)

    def release(self, parameters: Mapping[str, Value], losses: Losses | None, default: Losses | None) -> Estimate:
        """Pay for it and release it, as :meth:`dptune.search.run.SearchRun.estimate` says."""
        self.check(parameters)
        known = self.recorded(parameters)
        if known is None:
            names = self._names(parameters)[: 1 if default is None else 2]
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

    def _names(self, parameters: Mapping[str, Value]) -> list[str]:
        """Names of the points whose losses are released: of the parameters, and of the defaults if they are others."""
        names = [point_name(self.scope, FINAL, parameters)]
        if self.default is not None and as_stored(self.default) != self._searched(parameters):
            names.append(point_name(self.scope, DEFAULT, self.default))
        return names

    def _release(self, parameters: Mapping[str, Value], names: list[str]) -> None:
        try:
            query = self.privatizer.means_query(names, self.plan.final_mu)
            note = {"parameters": as_stored(parameters), "default": self.default and as_stored(self.default)}
            self.privatizer.release(query, scope=self.scope, key=FINAL, note=note)
        finally:
            for name in names:
                self.privatizer.forget(name)
