"""A run that asks: it knows the points whose losses are in, and carries the method's questions to the privatizer.

Nobody waits. A question is asked by the process that has enough points of its own. Losses stay in the process that
observed them, and are forgotten when the algorithm is done with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dptune._arrays import Vector
from dptune.errors import BudgetExhausted, KeyConflict
from dptune.search.last_releases import LastReleases
from dptune.search.unfinished import Unfinished
from dptune.search.view import RunView
from dptune.space import Space, Value


class AskingRun(RunView):
    """The part of a :class:`dptune.SearchRun` that asks; see there for the arguments.

    Attributes:
        last: the choice at the end, and the estimate beside the default.
        unfinished: trials that handed in no losses.
    """

    def __init__(self, *run: Any) -> None:
        super().__init__(*run)
        self._held: dict[str, None] = {}  # points whose losses are forgotten when the algorithm is done with them
        self.last = LastReleases(self)
        self.unfinished = Unfinished(self)

    # ---- points whose losses are in -------------------------------------------------------------------

    def _add_point(self, space: Space, point: str, parameters: Mapping[str, Value]) -> None:
        """Tell the algorithm of a point, and ask what can be asked."""
        u = self.encoded(space, parameters)
        inside = space.contains(parameters)
        self._outside += not inside
        if inside:
            self._observe(point, u, parameters)
            self._ask_questions()

    def _most(self, parameters: Mapping[str, Value]) -> float:
        """Return an upper estimate of the mean loss at these parameters, from released values; inf without one.

        The algorithm knows only how far the loss is above the centre's, which is at most the clip's upper end.
        """
        value = None if self.space is None else self.algorithm.value(self.encoded(self.space, parameters))
        return math.inf if value is None else self.privatizer.interval.high + value

    def _observe(self, point: str, u: Vector, parameters: Mapping[str, Value]) -> None:
        """The losses of a point are with the curator: for the algorithm's questions, and for a choice at the end."""
        self.last.observe(point, parameters, failed=point in self.unfinished.failed | self.unfinished.ended_early)
        self.algorithm.observe(point, u)

    def _forget(self) -> None:
        in_use = {*self.last.held, *self.algorithm.points_in_use()}
        for point in [point for point in self._held if point not in in_use]:
            self.privatizer.forget(point)
            del self._held[point]

    # ---- questions and answers ----------------------------------------------------------------------

    def make_up(self) -> None:
        """Make the releases that an error has kept from being made, if this process has the losses for them."""
        with self.lock:
            self.replay.sync()
            self._make_up()

    def _make_up(self) -> None:
        if self.space is not None:
            self._ask_questions()
            self._forget()

    def _ask_questions(self) -> None:
        """Ask what this process has the points for. Answers of other processes may make the space wider meanwhile."""
        self.spent_by_others = False
        while not self.spent_by_others and (asked := self.algorithm.question()) is not None:
            # A failed trial that has a value of its own was counted there.
            failed = set() if self.plan.monitor_mu > 0 else self.unfinished.failed.intersection(asked.query.points)
            counted = {"failed": len(failed)} if failed else {}
            before = self.algorithm.t
            note = {**asked.note, **counted, **self.replay.space_note()}
            try:
                released = self.privatizer.release(asked.query, scope=self.scope, key=asked.key, note=note)
            except KeyConflict:  # another process was first: its answer is learned
                if not self.replay.sync() or self.algorithm.t > before:
                    return  # our points stay for the next round
            except BudgetExhausted:  # other runs spent it; the trial that got us here is complete all the same
                self.spent_by_others = True
            else:
                self.unfinished.failed.difference_update(asked.query.points if "failed" in released.charge.note else ())
                self.replay.paid(released.charge)
        if self.plan.choice_mu > 0:
            self.last.make()

    def join(self, space: Space) -> None:
        """Search a wider space from now on, with parameters or conditions that nobody knew when the run began.

        The plan stays as it is. From now on the ledger has the space of each question with its points, so other
        processes and restarts follow.
        """
        with self.lock:
            self.replay.join(space)
