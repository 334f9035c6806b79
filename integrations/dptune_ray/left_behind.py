"""What the user's function leaves behind in a worker process, and what the next trial must not find there."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

_NAMES = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
_TIMERS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))  # Windows has none
_OFF = (0.0, 0.0)
_POSIX = os.name == "posix"  # elsewhere there are no masks, and SIGTERM ends a process at once


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Take back timers, signal handlers, masks and streams that the user's function leaves behind.

    A timer that goes off later would raise the function's exception, with its text, where nobody keeps that secret. A
    SIGTERM that a handler of the function's own has caught (libraries for training have such) is sent once more.
    """
    streams = sys.stdout, sys.stderr
    try:
        if threading.current_thread() is threading.main_thread():
            with _sigterm_again() if _POSIX else nullcontext(), _same_signals():
                yield
        else:  # elsewhere it can set neither
            yield
    finally:
        sys.stdout, sys.stderr = streams


@contextmanager
def _same_signals() -> Iterator[None]:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if _POSIX else None
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
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


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
