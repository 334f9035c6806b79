"""A run's state from its ledger: a fold over the charges, read at the beginning and then incrementally.

The ledger is a run's only memory. An algorithm's state follows from the answers in it, so a restart, a second process
or a copy reaches the same state. Nothing here charges or reads a loss. ::

    replay = Replay(CENTRED, privatizer, "svm", plan, space, default)
    replay.sync()                    # reads new charges
    replay.algorithm.ask(0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dptune._numbers import rounded_up
from dptune.errors import InputError, KeyConflict
from dptune.ledger.entries import cost_of
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import Charge
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results import Estimate, left_in_words
from dptune.search.algorithms.method import Method, RunPlan
from dptune.search.answer import Recommendation, RunFacts, at_edge, best_of_values, difference_of_values
from dptune.search.final_estimate import FINAL, FinalEstimate, Parameters
from dptune.space import Space, Value

VALUE = "value/"  # prefix of the keys of trials' values; all keys but these and FINAL are the algorithm's


class Replay:
    """The charges of one scope, and the state that follows from them.

    Attributes:
        algorithm: the algorithm after all answers.
        final: the run's final estimate.
        asked: number of proposed points of the present round in this process.
        spent: cost of every run of the ledger.
        private: whether all their noise was unseeded.
        begun: whether anything was charged for this run.
        lost: rounds that are charged and have no answer.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        scope: str,
        plan: RunPlan,
        space: Space | None,
        default: Parameters | None,
    ) -> None:
        self._privatizer, self._scope, self._plan, self._space, self._default = privatizer, scope, plan, space, default
        self.algorithm = method.algorithm(plan.settings)
        self.final = FinalEstimate(privatizer, scope, plan, space, default)
        self.asked = 0
        self.spent = Spent()
        self.private = True
        self.begun = False
        self.lost = 0
        self._read = 0  # number of the last known charge of the ledger
        self._answers: dict[int, Charge] = {}  # charges of the algorithm's queries, by their number
        self._values: dict[str, Charge] = {}  # charges of trials' values, by their key
        self._unanswered: set[int] = set()  # charges of all kinds without a recorded answer

    # ---- reading and learning ------------------------------------------------------------------------

    def sync(self, *, write: bool = False) -> bool:
        """Learn the ledger's new answers; return whether there were any.

        A draw that this process could not record is recorded now. An answer that was recorded late changes later
        states: then all are learned again, in their order. ``write`` makes sure that the ledger can be written.
        """
        news = self._privatizer.ledger.news(self._scope, after=self._read, again=self._unanswered, write=write)
        self.spent, self.private = news.spent, news.private
        own = {charge.seq for charge in news.charges if self._privatizer.drew(charge)}  # before they are recorded
        charges = tuple(map(self._privatizer.recorded, news.charges))  # if that fails, they are read again
        self._read = max([self._read, *(charge.seq for charge in charges)])
        self.begun |= bool(charges)
        for charge in charges:
            (self._unanswered.add if charge.value is None else self._unanswered.discard)(charge.seq)
        self._values.update((charge.key, charge) for charge in charges if charge.key.startswith(VALUE))
        new = {c.seq: c for c in charges if c.key != FINAL and c.key not in self._values and self._is_new(c)}
        if new and min(new) <= max(self._answers, default=0):
            self.algorithm = self.algorithm.restarted()
            self.lost = 0
            new = dict(sorted({**self._answers, **new}.items()))
        for charge in new.values():
            self._learn(charge, own=charge.seq in own)
        return bool(new)

    def _is_new(self, charge: Charge) -> bool:
        answer = self._answers.get(charge.seq)
        return answer is None or (answer.value is None and charge.value is not None)

    def _learn(self, charge: Charge, *, own: bool) -> None:
        """Learn one answer to the algorithm's queries, or its loss; ``own``: this process drew its noise."""
        self._answers[charge.seq] = charge
        self.asked = 0
        before = self.algorithm.t
        answer = None if charge.value is None else np.array(charge.value)
        self.algorithm.learn(charge.key, charge.note, answer, float(charge.description["sigma"]), own=own)
        self.lost += 0 if answer is not None else self.algorithm.t - before

    def paid(self, charge: Charge) -> None:
        """Learn the answer to a query that this process has just made."""
        self.spent = self.spent.plus(charge.mu, charge.eta, charge.epsilon)
        self.begun = True
        self._learn(charge, own=True)

    # ---- the trials' values --------------------------------------------------------------------------

    def value_of(self, trial: str) -> Charge | None:
        """Return the charge of the trial's own value, or None if it has none yet."""
        return self._values.get(VALUE + trial)

    @property
    def values(self) -> int:
        return len(self._values)

    @property
    def answered_values(self) -> int:
        """Return the number of trials whose own value is recorded."""
        return sum(charge.value is not None for charge in self._values.values())

    def released_values(self) -> list[tuple[Mapping[str, Any], float, float]]:
        """Return parameters, released value and its noise's standard deviation of every trial that has a value."""
        charges = self._values.values()
        return [(c.note["parameters"], c.value[0], float(c.description["sigma"])) for c in charges if c.value]

    # ---- progress ------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Return whether the run's planned releases, except the final estimate, are made and recorded.

        A round whose answer was lost with its process is used up.
        """
        return self.values >= self._plan.trials if self._space is None else self.algorithm.finished

    @property
    def values_left(self) -> int:
        """Return the number of trials that may still have a value."""
        return self._plan.trials + self._plan.spare - self.values

    def progress(self) -> dict[str, object]:
        """Return the numbers of rounds and values with answers, and of those whose answers are lost."""
        counts = self.algorithm.progress()
        unit = self.algorithm.unit
        if f"{unit}s_done" in counts:
            counts |= {f"{unit}s_done": self.algorithm.t - self.lost, f"{unit}s_lost": self.lost}
        if self._plan.monitor_mu > 0:
            counts |= {"values_done": self.answered_values, "values_lost": self.values - self.answered_values}
        return {**counts, "complete": self.complete}

    def missing(self, *, outside: int, spent_by_others: bool) -> str:
        """Return the remaining releases and how to resume the run, in words; "" if it is complete."""
        if self.complete:
            return ""
        if self._space is None:
            done = f"{self.answered_values} of {self._plan.trials} planned trials have a value."
            return f"{done} Resume the run with more trials."
        if spent_by_others:
            spent = "Other runs have spent the budget for it: raise the budget of the ledger."
            return f"{self._trials_made()} {spent}"
        again = "Resume the run with more trials; with several processes use threads (n_jobs) or fewer processes."
        return f"{self.rounds_made(outside)} {again}"

    def rounds_made(self, outside: int) -> str:
        """Return how many rounds are made and why no more; ``outside`` trials were outside the space."""
        unit = self.algorithm.unit
        others = f", and {outside} of this process's trials were not" if outside else ""
        charged = "" if self._plan.monitor_mu > 0 else ", and nothing was charged for them"
        return (
            f"{self._trials_made()} A process makes one {unit} from {self.algorithm.batch} trials of its own that are "
            f"in the search space{others}. If it stops within a {unit}, the losses of its last trials are lost"
            f"{charged}."
        )

    def _trials_made(self) -> str:
        rounds = f"{self.algorithm.t} of {self.algorithm.rounds} {self.algorithm.unit}s"
        return f"{self._made()}, and {rounds}."

    def _made(self, verb: str = "are made") -> str:
        algorithm, made = self.algorithm, self._plan.trials
        if not self.complete:
            in_rounds = (algorithm.t + 1) * algorithm.batch - algorithm.missing()
            made = self.answered_values if self._plan.monitor_mu > 0 else in_rounds
        return f"{made} of {self._plan.trials} planned trials {verb}".rstrip()

    def lost_in_words(self) -> str:
        """Return how many charged answers were lost with their process, and what was paid for them; "" for none."""
        charges = [*self._answers.values(), *self._values.values(), *filter(None, [self.final.charge])]
        lost = [charge for charge in charges if charge.value is None]
        if not lost:
            return ""
        one = len(lost) == 1
        return (
            f"{len(charges) - len(lost)} of {len(charges)} answers: {len(lost)} {'was' if one else 'were'} lost to a "
            f"kill, mu={rounded_up(cost_of(lost).mu)} was paid for {'it' if one else 'them'}."
        )

    # ---- the answer ----------------------------------------------------------------------------------

    @property
    def knows(self) -> bool:
        """Return whether the ledger has an answer that guides the search."""
        return bool(self.released_values()) if self._space is None else self.algorithm.t > self.lost

    def answer(self, space: Space) -> dict[str, Value]:
        """Return the algorithm's recommendation, or the user's default if the answers favour it."""
        best = space.decode(self.algorithm.recommend())
        if self._default:
            x, y = space.encode(self._default), space.encode(best)
            gain = self.algorithm.difference(x, y)
            if (gain is not None and gain[0] < 0) or np.allclose(x, y) or self.final.worse(best):
                return dict(self._default)
        return best

    def recommended(self, missing: str) -> Recommendation:
        """Return the parameters to use, with the released facts about them.

        Raises:
            InputError: the method proposes nothing, and no value was released yet.
        """
        values, space = self.released_values(), self._space
        defaults: Parameters = self._default or {}
        edge: tuple[str, ...] = ()
        if space is None:  # another searcher proposed: the best trial by a model of all values
            if (best := best_of_values(values, self._default)) is None:
                raise InputError("no value was released yet; there is nothing to recommend.")
            answer, gain = best
        else:
            answer = self.answer(space)
            defaults = defaults or space.centre()
            x, y = space.encode(defaults), space.encode(answer)
            gain = self.algorithm.difference(x, y) or difference_of_values(space, values, x, y)
            edge = at_edge(space, answer)
        estimate = self.final.recorded(answer)
        reason, remedy = self.final.lacking() if estimate is None or estimate.improvement is None else ("", "")
        left = left_in_words(self._privatizer.ledger, self.spent, planned=bool(missing))
        return Recommendation(
            answer,
            defaults=defaults,
            improvement=None if estimate is None else estimate.improvement,
            hint=None if gain is None else Estimate(*gain, self.private and self._privatizer.private),
            at_edge=edge,
            reason=reason,
            remedy=remedy,
            missing=missing,
            kept=answer == defaults and (gain is not None or (space is not None and self.knows)),
            run=RunFacts(self._made(""), self._privatizer.n, estimate, left, lost=self.lost_in_words()),
        )


def other_parameters(scope: str, trial: str) -> KeyConflict:
    """Return the error for a trial that is repeated at other parameters."""
    return KeyConflict(
        f"the trial {trial!r} of the run {scope!r} has a released value at other parameters; nothing was trained or "
        "spent. If the study was begun again, continue it from its storage (storage=, study_name=, "
        "load_if_exists=True), or give a new study a new name."
    )
