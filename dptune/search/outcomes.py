"""The trials of one process without losses: failed ones and stopped ones."""

from __future__ import annotations

from dptune.errors import AllTrialsFailed, PlanComplete, TrialFailed

FIRST_TRIALS = 4  # least first trials of a run: if all fail, so will the others
MOST_STOPPED = 100  # stopped trials in a row after which the method's region is not worth training
FIRST_STOPPED = 30  # first trials of a run: if none has losses, none will


class Outcomes:
    """The outcomes of a process's trials.

    Attributes:
        failures: number of trials that failed.
        failed: points whose evaluation failed, until an answer includes them.
        stopped: trials in a row without losses; a front end may report one twice.
        succeeded: whether any trial had losses.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self.failures = 0
        self.failed: set[str] = set()
        self.stopped: set[str] = set()
        self.succeeded = False

    def fail(self, point: str, *, begun: bool, batch: int) -> None:
        """Count a failure; raise TrialFailed or AllTrialsFailed if no trial of the run has succeeded.

        ``begun``: whether anything was charged for the run. ``batch``: the number of trials in a round.
        """
        self.failures += 1
        if self.succeeded or begun:
            self.failed.add(point)
            return
        if self.failures < max(batch, FIRST_TRIALS):
            raise TrialFailed("the function failed, as all trials of the run have so far. Nothing was charged.")
        raise AllTrialsFailed(
            f"the function failed in each of the first {self.failures} trials of the run {self._scope!r}. Nothing was "
            "charged. What it raised is hidden, because it may depend on private data. To see it, let the function "
            'return the fitted model in place of losses, and say where it is made loss="zero_one" (or another) and '
            "data=(X_val, y_val): what training raises is shown then. Or call try_out(parameters) of the decorated "
            "function, on public or made-up data."
        )

    def stop(self, trial: str, *, begun: bool) -> None:
        """Count a stopped trial; raise PlanComplete if too many in a row were stopped."""
        self.stopped.add(trial)
        if len(self.stopped) >= (MOST_STOPPED if self.succeeded or begun else FIRST_STOPPED):
            raise PlanComplete(
                f"{len(self.stopped)} trials in a row of the run {self._scope!r} were stopped before they handed in "
                "losses. Nothing was learned from them or charged for them. Let the pruner or scheduler begin later or "
                "stop fewer trials; a scheduler with max_t= needs max_t larger than the number of reports. Then "
                "continue."
            )
