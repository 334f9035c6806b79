"""The last word of a run: one of its evaluated points, chosen privately by the losses themselves.

A surrogate smooths, and knows clipped losses only: the point where it is smallest need not be the best one by the
user's mean, nor better than what the user had. The exponential mechanism among the points that the surrogate finds
best, and the default configuration, looks at the mean itself. It costs one release, whose price does not grow with
their number, and no trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune.accounting.ledger import Charge
from dptune.algorithms.method import Plan
from dptune.errors import BudgetExhausted, KeyConflict
from dptune.parameters import as_choice
from dptune.privacy.mechanism import noisy_min
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.names import CHOICE, as_stored
from dptune.space import Space, Value

Parameters = Mapping[str, Value]
DEFAULT_ODDS = 10.0  # beforehand, of the default configuration against all other candidates together


class Choice:
    """The points of this process, held until one of them is chosen.

    Several processes: the one whose question ends the run chooses among its own. A run that ends without a choice,
    because its losses were lost or its budget was spent by others, keeps its algorithm's answer. A run that starts from
    others has no losses of theirs: it chooses among its own trials, and compares with what they chose.

    Guarantee: ``plan.choice_mu``-GDP under replacing one person (:func:`dptune.privacy.mechanism.noisy_min`), one
    more release of the run. Which points are candidates, and how likely each is beforehand, depends on released values
    and on which points this process has evaluated.
    """

    def __init__(self, privatizer: LossPrivatizer, scopes: Sequence[str], plan: Plan) -> None:
        self._privatizer, self._scopes, self._plan = privatizer, scopes, plan  # the run's own scope first
        self._held: dict[str, Parameters] = {}
        self._evaluated: list[Parameters] = []  # here, failed ones too
        self._asked_again: list[npt.NDArray[np.float64]] = []

    @property
    def points(self) -> Mapping[str, Parameters]:
        """The points that are held, by name."""
        return self._held

    def take(self, point: str, parameters: Parameters, *, failed: bool) -> None:
        """Hold a point whose losses are with the curator; one that failed cannot be chosen."""
        if self._plan.choice_mu > 0:
            self._evaluated.append(parameters)
            if not failed:
                self._held[point] = parameters

    def lacking(self, best: Iterable[npt.NDArray[np.float64]], space: Space) -> dict[str, Value] | None:
        """Return the first of the points (k, d) that this process has not evaluated, once each; None: there is none.

        After a restart they are asked for anew: a process chooses among its own points. Failures are ignored here.
        """
        lost = [x for x in best if not any(len(x) == len(u) and np.allclose(x, u) for u in self._asked_again)]
        known = [space.encode(space.completed(point)) for point in self._evaluated] if lost else []
        for x in lost:
            if not any(np.allclose(x, u) for u in known):
                self._asked_again.append(x)
                return space.decode(x)
        return None

    def make(self, mean: Callable[[Parameters], float], default: str | None) -> None:
        """Choose, if there are points to choose from; others may have chosen before, or spent the budget.

        Args:
            mean: what all answers say about a point, to rank by.
            default: name of the held point that is the user's default configuration, if there is one.
        """
        others = sorted((point for point in self._held if point != default), key=lambda point: mean(self._held[point]))
        among = self._plan.choice_among
        candidates = others[: among or None] + ([] if default is None else [default])
        if len(candidates) < 2:
            return
        prior = [1.0] * len(candidates)
        if among and default is not None:
            prior[-1] = DEFAULT_ODDS * len(others[:among])
        query = self._privatizer.means_query(candidates, self._plan.choice_mu)
        note = {"parameters": [as_stored(self._held[point]) for point in candidates], "prior": prior}
        with suppress(KeyConflict, BudgetExhausted):
            how = partial(noisy_min, prior=prior)
            self._privatizer.release(query, scope=self._scopes[0], key=CHOICE, note=note, mechanism=how)

    def forget(self) -> None:
        """Hold nothing any more."""
        self._held = {}

    def found(self) -> list[dict[str, Any]]:
        """Return the parameters that were chosen in this run and those it starts from, its own first, whoever chose."""
        ledger = self._privatizer.ledger
        made = [ledger.find(scope, CHOICE) for scope in self._scopes] if self._plan.choice_mu > 0 else []
        return [_chosen(charge) for charge in made if charge is not None and charge.value is not None]


def _chosen(charge: Charge) -> dict[str, Any]:
    index = 0 if charge.value is None else int(charge.value[0])
    return {name: as_choice(value) for name, value in charge.note["parameters"][index].items()}
