"""A run as it is seen: its recommendation, what is known of a trial, its progress. Nothing here spends or reads a loss.

A run's state follows from the answers in its ledger (:mod:`dptune.search.fold`), and its plan and search space are
facts of the ledger. So whoever has the ledger alone sees what the run sees, at no cost. ::

    run = RunView.of(PrivacyLedger("ledger.db"), "svm")
    print(run.so_far())
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np

from dptune._locks import ForkSafeLock
from dptune.accounting.ledger import PrivacyLedger
from dptune.algorithms.asks_nothing import SELECTION, VALUES
from dptune.algorithms.centred_plan import CENTRED
from dptune.algorithms.gibo_plan import GIBO
from dptune.algorithms.method import Method, Plan
from dptune.algorithms.rounds import Rounds, Vector
from dptune.errors import InputError, KeyConflict
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.agreement import PRIVATIZER, described, lineage, stored_plan, stored_space, totals
from dptune.search.answer import Estimate, Recommendation, at_edge, best_of_values, difference_of_values
from dptune.search.fold import VALUE, Fold
from dptune.search.last_releases import FinalEstimate, chosen
from dptune.space import Space, Value

METHODS = {method.name: method for method in (CENTRED, GIBO, SELECTION, VALUES)}


class RunView:
    """The part of a :class:`dptune.SearchRun` that only looks.

    Args:
        privatizer: for the ledger and the public facts about the people; it needs no losses.
        scope: the run's name.
        first_space: search space as it was when the run began; None where another searcher proposes.
        default: the user's default configuration.

    Attributes:
        fold: what it knows of its ledger.
        trials: planned, with those of the runs that this one extends.
        trials_failed: of this process.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        scope: str,
        plan: Plan,
        first_space: Space | None,
        default: Mapping[str, Value] | None,
    ) -> None:
        self.method, self.privatizer, self.ledger, self.scope = method, privatizer, privatizer.ledger, scope
        self.plan, self.first_space, self.default = plan, first_space, default
        self.trials, self.trials_failed = totals(self.ledger, scope)[0], 0
        self.fold = Fold(method, privatizer, scope, plan, first_space)
        self._lineage = lineage(self.ledger, scope)  # itself, and the runs that it goes back to,
        self._extends = lineage(self.ledger, scope, extended=True)  # and of them those that it extends
        self.lock = ForkSafeLock()
        self._values: dict[str, float] = {}  # trial of this process -> its value, as it was returned
        self._outside = 0  # trials of this process that were no points of the space
        self._spent_by_others = self._warned = False
        self.fold.sync()

    @classmethod
    def of(cls, ledger: PrivacyLedger, scope: str) -> RunView | None:
        """Return the view of the run of this name, from its ledger alone.

        None for a method or a setting of the user's own, for a plan of a version that had other settings, and for what
        is not a run.
        """
        stored, people = stored_plan(ledger, scope), ledger.fact(scope, PRIVATIZER)
        if stored is None or not isinstance(people, dict) or (method := METHODS.get(stored["algorithm"])) is None:
            return None
        space = stored_space(ledger, scope)
        try:
            settings = None if method.restored is None else method.restored(stored["settings"], space)
            plan = None if settings is None else Plan.from_description(stored, settings)
        except (KeyError, TypeError):  # another version's
            return None
        if plan is None or described(plan, space, stored.get("start_from")) != stored:
            return None
        point, default = getattr(plan.settings, "default", None), None
        if point is not None and space is not None:
            decoded = space.decode(np.array(point))
            default = {name: value for name, value in decoded.items() if space.active(name, decoded)}
        privatizer = LossPrivatizer(ledger, n=people["n"], clip=tuple(people["clip"]))
        return RunView(method, privatizer, scope, plan, space, default)

    @property
    def algorithm(self) -> Rounds:
        """The method's algorithm, in the state that the ledger's answers lead to."""
        return self.fold.algorithm

    @property
    def space(self) -> Space | None:
        """The search space, with the parameters that have joined it; None where another searcher proposes."""
        return self.fold.space

    # ---- the answer ----------------------------------------------------------------------------------

    def recommend(self) -> Recommendation:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values.

        Beside them: how much better they are than the defaults, from everything released, and what to look at twice.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        with self.lock:
            self.fold.sync()
            if self.space is not None and self.plan.monitor_mu == 0 and not self._knows:
                centre = "no answer is released yet, so this recommendation is the centre of the search space."
                warnings.warn(f"{centre} {self._rounds_missing()}", stacklevel=2)
            return self._recommended()

    def so_far(self) -> Recommendation | None:
        """Return what :meth:`recommend` would return now, or None as long as no answer says where to look."""
        with self.lock:
            self.fold.sync()
            return self._recommended() if self._knows else None

    @property
    def _knows(self) -> bool:
        """Whether any answer of the ledger says where to look."""
        return self.fold.values > 0 if self.space is None else self.algorithm.t > 0 or self.fold.chosen

    def _recommended(self) -> Recommendation:
        values = self.fold.released_values()
        defaults: Mapping[str, Value] = self.default or {}
        edge: tuple[str, ...] = ()
        if self.space is None:  # another searcher proposed: the best trial by a model of all values
            if (best := best_of_values(values, self.default)) is None:
                raise InputError("no value was released yet; there is nothing to recommend.")
            found, gain = best
        else:
            found, defaults = self._answer(self.space), defaults or self.space.centre()
            x, y = self.space.encode(defaults), self.space.encode(found)
            gain = self.algorithm.difference(x, y) or difference_of_values(self.space, values, x, y)
            edge = at_edge(self.space, found)
        known = self._final.latest(found)
        return Recommendation(
            found,
            defaults=defaults,
            improvement=None if known is None else known.improvement,
            hint=None if gain is None else Estimate(*gain, self._private),
            at_edge=edge,
        )

    def _answer(self, space: Space) -> dict[str, Value]:
        """The point that was chosen at the end; where nothing is, what the algorithm makes of the answers so far.

        That is the user's default where the answers or the final estimate say that it is better.
        """
        ends: list[dict[str, Value]] = chosen(self.ledger, self._lineage) if self.plan.choice_mu > 0 else []
        if not ends:
            ends = [space.decode(self.algorithm.recommend()), *([dict(self.default)] if self.default else [])]
        best = min((space.completed(point) for point in ends), key=self._mean)  # with what has joined since
        found = {name: best[name] for name in space if space.active(name, best)}
        if self.default and (self.same(found, self.default) or self._final.worse(found)):
            return dict(self.default)
        return found

    def _mean(self, parameters: Mapping[str, Value]) -> float:
        """What all answers say about the mean loss at a point, less that at the centre; inf: nothing."""
        known = self._above_centre(parameters)
        return math.inf if known is None else known[0]

    def _above_centre(self, parameters: Mapping[str, Value]) -> tuple[float, float] | None:
        if self.space is None:
            return None
        return self.algorithm.difference(self._point(self.space, parameters), self.space.encode(self.space.centre()))

    def same(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Tell whether two points of the space are one, but for the last digits that coding them in the cube takes."""
        if self.space is None or not one or not other:
            return False
        return bool(np.allclose(self._point(self.space, one), self._point(self.space, other)))

    @staticmethod
    def _point(space: Space, parameters: Mapping[str, Value]) -> Vector:
        return space.encode(space.completed(parameters))

    @property
    def _final(self) -> FinalEstimate:
        return FinalEstimate(self.privatizer, self._extends, self.plan, self.space, self.default)

    def estimated(self, parameters: Mapping[str, Value]) -> Estimate | None:
        """Return what the final estimate released about these parameters or the defaults; None: nothing, so far.

        A run that ends with a choice makes its estimate by itself, if it was given a default configuration and chose
        another.
        """
        return self._final.recorded(parameters)

    # ---- a trial -------------------------------------------------------------------------------------

    def value_is(self, loss: str) -> str:
        """Return what a trial's value is, as on the axis of a plot, where the loss has this name."""
        return f"mean {loss}, noisy" if self.plan.monitor_mu > 0 else self.algorithm.shows.format(loss=loss)

    def sigma(self, trial: str) -> float | None:
        """Return the standard deviation of the noise in the trial's value; None: no release of its own is in it."""
        with self.lock:
            charge = self.fold.value_of(trial)
            return None if charge is None else float(charge.description["sigma"])

    def recorded_parameters(self, trial: str) -> Mapping[str, object] | None:
        """Return where the trial was evaluated, as plain JSON data, or None if it has no release of its own yet."""
        with self.lock:
            charge = self.fold.value_of(trial)
            return None if charge is None else charge.note["parameters"]

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what the run released, or this process was told, for the trial."""
        if trial in self._values or self.plan.monitor_mu == 0:
            return self._values.get(trial) == value
        charge = self.ledger.find(self.scope, VALUE + trial)
        return charge is not None and charge.value == (value,)

    def other_parameters(self, trial: str) -> KeyConflict:
        """Return the refusal of a trial that comes again at other parameters."""
        return KeyConflict(
            f"the trial {trial!r} of the run {self.scope!r} has a released value at other parameters; nothing was "
            "trained or spent. If the study was begun again, continue it from its storage (storage=, study_name=, "
            "load_if_exists=True), or give a new study a new name."
        )

    # ---- how far it is -------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether the run has nothing left to release for trials."""
        valued = self.space is None and self.fold.values >= self.plan.trials
        return self.algorithm.finished or valued or self.fold.chosen

    @property
    def _values_left(self) -> int:
        """Trials that may still have a value."""
        return self.plan.trials + self.plan.spare - self.fold.values

    @property
    def _used_up(self) -> bool:
        return self.complete or self._values_left <= 0

    @property
    def _private(self) -> bool:
        return self.fold.private and self.privatizer.private

    def progress(self) -> dict[str, object]:
        """Return released facts only, as plain JSON data, for a dashboard."""
        with self.lock:  # another thread may be learning from a release
            recommended = {} if self.space is None else {"recommended": self._answer(self.space)}
            return {
                "private": self._private,
                **self.algorithm.progress(),
                **recommended,
                "mu_budget": self.ledger.mu,
                "mu_spent": self.fold.spent.mu,
                "trials_planned": self.trials,
                "trials_failed": self.trials_failed,
            }

    def warn_if_behind(self, trials: int) -> None:
        """Warn, once, if as many ``trials`` of all processes have ended as planned, and rounds are missing."""
        with self.lock:
            if self._warned or trials < self.trials:
                return
            self.fold.sync()
            self._warned = not self.complete
        if self._warned:
            planned = f"{trials} trials have ended and {self.trials} trials were planned."
            warnings.warn(f"{planned} {self._rounds_missing()}", stacklevel=2)

    def _rounds_missing(self) -> str:
        made = f"Only {self.algorithm.t} of {self.algorithm.rounds} {self.algorithm.unit}s were made."
        if self.space is None:
            made = f"{self.fold.values} of {self.plan.trials} trials have a value."
        if self._spent_by_others:
            return f"{made} Other runs have spent the budget for the next."
        if self.space is None:
            return f"{made} Go on with more trials."
        outside = f", and {self._outside} of this process's trials were not" if self._outside else ""
        return (
            f"{made} A process makes one from {self.algorithm.batch} trials of its own that are in the search "
            f"space{outside}. Go on with more trials; with several processes use threads (n_jobs) or fewer of them."
        )
