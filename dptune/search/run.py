"""One run in one scope of a ledger: propose points, collect losses, make the method's queries, learn the answers.

Example::

    run = SearchRun(CENTRED, privatizer, scope="svm", space=Space({"C": Float(1e-3, 1e3, log=True)}), trials=100)
    while not run.complete:
        name, parameters = str(uuid4()), run.ask()
        run.check(name)                                   # refuses before a model is trained
        run.finish(name, parameters, losses(parameters))  # per-example losses (rows,)
    run.recommend()

The run is the same for every method. The algorithm is public and knows neither losses nor ledger; the run sends its
queries to the privatizer. The ledger is the only memory (:mod:`dptune.search.replay`). No process waits: the first with
enough points makes the query. A trial that fails or never returns delays its own process's query by one trial.

Guarantee: all outputs of a run are functions of its releases; the ledger is charged for each before losses are read.
The failure of a trial is public; its cause is not if it may depend on private data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

from dptune._checks import boolean
from dptune._store import ForkSafeLock
from dptune.errors import BudgetExhausted, DptuneError, InputError, KeyConflict, PlanComplete
from dptune.ledger.entries import Quota
from dptune.ledger.ledger import Charge
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.results import Estimate
from dptune.search.agreement import agree_on_plan
from dptune.search.algorithms.method import Method, RunPlan
from dptune.search.algorithms.rounds import Rounds
from dptune.search.answer import Recommendation
from dptune.search.final_estimate import as_stored, point_name, refuse_name
from dptune.search.outcomes import Outcomes
from dptune.search.replay import VALUE, Replay, other_parameters
from dptune.space import Space, Value

Parameters: TypeAlias = Mapping[str, Value]


class SearchRun:
    """One method in one scope of a ledger; thread-safe, and several processes may share the scope.

    Args:
        scope: the run's name in the ledger.
        space: search space; None for :data:`dptune.search.VALUES`, where another searcher proposes.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.
        default: the user's default configuration: tried first, and what the recommendation is compared with.
        settings: of the method's planner, ``trials`` among them.

    Raises:
        BudgetMismatch: another process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
        InputError: the default is not a point of the space.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space | None,
        mu: float | None = None,
        seed: int | None = None,
        default: Parameters | None = None,
        **settings: Any,
    ) -> None:
        self.method, self.privatizer, self.scope, self.space, self.default = method, privatizer, scope, space, default
        self.plan: RunPlan = agree_on_plan(
            method, privatizer, scope, space, mu=mu, seed=seed, default=default, settings=settings
        )
        self._begin()

    def _begin(self) -> None:
        """Begin with the ledger's state, also in a copy, which has none of this process's losses."""
        self.ledger = self.privatizer.ledger
        self.lock = ForkSafeLock()
        self._replay = Replay(self.method, self.privatizer, self.scope, self.plan, self.space, self.default)
        self._values: dict[str, float] = {}  # trial of this process -> its returned value
        self._outside = 0  # number of this process's trials outside the space
        self._held: dict[str, None] = {}  # points whose losses are forgotten when the algorithm is done with them
        self._outcomes = Outcomes(self.scope)
        self._spent_by_others = False  # whether other runs have spent the budget of a query
        self._replay.sync()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("method", "privatizer", "scope", "space", "default", "plan")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def algorithm(self) -> Rounds:
        """Return the method's algorithm, in the state that the ledger's answers lead to."""
        return self._replay.algorithm

    # ---- before a model is trained ------------------------------------------------------------------

    def ask(self, number: int | None = None, *, trial: str | None = None) -> dict[str, Value]:
        """Return the parameters to try next. Never waits.

        Args:
            number: of the trial, for methods whose processes take different proposals; default this process's next.
            trial: its name, to :meth:`check` it with one look at the ledger.

        Raises:
            DptuneError: the method proposes nothing; with ``trial``, what :meth:`check` refuses.
        """
        if self.space is None:
            raise InputError(f"the method {self.method.name!r} proposes no points: another searcher does.")
        with self.lock:
            if trial is None:
                self._replay.sync()
            else:
                self.check(trial)
            slot = self._replay.asked if number is None or not self.method.shared_slots else number
            self._replay.asked += 1
            return self.space.decode(self.algorithm.ask(slot))

    def check(self, trial: str, parameters: Parameters | None = None) -> None:
        """Refuse, before training, a trial whose next releases could not be charged.

        Raises:
            PlanComplete: the run has made all its releases.
            BudgetExhausted, LedgerError: the ledger is spent, by this run or by others, or cannot be written.
            KeyConflict: the trial has its value at other parameters than these, if they are given.
            InputError: the trial has the name of the final estimate.
        """
        refuse_name(trial)
        with self.lock:
            self._replay.sync(write=True)
            if (released := self._replay.value_of(trial)) is not None:
                if parameters is not None and as_stored(parameters) != released.note["parameters"]:
                    raise other_parameters(self.scope, trial)
                return
            self._ask_questions()
            if self.used_up:
                over = (
                    f"the run {self.scope!r} has used up the trials it planned ({self.plan.trials}); nothing was read "
                    "or spent. Read its recommendation, or start another study with a mu= of its own, as for a "
                    "function that has changed."
                )
                raise PlanComplete(over if self.complete else f"{over} {self._replay.rounds_made(self._outside)}")
            # price of the round: its remaining trials' values, and its queries
            values = max(min(self.algorithm.missing(), self._replay.values_left), 1)
            price = math.hypot(self.plan.monitor_mu * math.sqrt(values), self.algorithm.price())
            if price > 0 and not self.ledger.filter.admits(self._replay.spent, price):
                self.ledger.check(price)  # raises, unless the budget was raised

    # ---- after a model is trained -------------------------------------------------------------------

    def finish(self, trial: str, parameters: Parameters, losses: Losses | None) -> float:
        """Take a trial's losses, release or work out its value, and ask what can be asked.

        A failure costs nothing until one trial has succeeded.

        Args:
            trial: the trial's public name, unique in the run.
            parameters: where it was really evaluated, after rounding.
            losses: per-example losses (rows,), or None if the evaluation failed.

        Returns:
            The trial's own released value, a noisy clipped mean loss, if the plan has one for it. Else what the
            algorithm makes of the answers so far, a function of released values; inf as long as that is nothing.

        Raises:
            InputError: the losses have the wrong shape or dtype, or the trial has the name of the final estimate.
            BudgetExhausted: the value does not fit; nothing was read.
            TrialFailed: no trial of the run has succeeded yet; nothing was charged.
            AllTrialsFailed: so did as many trials as a round has, and at least four.
        """
        refuse_name(trial)
        point = point_name(self.scope, trial, parameters)
        if losses is None:
            with self.lock:
                self._outcomes.fail(point, begun=self._replay.begun, batch=self.algorithm.batch)
        self.privatizer.submit(point, losses)
        self._outcomes.succeeded |= losses is not None
        self._outcomes.stopped.clear()
        value = self._release_value(trial, point, parameters) if self.plan.monitor_mu > 0 else None
        with self.lock:
            self._add(point, parameters)
            self._values[trial] = self._most(parameters) if value is None else value
            return self._values[trial]

    def stopped(self, trial: str, parameters: Parameters) -> None:
        """Record that a public quantity has ended a trial before it returned losses; it costs nothing.

        It is one of the planned trials, so stopping trials saves training. In the questions about its generation it
        counts like a failed evaluation. It takes no place if each trial has a release of its own, or before any trial
        has succeeded. Nor does it if two generations in a row were stopped.

        Raises:
            PlanComplete: no trial of the first round returned losses, or too many in a row were stopped.
        """
        with self.lock:
            few = len(self._outcomes.stopped) < 2 * self.algorithm.batch
            counts = few and self.plan.monitor_mu == 0 and (self._outcomes.succeeded or self._replay.begun)
            if self.space is None or not counts or not self.space.contains(parameters):
                self.withdraw(trial)
                return
            self._outcomes.stopped.add(trial)
            self.privatizer.submit(point := point_name(self.scope, trial, parameters), None)
            self._add(point, parameters)

    def withdraw(self, trial: str) -> None:
        """Record a stopped trial whose place another takes; raise PlanComplete if too many in a row were stopped."""
        self._outcomes.stop(trial, begun=self._replay.begun)

    def _release_value(self, trial: str, point: str, parameters: Parameters) -> float:
        quota = Quota(VALUE, self.plan.trials + self.plan.spare)
        query = self.privatizer.mean_query(point, self.plan.monitor_mu)
        note = {"parameters": as_stored(parameters), **({"failed": 1} if point in self._outcomes.failed else {})}
        try:
            return self.privatizer.release(query, scope=self.scope, key=VALUE + trial, note=note, quota=quota).scalar
        except DptuneError:
            self.privatizer.forget(point)
            raise

    # ---- points and questions --------------------------------------------------------------------------

    def _add(self, point: str, parameters: Parameters) -> None:
        """Give the algorithm a point with losses, and make all possible queries."""
        self._held[point] = None
        self._replay.sync()
        if self.space is not None and self.space.contains(parameters):
            self.algorithm.observe(point, self.space.encode(parameters))
        elif self.space is not None:
            self._outside += 1
        self._ask_questions()

    def make_up(self) -> None:
        """Make the releases that an error has kept from being made, if this process has the losses for them."""
        with self.lock:
            self._replay.sync()
            self._ask_questions()

    def _ask_questions(self) -> None:
        """Make the queries for which this process has the points, and forget points that are no longer needed."""
        self._spent_by_others = False
        while (asked := self.algorithm.question()) is not None:
            # A failed trial with its own value was counted there.
            failed = set() if self.plan.monitor_mu > 0 else self._outcomes.failed.intersection(asked.query.points)
            note = {**asked.note, **({"failed": len(failed)} if failed else {})}
            before = self.algorithm.t
            try:
                released = self.privatizer.release(asked.query, scope=self.scope, key=asked.key, note=note)
            except KeyConflict:  # another process was first: learn its answer
                if not self._replay.sync() or self.algorithm.t > before:
                    break  # keep our points for the next round
            except BudgetExhausted:  # other runs spent the budget; the present trial is still complete
                self._spent_by_others = True
                break
            else:
                self._outcomes.failed.difference_update(asked.query.points if "failed" in released.charge.note else ())
                self._replay.paid(released.charge)
        in_use = self.algorithm.points_in_use()
        for point in [point for point in self._held if point not in in_use]:
            self.privatizer.forget(point)
            del self._held[point]

    # ---- the answer ----------------------------------------------------------------------------------

    def recommend(self) -> Recommendation:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values.

        Releases that an error has kept from being made are made first, if possible.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        with self.lock:
            self.make_up()
            if self.space is not None and self.plan.monitor_mu == 0 and not self._replay.knows:
                centre = "no answer is released yet, so this recommendation is the centre of the search space."
                warnings.warn(f"{centre} {self.missing()}", stacklevel=2)
            return self._replay.recommended(self.missing())

    def so_far(self) -> Recommendation | None:
        """Return what :meth:`recommend` would return now, or None as long as no answer says where to look."""
        with self.lock:
            missing = self.missing()
            return self._replay.recommended(missing) if self._replay.knows else None

    def _most(self, parameters: Parameters) -> float:
        """Return an upper estimate of the mean loss at these parameters, from released values; inf without one.

        The algorithm knows only the excess over the loss at the centre, which is at most the clip's upper end.
        """
        if self.space is None:
            return math.inf
        value = self.algorithm.value(self.space.encode({**self.space.centre(), **parameters}))
        return math.inf if value is None else self.privatizer.interval.high + value

    # ---- the final estimate --------------------------------------------------------------------------

    def estimated(self, parameters: Parameters) -> Estimate | None:
        """Return what the final estimate released about these parameters or the defaults; None: nothing, so far."""
        return self._replay.final.recorded(parameters)

    def check_estimate(self, parameters: Parameters, *, early: bool = False) -> None:
        """Refuse, before a model is trained, a final estimate that the run cannot make at these parameters.

        Raises:
            InputError: what :meth:`FinalEstimate.check` refuses, or trials are to come and it is not asked for early.
            BudgetExhausted, KeyConflict: it does not fit, or was made at other parameters.
        """
        early = boolean("early", early)
        self._replay.final.check(parameters)
        with self.lock:
            self._replay.sync()
            if not (early or self.used_up or self._replay.final.charge):
                raise InputError(
                    f"the run {self.scope!r} is not complete, and its one final estimate is for its last "
                    f"recommendation. Nothing was trained or spent. {self.missing()} To end the run here, give "
                    "early=True."
                )

    def estimate(
        self, parameters: Parameters, losses: Losses | None, *, default: Losses | None = None, early: bool = False
    ) -> Estimate:
        """Release the mean clipped loss at the recommended parameters, once per run.

        With a default configuration its loss is released, too, so that the improvement has an interval without a model.
        Both levels have sqrt(2) of the noise that one alone would have.

        Args:
            losses: per-example losses there (rows,), or None if the evaluation failed.
            default: the same at the run's default configuration; without them no improvement is estimated.
            early: the run is to end here, though it is not complete.
        """
        self.check_estimate(parameters, early=early)
        estimate = self._replay.final.release(parameters, losses, default)
        with self.lock:
            self._replay.sync()
        return estimate

    # ---- a trial -------------------------------------------------------------------------------------

    def value_is(self, loss: str) -> str:
        """Return what a trial's value is, as on the axis of a plot, where the loss has this name."""
        if self.plan.monitor_mu > 0:
            return f"mean {loss}, noisy"
        return self.algorithm.shows.format(loss=loss, most=self.privatizer.interval.high)

    def charge_of(self, trial: str) -> Charge | None:
        """Return the charge of the trial's own value, with parameters and noise, or None without one."""
        with self.lock:
            return self._replay.value_of(trial)

    def released(self, trial: str, value: float) -> bool:
        """Return whether the run released, or returned here, this ``value`` for the trial."""
        if trial in self._values or self.plan.monitor_mu == 0:
            return self._values.get(trial) == value
        charge = self.ledger.find(self.scope, VALUE + trial)
        return charge is not None and charge.value == (value,)

    # ---- progress ------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Return whether the run's planned releases, except the final estimate, are made."""
        return self._replay.complete

    @property
    def values(self) -> int:
        """Return the number of trials whose own value is charged."""
        return self._replay.values

    @property
    def used_up(self) -> bool:
        """Return whether all trials are charged."""
        return self.complete or self._replay.values_left <= 0

    def progress(self) -> dict[str, object]:
        """Return released facts only, as plain JSON data, for a dashboard."""
        with self.lock:  # another thread may be learning from a release
            return {
                "private": self._replay.private and self.privatizer.private,
                **self._replay.progress(),
                **({} if self.space is None else {"recommended": self._replay.answer(self.space)}),
                "mu_budget": self.ledger.mu,
                "mu_spent": self._replay.spent.mu,
                "trials_planned": self.plan.trials,
                "trials_failed": self._outcomes.failures,
            }

    def missing(self) -> str:
        """Return the remaining releases and how to resume the run, in words; "" if it is complete."""
        with self.lock:
            self._replay.sync()
            return self._replay.missing(outside=self._outside, spent_by_others=self._spent_by_others)
