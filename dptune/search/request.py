"""A search as its user asks for it, on the way to its run: what every front end needs."""

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
from dptune.results.budget import risk_in_words, share_in_words
from dptune.results.start import check_start, usual_share
from dptune.search.agreement import refuse_outside, stored_plan, stored_space
from dptune.search.algorithms.method import Method, PeopleFacts, PublicFacts, RunPlan
from dptune.search.outlook import SHOWS, Z_95, Noise, in_words, noises, warning
from dptune.search.run import SearchRun
from dptune.space import Float, Space

_ANY = Space({"x": Float(0, 1)})  # where the user's space is not known yet, settings are checked on this one
LARGEST_SEED = 2**32 - 1  # of every generator a seed is given to


@dataclass(frozen=True)
class SearchRequest:
    """What every front end needs of a user to begin a run.

    Attributes:
        mu: GDP budget of the run; None: what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; None: drawn when the run begins.
        settings: of the method's planner, ``trials`` among them.
        default: the user's default configuration; it must have every searched parameter, within its range.
        front_end: what the user called, for messages.
        space: on which settings are checked at once; None: the user's is not known yet.
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
        """The ledger that pays."""
        return self.privatizer.ledger

    def plan(self, space: Space | None) -> RunPlan:
        """Return the plan of a run that would begin now."""
        share = usual_share(self.ledger, self.mu)
        own_default = self.default or {}
        default = (
            None if space is None or space.validation_error(own_default) else self._default_in(space)
        )  # else refused later
        people: PeopleFacts = self.privatizer
        if not self.privatizer.knows_clip:  # the loss says it later; shares and trials do not depend on it
            people = PublicFacts(self.privatizer.n, 1.0, share)
        return self.method.plan(people, space, mu=share, seed=self.seed or 0, default=default, **self.settings)

    def trials(self, scope: str, space: Space | None) -> int:
        """Return the number of trials of the run, or of one that would begin now."""
        stored = stored_plan(self.ledger, scope)
        return self.plan(space).trials if stored is None else int(stored["trials"])

    def begun(self, scope: str) -> bool:
        """Tell whether the ledger has a run of that name."""
        return stored_plan(self.ledger, scope) is not None

    def stored_space(self, scope: str) -> Space | None:
        """Return the space that was fixed when the run began, or None if it has not begun."""
        return stored_space(self.ledger, scope)

    def check_start(self, scope: str) -> None:
        """Refuse, before a model is trained, a run that could not begin: the ledger has not ``mu`` left, or nothing."""
        check_start(self.ledger, scope, self.mu, choice_share=0.0)

    def begin(self, scope: str, space: Space | None) -> SearchRun:
        """Begin the run, or continue it from the ledger; raises as :class:`SearchRun`."""
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
        """The searched part of the default configuration."""
        if space is None or self.default is None:
            return None if self.default is None else dict(self.default)
        refuse_outside(self.default, space)
        return {name: self.default[name] for name in space}

    def announcement(self, run: SearchRun) -> str:
        """Return five lines: what the run will do, what it spends and shows, what a person risks, how to resume it."""
        plan = run.plan
        share = share_in_words(self.ledger.budget, self.ledger.filter_for(run.scope).limits, plan.mu)
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
        lines = [f"{planned}.", spends, self._worth(plan, noise), risk_in_words(self.privatizer), stop]
        return "\n".join(line for line in lines if line)

    def _worth(self, plan: RunPlan, planned: Sequence[Noise]) -> str:
        """Say which improvement the run can show."""
        if self.default is None or plan.final_mu == 0:
            return "" if self.default is not None else "Shows: no comparison, as default= is not given."
        shows = SHOWS * math.sqrt(2) * planned[-1].sigma  # the difference of two released levels
        return (
            f"Shows: an improvement over the default of {shows:.3g} in 95% of runs, and half of it in "
            f"{100 * NormalDist().cdf(SHOWS / 2 - Z_95):.0f}%."
        )

    def warning(self, run: SearchRun) -> str:
        """Return why the run will learn little, from public numbers, and what to change; "" if it need not."""
        return warning(noises(run.plan, self.privatizer))
