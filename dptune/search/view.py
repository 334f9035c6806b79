"""A run as it is seen: its recommendation, what is known of a trial, its progress. Nothing here spends or reads a loss.

A run's state follows from the answers in its ledger (:mod:`dptune.search.replay`), and its plan and search space are
facts of the ledger. So whoever has the ledger alone sees what the run sees, at no cost. ::

    run = RunView.of(PrivacyLedger("ledger.db"), "svm")
    print(run.so_far())
"""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Mapping

import numpy as np

from dptune._arrays import Vector
from dptune._locks import ForkSafeLock
from dptune.errors import InputError, KeyConflict
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results.budget import left_in_words
from dptune.results.estimate import Estimate
from dptune.search.agreement import PRIVATIZER, described, lineage, stored_plan, stored_space, totals
from dptune.search.algorithms.centred_plan import CENTRED
from dptune.search.algorithms.gibo_plan import GIBO
from dptune.search.algorithms.method import Method, RunPlan
from dptune.search.algorithms.one_shot import SELECTION, VALUES
from dptune.search.algorithms.rounds import Rounds
from dptune.search.answer import Recommendation, RunFacts, at_edge, best_of_values, difference_of_values
from dptune.search.final_choice import chosen
from dptune.search.final_estimate import FinalEstimate
from dptune.search.replay import VALUE, Replay
from dptune.space import Space, Value


class Lacks(enum.Enum):
    """What a run has still to release by itself."""

    VALUES = "values of trials"
    ROUNDS = "rounds"
    CHOICE = "the choice at its end"
    ESTIMATE = "the estimate of what was chosen beside the default"


METHODS = {method.name: method for method in (CENTRED, GIBO, SELECTION, VALUES)}


