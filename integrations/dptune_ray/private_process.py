"""A worker process for private code: it says nothing any more, and a signal ends it.

What private code prints would end up in Ray's session logs and on the driver. On SIGTERM Ray would raise
``SystemExit`` inside the user's function, where it cannot be told from a failure of the function: the trial would be
paid for, and its value would be the upper clip.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

STDOUT, STDERR = 1, 2
_NAMES = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
_TIMERS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))  # Windows has none
_OFF = (0.0, 0.0)
_CATCHABLE = os.name == "posix"  # elsewhere SIGTERM ends a process at once


def make_this_process_private() -> None:
    """Silence this process and let SIGTERM end it, for good.

    For the worker process of a private trial only, which Ray starts for it and which dies with it.
    """
    _silence()
    if threading.current_thread() is threading.main_thread():  # elsewhere no signal interrupts the function
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _silence() -> None:
    """Send standard output and error to nowhere: for Python, for C, for children and for late threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # the last trial's function may have closed it
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.dup2(nowhere, STDERR)
    buffer = _OpenBuffer(io.FileIO(nowhere, "wb"))
    sys.stdout = sys.stderr = _Open(buffer, encoding="utf-8", errors="backslashreplace")


class _Open(io.TextIOWrapper):
    """A stream that stays open: Ray flushes it after every task, and would fail the trial."""

    def close(self) -> None:
        """Stay open; what it writes to is closed when nobody has it any more."""

    def detach(self) -> Any:
        """Share the buffer: functions that want another encoding put a stream of their own around it."""
        return self.buffer


class _OpenBuffer(io.BufferedWriter):
    """Its buffer, which another stream around it would close."""

    def close(self) -> None:
        """Stay open, likewise."""


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Take back timers, signal handlers and streams that the user's function leaves behind.

    A timer that goes off later would raise the function's exception, with its text, where nobody keeps that secret. A
    SIGTERM that a handler of the function's own has caught (libraries for training have such) is sent once more.
    """
    streams = sys.stdout, sys.stderr
    try:
        if threading.current_thread() is threading.main_thread():
            with _sigterm_again() if _CATCHABLE else nullcontext(), _same_signals():
                yield
        else:  # elsewhere it can set neither
            yield
    finally:
        sys.stdout, sys.stderr = streams


@contextmanager
def _same_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    idle = [timer for timer in _TIMERS if signal.getitimer(timer) == _OFF]
    try:
        yield
    finally:
        for timer in idle:
            signal.setitimer(timer, 0)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _sigterm_again() -> Iterator[None]:
    """Send a SIGTERM once more that a handler has caught meanwhile."""
    caught, wakeup = os.pipe()
    for end in (caught, wakeup):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)  # is told every signal that has a handler
    _wakeups.add(wakeup)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        _wakeups.discard(wakeup)
        os.close(wakeup)
        seen = b""
        with suppress(BlockingIOError):  # nothing, and a child of the function still has the other end
            seen = os.read(caught, 65536)
        os.close(caught)
        if signal.SIGTERM in seen:
            os.kill(os.getpid(), signal.SIGTERM)


_wakeups: set[int] = set()


def _hear_no_child() -> None:
    """In the child of a fork: its signals are its own. A pool sends its children SIGTERM when it ends."""
    if _wakeups:
        current = signal.set_wakeup_fd(-1)
        if current not in _wakeups:  # of the function's event loop
            signal.set_wakeup_fd(current)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hear_no_child)
