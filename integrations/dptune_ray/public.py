"""Public quantities at intermediate steps, by which Tune's schedulers stop trials.

Tune asks a trial for one result after another; the user's function is one call. So the function runs in a thread that
waits at every report until Tune asks for the next result. Where Tune asks no more, the function ends at its report.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TypeVar

import dptune

PUBLIC, STEP = "public", "step"  # what a scheduler finds in a result
T = TypeVar("T")
_report: ContextVar[Callable[[float, int], None] | None] = ContextVar("dptune_ray_report", default=None)


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
    if (report := _report.get()) is not None:
        report(value, step)


def reports_of(call: Callable[[], T]) -> Generator[dict[str, float], None, T]:
    """Call a function in a thread; yield what it reports, then return what it returned.

    Closed before its end, it ends the call at the report where that waits.

    Raises:
        InputError: it reported what is not a number.
        Exception: what the call raised.
    """
    found: queue.SimpleQueue[dict[str, float] | BaseException | Callable[[], T]] = queue.SimpleQueue()
    goes_on: queue.SimpleQueue[bool] = queue.SimpleQueue()
    refused: list[Exception] = []

    def report(value: float, step: int) -> None:
        try:
            found.put({PUBLIC: float(value), STEP: int(step)})
        except (TypeError, ValueError, OverflowError):
            refused.append(dptune.InputError("report_public(value, step) takes a number and a whole number."))
            raise refused[0] from None
        if not goes_on.get():
            goes_on.put(False)  # for a function that swallows what is raised here, and reports again
            raise StoppedByTune

    def run() -> None:
        _report.set(report)  # of this thread alone
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised again where the call is waited for
            found.put(error)
        else:
            found.put(lambda: result)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while isinstance(one := found.get(), dict):
            yield one
            goes_on.put(True)
    finally:
        goes_on.put(False)
        thread.join()
    if refused:
        raise refused[0]
    if isinstance(one, BaseException):
        raise one
    return one()
