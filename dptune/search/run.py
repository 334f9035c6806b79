"""One run in one scope of a ledger: ask for points, collect losses, ask the method's questions, learn the answers.

Example::

    run = SearchRun(CENTRED, privatizer, scope="svm", space=Space({"C": Float(1e-3, 1e3, log=True)}), trials=100)
    while not run.complete:
        name, parameters = str(uuid4()), run.ask()
        run.check(name)                                   # refuses before a model is trained
        run.finish(name, parameters, losses(parameters))  # per-example losses (rows,)
    run.recommend()

There is one run for every method. The method's algorithm is public and knows neither losses nor ledger; the run carries
its questions to the privatizer and the answers back. The ledger is the only memory: an algorithm's state is a fold over
the answers in it, so a restart, a second process or a copy goes on in the same state and with the remaining budget.

Nobody waits. A question is asked by the process that has enough points of its own. A trial that fails, is late or
never returns delays only its own process's next question, by one trial. Losses stay in the process that observed them.

Guarantee: what leaves a run is a function of its releases; each is paid in the ledger before losses are read for it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._locks import ForkSafeLock
from dptune.accounting.ledger import Charge, Limit
from dptune.algorithms.method import Method, SearchAlgorithm
from dptune.errors import (
    AllTrialsFailed,
    BudgetExhausted,
    DptuneError,
    InputError,
    KeyConflict,
    PlanComplete,
    TrialFailed,
)
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search.agreement import agree_on_plan
from dptune.search.choice import Choice
from dptune.search.estimate import Estimate
from dptune.search.final import FinalEstimate
from dptune.search.history import History
from dptune.search.names import VALUE, as_stored, point_name, refuse_name
from dptune.search.recommendation import Recommendation, among_values, of_algorithm
from dptune.space import Space, Value

Vector = npt.NDArray[np.float64]
FIRST_TRIALS = 4  # of a run, at least: if they all fail, so will the others


class SearchRun:
    """One method in one scope of a ledger; thread-safe, and several processes may share the scope.

    Args:
        method: what searches.
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        space: search space; None for :data:`dptune.search.values.VALUES`, where another searcher proposes.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.
        default: the user's default configuration: tried first, and what the recommendation is compared with.
        settings: of the method's planner, ``trials`` among them.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
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
        default: Mapping[str, Value] | None = None,
        **settings: Any,
    ) -> None:
        self.method, self.privatizer, self.ledger = method, privatizer, privatizer.ledger
        self.scope, self._began, self.default = scope, space, default
        self.plan = agree_on_plan(
            privatizer,
            scope,
            make_plan=lambda budget, drawn: method.plan(
                privatizer, space, mu=budget, seed=drawn, default=default, **settings
            ),
            mu=mu,
            seed=seed,
            space=space,
        )
        self._start()

    def _start(self) -> None:
        """Begin with what the ledger holds: also in a copy, which has none of this process's losses."""
        self.space = self._began  # until parameters join it
        self.algorithm: SearchAlgorithm = self.method.algorithm(self.plan.settings)
        self._lock = ForkSafeLock()
        self._asked = 0  # points of the present round that this process has asked for
        self._spent_by_others = self._warned = False
        self._failures, self._succeeded = 0, False  # of this process's trials: how many, and whether any
        self._failed: set[str] = set()  # points whose evaluation failed
        self._outside = 0  # trials of this process that were no points of the space
        self._held: dict[str, None] = {}  # points whose losses are forgotten when the algorithm is done with them
        self._told: dict[str, float] = {}  # trial -> its value, where that is no release of its own
        self._history = History(self.privatizer, self.scope)
        self._choice = Choice(self.privatizer, self.scope, self.plan)
        self._final = FinalEstimate(self.privatizer, self.scope, self.plan, self.space, self.default)
        self._sync()

    def __getstate__(self) -> dict[str, object]:
        return {
            name: self.__dict__[name]
            for name in ("method", "privatizer", "ledger", "scope", "_began", "default", "plan")
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    # ---- before a model is trained ------------------------------------------------------------------

    def ask(self, number: int | None = None, *, trial: str | None = None) -> dict[str, Value]:
        """Return the parameters to try next. Never waits.

        Args:
            number: of the trial, for methods whose processes take different proposals; default this process's next.
            trial: its name, to :meth:`check` it with one look at the ledger.

        Raises:
            InputError: the method proposes nothing.
            DptuneError: with ``trial``, what :meth:`check` refuses.
        """
        if self.space is None:
            raise InputError(f"the method {self.method.name!r} proposes no points: another searcher does.")
        with self._lock:
            if trial is None:
                self._sync()
            else:
                self._check(trial, None)
            slot = self._asked if number is None or not self.method.shared_slots else number
            self._asked += 1
            return self.space.decode(self.algorithm.ask(slot))

    def check(self, trial: str, parameters: Mapping[str, Value] | None = None) -> None:
        """Refuse, before a model is trained, a trial whose next releases could not be paid.

        Args:
            trial: its name.
            parameters: where it will be evaluated, if that is known by now.

        Raises:
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
            KeyConflict: the trial has its value at other parameters.
            InputError: the trial has the name of the final estimate.
            LedgerError: the ledger cannot be written.
        """
        with self._lock:
            self._check(trial, parameters)

    def _check(self, trial: str, parameters: Mapping[str, Value] | None) -> None:
        refuse_name(trial)
        self._sync(write=True)
        recorded = self._history.parameters(trial)
        if recorded is not None:
            if parameters is not None and as_stored(parameters) != recorded:
                raise self.other_parameters(trial)
            return
        left = self.plan.trials + self.plan.spare - self._history.values
        if self.complete or left <= 0:
            raise PlanComplete(self._over())
        price, budget = self._price(left), self.ledger.budget.mu
        if price > 0 and not self._history.spent.admits(price, budget):
            raise BudgetExhausted(price, self._history.spent.remaining(budget), budget)

    def _price(self, left: int) -> float:
        """GDP price of the round's next releases: its other trials' values, as many as are left, and its questions."""
        values = max(min(self.algorithm.missing(), left), 1)
        return math.hypot(self.plan.monitor_mu * math.sqrt(values), self.algorithm.price())

    def _over(self) -> str:
        text = (
            f"the run {self.scope!r} has used up the trials it planned ({self.plan.trials}); nothing was read or "
            "spent. Read its recommendation, or start another study with a mu= of its own."
        )
        return text if self.complete else f"{text} {self._rounds_missing()}"

    def recorded_parameters(self, trial: str) -> Mapping[str, object] | None:
        """Return where the trial was evaluated, as plain JSON data, or None if it has no release of its own yet."""
        with self._lock:
            return self._history.parameters(trial)

    def other_parameters(self, trial: str) -> KeyConflict:
        """Return the refusal of a trial that comes again at other parameters."""
        return KeyConflict(
            f"the trial {trial!r} of the run {self.scope!r} has a released value at other parameters; nothing was "
            "trained or spent. If the study was begun again, continue it from its storage (storage=, study_name=, "
            "load_if_exists=True), or give a new study a new name."
        )

    # ---- after a model is trained -------------------------------------------------------------------

    def finish(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> float:
        """Take a trial's losses, release or work out its value, and ask what can be asked.

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
            TrialFailed: the evaluation failed, and no trial of the run has succeeded yet; nothing was paid.
            AllTrialsFailed: so did as many trials as a round has.
        """
        refuse_name(trial)
        if losses is None:
            self._count_failure()
        point = self._observe(trial, parameters, losses)
        value = self._release_value(trial, point, parameters) if self.plan.monitor_mu > 0 else None
        with self._lock:
            self._held[point] = None
            self._sync()
            known = math.inf if self.space is None else self._take_part(self.space, point, parameters)
            self._forget()
            self._told[trial] = known if value is None else value
            return self._told[trial]

    def _count_failure(self) -> None:
        """Count it; failures have no price until one trial has succeeded. That a trial failed is public."""
        with self._lock:
            self._failures += 1
            if self._succeeded or self._history.begun:
                return
            failures = self._failures
        if failures < max(self.algorithm.batch, FIRST_TRIALS):
            raise TrialFailed("the function failed, as all trials of the run have so far. Nothing was paid.")
        raise AllTrialsFailed(
            f"the function failed in each of the first {failures} trials of the run {self.scope!r}; nothing was "
            "paid. What it raised is hidden, because it may depend on private data: call try_out(parameters) of the "
            "decorated function, on public or made-up data, to see it."
        )

    def _observe(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> str:
        """Hand losses to the privatizer; return the name of their point."""
        point = point_name(self.scope, trial, parameters)
        if losses is None:
            self._failed.add(point)
            self.privatizer.observe_failure(point)
        else:
            self.privatizer.observe(point, losses)
            self._succeeded = True
        return point

    def _release_value(self, trial: str, point: str, parameters: Mapping[str, Value]) -> float:
        """Release the mean clipped loss of a trial's point."""
        limit = Limit(VALUE, self.plan.trials + self.plan.spare)
        query = self.privatizer.mean_query(point, self.plan.monitor_mu)
        note = {"parameters": as_stored(parameters), **({"failed": 1} if point in self._failed else {})}
        try:
            return self.privatizer.release(query, scope=self.scope, key=VALUE + trial, note=note, limit=limit).scalar
        except DptuneError:
            self.privatizer.forget(point)
            raise

    def _take_part(self, space: Space, point: str, parameters: Mapping[str, Value]) -> float:
        """Tell the algorithm of a point and ask what can be asked; return what is known about the point then."""
        u, inside = space.encode(space.completed(parameters)), space.contains(parameters)
        self._outside += not inside
        if inside:
            if point not in self._failed:
                self._choice.take(point, parameters)
            self.algorithm.observe(point, u)
            self._ask_questions()
        value = self.algorithm.value(u)
        return math.inf if value is None else value

    def _forget(self) -> None:
        in_use = self._choice.points.union(self.algorithm.points_in_use())
        for point in [point for point in self._held if point not in in_use]:
            self.privatizer.forget(point)
            del self._held[point]

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what the run released, or this process was told, for the trial."""
        if trial in self._told or self.plan.monitor_mu == 0:
            return self._told.get(trial) == value
        charge = self.ledger.find(self.scope, VALUE + trial)
        return charge is not None and charge.value == (value,)

    def value_is(self, loss: str) -> str:
        """Return what a trial's value is, as on the axis of a plot, where the loss has this name."""
        return f"mean {loss}, noisy" if self.plan.monitor_mu > 0 else self.algorithm.shows.format(loss=loss)

    def sigma(self, trial: str, parameters: Mapping[str, Value]) -> float | None:
        """Return the standard deviation in the trial's value: of its noise, or of the model that it comes from.

        None as long as nothing is released about it.
        """
        with self._lock:
            if self.plan.monitor_mu > 0 or self.space is None:
                return self._history.sigma(trial)
            u = self.space.encode(self.space.completed(parameters))
            known = self.algorithm.difference(u, self.space.encode(self.space.centre()))
            return None if known is None or self.algorithm.value(u) is None else known[1]

    # ---- questions and answers ----------------------------------------------------------------------

    def _ask_questions(self) -> None:
        """Ask what this process has the points for."""
        while not self._spent_by_others and (asked := self.algorithm.question()) is not None:
            before, note = self.algorithm.t, {**asked.note, **self._failed_in(asked.query.points), **self._space_note()}
            try:
                released = self.privatizer.release(asked.query, scope=self.scope, key=asked.key, note=note)
            except KeyConflict:  # another process was first: its answer is learned
                if not self._sync() or self.algorithm.t > before:
                    return  # our points stay for the next round
            except BudgetExhausted:  # other runs spent it; the trial that got us here is complete all the same
                self._spent_by_others = True
            else:
                self._failed.difference_update(asked.query.points if "failed" in released.charge.note else ())
                self._history.spent = self._history.spent.plus(released.charge.mu)
                self._learn(released.charge, own=True)
        if self.algorithm.finished:
            self._choice.make()

    def _failed_in(self, points: tuple[str, ...]) -> dict[str, int]:
        """How many failed trials a question counts for the first time, where trials have no value of their own."""
        found = () if self.plan.monitor_mu > 0 else self._failed.intersection(points)
        return {"failed": len(found)} if found else {}

    def _space_note(self) -> dict[str, object]:
        """Where the points of a question lie, if parameters have joined the space of the plan."""
        return {} if self.space is None or self.space == self._began else {"space": self.space.describe()}

    def _sync(self, *, write: bool = False) -> bool:
        """Learn what the ledger holds and this process does not know; return whether there was any such thing.

        An answer that was recorded late changes what came after it: then all are learned again, in their order.

        Args:
            write: whether to make sure that the ledger can be written.
        """
        news = self._history.read(write=write)
        if news.rewrites:
            self.algorithm = self.algorithm.restarted()
        for charge in news.charges:
            self._learn(charge, own=charge.seq in news.drawn)
        return bool(news.charges)

    def _learn(self, charge: Charge, *, own: bool) -> None:
        if self.space is not None and "space" in charge.note:
            self._widen(Space.from_description(charge.note["space"]).joined(self.space))
        self._history.add(charge)
        self._asked = 0
        answer = None if charge.value is None else np.array(charge.value)
        self.algorithm.learn(charge.key, charge.note, answer, float(charge.description["sigma"]), own=own)

    def join(self, space: Space) -> None:
        """Search a wider space from now on, with parameters or conditions that nobody knew when the run began.

        Earlier points lie in it, with the new parameters inactive. The plan stays as it is. From now on the ledger has
        the space of each question beside its points, so other processes and restarts follow.

        Args:
            space: it has every parameter of the run's.
        """
        with self._lock:
            self._widen(space)

    def _widen(self, space: Space) -> None:
        if self.space is None or self.method.joined is None or space == self.space:
            return
        self.algorithm = self.method.joined(self.algorithm, space, now=self.space, began=self._began)
        self.space, self._final = space, replace(self._final, space=space)
        for charge in self._history.learned:
            self._learn(charge, own=False)

    # ---- the answer --------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether the run has nothing left to release for trials."""
        return self.algorithm.finished or (self.space is None and self._history.values >= self.plan.trials)

    def recommend(self) -> Recommendation:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values.

        Beside them: how much better they are than the defaults, from everything released, and what to look at twice.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        with self._lock:
            self._sync()
            values, private = self._history.released_values(), self._history.private and self.privatizer.private
            if self.space is None:
                return among_values(values, self.default, private=private)
            if self.algorithm.t == 0 and self.plan.monitor_mu == 0:
                centre = "no answer is released yet, so this recommendation is the centre of the search space."
                warnings.warn(f"{centre} {self._rounds_missing()}", stacklevel=2)
            return of_algorithm(self.algorithm, self.space, self._found(), self.default, values, private=private)

    def _found(self) -> dict[str, Value]:
        """The point that was chosen at the end, or what the algorithm makes of the answers so far."""
        if self.space is None:
            return {}
        chosen = self._choice.found() or self.space.decode(self.algorithm.recommend())
        return {name: chosen[name] for name in self.space if self.space.active(name, chosen)}

    def check_estimate(self, parameters: Mapping[str, Value]) -> None:
        """Refuse, before a model is trained, a final estimate that could not be paid or was made elsewhere.

        Raises:
            InputError: the plan has no final estimate, or the parameters are no point of the search space.
            BudgetExhausted: it does not fit.
            KeyConflict: it was made at other parameters.
        """
        self._final.check(parameters)

    def estimate(
        self, parameters: Mapping[str, Value], losses: Losses | None, *, default: Losses | None = None
    ) -> Estimate:
        """Release the mean clipped loss at the recommended parameters, once per run.

        With a default configuration its loss is released together with it, so that the improvement has an interval
        that holds without a model: both levels have sqrt(2) of the noise that one alone would have.

        Args:
            parameters: those of :meth:`recommend`.
            losses: per-example losses there (rows,), or None if the evaluation failed.
            default: the same at the run's default configuration, if it has one.

        Raises:
            InputError: the plan has no final estimate, or the losses have the wrong shape.
            KeyConflict: the run's final estimate was made at other parameters.
        """
        estimate = self._final.release(parameters, losses, default)
        with self._lock:
            self._sync()
        return estimate

    def progress(self) -> dict[str, object]:
        """Return released facts only, as plain JSON data, for a dashboard."""
        with self._lock:  # another thread may be learning from a release
            recommended = {} if self.space is None else {"recommended": self._found()}
            return {
                "private": self._history.private and self.privatizer.private,
                **self.algorithm.progress(),
                **recommended,
                "mu_budget": self.ledger.budget.mu,
                "mu_spent": self._history.spent.mu,
                "trials_planned": self.plan.trials,
                "trials_failed": self._failures,
            }

    # ---- workers that are too many -------------------------------------------------------------------

    def warn_if_behind(self, trials: int) -> None:
        """Warn, once, if as many ``trials`` of all processes have ended as planned, and rounds are missing."""
        with self._lock:
            if self._warned or trials < self.plan.trials:
                return
            self._sync()
            self._warned = not self.complete
        if self._warned:
            planned = f"{trials} trials have ended and {self.plan.trials} trials were planned."
            warnings.warn(f"{planned} {self._rounds_missing()}", stacklevel=2)

    def _rounds_missing(self) -> str:
        unit = self.algorithm.unit
        made = f"Only {self.algorithm.t} of {self.algorithm.rounds} {unit}s were made."
        if self._spent_by_others:
            return f"{made} Other runs have spent the budget for the next."
        outside = f", and {self._outside} of this process's trials were not" if self._outside else ""
        return (
            f"{made} A process makes one from {self.algorithm.batch} trials of its own that are in the search "
            f"space{outside}. Go on with more trials; with several processes use threads (n_jobs) or fewer of them."
        )