class RunView:
    """The part of a :class:`dptune.SearchRun` that only looks.

    Args:
        privatizer: for the ledger and the public facts about the people; it needs no losses.
        scope: the run's name.
        first_space: search space as it was when the run began; None where another searcher proposes.
        default: the user's default configuration.

    Attributes:
        replay: what it knows of its ledger.
        trials, trials_failed: planned, with those of the runs that this one extends; failed, of this process.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        scope: str,
        plan: RunPlan,
        first_space: Space | None,
        default: Mapping[str, Value] | None,
    ) -> None:
        self.method, self.scope = method, scope
        self.privatizer, self.ledger = privatizer, privatizer.ledger
        self.plan, self.first_space, self.default = plan, first_space, default
        self.trials = totals(self.ledger, scope)[0]
        self.trials_failed = 0
        self.replay = Replay(method, privatizer, scope, plan, first_space)
        self._lineage = lineage(self.ledger, scope)  # itself, and the runs that it goes back to,
        self._extends = lineage(self.ledger, scope, extended=True)  # and of them those that it extends
        self.lock = ForkSafeLock()
        self._values: dict[str, float] = {}  # trial of this process -> its value, as it was returned
        self._outside = 0  # trials of this process that were no points of the space
        self.spent_by_others = self.gave_up = False
        self.replay.sync()

    @classmethod
    def of(cls, ledger: PrivacyLedger, scope: str) -> RunView | None:
        """Return the view of the run of this name, from its ledger alone.

        None for a method or a setting of the user's own, for a plan of a version that had other settings, and for what
        is not a run.
        """
        stored = stored_plan(ledger, scope)
        people = ledger.fact(scope, PRIVATIZER)
        if stored is None or not isinstance(people, dict) or (method := METHODS.get(stored["algorithm"])) is None:
            return None
        space = stored_space(ledger, scope)
        try:
            settings = None if method.restored is None else method.restored(stored["settings"], space)
            plan = None if settings is None else RunPlan.from_description(stored, settings)
        except (KeyError, TypeError):  # another version's
            return None
        if plan is None or described(plan, space, stored.get("start_from")) != stored:
            return None
        point = getattr(plan.settings, "default", None)
        default = None
        if point is not None and space is not None:
            decoded = space.decode(np.array(point))
            default = {name: value for name, value in decoded.items() if space.active(name, decoded)}
        privatizer = LossPrivatizer(ledger, n=people["n"], clip=tuple(people["clip"]))
        return RunView(method, privatizer, scope, plan, space, default)

    @property
    def algorithm(self) -> Rounds:
        """The method's algorithm, in the state that the ledger's answers lead to."""
        return self.replay.algorithm

    @property
    def space(self) -> Space | None:
        """The search space, with the parameters that have joined it; None where another searcher proposes."""
        return self.replay.space

    # ---- the answer ----------------------------------------------------------------------------------

    def recommend(self) -> Recommendation:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values.

        Beside them: how much better they are than the defaults, from everything released, and what to look at twice.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        with self.lock:
            self.replay.sync()
            if self.space is not None and self.plan.monitor_mu == 0 and not self._knows:
                centre = "no answer is released yet, so this recommendation is the centre of the search space."
                warnings.warn(f"{centre} {self.missing()}", stacklevel=2)
            return self._recommended()

    def so_far(self) -> Recommendation | None:
        """Return what :meth:`recommend` would return now, or None as long as no answer says where to look."""
        with self.lock:
            self.replay.sync()
            return self._recommended() if self._knows else None

    @property
    def _knows(self) -> bool:
        """Whether any answer of the ledger says where to look."""
        answered = self.algorithm.t > self.replay.lost or self.replay.chosen
        return bool(self.replay.released_values()) if self.space is None else answered

    def _recommended(self) -> Recommendation:
        values = self.replay.released_values()
        defaults: Mapping[str, Value] = self.default or {}
        edge: tuple[str, ...] = ()
        if self.space is None:  # another searcher proposed: the best trial by a model of all values
            if (best := best_of_values(values, self.default)) is None:
                raise InputError("no value was released yet; there is nothing to recommend.")
            answer, gain = best
        else:
            answer = self.answer(self.space)
            defaults = defaults or self.space.centre()
            x, y = self.space.encode(defaults), self.space.encode(answer)
            gain = self.algorithm.difference(x, y) or difference_of_values(self.space, values, x, y)
            edge = at_edge(self.space, answer)
        estimate = self.final.latest(answer)
        missing = self.missing()
        reason, remedy = self._reason() if estimate is None or estimate.improvement is None else ("", "")
        return Recommendation(
            answer,
            defaults=defaults,
            improvement=None if estimate is None else estimate.improvement,
            hint=None if gain is None else Estimate(*gain, self._private),
            at_edge=edge,
            reason=reason,
            remedy=remedy,
            missing=missing,
            kept=answer == defaults and (gain is not None or (self.space is not None and self._knows)),
            run=RunFacts(
                f"{self._count_made()} of {self.trials} planned trials",
                self.privatizer.n,
                estimate,
                left_in_words(self.ledger, self.replay.spent, planned=bool(missing)),
            ),
        )

    def _reason(self) -> tuple[str, str]:
        """Why nothing is released about the recommendation and the default together, and what to do."""
        if not self.default:
            return "the run has no default=", "give the next run default=, the configuration that you use today."
        if self.plan.final_mu == 0:
            return "final_share=0 reserves no budget for it", "leave final_share= out in the next run."
        if self.final.charge is not None and self.lacks is not Lacks.ESTIMATE:
            made = "the run has made its one final estimate at other parameters, or without the default"
            return made, "begin another run to compare the two."
        return (
            "the final estimate is not made yet",
            "call estimate() with this recommendation. It releases both losses.",
        )

    def answer(self, space: Space) -> dict[str, Value]:
        """Return the point that was chosen at the end; before that, what the algorithm makes of the answers so far.

        That is the user's default where the answers or the final estimate say that it is better.
        """
        ends: list[dict[str, Value]] = chosen(self.ledger, self._lineage) if self.plan.choice_mu > 0 else []
        if not ends:
            ends = [space.decode(self.algorithm.recommend()), *([dict(self.default)] if self.default else [])]
        best = min((space.completed(point) for point in ends), key=self.mean)  # with what has joined since
        active = {name: best[name] for name in space if space.active(name, best)}
        if self.default and (self.same(active, self.default) or self.final.worse(active)):
            return dict(self.default)
        return active

    def mean(self, parameters: Mapping[str, Value]) -> float:
        """Return what all answers say about the mean loss at a point, less that at the centre; inf: nothing."""
        if self.space is None:
            return math.inf
        centre = self.space.encode(self.space.centre())
        estimate = self.algorithm.difference(self.encoded(self.space, parameters), centre)
        return math.inf if estimate is None else estimate[0]

    def same(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Tell whether two points of the space are one, but for the last digits that coding them in the cube takes."""
        if self.space is None or not one or not other:
            return False
        return bool(np.allclose(self.encoded(self.space, one), self.encoded(self.space, other)))

    @staticmethod
    def encoded(space: Space, parameters: Mapping[str, Value]) -> Vector:
        """Return parameters as a point of the space's cube (d,), with those that are not given."""
        return space.encode(space.completed(parameters))

    @property
    def final(self) -> FinalEstimate:
        """The run's final estimate."""
        return FinalEstimate(self.privatizer, self._extends, self.plan, self.space, self.default)

    def estimated(self, parameters: Mapping[str, Value]) -> Estimate | None:
        """Return what the final estimate released about these parameters or the defaults; None: nothing, so far."""
        return self.final.recorded(parameters)

    # ---- a trial -------------------------------------------------------------------------------------

    def value_is(self, loss: str) -> str:
        """Return what a trial's value is, as on the axis of a plot, where the loss has this name."""
        if self.plan.monitor_mu > 0:
            return f"mean {loss}, noisy"
        return self.algorithm.shows.format(loss=loss, most=self.privatizer.interval.high)

    def sigma(self, trial: str) -> float | None:
        """Return the standard deviation of the noise in the trial's value; None: no release of its own is in it."""
        with self.lock:
            charge = self.replay.value_of(trial)
            return None if charge is None else float(charge.description["sigma"])

    def recorded_parameters(self, trial: str) -> Mapping[str, object] | None:
        """Return where the trial was evaluated, as plain JSON data, or None if it has no release of its own yet."""
        with self.lock:
            charge = self.replay.value_of(trial)
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
        """Whether the run has made all releases that it plans to make by itself, and their answers are recorded.

        A round whose answer was lost with its process is used up; the choice at the end and the estimate are not.
        """
        return self.lacks is None

    @property
    def lacks(self) -> Lacks | None:
        """What the run has still to release by itself."""
        if self.space is None:
            return None if self.replay.values >= self.plan.trials else Lacks.VALUES
        if self.plan.choice_mu > 0 and not self.replay.chosen and not self.gave_up:
            return Lacks.CHOICE if self.algorithm.finished or self.replay.choice else Lacks.ROUNDS
        if self.plan.choice_mu > 0:
            return Lacks.ESTIMATE if self._lacks_estimate(self.space) else None
        return None if self.algorithm.finished else Lacks.ROUNDS

    def _lacks_estimate(self, space: Space) -> bool:
        """Whether a configuration was chosen instead of the default, and their comparison has no answer."""
        if not self.default or self.plan.final_mu == 0 or self.gave_up or not self.replay.chosen:
            return False
        answer = self.answer(space)
        return not self.same(answer, self.default) and self.final.lacks(answer)

    @property
    def _values_left(self) -> int:
        """Trials that may still have a value."""
        return self.plan.trials + self.plan.spare - self.replay.values

    @property
    def used_up(self) -> bool:
        """Whether no trial is left to be paid."""
        return self.complete or self._values_left <= 0

    @property
    def _private(self) -> bool:
        return self.replay.private and self.privatizer.private

    def progress(self) -> dict[str, object]:
        """Return released facts only, as plain JSON data, for a dashboard."""
        with self.lock:  # another thread may be learning from a release
            recommended = {} if self.space is None else {"recommended": self.answer(self.space)}
            return {
                "private": self._private,
                **self._answered(),
                "complete": self.complete,
                **recommended,
                "mu_budget": self.ledger.mu,
                "mu_spent": self.replay.spent.mu,
                "trials_planned": self.trials,
                "trials_failed": self.trials_failed,
            }

    def _answered(self) -> dict[str, object]:
        """How many rounds and values have their answers, and how many are paid and have lost theirs."""
        counts = self.algorithm.progress()
        unit = self.algorithm.unit
        if f"{unit}s_done" in counts:
            counts |= {f"{unit}s_done": self.algorithm.t - self.replay.lost, f"{unit}s_lost": self.replay.lost}
        if self.plan.choice_mu > 0:
            counts["chosen"] = self.replay.chosen
        if self.plan.monitor_mu > 0:
            answered = self.replay.answered_values
            counts |= {"values_done": answered, "values_lost": self.replay.values - answered}
        return counts

    def still_missing(self) -> str:
        """Return what is :meth:`missing`, with what other processes have released by now."""
        with self.lock:
            self.replay.sync()
            return self.missing()

    def missing(self) -> str:
        """Return what the run has still to release by itself and how to resume it, in words; "" if it is complete."""
        lacks = self.lacks
        if lacks is None:
            return ""
        spent = " Other runs have spent the budget for it: raise the budget of the ledger." * self.spent_by_others
        if lacks is Lacks.VALUES:
            done = f"{self.replay.answered_values} of {self.plan.trials} planned trials have a value."
            return f"{done}{spent or ' Resume the run with more trials.'}"
        if lacks is Lacks.ESTIMATE:
            again = " Resume the run with more trials: it trains the two once more and releases it."
            return f"The comparison of the chosen configuration with the default is not released.{spent or again}"
        if lacks is Lacks.CHOICE:
            paid = "is paid and has no answer" if self.replay.choice else "is not made"
            again = " Resume the run with more trials: it trains the best candidates once more and chooses."
            return f"The choice at the end of the run {paid}.{spent or again}"
        again = "Resume the run with more trials; with several processes use threads (n_jobs) or fewer processes."
        return f"{self._trials_made()}{spent}" if spent else f"{self._rounds_made()} {again}"

    def _count_made(self) -> int:
        """Trials that are made, with those of the runs that this one extends."""
        if self.lacks not in (Lacks.ROUNDS, Lacks.VALUES):
            return self.trials
        algorithm = self.algorithm
        made = (algorithm.t - algorithm.before) * algorithm.batch + algorithm.batch - algorithm.missing()
        made = self.replay.answered_values if self.plan.monitor_mu > 0 else made
        return self.trials - self.plan.trials + made

    def _trials_made(self) -> str:
        algorithm = self.algorithm
        counts = algorithm.t > 0 or self.plan.choice_mu == 0
        rounds = f", and {algorithm.t} of {algorithm.rounds} {algorithm.unit}s" if counts else ""
        return f"{self._count_made()} of {self.trials} planned trials are made{rounds}."

    def _rounds_made(self) -> str:
        unit = self.algorithm.unit
        outside = ""
        if self._outside:
            outside = f", and {self._outside} of this process's trials were not"
        charged = "" if self.plan.monitor_mu > 0 else ", and nothing was charged for them"
        return (
            f"{self._trials_made()} A process makes one {unit} from {self.algorithm.batch} trials of its own that are "
            f"in the search space{outside}. If it stops within a {unit}, the losses of its last trials are lost"
            f"{charged}."
        )
