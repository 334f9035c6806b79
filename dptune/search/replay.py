"""What a run knows: a fold over the charges of its ledger, which are read when it begins, and then only what is new.

The ledger is a run's only memory. An algorithm's state follows from the answers in it, so a restart, a second process
or a copy comes to the same state. ::

    replay = Replay(CENTRED, privatizer, "svm", plan, space)
    replay.sync()                    # reads what is new
    replay.algorithm.ask(0)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dptune.errors import InputError
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import Charge
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.agreement import inherited
from dptune.search.algorithms.method import Method, RunPlan
from dptune.space import Space, Value

# Keys of the run's own releases; all others are the algorithm's.
VALUE, CHOICE, FINAL = "value/", "choice", "final"
DEFAULT = "default"  # the point of the default configuration that the final estimate is compared with


def refuse_name(trial: str) -> None:
    """Refuse a trial that has the name of a point of the final estimate."""
    if trial in (FINAL, DEFAULT):
        raise InputError(f"{trial!r} names a point of a run's final estimate; give the trial another name.")


def point_name(scope: str, trial: str, parameters: Mapping[str, Value]) -> str:
    """Return a name for the trial's losses that no other run and no other parameters share."""
    where = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()[:12]
    return json.dumps([scope, trial, where])


def as_stored(parameters: Mapping[str, Value]) -> Mapping[str, object]:
    """Return parameters as the JSON data that a ledger keeps of them."""
    kept: dict[str, object] = json.loads(json.dumps(dict(parameters), default=str), parse_constant=str)
    return kept


