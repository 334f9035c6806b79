"""The trials of a run that hand in no losses: those that failed, and those that were stopped before their end."""

from __future__ import annotations

from dptune.errors import AllTrialsFailed, PlanComplete, TrialFailed
from dptune.search.view import RunView

FIRST_TRIALS = 4  # of a run, at least: if they all fail, so will the others
MOST_STOPPED = 100  # trials in a row: where the method proposes, none is worth its training
FIRST_STOPPED = 30  # of a run: if none of them hands in losses, none will


class Unfinished:
    """What one process of a run knows of such trials.

    Attributes:
        failed: points whose evaluation failed, until an answer has counted them.
        ended_early: points that a public quantity has ended.
        stopped: trials in a row that handed in no losses; a front end may tell of one twice.
        succeeded: whether any trial of this process handed in losses.
    """

    def __init__(self, run: RunView) -> None:
        self._run = run
        self.failed: set[str] = set()
        self.ended_early: set[str] = set()
        self.stopped: set[str] = set()
        self.succeeded = False

    @property
    def works(self) -> bool:
        """Whether any trial of the run has handed in losses."""
        return self.succeeded or self._run.replay.begun

    def fail(self, point: str) -> None:
        """Count a trial that failed; raise TrialFailed or AllTrialsFailed if none has succeeded."""
        run = self._run
        with run.lock:
            run.trials_failed += 1
            if self.works:
                self.failed.add(point)
                return
            if run.trials_failed < max(run.algorithm.batch, FIRST_TRIALS):
                raise TrialFailed("the function failed, as all trials of the run have so far. Nothing was charged.")
            raise AllTrialsFailed(
                f"the function failed in each of the first {run.trials_failed} trials of the run {run.scope!r}. "
                "Nothing was charged. What it raised is hidden, because it may depend on private data. To see it, let "
                'the function return the fitted model in place of losses, and say where it is made loss="zero_one" (or '
                "another) and data=(X_val, y_val): what training raises is shown then. Or call try_out(parameters) of "
                "the decorated function, on public or made-up data."
            )

    def withdraw(self, trial: str) -> None:
        """Take note that a trial was stopped: another takes its place, unless too many in a row were (PlanComplete)."""
        run = self._run
        self.stopped.add(trial)
        most = MOST_STOPPED if self.works else FIRST_STOPPED
        if len(self.stopped) >= most:
            raise PlanComplete(
                f"{len(self.stopped)} trials in a row of the run {run.scope!r} were stopped before they handed in "
                "losses. Nothing was learned from them or charged for them. Let the pruner or scheduler begin later or "
                "stop fewer trials; a scheduler with max_t= needs max_t larger than the number of reports. Then "
                "continue."
            )
