"""What a run shows: its recommendation, what is known about a trial, its progress. Released values only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np

from dptune._locks import ForkSafeLock
from dptune.algorithms.method import Method, Plan
from dptune.algorithms.rounds import Rounds
from dptune.errors import KeyConflict
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.choice import Choice
from dptune.search.earlier import Earlier, line_of
from dptune.search.estimate import Estimate
from dptune.search.extending import totals
from dptune.search.failures import Failures
from dptune.search.final import FinalEstimate
from dptune.search.learned import Learned
from dptune.search.names import VALUE
from dptune.search.recommendation import Recommendation, among_values, of_algorithm
from dptune.space import Space, Value


class Shown:
    """The part of a :class:`dptune.SearchRun` that only looks: nothing here reads a loss or spends."""

    method: Method
    scope: str
    privatizer: LossPrivatizer
    plan: Plan
    _began: Space | None
    trials: int
    default: Mapping[str, Value] | None
    _learned: Learned
    _choice: Choice
    _failures: Failures
    _lock: ForkSafeLock
    _outside: int
    _told: dict[str, float]
    _spent_by_others: bool
    _warned: bool

    def _look(self) -> None:
        """Learn what the ledger holds; it is all that is needed to recommend."""
        ledger, scope = self.privatizer.ledger, self.scope
        earlier = Earlier.of(ledger, scope)
        answers = [] if earlier is None else earlier.charges(ledger)
        self._learned = Learned(self.method, self.privatizer, scope, self.plan, self._began, answers)
        self._lock = ForkSafeLock()
        self._spent_by_others = self._warned = False
        self._failures = Failures(scope)
        self.trials = totals(ledger, scope)[0]  # planned, with those of the runs that this one extends
        self._outside = 0  # trials of this process that were no points of the space
        self._told = {}  # trial -> its value, where that is no release of its own
        self._choice = Choice(self.privatizer, line_of(ledger, scope), self.plan)
        self._learned.sync()

    @property
    def algorithm(self) -> Rounds:
        """The method's algorithm, in the state that the ledger's answers lead to."""
        return self._learned.algorithm

    @property
    def space(self) -> Space | None:
        """The search space, with the parameters that have joined it; None where another searcher proposes."""
        return self._learned.space

    @property
    def complete(self) -> bool:
        """Whether the run has nothing left to release for trials."""
        history = self._learned.history
        valued = self.space is None and history.values >= self.plan.trials
        return self.algorithm.finished or valued or history.chosen

    @property
    def _left(self) -> int:
        """Trials that may still have a value."""
        return self.plan.trials + self.plan.spare - self._learned.history.values

    @property
    def _used_up(self) -> bool:
        return self.complete or self._left <= 0

    def value_is(self, loss: str) -> str:
        """Return what a trial's value is, as on the axis of a plot, where the loss has this name."""
        return f"mean {loss}, noisy" if self.plan.monitor_mu > 0 else self.algorithm.shows.format(loss=loss)

    def sigma(self, trial: str, parameters: Mapping[str, Value]) -> float | None:
        """Return the standard deviation in the trial's value: of its noise, or of the model that it comes from.

        None as long as nothing is released about it.
        """
        with self._lock:
            if self.plan.monitor_mu > 0 or self.space is None:
                return self._learned.history.sigma(trial)
            u = self.space.encode(self.space.completed(parameters))
            known = self.algorithm.difference(u, self.space.encode(self.space.centre()))
            return None if known is None or self.algorithm.value(u) is None else known[1]

    def recommend(self) -> Recommendation:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values.

        Beside them: how much better they are than the defaults, from everything released, and what to look at twice.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        with self._lock:
            self._learned.sync()
            if self.space is not None and self.plan.monitor_mu == 0 and not self._knows:
                centre = "no answer is released yet, so this recommendation is the centre of the search space."
                warnings.warn(f"{centre} {self._rounds_missing()}", stacklevel=2)
            return self._recommended()

    def so_far(self) -> Recommendation | None:
        """Return what :meth:`recommend` would return now, or None as long as no answer says where to look."""
        with self._lock:
            self._learned.sync()
            return self._recommended() if self._knows else None

    @property
    def _knows(self) -> bool:
        """Whether any answer of the ledger says where to look."""
        history = self._learned.history
        return history.values > 0 if self.space is None else self.algorithm.t > 0 or history.chosen

    def _recommended(self) -> Recommendation:
        values, private = self._learned.history.released_values(), self._private
        if self.space is None:
            found = among_values(values, self.default, private=private)
        else:
            found = of_algorithm(self.algorithm, self.space, self._found(), self.default, values, private=private)
        known = self._final.recorded(found)
        found.improvement = None if known is None else known.improvement
        return found

    @property
    def _final(self) -> FinalEstimate:
        return FinalEstimate(self.privatizer, self.scope, self.plan, self.space, self.default)

    @property
    def _private(self) -> bool:
        return self._learned.history.private and self.privatizer.private

    def _found(self) -> dict[str, Value]:
        """The point that was chosen at the end; where nothing is, what the algorithm makes of the answers so far.

        That is the user's default where the answers or the final estimate say that it is better.
        """
        if self.space is None:
            return {}
        usual = [self.space.completed(self.default)] if self.default else []
        ends = self._choice.found() or [self.space.decode(self.algorithm.recommend()), *usual]
        chosen = min(ends, key=self._mean, default={})
        found = {name: chosen[name] for name in self.space if self.space.active(name, chosen)}
        if self.default and (self._same(found, self.default) or self._final.worse(found)):
            return dict(self.default)
        return found

    def _mean(self, parameters: Mapping[str, Value]) -> float:
        """What all answers say about the mean loss at a point, less that at the centre; inf: nothing."""
        if self.space is None:
            return math.inf
        u, centre = self.space.encode(self.space.completed(parameters)), self.space.encode(self.space.centre())
        known = self.algorithm.difference(u, centre)
        return math.inf if known is None else known[0]

    def estimated(self, parameters: Mapping[str, Value]) -> Estimate | None:
        """Return what the final estimate released about these parameters or the defaults; None: nothing, so far.

        A run that ends with a choice makes its estimate by itself, if it was given a default configuration and chose
        another.
        """
        return self._final.recorded(parameters)

    def _held_at(self, parameters: Mapping[str, Value]) -> str | None:
        """The name of a point that is held for the choice and lies at these parameters, or None."""
        return next((point for point, at in self._choice.points.items() if self._same(at, parameters)), None)

    def _price(self, left: int) -> float:
        """GDP price of the round's next releases: its other trials' values, as many as are left, and its questions."""
        values = max(min(self.algorithm.missing(), left), 1)
        return math.hypot(self.plan.monitor_mu * math.sqrt(values), self.algorithm.price())

    def _same(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two points of the space are one, but for the last digits that coding them in the cube takes."""
        if self.space is None or not one or not other:
            return False
        u, v = (self.space.encode(self.space.completed(each)) for each in (one, other))
        return bool(np.allclose(u, v))

    def progress(self) -> dict[str, object]:
        """Return released facts only, as plain JSON data, for a dashboard."""
        with self._lock:  # another thread may be learning from a release
            recommended = {} if self.space is None else {"recommended": self._found()}
            return {
                "private": self._private,
                **self.algorithm.progress(),
                **recommended,
                "mu_budget": self.privatizer.ledger.budget.mu,
                "mu_spent": self._learned.history.spent.mu,
                "trials_planned": self.trials,
                "trials_failed": self._failures.number,
            }

    def _over(self) -> str:
        text = (
            f"the run {self.scope!r} has used up the trials it planned ({self.plan.trials}); nothing was read or "
            "spent. Read its recommendation, extend it (docs/optuna.md), or start another study with a mu= of its "
            "own."
        )
        return text if self.complete else f"{text} {self._rounds_missing()}"

    def other_parameters(self, trial: str) -> KeyConflict:
        """Return the refusal of a trial that comes again at other parameters."""
        return KeyConflict(
            f"the trial {trial!r} of the run {self.scope!r} has a released value at other parameters; nothing was "
            "trained or spent. If the study was begun again, continue it from its storage (storage=, study_name=, "
            "load_if_exists=True), or give a new study a new name."
        )

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what the run released, or this process was told, for the trial."""
        if trial in self._told or self.plan.monitor_mu == 0:
            return self._told.get(trial) == value
        charge = self.privatizer.ledger.find(self.scope, VALUE + trial)
        return charge is not None and charge.value == (value,)

    def warn_if_behind(self, trials: int) -> None:
        """Warn, once, if as many ``trials`` of all processes have ended as planned, and rounds are missing."""
        with self._lock:
            if self._warned or trials < self.trials:
                return
            self._learned.sync()
            self._warned = not self.complete
        if self._warned:
            planned = f"{trials} trials have ended and {self.trials} trials were planned."
            warnings.warn(f"{planned} {self._rounds_missing()}", stacklevel=2)

    def _rounds_missing(self) -> str:
        made = f"Only {self.algorithm.t} of {self.algorithm.rounds} {self.algorithm.unit}s were made."
        if self.space is None:
            made = f"{self._learned.history.values} of {self.plan.trials} trials have a value."
        if self._spent_by_others:
            return f"{made} Other runs have spent the budget for the next."
        if self.space is None:
            return f"{made} Go on with more trials."
        outside = f", and {self._outside} of this process's trials were not" if self._outside else ""
        return (
            f"{made} A process makes one from {self.algorithm.batch} trials of its own that are in the search "
            f"space{outside}. Go on with more trials; with several processes use threads (n_jobs) or fewer of them."
        )