class Replay:
    """The charges of one scope, and those that its run starts from.

    Attributes:
        algorithm: in the state that the answers lead to.
        space: search space, with the parameters that have joined it; None where another searcher proposes.
        asked: points of the present round that this process has asked for.
        spent: by every run of the ledger.
        private: whether all of them drew their noise unseeded.
        begun: whether anything was paid for this run.
        lost: rounds that are paid and have no answer.
    """

    def __init__(
        self, method: Method, privatizer: LossPrivatizer, scope: str, plan: RunPlan, space: Space | None
    ) -> None:
        self._method, self._privatizer, self._scope, self._first_space = method, privatizer, scope, space
        self.algorithm = method.algorithm(plan.settings)
        self.space = space
        self.asked = 0
        self.spent = Spent()
        self.private = True
        self.begun = False
        self.lost = 0
        self._inherited = tuple(inherited(privatizer.ledger, scope))  # until they are learned
        self._read = 0  # charges of the ledger up to here are known
        self._answers: dict[int, Charge] = {}  # charges of the algorithm's questions, by their number
        self._releases: dict[tuple[str, str], Charge] = {}  # that are no answers to questions, by scope and key
        self._unanswered: set[int] = set()  # charges of both kinds without a recorded answer

    # ---- reading and learning ------------------------------------------------------------------------

    def sync(self, *, write: bool = False) -> bool:
        """Learn what the ledger holds and this process does not know; return whether there was any such answer.

        A draw that this process could not record is recorded now. An answer that was recorded late changes what came
        after it: then all are learned again, in their order. ``write`` makes sure that the ledger can be written.
        """
        news = self._privatizer.ledger.news(self._scope, after=self._read, again=self._unanswered, write=write)
        self.spent, self.private = news.spent, news.private
        charges = (*self._inherited, *news.charges)
        own = {charge.seq for charge in charges if self._privatizer.drew(charge)}  # before they are recorded
        charges = tuple(map(self._privatizer.recorded, charges))  # if that fails, they are read again
        self._inherited = ()
        self._read = max([self._read, *(charge.seq for charge in charges)])
        for charge in charges:
            (self._unanswered.add if charge.value is None else self._unanswered.discard)(charge.seq)
        new = {c.seq: c for c in charges if not self._is_release(c) and self._is_new(c)}
        self._join_spaces_of(new.values())
        if new and min(new) <= max(self._answers, default=0):
            self.algorithm = self.algorithm.restarted()
            self.lost = 0
            new = dict(sorted({**self._answers, **new}.items()))
        for charge in new.values():
            self.learn(charge, own=charge.seq in own)
        return bool(new)

    def _is_release(self, charge: Charge) -> bool:
        """Tell, and remember, whether it paid for a trial's value, the choice or the final estimate."""
        release = charge.key in (CHOICE, FINAL) or charge.key.startswith(VALUE)
        if release:
            self._releases[charge.scope, charge.key] = charge
            self.begun |= charge.scope == self._scope
        return release

    def _is_new(self, charge: Charge) -> bool:
        answer = self._answers.get(charge.seq)
        return answer is None or (answer.value is None and charge.value is not None)

    def learn(self, charge: Charge, *, own: bool) -> None:
        """Learn one answer of the algorithm's questions, or that it is lost; ``own``: this process drew its noise."""
        self._answers[charge.seq] = charge
        self.begun |= charge.scope == self._scope
        self.asked = 0
        before = self.algorithm.t
        answer = None if charge.value is None else np.array(charge.value)
        sigma = float(charge.description["sigma"])
        if charge.scope == self._scope:
            self.algorithm.learn(charge.key, charge.note, answer, sigma, own=own)
        else:
            self.algorithm.recall(charge.key, charge.note, answer, sigma)
        self.lost += 0 if answer is not None else self.algorithm.t - before

    def paid(self, charge: Charge) -> None:
        """Learn the answer to a question that this process has just asked."""
        self.spent = self.spent.plus(charge.mu, charge.eta, charge.epsilon)
        self._join_spaces_of([charge])
        self.learn(charge, own=True)

    # ---- the space -----------------------------------------------------------------------------------

    def _join_spaces_of(self, charges: Iterable[Charge]) -> None:
        """Search the space in which other processes have asked, too; answers that are learned again join nothing."""
        for charge in charges:
            if self.space is not None and "space" in charge.note:
                self.join(Space.from_description(charge.note["space"]))

    def join(self, space: Space) -> None:
        """Search a wider space from now on; known points lie in it, with the new parameters inactive."""
        if self.space is None or self._method.joined is None or (wider := space.joined(self.space)) == self.space:
            return
        self.algorithm = self._method.joined(self.algorithm, wider, now=self.space, began=self._first_space)
        self.space = wider
        self.lost = 0
        for seq in sorted(self._answers):
            self.learn(self._answers[seq], own=False)

    def space_note(self) -> dict[str, object]:
        """Return where the points of a question lie, if parameters have joined the space of the plan."""
        return {} if self.space is None or self.space == self._first_space else {"space": self.space.describe()}

    # ---- releases that are no answers ------------------------------------------------------------------

    @property
    def choice(self) -> Charge | None:
        """The charge of the choice at the end, with or without its answer; None: it is not paid."""
        return self._releases.get((self._scope, CHOICE))

    @property
    def chosen(self) -> bool:
        """Whether the choice at the end has its answer."""
        return self.choice is not None and self.choice.value is not None

    @property
    def values(self) -> int:
        """Number of trials of this run whose own value is paid."""
        return sum(self._is_value(*named) for named in self._releases)

    @property
    def answered_values(self) -> int:
        """Number of trials of this run whose own value is recorded."""
        return sum(c.value is not None for (scope, key), c in self._releases.items() if self._is_value(scope, key))

    def _is_value(self, scope: str, key: str) -> bool:
        return scope == self._scope and key.startswith(VALUE)

    def value_of(self, trial: str) -> Charge | None:
        """Return the charge of the trial's own value, or None if it has none yet."""
        return self._releases.get((self._scope, VALUE + trial))

    def released_values(self) -> list[tuple[Mapping[str, Any], float, float]]:
        """Return parameters, released value and its noise's standard deviation of every trial that has a value.

        With those of the runs that this one starts from.
        """
        values = (c for (_, key), c in self._releases.items() if key.startswith(VALUE) and c.value is not None)
        return [(c.note["parameters"], c.value[0], float(c.description["sigma"])) for c in values if c.value]
