"""What a process prints, warns and logs is sent to nowhere, for good or for a while.

Descriptors 1 and 2 are pointed elsewhere, so that C and C++ libraries, child processes and streams that were kept from
before fall silent as well as ``print``. The ``sys.stdout`` of a notebook lies on no descriptor, and is replaced.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from dptune._locks import ForkSafeLock

_DESCRIPTORS = (1, 2)  # standard output and error
_ONE_AT_A_TIME = ForkSafeLock()  # all of this belongs to the process: who ends first would end the others' silence


def swallow() -> None:
    """Send standard output and error of this process to nowhere for good: of Python, C and child processes alike."""
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in _DESCRIPTORS:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def silence() -> Iterator[None]:
    """Swallow what all threads print, warn and log meanwhile; a second silence, in another thread, waits for the first.

    Swallowed: Python's streams, those that were kept from before and lie on descriptors 1 and 2 (``sys.__stderr__``,
    loguru's), the descriptors themselves (C, C++, child processes), ``warnings``, and ``logging`` at all levels.
    Not swallowed: files and connections that somebody opens, so a logger that is not of ``logging`` and writes to one;
    a notebook's stream that was kept from before; what threads that were left running print after the end.
    """
    with _ONE_AT_A_TIME, _no_descriptors(), _no_streams(), _no_logs(), warnings.catch_warnings(action="ignore"):
        yield


@contextmanager
def _no_descriptors() -> Iterator[None]:
    kept = [os.dup(descriptor) for descriptor in _DESCRIPTORS]
    swallow()
    try:
        yield
    finally:
        _flush()
        for copy, descriptor in zip(kept, _DESCRIPTORS, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)


@contextmanager
def _no_streams() -> Iterator[None]:
    out, err = (open(each, "w", closefd=False, buffering=1) for each in _DESCRIPTORS)  # noqa: SIM115 - never closed:
    # a handler that is made meanwhile keeps its stream, and may speak afterwards
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield
        finally:
            _flush()


@contextmanager
def _no_logs() -> Iterator[None]:
    level = logging.root.manager.disable
    logging.disable(sys.maxsize)
    try:
        yield
    finally:
        logging.disable(level)


def _flush() -> None:
    """Write what Python and C still hold back to where it was meant to go."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    ctypes.CDLL(None).fflush(None)
