"""What a run does at its end: it holds the points that it may choose from, chooses, and compares with the default.

The two releases are :mod:`dptune.search.final_choice` and :mod:`dptune.search.final_estimate`. What an error or a kill
has kept from being made is made by a later call, or by a restart that trains the needed points again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from dptune._arrays import Vector
from dptune.errors import BudgetExhausted, KeyConflict
from dptune.search.final_choice import candidates_of, choose, question
from dptune.search.view import Lacks, RunView
from dptune.space import Space, Value


class LastReleases:
    """The choice and the comparison of one run, in one process.

    Attributes:
        held: parameters of the points whose losses are held until one of them is chosen, by name.
    """

    def __init__(self, run: RunView) -> None:
        self._run = run
        self.held: dict[str, Mapping[str, Value]] = {}
        self._evaluated: list[Mapping[str, Value]] = []  # here, failed ones too
        self._coded: tuple[Space | None, list[Vector]] = (None, [])  # those points in the cube of that space
        self._asked_again: list[Vector] = []
        self._turns = 0  # of points without which a release cannot be made

    def observe(self, point: str, parameters: Mapping[str, Value], *, failed: bool) -> None:
        """Take note of a point that this process has evaluated."""
        if self._run.plan.choice_mu > 0:
            self._evaluated.append(parameters)
            if not failed:
                self.held[point] = parameters

    # ---- points to train again -----------------------------------------------------------------------

    def proposal(self, space: Space) -> dict[str, Value] | None:
        """Return a point that has to be trained again for a release at the end, or None."""
        return self._needed(space) or self._lost_candidate(space)

    def _needed(self, space: Space) -> dict[str, Value] | None:
        """A point whose lost losses a release needs; None if no losses are missing.

        They take turns until each is evaluated, because a trial may never return.
        """
        run = self._run
        needed = list[dict[str, Any]]()
        if run.replay.choice is not None and not run.replay.chosen:
            needed = list(candidates_of(run.replay.choice).values())
        elif run.lacks is Lacks.ESTIMATE:
            needed = [run.answer(space), dict(run.default or {})]
        needed = [point for point in needed if not self._was_evaluated(point)]
        self._turns += 1
        return needed[self._turns % len(needed)] if needed else None

    def _was_evaluated(self, point: Mapping[str, Value]) -> bool:
        space = self._run.space
        if space is None or not point or not self._evaluated:
            return False
        coded = self._coded[1] if self._coded[0] is space else []  # the space grows with what trials suggest
        coded = coded + [self._run.encoded(space, each) for each in self._evaluated[len(coded) :]]
        self._coded = space, coded
        return bool(np.isclose(self._run.encoded(space, point), coded).all(axis=1).any())

    def _lost_candidate(self, space: Space) -> dict[str, Value] | None:
        """Before a choice, a good point that this process has not evaluated, once each; None: there is none.

        A process chooses among its own points, and after a restart it has none. Failures are ignored here.
        """
        run = self._run
        if run.plan.choice_mu == 0 or run.replay.chosen or run.algorithm.t + 1 < run.algorithm.rounds:
            return None
        best = [*run.algorithm.best_points(run.algorithm.batch)]
        if run.default:
            best.insert(0, run.encoded(space, run.default))
        best = [x for x in best if not any(len(x) == len(u) and np.allclose(x, u) for u in self._asked_again)]
        evaluated = [run.encoded(space, parameters) for parameters in self._evaluated] if best else []
        for x in best:
            if not any(np.allclose(x, u) for u in evaluated):
                self._asked_again.append(x)
                return space.decode(x)
        return None

    # ---- the releases --------------------------------------------------------------------------------

    def make(self) -> None:
        """Choose among this process's points, and compare what was chosen with the default configuration.

        What another process does meanwhile is learned; what an error prevents is made up for by the next call.
        """
        run = self._run
        for lacks, release in ((Lacks.CHOICE, self._choose), (Lacks.ESTIMATE, self._compare)):
            if run.lacks is lacks and run.space is not None:
                try:
                    could = release(run.space)
                except BudgetExhausted:
                    run.spent_by_others, could = True, True
                except KeyConflict:  # it was asked otherwise
                    could = False
                run.replay.sync()
                run.gave_up |= not could and run.lacks is lacks
        if run.complete:
            self.held = {}

    def _choose(self, space: Space) -> bool:
        """Choose, or answer a choice that is paid, as soon as the points are held; return False if it never can be."""
        run = self._run
        if (paid := run.replay.choice) is None:
            if len(self._evaluated) < run.algorithm.batch:
                return True
            asked = question(run.plan, self.held, run.mean, self._held_at(run.default or {}))
            if asked is not None:
                with suppress(KeyConflict):  # another process was first
                    choose(run.privatizer, run.scope, run.plan, asked)
            return asked is not None
        candidates = candidates_of(paid)
        if all(map(self._was_evaluated, candidates.values())):
            self._choose_again(paid.note, {name: self._held_at(point) for name, point in candidates.items()})
        return True

    def _choose_again(self, asked: Mapping[str, Any], held: Mapping[str, str | None]) -> None:
        """Answer a choice whose draw was lost with its process; None: a candidate's new evaluation has failed."""
        run = self._run
        privatizer = run.privatizer
        for name, point in held.items():
            if point is None:
                privatizer.observe_failure(name)
            else:
                privatizer.copy(point, name)
        try:
            choose(privatizer, run.scope, run.plan, asked)
        finally:
            for name in [name for name, point in held.items() if point != name]:
                privatizer.forget(name)

    def _compare(self, space: Space) -> bool:
        """Compare as soon as both points are held; return False if one of them failed."""
        run = self._run
        answer = run.answer(space)
        default = run.default or {}
        if not (self._was_evaluated(answer) and self._was_evaluated(default)):
            return True
        best, usual = self._held_at(answer), self._held_at(default)
        if best is None or usual is None:
            return False
        run.final.release_held(answer, best, usual)
        return True

    def _held_at(self, parameters: Mapping[str, Value]) -> str | None:
        """The name of a held point that lies at these parameters, or None."""
        return next((point for point, at in self.held.items() if self._run.same(at, parameters)), None)
