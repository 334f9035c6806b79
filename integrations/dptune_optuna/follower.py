"""What a sampler of local privacy has read of one study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune_optuna.distributions import to_space


class Follower:
    """What a sampler has read of one study: a look costs O(new and unfinished trials).

    Args:
        begin: space -> an empty run.
        space: of the search, or None to take that of a trial.
        public: direction and centre of the run.
    """

    def __init__(
        self,
        begin: Callable[[dptune.Space], dptune.bandits.LDPRun],
        space: dptune.Space | None,
        public: tuple[bool, float],
    ) -> None:
        self._begin, self._first = begin, -1 if space else None  # number of the trial that fixed the space
        self.run, self.public = begin(space) if space else None, public
        self._last_read: FrozenTrial | None = None  # of the finished ones
        self._start_over()

    def _start_over(self) -> None:
        self._next = 0
        self._unfinished: dict[int, FrozenTrial | None] = {}

    def goes_on_in(self, trials: Sequence[FrozenTrial]) -> bool:
        """Tell whether these are trials of the same study: storages give the number of a deleted one to the next."""
        if not trials or trials[-1].number + 1 < self._next:
            return self._next == 0
        if self._last_read is None:
            return True
        number = self._last_read.number
        at = trials[number : number + 1]
        found = at[0] if at and at[0].number == number else next((t for t in trials if t.number == number), None)
        return found is not None and _origin(found) == _origin(self._last_read)

    def read(self, trials: Sequence[FrozenTrial]) -> None:
        """Tell the run what is new."""
        self._find_space(trials)
        if not trials or self.run is None:
            return
        last = trials[-1].number
        self._unfinished.update(dict.fromkeys(range(self._next, last + 1)))
        self._next = max(self._next, last + 1)
        gaps = last != len(trials) - 1  # threads on one database may see a trial later than its successor
        by_number = {t.number: t for t in trials} if gaps else {}
        for number in list(self._unfinished):
            trial = self._unfinished[number] = by_number.get(number) if gaps else trials[number]
            if trial is not None and trial.state.is_finished():
                if trial.state == TrialState.COMPLETE:
                    self.run.tell(number, trial.params, trial.values[0])
                self._last_read = trial
                del self._unfinished[number]  # last: after an interrupt it is told again, which changes nothing

    def pending(self, patience: int) -> list[dict[str, Any]]:
        """Return the parameters that users are trying at the moment."""
        running = (t for t in self._unfinished.values() if t is not None and t.state == TrialState.RUNNING)
        return [t.params for t in running if t.number >= self._next - patience]

    def _find_space(self, trials: Sequence[FrozenTrial]) -> None:
        """The completed trial with the smallest number fixes the space; one that was late changes it."""
        if self._first == -1:
            return
        for trial in trials[: self._first]:
            space = to_space(trial.distributions) if trial.state == TrialState.COMPLETE else None
            if space is not None:
                self._start_over()  # first: after an interrupt all is read again
                self._first, self.run = trial.number, self._begin(space)
                return


def _origin(trial: FrozenTrial) -> tuple[object, ...]:
    """What no two finished trials have in common."""
    return trial._trial_id, trial.datetime_start, trial.datetime_complete
