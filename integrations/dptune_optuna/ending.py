"""When a study ends: at a mistake that every later trial would repeat, whatever ``catch=`` says, and how far it came.

``study.optimize(..., catch=(Exception,))`` without ``n_trials`` would call an objective for ever that can only refuse.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import optuna
from optuna.trial import TrialState

import dptune
from dptune_optuna.spaces import logger

HowFar = Callable[[int], str | None]
MOST_FAILED = 20  # trials in a row that fail in the public half of a function


def stop(study: optuna.Study) -> bool:
    """Stop ``study.optimize`` after this trial; return whether there was one to stop."""
    try:
        study.stop()
    except RuntimeError:  # outside study.optimize
        return False
    return True


class Ending:
    """Stops a study whose objective refuses or fails for good; counts the failures of one process."""

    def __init__(self, passes: tuple[type[Exception], ...] = ()) -> None:
        self._passes = passes  # errors of dptune after which another trial may succeed
        self._failed = 0

    @contextmanager
    def watch(self, study: optuna.Study) -> Iterator[None]:
        """Let what a trial raises pass; stop the study at a refusal, and after too many failures in a row."""
        try:
            yield
        except optuna.TrialPruned:
            raise
        except Exception as error:
            self._failed += 1
            for_good = isinstance(error, dptune.DptuneError) and not isinstance(error, self._passes)
            if for_good:
                stop(study)
            elif self._failed >= MOST_FAILED and stop(study):
                logger.warning(
                    f"The study ends here: {self._failed} trials in a row failed, the last with "
                    f"{type(error).__name__}. Correct the function and call study.optimize again."
                )
            raise
        self._failed = 0


class EndLines:
    """Says at the end of a study, once, that fewer trials were made than planned, and how to continue.

    The end is where the study is no longer used, or the process exits: Optuna has no hook for the end of ``optimize``.
    """

    def __init__(self) -> None:
        self._lines: weakref.WeakKeyDictionary[optuna.Study, weakref.finalize[Any, Any]] = weakref.WeakKeyDictionary()

    def expect(self, study: optuna.Study, counted: Sequence[TrialState], how_far: HowFar) -> None:
        """Log at the study's end what ``how_far`` returns for the number of its trials in these states."""
        if study not in self._lines:
            study_key = study._storage, study._study_id, tuple(counted)
            self._lines[study] = weakref.finalize(study, _say, *study_key, how_far)

    def say_now(self, study: optuna.Study, counted: Sequence[TrialState], how_far: HowFar) -> None:
        """Say it now instead."""
        self.cancel(study)
        _say(study._storage, study._study_id, tuple(counted), how_far)

    def cancel(self, study: optuna.Study) -> None:
        if study in self._lines:
            self._lines[study].detach()

    def __reduce__(self) -> tuple[type[EndLines], tuple[()]]:
        return EndLines, ()


def _say(storage: Any, study: int, counted: tuple[TrialState, ...], how_far: HowFar) -> None:
    with suppress(Exception):  # at the end of a process the storage may be gone
        if (line := how_far(storage.get_n_trials(study, state=counted))) is not None:
            logger.warning(line)
