"""A process that says nothing any more: what private code prints ends up in Ray's session logs and on the driver."""

from __future__ import annotations

import os
import sys

STDOUT, STDERR = 1, 2


def silence_this_process() -> None:
    """Send standard output and error to nowhere, for good: for Python, for C, for children and for late threads.

    For the worker process of a private trial only, which Ray starts for it and which dies with it.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.dup2(nowhere, STDERR)
    sys.stdout = sys.stderr = os.fdopen(nowhere, "w")
