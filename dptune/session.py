"""One private tuning run: the algorithm, the privatizer and the ledger, without any framework.

Front ends translate; this file decides. A run is a scope in the ledger. Its plan is fixed there once; its
values are charges ``value/<trial>``, its steps ``step/1`` ... ``step/T``. The iterate is a fold over the
released values in the ledger, so a restart, a second process or a copy continues with the same theta
and the remaining budget.

Nobody ever waits. A step is released by the process that has b fresh points of its own; points are asked
for around the newest theta. A trial that fails, is late or never returns only delays its own process's
next step by one trial. Losses live in the memory of the process that observed them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dptune.accounting.ledger import PrivacyLedger
from dptune.algorithms.gibo import DPGIBO
from dptune.errors import BudgetExhausted, BudgetMismatch, InputError, KeyConflict, PlanComplete
from dptune.plan import GIBOPlan
from dptune.privacy.private import PerExampleLosses
from dptune.privacy.privatizer import LossPrivatizer
from dptune.space import Space, Value

Losses = PerExampleLosses | npt.ArrayLike
MakePlan = Callable[[float, int], GIBOPlan]

PLAN, START, STEP, VALUE, FINAL = "plan", "start", "step/", "value/", "final"


@dataclass(frozen=True)
class Estimate:
    """A released mean clipped loss and its privacy noise.

    Attributes:
        value: released mean clipped loss, in units of the loss.
        sigma: standard deviation of the privacy noise, same units.
        private: False if the noise was seeded.
    """

    value: float
    sigma: float
    private: bool

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only; how far these people are from a population is not in it.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        half = float(-ndtri((1 - confidence) / 2)) * self.sigma
        return self.value - half, self.value + half


class GIBOSession:
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
        BudgetExhausted: the ledger has nothing left for a new run.
    """

    def __init__(
        self,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space,
        make_plan: MakePlan,
        mu: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.privatizer, self.ledger, self.scope, self.space = privatizer, privatizer.ledger, scope, space
        self.plan = _agree_on_plan(self.ledger, scope, space, make_plan, mu, seed)
        self.algorithm = DPGIBO(self.plan.settings)
        self._lock = threading.RLock()
        self._asked = 0
        self._start_known = False
        self._spent_by_others = False
        self._held: set[str] = set()  # points whose value is out and whose losses may be forgotten
        self._sync()

    # ---- a trial -----------------------------------------------------------------------------------

    def ask(self) -> dict[str, Value]:
        """Return the parameters to try next, around the newest iterate. Never waits."""
        with self._lock:
            self._sync()
            u = self.algorithm.ask(self._asked)
            self._asked += 1
        return self.space.decode(u)

    def check(self, trial: str) -> None:
        """Refuse, before a model is trained, a trial whose value could not be paid.

        Raises:
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
        """
        if self.ledger.find(self.scope, VALUE + trial) is not None:
            return
        values = len(self.ledger.charges(self.scope, prefix=VALUE))
        if self.algorithm.finished or values >= self.plan.trials + self.plan.spare:
            raise PlanComplete(
                f"the run {self.scope!r} has made the {self.plan.settings.steps} steps, or the {self.plan.trials} "
                f"values and {self.plan.spare} spare ones, that it planned; nothing was read or spent. Read its "
                "recommendation, or start another study with what is left of the budget."
            )
        self.ledger.check(self.plan.monitor_mu or self.plan.gradient_mu)

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
        point = self._take(trial, parameters, losses)
        value = self._release_value(VALUE + trial, point, parameters, self.plan.monitor_mu)
        with self._lock:
            self._held.add(point)
            self._sync()
            if self.space.contains(parameters):
                self.algorithm.observe(point, self.space.encode(parameters))
                self._advance()
            self._forget()
        return 0.0 if value is None else value.value

    def _take(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> str:
        """Hand the losses to the privatizer under a name that no other run or other parameters share."""
        where = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()[:12]
        point = f"{self.scope}/{trial}/{where}"
        if losses is None:
            self.privatizer.observe_failure(point)
        else:
            self.privatizer.observe(point, losses)
        return point

    def _release_value(self, key: str, point: str, parameters: Mapping[str, Value], mu: float) -> Estimate | None:
        if mu == 0:
            return None
        query = self.privatizer.mean_query(point, mu)
        note = {"parameters": dict(parameters)}
        released = self.privatizer.release(query, scope=self.scope, key=key, note=note)
        return Estimate(released.scalar, released.sigma, released.charge.private)

    def _forget(self) -> None:
        for point in self._held.difference(self.algorithm.points_in_use()):
            self.privatizer.forget(point)
            self._held.discard(point)

    # ---- steps -------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether no further step will be made: all T are used, or the budget was spent elsewhere."""
        return self.algorithm.finished or self._spent_by_others

    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen."""
        before = (len(self.algorithm.path), self.algorithm.started, self.algorithm.t)
        self._sync_start()
        for charge in self.ledger.charges(self.scope, prefix=STEP):
            step = int(charge.key.removeprefix(STEP))
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
        if not self.algorithm.started:
            self.algorithm.next_batch()
        if charge.value is None:  # paid by a process that died, or that is about to record it
            self.algorithm.skip_start()
        else:
            self.algorithm.tell_start(np.array(charge.note["points"]), np.array(charge.value))
            self._start_known = True

    def _advance(self) -> None:
        """Ask the joint question if this process has a batch of its own."""
        if self.done or self.algorithm.batch_left() > 0:
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

    def check_estimate(self) -> None:
        """Refuse, before a model is trained, a final estimate that could not be paid.

        Raises:
            InputError: the plan has no final estimate.
            BudgetExhausted: it does not fit.
        """
        if self.plan.final_mu == 0:
            raise InputError("this run was planned with final_share=0; there is no budget for a final estimate.")
        if self.ledger.find(self.scope, FINAL) is None:
            self.ledger.check(self.plan.final_mu)

    def estimate(self, parameters: Mapping[str, Value], losses: Losses | None) -> Estimate:
        """Release the mean clipped loss at the recommended parameters, once per run.

        Raises:
            InputError: the plan has no final estimate, or the losses have the wrong shape.
            KeyConflict: the run's final estimate was made at other parameters.
        """
        self.check_estimate()
        point = self._take(FINAL, parameters, losses)
        estimate = self._release_value(FINAL, point, parameters, self.plan.final_mu)
        self.privatizer.forget(point)
        if estimate is None:
            raise InputError("there is no budget for a final estimate.")
        return estimate

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


def _agree_on_plan(
    ledger: PrivacyLedger,
    scope: str,
    space: Space,
    make_plan: MakePlan,
    mu: float | None,
    seed: int | None,
) -> GIBOPlan:
    """Return the scope's plan: this process's if it is the first, else the stored one, if it is the same."""
    if ledger.fact(scope, PLAN) is None:
        left = ledger.remaining() if mu is None else mu
        if left == 0:
            raise BudgetExhausted(ledger.budget.mu, 0.0, ledger.budget.mu)
        ledger.check(left)
        plan = make_plan(left, secrets.randbits(32) if seed is None else seed)
        ledger.fix(scope, PLAN, _describe(plan, space))
    stored = ledger.fact(scope, PLAN)
    plan = make_plan(*_stored_choices(stored, mu, seed))
    if _describe(plan, space) != stored:
        raise BudgetMismatch(
            f"the run {scope!r} was planned with other settings or another search space; they are fixed when a run "
            "begins. Continue it as it was begun, or give a new study a new name."
        )
    return plan


def _stored_choices(stored: object, mu: float | None, seed: int | None) -> tuple[float, int]:
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        raise BudgetMismatch("this scope of the ledger belongs to another kind of run; give the study a new name.")
    return (
        float(stored["mu"]) if mu is None else mu,
        int(stored["settings"]["seed"]) if seed is None else seed,
    )


def _describe(plan: GIBOPlan, space: Space) -> object:
    return json.loads(json.dumps({**plan.describe(), "space": space.describe()}))
