"""CMA-ES on centred releases as a run: the algorithm, the privatizer and the ledger, without any framework.

A run is a scope in the ledger: generation g is two charges, ``share/<g>`` (by which the clipping radius follows) with
its radius as a note, and ``generation/<g>`` (the centred mean) with its points and radius. The state is a fold over
these in the order of g, so a restart, a second process or a copy continues with the same search distribution and
the remaining budget.

Nobody ever waits. A generation is released by the process that holds lambda new points of its own. A trial that
failed counts as each person's mean over the generation's other points plus a public number; one that never returns
is replaced by the next, and only delays its own process's next generation by one trial. Losses live in the memory of
the process that observed them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from dptune.accounting.ledger import Charge, Limit
from dptune.algorithms.centred_cma import CentredCMA, Generation
from dptune.centred_plan import CentredCMAPlan, cell_widths, plan_centred_cma
from dptune.errors import BudgetExhausted, KeyConflict, PlanComplete
from dptune.privacy.privatizer import LossPrivatizer
from dptune.run import Losses
from dptune.search_run import SearchRun
from dptune.space import Space, Value

SHARE, GENERATION = "share/", "generation/"


def plan_for(privatizer: LossPrivatizer, space: Space, *, mu: float, seed: int, **settings: Any) -> CentredCMAPlan:
    """Return a run's plan for the people of ``privatizer``; ``settings`` as in :func:`plan_centred_cma`."""
    options = {"steps": cell_widths(space), **settings}
    return plan_centred_cma(d=len(space), loss_range=privatizer.interval.diameter, mu=mu, seed=seed, **options)


