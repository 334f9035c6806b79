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
from contextlib import suppress
from typing import Any

STDOUT, STDERR = 1, 2


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
