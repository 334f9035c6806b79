"""A user's request for a search, which every front end turns into a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from dptune._checks import at_least, check, check_fields, positive
from dptune.errors import InputError
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results import check_start, risk_in_words, share_in_words, usual_share
from dptune.search.agreement import refuse_outside, stored_plan, stored_space
from dptune.search.algorithms.method import Method, PeopleFacts, PublicFacts, RunPlan
from dptune.search.outlook import SHOWS, Z_95, Noise, in_words, noises, warning
from dptune.search.run import SearchRun
from dptune.space import Float, Space

_ANY = Space({"x": Float(0, 1)})  # checks settings while the user's space is unknown
LARGEST_SEED = 2**32 - 1  # limit of every generator's seed


@dataclass(frozen=True)
class SearchRequest:
    """The user's settings with which every front end begins a run.

    Attributes:
        mu: GDP budget of the run; None for the budget that is neither spent nor planned when it begins.
        seed: seed of the algorithm; None to draw one when the run begins.
        settings: settings of the method's planner, such as ``trials``.
        default: the user's default configuration; it must have every searched parameter, within its range.
        front_end: name of the function that the user called, for messages.
        space: the user's space, on which settings are checked; None if it is not known yet.
    """

    method: Method
    privatizer: LossPrivatizer
    mu: float | None = field(default=None, metadata=check(positive))
    seed: int | None = field(default=None, metadata=check(at_least, 0, LARGEST_SEED))
    settings: Mapping[str, Any] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None
    front_end: str = "the search"
    space: Space | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.privatizer, LossPrivatizer):
            raise InputError(f"{self.front_end} needs a LossPrivatizer; got {type(self.privatizer).__name__}.")
        if self.default is not None and not isinstance(self.default, Mapping):
            raise InputError(f"default must be a dict, of names and values; got {type(self.default).__name__}.")
        self.method.refuse_unknown([name for name in self.settings if name != "trials"], front_end=self.front_end)
        check_fields(self)
        self.plan(self.space or _ANY)

    @property
    def ledger(self) -> PrivacyLedger:
        return self.privatizer.ledger

    def plan(self, space: Space | None) -> RunPlan:
        """Return the plan of a run that would begin now."""
        share = usual_share(self.ledger, self.mu)
        own_default = self.default or {}
        default = (
            None if space is None or space.validation_error(own_default) else self._default_in(space)
        )  # else refused later
        people: PeopleFacts = self.privatizer
        if not self.privatizer.knows_clip:  # the loss sets it later; shares and trials do not depend on it
            people = PublicFacts(self.privatizer.n, 1.0, share)
        return self.method.plan(people, space, mu=share, seed=self.seed or 0, default=default, **self.settings)

    def trials(self, scope: str, space: Space | None) -> int:
        """Return the number of trials of the run, or of one that would begin now."""
        stored = stored_plan(self.ledger, scope)
        return self.plan(space).trials if stored is None else int(stored["trials"])

    def begun(self, scope: str) -> bool:
        """Return whether the ledger has a run of that name."""
        return stored_plan(self.ledger, scope) is not None

    def stored_space(self, scope: str) -> Space | None:
        """Return the space that was fixed when the run began, or None if it has not begun."""
        return stored_space(self.ledger, scope)

    def check_start(self, scope: str) -> None:
        """Refuse, before training, a run that the ledger's remaining budget does not allow."""
        check_start(self.ledger, scope, self.mu, choice_share=0.0)

    def begin(self, scope: str, space: Space | None) -> SearchRun:
        """Begin the run, or resume it from the ledger; raise the errors of :class:`SearchRun`."""
        return SearchRun(
            self.method,
            self.privatizer,
            scope=scope,
            space=space,
            mu=self.mu,
            seed=self.seed,
            default=self._default_in(space),
            **self.settings,
        )

    def _default_in(self, space: Space | None) -> dict[str, Any] | None:
        """Return the searched part of the default configuration."""
        if space is None or self.default is None:
            return None if self.default is None else dict(self.default)
        refuse_outside(self.default, space)
        return {name: self.default[name] for name in space}

    def announcement(self, run: SearchRun) -> str:
        """Return five lines: the run's plan, its spending, what it can show, a person's risk, and how to resume."""
        plan = run.plan
        limits = self.ledger.filter_for(run.scope).limits
        share = share_in_words(self.ledger.budget, limits, plan.mu)
        planned = f"Plan: the run {run.scope!r} makes {plan.trials} trials"
        asked = self.settings.get("trials")
        if asked is None:
            basis = f"{run.space.d} coordinates" if run.space is not None else "n and mu"
            planned += f" (the default for {basis})"
        elif plan.trials < asked:
            planned += f" (not {asked}: rounds have equal size)"
        seeded = "" if self.privatizer.private else f", and is NOT PRIVATE: {self.privatizer!r}"
        noise = noises(plan, self.privatizer, levels=1 if self.default is None else 2)
        spends = f"Spends: {share}{seeded}. {in_words(noise)}"
        stop = "Stop: at any time; what was charged stays charged. Resume with the same ledger and name."
        lines = [f"{planned}.", spends, self._worth(plan, noise), risk_in_words(self.privatizer, limits), stop]
        return "\n".join(line for line in lines if line)

    def _worth(self, plan: RunPlan, planned: Sequence[Noise]) -> str:
        """Return in words which improvement the run can show."""
        if self.default is None or plan.final_mu == 0:
            return "" if self.default is not None else "Shows: no comparison, as default= is not given."
        shows = SHOWS * math.sqrt(2) * planned[-1].sigma  # the difference of two released levels
        return (
            f"Shows: an improvement over the default of {shows:.3g} in 95% of runs, and half of it in "
            f"{100 * NormalDist().cdf(SHOWS / 2 - Z_95):.0f}%."
        )

    def warning(self, run: SearchRun) -> str:
        """Return why public numbers predict a weak run, and what to change; "" if they do not."""
        return warning(noises(run.plan, self.privatizer))