class CentredCMASession(SearchRun[CentredCMA, CentredCMAPlan]):
    """CMA-ES on centred releases in one scope of a ledger; see :class:`dptune.search_run.SearchRun`.

    Raises:
        MissingExtra: cmaes is not installed.
    """

    def _new_algorithm(self) -> CentredCMA:
        return CentredCMA(self.plan.settings)

    def _start(self) -> None:
        self._folded: dict[int, bool] = {}  # generation -> whether its answer was known when it was folded
        self._asked_about: dict[int, tuple[str, ...]] = {}  # generation -> new points of this process's own question
        self._values: dict[str, float] = {}
        self._warned = False
        super()._start()

    # ---- a trial -----------------------------------------------------------------------------------

    def _next_price(self) -> float:
        """The generation's two releases, or the second one if another process died between them."""
        share = self.ledger.find(self.scope, f"{SHARE}{self.algorithm.t + 1}")
        return self.plan.generation_mu if share is None else self.plan.settings.mean_mu

    def finish(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> float:
        """Take a trial's losses, and release the generation when enough points are in.

        Args:
            trial: the trial's public name, unique in the run.
            parameters: where it was really evaluated, after rounding.
            losses: per-example losses (rows,), or None if the evaluation failed.

        Returns:
            A careful estimate of the mean loss there less that at the centre of the space, from what was released
            so far (:meth:`CentredCMA.value`): a function of released values, and not of this trial's losses unless
            its generation is released by now.

        Raises:
            InputError: the losses have the wrong shape or dtype.
        """
        point = self.take(trial, parameters, losses)
        with self._lock:
            self._held.add(point)
            self._sync()
            u = self.space.encode({**self.space.decode(self.algorithm.means[0]), **parameters})
            if self._has_a_say(parameters):
                self.algorithm.observe(point, u)
                self._advance()
            self._forget()
            self._values[trial] = self.algorithm.value(u)
            return self._values[trial]

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what this process returned for the trial."""
        return self._values.get(trial) == value

    # ---- workers that are too many -------------------------------------------------------------------

    def recommend(self) -> dict[str, Value]:
        """Return the parameters to use; see :meth:`SearchRun.recommend`. Warn if nothing was learned."""
        found = super().recommend()
        if not self.algorithm.generations:
            centre = "no answer is released yet, so this recommendation is the centre of the search space."
            warnings.warn(f"{centre} {self._generations_missing()}", stacklevel=2)
        return found

    def warn_if_behind(self, trials: int) -> None:
        """Warn, once, if as many ``trials`` of all processes have ended as planned, and generations are missing."""
        with self._lock:
            if self._warned or trials < self.plan.trials:
                return
            self._sync()
            self._warned = not self.complete
        if self._warned:
            planned = f"{trials} trials have ended and {self.plan.trials} trials were planned."
            warnings.warn(f"{planned} {self._generations_missing()}", stacklevel=2)

    def _generations_missing(self) -> str:
        done, s = self.algorithm.t, self.plan.settings
        return f"Only {done} of {s.generations} generations were made. {self._why_missing('one', s.population)}"

    # ---- generations -------------------------------------------------------------------------------

    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen; start again if an answer arrived late."""
        found = self.ledger.charges(self.scope, prefix=GENERATION)
        drawn = {_number(charge) for charge in found if self.privatizer.drew(charge)}  # recorded late, or just now
        charges = {_number(charge): self.privatizer.recorded(charge) for charge in found}
        if any(charge.value is not None and self._folded.get(g) is False for g, charge in charges.items()):
            self.algorithm = self.algorithm.restarted()
            self._folded.clear()
        for g in sorted(set(charges) - set(self._folded)):
            own = g in drawn and self._asked_about.get(g) == self.algorithm.waiting()
            self._fold(g, charges[g], own=own)

    def _fold(self, g: int, charge: Charge, *, own: bool) -> None:
        self._folded[g] = charge.value is not None
        self._asked = 0
        if charge.value is None:  # paid by a process that died, or that is about to record it
            self.algorithm.use_up()
            return
        sigma = float(charge.description["sigma"])
        self.algorithm.tell(Generation.from_note(charge.note, np.array(charge.value), sigma))
        self.algorithm.next_generation(own=own)

    def _advance(self) -> None:
        """Ask the two questions if this process has a generation of its own."""
        if self.complete or self._spent_by_others or self.algorithm.missing() > 0:
            return
        g = self.algorithm.t + 1
        self._asked_about[g] = self.algorithm.waiting()
        try:
            self._follow(g)
            note = self.algorithm.asked(np.zeros(0), 0.0).note()
            released = self.privatizer.release(
                self.algorithm.query(),
                scope=self.scope,
                key=f"{GENERATION}{g}",
                note=note,
                limit=self._limit(GENERATION),
            )
        except (KeyConflict, PlanComplete):  # another process was first: our points stay for the next generation
            self._sync()
            return
        except BudgetExhausted:  # other runs spent it; the trial that got us here is complete all the same
            self._spent_by_others = True
            return
        self._fold(g, released.charge, own=True)

    def _follow(self, g: int) -> None:
        """Release the share of unclipped people, unless another process did, and move the radius."""
        if self.plan.settings.share == 0:
            return
        charge = self.ledger.find(self.scope, f"{SHARE}{g}")
        if charge is None:
            try:
                charge = self.privatizer.release(
                    self.algorithm.share_query(),
                    scope=self.scope,
                    key=f"{SHARE}{g}",
                    note={"radius": self.algorithm.radius},
                    limit=self._limit(SHARE),
                ).charge
            except KeyConflict:
                charge = self.ledger.find(self.scope, f"{SHARE}{g}")
        charge = None if charge is None else self.privatizer.recorded(charge)
        if charge is not None and charge.value is not None:
            self.algorithm.follow(float(charge.note["radius"]), charge.value[0])

    def _limit(self, prefix: str) -> Limit:
        return Limit(prefix, self.plan.settings.generations)

    def _done(self) -> dict[str, object]:
        settings = self.plan.settings
        return {
            "generations_done": self.algorithm.t,
            "generations": settings.generations,
            "radius": self.algorithm.radius,
        }


def _number(charge: Charge) -> int:
    return int(charge.key.removeprefix(GENERATION))
