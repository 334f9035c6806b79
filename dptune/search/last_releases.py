"""The last two releases of a run: a choice among its evaluated points, and one estimate of what it recommends.

A surrogate smooths, and knows clipped losses only: the point where it is smallest need not be the best one by the
user's mean, nor better than what the user had. The exponential mechanism among the points that the surrogate finds
best, and the default configuration, looks at the mean itself. It costs one release, whose price does not grow with
their number, and no trial.

Several processes: the one whose question ends the run chooses among its own points. A run that ends without a choice,
because its losses were lost or its budget was spent by others, keeps its algorithm's answer. A run that starts from
others has no losses of theirs: it chooses among its own trials, and compares with what they chose.

Guarantee: ``plan.choice_mu``-GDP for the choice under replacing one person (:func:`dptune.privacy.mechanism.noisy_min`)
and ``plan.final_mu``-GDP for the estimate. Which points are candidates, and how likely each is beforehand, depends on
released values and on which points this process has evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dptune.errors import InputError, KeyConflict
from dptune.ledger.ledger import Charge, PrivacyLedger
from dptune.parameters import as_choice
from dptune.privacy.mechanism import noisy_min, odds_for
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search.algorithms.method import Plan
from dptune.search.answer import Estimate
from dptune.search.fold import CHOICE, DEFAULT, FINAL, as_stored, hand_in, point_name
from dptune.space import Space, Value

Parameters = Mapping[str, Value]


def choose(
    privatizer: LossPrivatizer,
    scope: str,
    plan: Plan,
    held: Mapping[str, Parameters],
    mean: Callable[[Parameters], float],
    default: str | None,
) -> bool:
    """Choose; return False if there are fewer than two points to choose from, and nothing is paid.

    Args:
        held: points with the curator, by name.
        mean: what all answers say about a point, to rank by.
        default: name of the held point that is the user's default configuration, if there is one.

    Raises:
        KeyConflict: another process has chosen.
        BudgetExhausted: other runs have spent the budget.
    """
    others = sorted((point for point in held if point != default), key=lambda point: mean(held[point]))
    among = plan.choice_among
    candidates = others[: among or None] + ([] if default is None else [default])
    if len(candidates) < 2:
        return False
    keeps = among and default is not None
    prior = odds_for(len(candidates) - 1, len(candidates)) if keeps else [1.0] * len(candidates)
    note = {"points": candidates, "parameters": [as_stored(held[point]) for point in candidates], "prior": prior}
    _release_choice(privatizer, scope, plan, note)
    return True


def candidates_of(choice: Charge) -> dict[str, dict[str, Any]]:
    """Return the parameters of a paid choice's candidates, by the names of their points."""
    named = zip(choice.note["points"], choice.note["parameters"], strict=True)
    return {point: {k: as_choice(v) for k, v in parameters.items()} for point, parameters in named}


def choose_again(
    privatizer: LossPrivatizer, scope: str, plan: Plan, choice: Charge, held: Mapping[str, str | None]
) -> None:
    """Answer a choice that is paid and whose draw was lost with its process before anybody saw it.

    The question, and so its price, is the one that was paid: the same candidates, trained again.

    Args:
        held: the name under which this process holds a candidate's losses, by the name in the question; None: its
            evaluation failed.

    Raises:
        KeyConflict: it was asked with other settings of the privatizer.
    """
    for name, point in held.items():
        if point is None:
            privatizer.observe_failure(name)
        else:
            privatizer.copy(point, name)
    try:
        _release_choice(privatizer, scope, plan, choice.note)
    finally:
        for name in [name for name, point in held.items() if point != name]:
            privatizer.forget(name)


def _release_choice(privatizer: LossPrivatizer, scope: str, plan: Plan, note: Mapping[str, Any]) -> None:
    query = privatizer.means_query(note["points"], plan.choice_mu)
    mechanism = partial(noisy_min, prior=note["prior"])
    privatizer.release(query, scope=scope, key=CHOICE, note=note, mechanism=mechanism)


def chosen(ledger: PrivacyLedger, scopes: Iterable[str]) -> list[dict[str, Any]]:
    """Return the parameters that were chosen in these runs, whoever chose."""
    made = (ledger.find(scope, CHOICE) for scope in scopes)
    found = [charge for charge in made if charge is not None]
    return [list(candidates_of(charge).values())[int(charge.value[0])] for charge in found if charge.value is not None]


@dataclass(frozen=True)
class FinalEstimate:
    """The mean clipped loss of a run's recommendation, and the gain over the default, released together.

    ``scopes`` are the run's own, first, and those of the runs that it extends.
    """

    privatizer: LossPrivatizer
    scopes: Sequence[str]
    plan: Plan
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
        return next((found for charge in made if (found := self._about(charge, parameters)) is not None), None)

    def _about(self, made: Charge | None, parameters: Parameters) -> Estimate | None:
        if made is None or made.value is None:
            return None
        values, sigma, about = made.value, float(made.description["sigma"]), self._searched(parameters)
        of_loss = partial(Estimate.of_loss, sigma=sigma, clip=self.privatizer.interval, private=made.private)
        compared = len(values) > 1
        if self._searched(made.note["parameters"]) == about:
            cut, both = self.privatizer.interval.high, math.sqrt(2) * sigma
            gain = Estimate(values[1] - values[0], both, made.private, cut=cut) if compared else None
            return of_loss(values[0], improvement=gain)
        return of_loss(values[1]) if compared and made.note["default"] == about else None

    def _searched(self, parameters: Mapping[str, Any]) -> Mapping[str, object]:
        return as_stored({k: v for k, v in parameters.items() if self.space is None or k in self.space})

    def lacks(self, parameters: Parameters) -> bool:
        """Whether no release compares these parameters with the defaults, and the run's own estimate still may."""
        known, made = self.latest(parameters), self.charge
        if known is not None and known.improvement is not None:
            return False
        return made is None or (made.value is None and self._compares(made, parameters))

    def _compares(self, made: Charge, parameters: Parameters) -> bool:
        return made.note["default"] is not None and self._searched(made.note["parameters"]) == self._searched(
            parameters
        )

    def worse(self, parameters: Parameters) -> bool:
        """Tell whether the release says that these parameters are worse than the defaults."""
        known = self.latest(parameters)
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
                f"the run {self.scopes[0]!r} has its one final estimate, at {made.note['parameters']}; nothing was "
                "trained or spent. Ask for it there, as often as you like; the loss at other parameters would be a "
                "release that the run did not plan."
            )

    def of_held(self, parameters: Parameters, point: str, default: str) -> None:
        """Release it for losses that are held as ``point`` and ``default``.

        Raises:
            KeyConflict: another process has asked for something else.
            BudgetExhausted: other runs have spent the budget.
        """
        names = self._names(parameters)
        for name, held in zip(names, (point, default), strict=True):
            self.privatizer.copy(held, name)
        self._release(parameters, names)

    def release(self, parameters: Parameters, losses: Losses | None, default: Losses | None) -> Estimate:
        """Pay for it and release it, as :meth:`dptune.search.run.SearchRun.estimate` says."""
        self.check(parameters)
        known = self.recorded(parameters)
        if known is None:
            names = self._names(parameters)[: 1 if default is None else 2]
            for name, vector in zip(names, (losses, default), strict=False):
                hand_in(self.privatizer, name, vector)
            self._release(parameters, names)
            known = self.recorded(parameters)
        if known is None:
            raise InputError("the final estimate is paid for, and its value was lost with the process that drew it.")
        return known

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
