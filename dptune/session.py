"""DP-GIBO as a run: the algorithm, the privatizer and the ledger, without any framework.

Front ends translate; this file decides. A run is a scope in the ledger: its values are charges
``value/<trial>``, its steps ``step/1`` ... ``step/T``. The iterate is a fold over the released values in the
ledger, so a restart, a second process or a copy continues with the same theta and the remaining budget.

Nobody ever waits. A step is released by the process that has b fresh points of its own; points are asked
for around the newest theta. A trial that fails, is late or never returns only delays its own process's
next step by one trial. Losses live in the memory of the process that observed them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dptune.algorithms.gibo import DPGIBO
from dptune.errors import BudgetExhausted, DptuneError, KeyConflict, PlanComplete
from dptune.plan import GIBOPlan
from dptune.run import VALUE, Losses
from dptune.search_run import SearchRun
from dptune.space import Value

START, STEP = "start", "step/"


class GIBOSession(SearchRun[DPGIBO, GIBOPlan]):
    """DP-GIBO in one scope of a ledger; see :class:`dptune.search_run.SearchRun` for the arguments."""

    def _new_algorithm(self) -> DPGIBO:
        return DPGIBO(self.plan.settings)

    def _start(self) -> None:
        self._start_known = False
        super()._start()

    # ---- a trial -----------------------------------------------------------------------------------

    def check(self, trial: str, parameters: Mapping[str, Value] | None = None) -> None:
        """Refuse a trial before a model is trained; see :meth:`SearchRun.check`."""
        try:
            super().check(trial, parameters)
        except PlanComplete as error:
            raise error if self.complete else PlanComplete(f"{error} {self._steps_missing()}") from None

    def _next_price(self) -> float:
        """The values of the batch's other trials, as many as are left, and the question about the batch."""
        plan, algorithm = self.plan, self.algorithm
        left = plan.trials + plan.spare - len(self.ledger.charges(self.scope, prefix=VALUE))
        values = max(min(algorithm.batch_left(), left), 1)
        joint = plan.gradient_mu if algorithm.started else plan.settings.start_mu
        return math.hypot(plan.monitor_mu * math.sqrt(values), joint)

    def _steps_missing(self) -> str:
        done, all_, b = self.algorithm.t, self.plan.settings.steps, self.plan.settings.batch_at(self.algorithm.t)
        return f"Only {done} of {all_} steps were made. {self._why_missing('a step', b)}"

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
            if self._has_a_say(parameters):
                self.algorithm.observe(point, self.space.encode(parameters))
                self._advance()
            self._forget()
        return value

    # ---- steps -------------------------------------------------------------------------------------

    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen."""
        before = (len(self.algorithm.path), self.algorithm.started, self.algorithm.t)
        self._sync_start()
        for charge in self.ledger.charges(self.scope, prefix=STEP):
            step, own = int(charge.key.removeprefix(STEP)), self.privatizer.drew(charge)
            charge = self.privatizer.recorded(charge)
            if charge.value is None:
                self.algorithm.use_up(step)
            elif step not in self.algorithm.gradients:
                if own:  # recorded late: its points have been asked about
                    self.algorithm.next_batch()
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

    def _done(self) -> dict[str, object]:
        return {"steps_done": self.algorithm.t, "steps": self.plan.settings.steps}
