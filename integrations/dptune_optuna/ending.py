"""Ends a study at a mistake that every later trial would repeat, whatever ``catch=`` is.

``study.optimize(..., catch=(Exception,))`` without ``n_trials`` would call an objective forever that can only refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import optuna

import dptune
from dptune_optuna.spaces import logger

MOST_FAILED = 20  # failures in a row in the public half of a function


def stop(study: optuna.Study) -> bool:
    """Stop ``study.optimize`` after this trial; return whether it was running."""
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
        """Pass on a trial's error; stop the study at a refusal, and after too many failures in a row."""
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
