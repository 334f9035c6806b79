"""Reports of a public quantity at intermediate steps to Tune's schedulers.

Tune asks a trial for one result after another; the user's function is one call. So the function runs in a thread that
waits at every report until Tune requests the next result. If Tune stops, the function ends at its report.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TypeVar

import dptune

PUBLIC, STEP = "public", "step"  # keys of a result for schedulers
SIGMA = "sigma"  # key in the last result of a trial with a release: the standard deviation of its noise
T = TypeVar("T")
_public: ContextVar[Callable[[float, int], None] | None] = ContextVar("dptune_ray_public_report", default=None)


class StoppedByTune(BaseException):
    """Raised in the user's function, at a report, when Tune has stopped the trial."""


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


def public_reports(call: Callable[[], T]) -> Generator[dict[str, float], None, T]:
    """Call a function in a thread; yield its reports, then return its result or raise its error.

    If the generator is closed early, the call ends at its waiting report.
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
            goes_on.put(False)  # for a function that swallows this error and reports again
            raise StoppedByTune

    def run() -> None:
        _public.set(report)  # for this thread only
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
