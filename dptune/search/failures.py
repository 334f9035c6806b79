"""Trials of a process that failed. That a trial failed is public; why is not, where it may depend on private data."""

from __future__ import annotations

from collections.abc import Iterable

from dptune.errors import AllTrialsFailed, PlanComplete, TrialFailed

FIRST_TRIALS = 4  # of a run, at least: if they all fail, so will the others
MOST_STOPPED = 100  # trials in a row: where the method proposes, none is worth its training


class Failures:
    """What failed in one run; it costs nothing until one trial has succeeded.

    Attributes:
        number: of trials that failed.
        succeeded: whether any trial did.
        points: names of the points whose evaluation failed, until an answer has counted them.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self.number, self.succeeded = 0, False
        self.points: set[str] = set()
        self._stopped: set[str] = set()  # trials in a row; a front end may tell of one twice

    def count(self, *, begun: bool, batch: int) -> None:
        """Count one more.

        Args:
            begun: whether anything was paid for the run.
            batch: number of trials of a round.

        Raises:
            TrialFailed: no trial of the run has succeeded yet; nothing was paid.
            AllTrialsFailed: so did as many trials as a round has.
        """
        self.number += 1
        if self.succeeded or begun:
            return
        if self.number < max(batch, FIRST_TRIALS):
            raise TrialFailed("the function failed, as all trials of the run have so far. Nothing was paid.")
        raise AllTrialsFailed(
            f"the function failed in each of the first {self.number} trials of the run {self._scope!r}; nothing was "
            "paid. What it raised is hidden, because it may depend on private data. To see it, let the function "
            'return the fitted model in place of losses, and say where it is made loss="zero_one" (or another) and '
            "data=(X_val, y_val): what training raises is shown then. Or call try_out(parameters) of the decorated "
            "function, on public or made-up data."
        )

    def stopped(self, trial: str, *, decisions: int) -> None:
        """Count a trial that was stopped and handed in no losses; private losses can stop as many as ``decisions``.

        Raises:
            PlanComplete: so were too many in a row.
        """
        self._stopped.add(trial)
        if len(self._stopped) >= MOST_STOPPED + decisions:
            raise PlanComplete(
                f"{len(self._stopped)} trials in a row of the run {self._scope!r} were stopped before they handed in "
                "losses, so nothing was learned from them. Let the pruner begin later or stop fewer, and go on."
            )

    def went_on(self) -> None:
        """A trial has trained to its end."""
        self._stopped.clear()

    def note(self, points: Iterable[str]) -> dict[str, int]:
        """Return how many of the points failed, for the note of the charge that counts them first."""
        found = self.points.intersection(points)
        return {"failed": len(found)} if found else {}
