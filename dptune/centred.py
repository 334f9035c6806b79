"""CMA-ES on centred releases as a run: the algorithm, the privatizer and the ledger, without any framework.

A run is a scope in the ledger: generation g is two charges, ``share/<g>`` (by which the clipping radius follows)
and ``generation/<g>`` (the centred mean), each with its public points and radius as a note. The state is a fold over
these in the order of g, so a restart, a second process or a copy continues with the same search distribution and
the remaining budget.

Nobody ever waits. A generation is released by the process that holds lambda new points of its own. A trial that
failed counts with everybody at the upper clip; one that never returns is replaced by the next, and only delays its
own process's next generation by one trial. Losses live in the memory of the process that observed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dptune.accounting.ledger import Charge, Limit
from dptune.algorithms.centred_cma import CentredCMA, Generation
from dptune.centred_plan import CentredCMAPlan
from dptune.errors import BudgetExhausted, KeyConflict, PlanComplete
from dptune.locks import ForkSafeLock
from dptune.privacy.privatizer import LossPrivatizer
from dptune.run import Losses, Run, agree_on_plan
from dptune.space import Space, Value

SHARE, GENERATION = "share/", "generation/"


class CentredCMASession(Run):
    """CMA-ES on centred releases in one scope of a ledger; thread-safe, and several processes may share the scope.

    Args:
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        space: search space; d is its number of parameters.
        make_plan: (mu, seed) -> plan.
        mu: GDP budget of the run; default what is left of the ledger's when the run begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently.
        BudgetExhausted: the ledger has not that much left for a new run.
        MissingExtra: cmaes is not installed.
    """

    def __init__(
        self,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space,
        make_plan: Callable[[float, int], CentredCMAPlan],
        mu: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.plan = agree_on_plan(privatizer.ledger, scope, make_plan=make_plan, mu=mu, seed=seed, space=space)
        super().__init__(privatizer, scope, self.plan)
        self.space = space
        self._start()

    def _start(self) -> None:
        """Begin with what the ledger holds: also in a copy, which has none of this process's losses."""
        self.algorithm = CentredCMA(self.plan.settings)
        self._lock = ForkSafeLock()
        self._asked = 0
        self._folded: dict[int, bool] = {}  # generation -> whether its answer was known when it was folded
        self._spent_by_others = False
        self._held: set[str] = set()
        self._values: dict[str, float] = {}
        self._sync()

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("plan", "privatizer", "ledger", "scope", "_plan", "space")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    # ---- a trial -----------------------------------------------------------------------------------

    def ask(self, slot: int | None = None) -> dict[str, Value]:
        """Return the parameters to try next. Never waits.

        Args:
            slot: a number that processes sharing the run do not share, such as a trial's; default a counter.
        """
        with self._lock:
            self._sync()
            u = self.algorithm.ask(self._asked if slot is None else slot)
            self._asked += 1
        return self.space.decode(u)

    def check(self, trial: str) -> None:
        """Refuse a trial before a model is trained; see :meth:`Run.check`."""
        with self._lock:
            self._sync()
        super().check(trial)
        if self._spent_by_others:
            self.ledger.check(self.plan.generation_mu)

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
            if self.space.contains(parameters):
                self.algorithm.observe(point, u)
                self._advance()
            self._forget()
            self._values[trial] = self.algorithm.value(u)
            return self._values[trial]

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what this process returned for the trial."""
        return self._values.get(trial) == value

    def _forget(self) -> None:
        for point in self._held.difference(self.algorithm.points_in_use()):
            self.privatizer.forget(point)
            self._held.discard(point)

    # ---- generations -------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all G generations are used."""
        return self.algorithm.finished

    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen; start again if an answer arrived late."""
        found = self.ledger.charges(self.scope, prefix=GENERATION)
        charges = {_number(charge): self.privatizer.recorded(charge) for charge in found}
        if any(charge.value is not None and self._folded.get(g) is False for g, charge in charges.items()):
            self.algorithm = self.algorithm.restarted()
            self._folded.clear()
        for g in sorted(set(charges) - set(self._folded)):
            self._fold(g, charges[g], own=False)

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

    # ---- the answer --------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Value]:
        """Return the parameters to use: the surrogate's minimiser near CMA-ES's last means, never a noisy argmin."""
        with self._lock:
            self._sync()
            return self.space.decode(self.algorithm.recommend())

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard: also each generation's points and released values."""
        return {
            "private": self.ledger.private,
            "generations_done": self.algorithm.t,
            "generations": self.plan.settings.generations,
            "radius": self.algorithm.radius,
            "mu_budget": self.ledger.budget.mu,
            "mu_spent": self.ledger.spent(),
            "recommended": self.space.decode(self.algorithm.recommend()),
        }


def _number(charge: Charge) -> int:
    return int(charge.key.removeprefix(GENERATION))
