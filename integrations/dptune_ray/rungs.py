"""Private losses at intermediate steps: the vault says which trials go on, for a price that the plan has fixed.

The decision is the core's (:mod:`dptune.search.rungs`); here is how a user's function asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from ray.exceptions import RayError

import dptune
from dptune.privacy.private import bare
from dptune_ray.vault_client import VaultClient

T = TypeVar("T")
STOPPED = "stopped_by_losses"  # in the last result of a trial that private losses have stopped
Losses = Callable[[Any], npt.NDArray[np.float64] | None]
_report: ContextVar[Callable[[Any, int], None] | None] = ContextVar("dptune_ray_private_report", default=None)
_trials: list[Rungs] = []  # whose functions run in this process


class StoppedByLosses(BaseException):
    """Raised in the user's function, at a report, when private losses have stopped the trial."""


def report_private(result: Any, step: int) -> None:
    """Report, inside a trial, the half-trained model, and end the function here if the trial is not worth going on.

    The searcher has to be made with ``rung_share=``, of which each question is paid. Nothing of the losses is stored or
    logged. Report at fixed steps: *when* must not depend on private losses. Outside a trial it does nothing. Inside,
    call it in the thread that runs the function: from another one it could not end the function.

    Args:
        result: what the function would return now: losses (rows,), or with ``loss=`` the model, which must keep nothing
            of the rows that it is asked about.
        step: at which, as 1, 2, ... epochs; trials are compared at equal steps.

    Raises:
        InputError: the run was planned without decisions, the losses have a wrong shape, or this is another thread;
            it ends the trial.
        StoppedByLosses: the answer is to stop: let it through.
    """
    if (report := _report.get()) is not None:
        report(result, step)
    elif _trials:
        raise _trials[-1].refuse(dptune.InputError(_OTHER_THREAD))


_OTHER_THREAD = (
    "report_private was called in a thread of your own, where it cannot end the function; call it in the thread that "
    "runs the trial's function."
)


class Rungs:
    """What a trial's function reports, on its way to the vault, as ``losses`` (rows,), or None where that fails.

    Attributes:
        stopped: whether the vault has ended the trial.
    """

    def __init__(self, vault: VaultClient, trial: str, parameters: Mapping[str, Any], losses: Losses) -> None:
        self._vault, self._trial, self._parameters, self._losses = vault, trial, parameters, losses
        self.stopped = False
        self._refused: Exception | None = None  # kept: the user's function may swallow it

    def during(self, call: Callable[[], T]) -> T:
        """Return what the call returns; what its function reports meanwhile goes to the vault.

        Raises:
            DptuneError: the vault refused a report.
            RayError: it could not be reached, which is not a failure of the function.
        """
        token = _report.set(self._take)
        _trials.append(self)
        try:
            result = call()
        finally:
            _trials.remove(self)
            _report.reset(token)
        if self._refused is not None:
            raise bare(self._refused)
        return result

    def refuse(self, error: Exception) -> Exception:
        """End the trial with this error, whatever its function does with it."""
        self._refused = self._refused or error
        return error

    def _take(self, result: Any, step: int) -> None:
        if not self.stopped and self._refused is None:
            try:
                losses = self._losses(result)
                self.stopped = self._vault.upload("report", self._trial, self._parameters, losses, step=step)
            except (dptune.DptuneError, RayError) as error:
                self._refused = error
        if self._refused is not None:
            raise bare(self._refused)
        if self.stopped:
            raise StoppedByLosses
