"""What a trial's function reports at intermediate steps: a public quantity to Tune, private losses to the vault.

``report_public`` is for Tune's schedulers. Tune asks a trial for one result after another; the user's function is one
call. So the function runs in a thread that waits at every report until Tune asks for the next result. Where Tune asks
no more, the function ends at its report.

``report_private`` is for the vault, which says which trials go on, for a price that the plan has fixed. The decision is
the core's (:mod:`dptune.search.rungs`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from ray.exceptions import RayError

import dptune
from dptune.privacy.seal.private import without_traceback
from dptune_ray.vault_client import Losses, VaultClient

PUBLIC, STEP = "public", "step"  # what a scheduler finds in a result
SIGMA = "sigma"  # in the last result of a trial with a release of its own: the standard deviation of its noise
STOPPED = "stopped_by_losses"  # in the last result of a trial that private losses have stopped
T = TypeVar("T")
_public: ContextVar[Callable[[float, int], None] | None] = ContextVar("dptune_ray_public_report", default=None)
_running: list[PrivateReports] = []  # of the trials whose functions run in this process


class StoppedByTune(BaseException):
    """Raised in the user's function, at a report, when Tune has stopped the trial."""


class StoppedByLosses(BaseException):
    """Raised in the user's function, at a report, when private losses have stopped the trial."""


def report_public(value: float, step: int) -> None:
    """Report, inside a trial, the quantity that the trainable was made with: ``search.trainable(public="...")``.

    Tune writes it to files and consoles at once, without noise, and its schedulers find it as ``"public"``, the step as
    ``"step"``. Outside a trial it does nothing.

    Args:
        value: computed from public rows only; NaN and infinities are reported as they are.
        step: at which, as 1, 2, ... epochs.
    """
    if (report := _public.get()) is not None:
        report(value, step)


def report_private(result: Any, step: int) -> None:
    """Report, inside a trial, the half-trained model, and end the function here if the trial is not worth going on.

    The searcher has to be made with ``rung_share=``, of which each question is paid. Nothing of the losses is stored or
    logged. Report at fixed steps: *when* must not depend on private losses. Outside a trial it does nothing. Inside,
    call it in the thread that runs the function: from another one it could not end the function.

    Args:
        result: what the function would return now: losses (rows,), or with ``loss=`` the fitted model,
            of which a copy is asked.
        step: at which, as 1, 2, ... epochs; trials are compared at equal steps.

    Raises:
        InputError: the run was planned without decisions, the losses have a wrong shape, or this is another thread;
            it ends the trial.
        StoppedByLosses: the answer is to stop: let it through.
    """
    for trial in reversed(_running):
        if trial.thread == threading.get_ident():
            return trial.take(result, step)
    if _running:
        refused = dptune.InputError(
            "report_private was called in a thread of your own, where it cannot end the function; call it in the "
            "thread that runs the trial's function."
        )
        _running[-1].refuse(refused)
        raise refused


def public_reports(call: Callable[[], T]) -> Generator[dict[str, float], None, T]:
    """Call a function in a thread; yield what it reports, then return what it returned, or raise what it raised.

    Closed before its end, it ends the call at the report where that waits.
    """
    reports: queue.SimpleQueue[dict[str, float] | None] = queue.SimpleQueue()  # None: the call has ended
    goes_on: queue.SimpleQueue[bool] = queue.SimpleQueue()
    ended: Future[T] = Future()
    refused: list[Exception] = []

    def report(value: float, step: int) -> None:
        try:
            reports.put({PUBLIC: float(value), STEP: int(step)})
        except (TypeError, ValueError, OverflowError):
            refused.append(dptune.InputError("report_public(value, step) takes a number and a whole number."))
            raise refused[0] from None
        if not goes_on.get():
            goes_on.put(False)  # for a function that swallows what is raised here, and reports again
            raise StoppedByTune

    def run() -> None:
        _public.set(report)  # of this thread alone
        try:
            ended.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where the call is waited for
            ended.set_exception(error)
        reports.put(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (one := reports.get()) is not None:
            yield one
            goes_on.put(True)
    finally:
        goes_on.put(False)
        thread.join()
    if refused:
        raise refused[0]
    return ended.result()


class PrivateReports:
    """The private reports of one trial, on their way to the vault; ``losses``: what was reported -> (rows,) or None."""

    def __init__(
        self, vault: VaultClient, trial: str, parameters: Mapping[str, Any], losses: Callable[[Any], Losses | None]
    ) -> None:
        self._vault, self._trial, self._parameters, self._losses = vault, trial, parameters, losses
        self.stopped = False  # whether the vault has ended the trial
        self.thread = 0  # that runs the trial's function
        self._refused: Exception | None = None  # kept: the user's function may swallow it

    def during(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise why a report was refused or could not reach the vault."""
        self.thread = threading.get_ident()
        _running.append(self)
        try:
            result = call()
        finally:
            _running.remove(self)
        if self._refused is not None:
            raise without_traceback(self._refused)
        return result

    def refuse(self, error: Exception) -> None:
        """End the trial with this error, whatever its function does with it."""
        self._refused = self._refused or error

    def take(self, result: Any, step: int) -> None:
        """Hand over what was reported; raise if the trial has ended."""
        if not self.stopped and self._refused is None:
            try:
                losses = self._losses(result)
                self.stopped = self._vault.report(self._trial, self._parameters, losses, step)
            except (dptune.DptuneError, RayError) as error:
                self.refuse(error)
        if self._refused is not None:
            raise without_traceback(self._refused)
        if self.stopped:
            raise StoppedByLosses
