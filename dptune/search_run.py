"""A run that searches a space: a public algorithm is brought up to date with the ledger, and this process's points
are asked about.

What :class:`dptune.GIBOSession` and :class:`dptune.CentredCMASession` share. The algorithm's state is a fold over the
released values in the ledger, so a restart, a second process or a copy continues in the same state and with the
remaining budget. Losses live in the memory of the process that observed them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dptune.errors import BudgetExhausted, InputError
from dptune.locks import ForkSafeLock
from dptune.privacy.privatizer import LossPrivatizer
from dptune.run import Plan, Run, agree_on_plan
from dptune.space import Space, Value

Vector = npt.NDArray[np.float64]


class SearchAlgorithm(Protocol):
    """What a run asks of its algorithm, which holds public data only."""

    @property
    def finished(self) -> bool:
        """Whether all its releases are made."""
        ...

    def ask(self, slot: int) -> Vector:
        """Return a point to evaluate, (d,)."""
        ...

    def points_in_use(self) -> tuple[str, ...]:
        """Return the names of the points it may still ask about."""
        ...

    def recommend(self) -> Vector:
        """Return the point to use, (d,)."""
        ...


A = TypeVar("A", bound=SearchAlgorithm)
P = TypeVar("P", bound=Plan)


class SearchRun(Run, Generic[A, P]):
    """One algorithm in one scope of a ledger; thread-safe, and several processes may share the scope.

    Args:
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        space: search space; d is its number of parameters.
        make_plan: (mu, seed) -> plan.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
    """

    def __init__(
        self,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space,
        make_plan: Callable[[float, int], P],
        mu: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.plan = agree_on_plan(privatizer, scope, make_plan=make_plan, mu=mu, seed=seed, space=space)
        super().__init__(privatizer, scope, self.plan)
        self.space = space
        self._start()

    def _start(self) -> None:
        """Begin with what the ledger holds: also in a copy, which has none of this process's losses."""
        self.algorithm: A = self._new_algorithm()
        self._lock = ForkSafeLock()
        self._asked = 0
        self._spent_by_others = False
        self._outside = 0  # trials of this process that were no points of the space
        self._held: set[str] = set()  # points whose losses may be forgotten when the algorithm is done with them
        self._sync()

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("plan", "privatizer", "ledger", "scope", "_plan", "space")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    @abstractmethod
    def _new_algorithm(self) -> A:
        """Return the algorithm before its first release."""

    @abstractmethod
    def _sync(self) -> None:
        """Fold what the ledger holds and this process has not seen."""

    # ---- a trial ----------------------------------------------------------------------------------

    def check(self, trial: str, parameters: Mapping[str, Value] | None = None) -> None:
        """Refuse, before a model is trained, a trial whose joint release could not be paid; see :meth:`Run.check`."""
        with self._lock:
            self._sync()
            try:
                super().check(trial, parameters)
            except BudgetExhausted:  # or another process made the release at this moment: look again
                self._sync()
                super().check(trial, parameters)

    # ---- points ------------------------------------------------------------------------------------

    def ask(self, slot: int | None = None) -> dict[str, Value]:
        """Return the parameters to try next. Never waits.

        Args:
            slot: which of the algorithm's proposals; default the next one of this process.
        """
        with self._lock:
            self._sync()
            u = self.algorithm.ask(self._asked if slot is None else slot)
            self._asked += 1
        return self.space.decode(u)

    def check_estimate(self, parameters: Mapping[str, Value]) -> None:
        """Refuse an estimate outside the search space, besides what :meth:`Run.check_estimate` refuses.

        Raises:
            InputError: the parameters are no point of the space.
        """
        if self.plan.final_mu and not self.space.contains(parameters):
            raise InputError(
                f"the run's one final estimate is for a point of its search space {self.space.describe()}; got "
                f"{dict(parameters)}. Ask for it at what recommend() returns; nothing was trained or spent."
            )
        super().check_estimate(parameters)

    def _has_a_say(self, parameters: Mapping[str, Value]) -> bool:
        """Tell whether a trial is a point of the space; count those that are not."""
        inside = self.space.contains(parameters)
        self._outside += not inside
        return inside

    def _why_missing(self, release: str, trials: int) -> str:
        if self._spent_by_others:
            return "Other runs have spent the budget for the next."
        outside = f", and {self._outside} of this process's trials were not" if self._outside else ""
        return (
            f"A process makes {release} from {trials} trials of its own that are in the search space{outside}. Go on "
            "with more trials; with several processes use threads (n_jobs) or fewer of them."
        )

    def _forget(self) -> None:
        for point in self._held.difference(self.algorithm.points_in_use()):
            self.privatizer.forget(point)
            self._held.discard(point)

    # ---- the answer --------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether the algorithm has made all its releases."""
        return self.algorithm.finished

    def recommend(self) -> dict[str, Value]:
        """Return the parameters to use: what the algorithm ends with, never the argmin of noisy values."""
        with self._lock:
            self._sync()
            return self.space.decode(self.algorithm.recommend())

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        with self._lock:  # another thread may be learning from a release
            done = {**self._done(), "recommended": self.space.decode(self.algorithm.recommend())}
        return {
            "private": self.ledger.private and self.privatizer.private,
            **done,
            "mu_budget": self.ledger.budget.mu,
            "mu_spent": self.ledger.spent(),
        }

    @abstractmethod
    def _done(self) -> Mapping[str, object]:
        """Return how far the run is: released facts."""
