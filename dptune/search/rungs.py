"""Trials that are stopped by private losses: at a rung, one paid scalar says whether a trial is worth going on.

A trial reports the losses of its half-trained model at steps of its own, the rungs. The question at a rung s is the
mean over people of

    clip(L_i(x, s) - L_i(incumbent, s), C)

where the incumbent is, by everything released so far, the best trial that was trained to its end and whose losses at s
this process holds: by the centred releases, and before the first of them by the answers at rungs. C follows the radius
of the centred releases. A trial is stopped at its last rung unless the answer is below 0, and before that if the answer
is more than two standard deviations of its noise above 0: asynchronous halving against the best.

A stopped trial takes no part in its generation, and another takes its place. Its losses at s are those of a
half-trained model: beside losses of trained ones they would teach the search which models learn fast.

Guarantee: each question is one Gaussian release of ``plan.rung_mu``, mu-GDP under replacing one person: a person's
clipped difference lies in [-C, C], so its mean moves by at most 2 C / n. It is charged before losses are read. The plan
has paid for ``plan.decisions`` of them; where they are used up, where another run has spent the budget or no incumbent
is held, nothing is asked and nobody is stopped. That a trial is stopped is a function of released values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from dptune._numbers import whole
from dptune.errors import BudgetExhausted, InputError, KeyConflict, PlanComplete
from dptune.ledger.entries import Quota
from dptune.privacy.privatizer import Losses
from dptune.privacy.query import Ball, MeanQuery, Question
from dptune.search.replay import RUNG, point_name, refuse_name
from dptune.search.view import RunView
from dptune.space import Value

EARLIER, LAST = 2.0, 0.0  # bars before a trial's last rung and at it, in standard deviations of the noise


class Rungs:
    """The losses that this process's trials have reported at their rungs.

    Args:
        run: that the trials are of. Nothing is asked about its default configuration, what its recommendation is
            compared with.
    """

    def __init__(self, run: RunView) -> None:
        self.run = run
        self._reported: dict[str, dict[int, str]] = {}  # trial -> step -> point, in the order of the reports
        self._ended: dict[str, tuple[str, Mapping[str, Value]]] = {}  # trial -> its point, and the parameters
        self._spared: set[str] = set()  # trials at the default
        self._behind: dict[str, float] = {}  # trial -> how far behind the first one by answers at rungs
        self._failed: set[str] = set()  # points, of reports and of ends, that nobody is compared with

    def report(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None, step: int) -> None:
        """Take the losses (rows,) of a trial's half-trained model; None if they could not be computed. Nothing is paid.

        Raises:
            InputError: the plan pays for no decisions, the step is no whole number, or the losses have a wrong shape.
        """
        if self.run.plan.rung_share == 0:
            raise InputError(
                "the plan of this run has no decisions on private losses: give it a rung_share=, such as 0.2."
            )
        refuse_name(trial)
        if (number := whole(step)) is None or number < 0:  # not quoted: it may be a loss, in the step's place
            raise InputError("the step of a report must be a whole number >= 0, such as an epoch: 1, 2, ...")
        step = number
        point = point_name(self.run.scope, f"{trial} at step {step}", parameters)
        self.run.privatizer.submit(point, losses)
        with self.run.lock:
            (self._failed.add if losses is None else self._failed.discard)(point)
            (self._spared.add if self.run.same(parameters, self.run.default or {}) else self._spared.discard)(trial)
            steps = self._reported.setdefault(trial, {})
            steps.pop(step, None)  # of a trial that begins again: the question is about its last report
            steps[step] = point

    def stops(self, trial: str) -> bool:
        """Ask, and pay, whether the trial is to end with what it reported last."""
        with self.run.lock:
            self.run.replay.sync()
            asked = self.question(trial)
            return asked is not None and self.decide(asked)

    def decide(self, asked: Question) -> bool:
        """Pay for the answer; return whether it stops the trial."""
        quota = Quota(RUNG, self.run.plan.decisions)
        try:
            released = self.run.privatizer.release(
                asked.query, scope=self.run.scope, key=asked.key, note=asked.note, quota=quota
            )
        except (PlanComplete, BudgetExhausted):
            return False
        except KeyConflict:  # an earlier life of the trial was compared with another incumbent
            return False
        trial, incumbent = str(asked.note["trial"]), str(asked.note["incumbent"])
        self._behind[trial] = self._behind.get(incumbent, 0.0) + released.scalar
        return released.scalar > float(released.charge.note["bar"]) * released.sigma

    def question(self, trial: str) -> Question | None:
        """Return the question about the trial's last report; None after its last rung, or without an incumbent."""
        if self.run.plan.rung_share == 0 or not self._reported.get(trial) or trial in self._spared:
            return None
        step, mine = list(self._reported[trial].items())[-1]
        incumbent = self.incumbent(step, trial)
        nth = sum(each <= step for each in self._reported[trial])  # one that begins again may have reported later ones
        if incumbent is None or nth > self.run.plan.rungs:
            return None
        points = (mine, self._reported[incumbent][step])
        radius = self.run.plan.rung_radius * self.run.algorithm.radius_ratio
        query = MeanQuery(points, np.array([[1.0, -1.0]]), Ball(radius), self.run.plan.rung_mu)
        bar = EARLIER if nth < self.run.plan.rungs else LAST
        note = {"trial": trial, "incumbent": incumbent, "step": step, "bar": bar}
        return Question(f"{RUNG}{trial}/{step}", query, note)

    def incumbent(self, step: int, of: str) -> str | None:
        """Of the other trials trained to their end, with losses at the step held, the best by the answers so far."""
        others = (trial for trial in self._ended if trial != of and self._compares(trial, step))
        return min(others, key=self.standing, default=None)

    def _compares(self, trial: str, step: int) -> bool:
        """Whether neither an ended trial's end nor its report at the step failed."""
        at_step = self._reported[trial].get(step)
        end, _ = self._ended[trial]
        return at_step is not None and self._failed.isdisjoint((at_step, end))

    def standing(self, trial: str) -> float:
        """By the released centred values; before there are any by the answers at rungs."""
        difference = None
        if (space := self.run.space) is not None:  # as wide as it is by now
            (_, mine), (_, any_of_them) = self._ended[trial], next(iter(self._ended.values()))
            x, y = (self.run.encoded(space, parameters) for parameters in (mine, any_of_them))
            difference = self.run.algorithm.difference(x, y)
        return self._behind.get(trial, 0.0) if difference is None else difference[0]

    def ended(self, trial: str, point: str, parameters: Mapping[str, Value], *, failed: bool) -> None:
        """Take note that a trial takes part with ``point``; it may be an incumbent from now on."""
        if trial in self._reported:
            self._ended[trial] = point, parameters
            self._failed.update({point} if failed else ())

    def forget(self, in_use: Collection[str]) -> None:
        """Forget the reports of ended trials whose point is not in use."""
        for trial in [name for name, (point, _) in self._ended.items() if point not in in_use]:
            self.withdraw(trial)

    def withdraw(self, trial: str) -> None:
        """Forget a trial's reports."""
        with self.run.lock:
            self._behind.pop(trial, None)
            self._spared.discard(trial)
            end, _ = self._ended.pop(trial, ("", None))
            reported = self._reported.pop(trial, {}).values()
            self._failed.difference_update({end, *reported})
            for point in reported:
                self.run.privatizer.forget(point)
