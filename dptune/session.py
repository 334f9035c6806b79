"""DP-GIBO as a run: the algorithm, the privatizer and the ledger, without any framework.

Front ends translate; this file decides. A run is a scope in the ledger: its values are charges
``value/<trial>``, its steps ``step/1`` ... ``step/T``. The iterate is a fold over the released values in the
ledger, so a restart, a second process or a copy continues with the same theta and the remaining budget.

Nobody ever waits. A step is released by the process that has b fresh points of its own; points are asked
for around the newest theta. A trial that fails, is late or never returns only delays its own process's
next step by one trial. Losses live in the memory of the process that observed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dptune.algorithms.gibo import DPGIBO
from dptune.errors import BudgetExhausted, DptuneError, KeyConflict, PlanComplete
from dptune.locks import ForkSafeLock
from dptune.plan import GIBOPlan
from dptune.privacy.privatizer import LossPrivatizer
from dptune.run import VALUE, Losses, Run, agree_on_plan
from dptune.space import Space, Value

START, STEP = "start", "step/"


class GIBOSession(Run):
    """DP-GIBO in one scope of a ledger; thread-safe, and several processes may share the scope.

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
    """

    def __init__(
        self,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space,
        make_plan: Callable[[float, int], GIBOPlan],
        mu: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.plan = agree_on_plan(privatizer.ledger, scope, make_plan=make_plan, mu=mu, seed=seed, space=space)
        super().__init__(privatizer, scope, self.plan)
        self.space = space
        self._start()

    def _start(self) -> None:
        """Begin with what the ledger holds: also in a copy, which has none of this process's losses."""
        self.algorithm = DPGIBO(self.plan.settings)
        self._lock = ForkSafeLock()
        self._asked = 0
        self._start_known = False
        self._spent_by_others = False
        self._held: set[str] = set()  # points whose value is out and whose losses may be forgotten
        self._sync()

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("plan", "privatizer", "ledger", "scope", "_plan", "space")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    # ---- a trial -----------------------------------------------------------------------------------

    def ask(self) -> dict[str, Value]:
        """Return the parameters to try next, around the newest iterate. Never waits."""
        with self._lock:
            self._sync()
            u = self.algorithm.ask(self._asked)
            self._asked += 1
        return self.space.decode(u)

    def check(self, trial: str) -> None:
        """Refuse a trial before a model is trained; see :meth:`Run.check`."""
        try:
            super().check(trial)
        except PlanComplete as error:
            raise error if self.complete else PlanComplete(f"{error} {self._steps_missing()}") from None
        if self._spent_by_others:
            self.ledger.check(self.plan.gradient_mu)

    def _steps_missing(self) -> str:
        done, all_, b = self.algorithm.t, self.plan.settings.steps, self.plan.settings.batch_at(self.algorithm.t)
        return (
            f"Only {done} of {all_} steps were made: a process makes a step from {b} trials of its own. Use threads "
            "(n_jobs) or fewer processes."
        )

    def finish(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> float:
        """Take a trial's losses, release its value, and make a step when enough points are in.

        Args:
            trial: the trial's public name, unique in the run.
            parameters: where it was really evaluated, after rounding.
            losses: per-example losses (rows,), or None if the evaluation failed.

        Returns:
            The released value: a noisy clipped mean loss, or 0.0 if values are withheld.

        Raises:
            InputError: the losses have the wrong shape or dtype.
            BudgetExhausted: the value does not fit; nothing was read.
        """
        point = self.take(trial, parameters, losses)
        value, mu = 0.0, self.plan.monitor_mu
        if mu > 0:
            try:
                value = self.release_value(VALUE + trial, point, parameters, mu).value
            except DptuneError:
                self.privatizer.forget(point)
                raise
        with self._lock:
            self._held.add(point)
            self._sync()
            if self.space.contains(parameters):
                self.algorithm.observe(point, self.space.encode(parameters))
                self._advance()
            self._forget()
        return value

    def _forget(self) -> None:
        for point in self._held.difference(self.algorithm.points_in_use()):
            self.privatizer.forget(point)
            self._held.discard(point)

    # ---- steps -------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all T steps are used."""
        return self.algorithm.finished

    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen."""
        before = (len(self.algorithm.path), self.algorithm.started, self.algorithm.t)
        self._sync_start()
        for charge in self.ledger.charges(self.scope, prefix=STEP):
            step, charge = int(charge.key.removeprefix(STEP)), self.privatizer.recorded(charge)
            if charge.value is None:
                self.algorithm.use_up(step)
            elif step not in self.algorithm.gradients:
                self.algorithm.tell(np.array(charge.value), step=step)
        if before != (len(self.algorithm.path), self.algorithm.started, self.algorithm.t):
            self._asked = 0

    def _sync_start(self) -> None:
        charge = None if self._start_known else self.ledger.find(self.scope, START)
        if charge is None:
            return
        charge = self.privatizer.recorded(charge)
        if not self.algorithm.started:
            self.algorithm.next_batch()
        if charge.value is None:  # paid by a process that died, or that is about to record it
            self.algorithm.skip_start()
        else:
            self.algorithm.tell_start(np.array(charge.note["points"]), np.array(charge.value))
            self._start_known = True

    def _advance(self) -> None:
        """Ask the joint question if this process has a batch of its own."""
        if self.complete or self._spent_by_others or self.algorithm.batch_left() > 0:
            return
        algorithm, starting = self.algorithm, not self.algorithm.started
        key = START if starting else f"{STEP}{algorithm.t + 1}"
        note = {"points": algorithm.start_points().tolist()} if starting else {"theta": algorithm.theta.tolist()}
        try:
            self.privatizer.release(algorithm.query(), scope=self.scope, key=key, note=note)
        except KeyConflict:  # another process was first: its answer is folded, our points stay for the next step
            self._sync()
            return
        except BudgetExhausted:  # other runs spent it; the trial that got us here is complete all the same
            self._spent_by_others = True
            return
        if not starting:
            algorithm.next_batch()
        self._sync()

    # ---- the answer --------------------------------------------------------------------------------

    def recommend(self) -> dict[str, Value]:
        """Return the parameters to use: the final iterate (or the average of the last ones), never an argmin."""
        with self._lock:
            self._sync()
            return self.space.decode(self.algorithm.recommend())

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        return {
            "private": self.ledger.private,
            "steps_done": self.algorithm.t,
            "steps": self.plan.settings.steps,
            "mu_budget": self.ledger.budget.mu,
            "mu_spent": self.ledger.spent(),
            "recommended": self.space.decode(self.algorithm.recommend()),
        }
