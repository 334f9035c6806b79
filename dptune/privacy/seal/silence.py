"""While private rows are read, the process prints, warns and logs nothing, and its generators keep their states.

Descriptors 1 and 2 are redirected, which also silences C and C++ libraries, child processes and streams that were saved
before. The ``sys.stdout`` of a notebook has no descriptor and is replaced.

All of this belongs to the process. The silence begins with the first thread that enters and ends with the last, and it
also drops other threads' output. A nested silence costs nothing.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from functools import partial
from itertools import chain
from typing import Any, TextIO

import numpy as np

from dptune._checks import attempt
from dptune._store import ForkSafeLock

_DESCRIPTORS = (1, 2)  # standard output and error
_LOKY = "joblib.externals.loky.reusable_executor"
_ABSENT = object()


def swallow() -> None:
    """Discard standard output and error of this process for good, of Python, C and child processes."""
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in _DESCRIPTORS:
        os.dup2(nowhere, descriptor)
    if nowhere not in _DESCRIPTORS:
        os.close(nowhere)


def quietly(method: Callable[[Any], Any], X: Any) -> Any:
    """Run the method in silence, and return its result or raise its error, panics included."""
    with silence():
        try:
            return method(X)
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - one person's record may have caused it
            return error
    raise KeyboardInterrupt  # a new one: frames of the original hold private values


@contextmanager
def silence(*, trains: bool = False) -> Iterator[None]:
    """Drop all threads' prints, warnings and logs, and restore the global generators afterwards.

    Dropped: Python's streams, the descriptors (C, C++, child processes started inside, joblib's workers), ``warnings``,
    ``logging`` at all levels, and errors that only a hook would see. Not dropped: files and connections that code
    opens, such as those of loggers outside ``logging``; prints of earlier pools. Nor what threads and finalizers do
    after the end.

    The generators of ``random``, ``numpy.random`` and, if it was imported, ``torch`` return to where they were.

    Args:
        trains: whether training with noise may happen inside. The generators then get new seeds, because noise that is
            drawn twice gives no privacy.
    """
    if getattr(_THREAD, "asks", False):
        _PROCESS.trains |= trains
        yield
        return
    _PROCESS.enter(trains)
    try:
        _THREAD.asks = True
        with np.errstate(all="ignore"), nullcontext() if trains else _no_processes():
            yield
    finally:
        _THREAD.asks = False
        _PROCESS.leave()


class _Process:
    """The silence of the process, with a count of the threads inside."""

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.askers = 0
        self.trains = False
        self._end = ExitStack()

    def enter(self, trains: bool) -> None:
        """Begin the silence with the first thread; on failure, restore the process."""
        with self.lock:
            if not self.askers:
                self.trains = False
                with ExitStack() as end:
                    for each in chain(
                        (_no_descriptors(),), _no_streams(), _no_logs(), _no_hooks(), (_no_old_workers(),)
                    ):
                        end.enter_context(each)
                    end.enter_context(warnings.catch_warnings(action="ignore"))
                    end.callback(self._undo, _generators(), _torch() is not None)
                    self._end = end.pop_all()
            self.askers += 1
            self.trains |= trains

    def leave(self) -> None:
        """End the silence with the last thread."""
        with self.lock:
            self.askers -= 1
            if not self.askers:
                self._end.close()

    def _undo(self, generators: list[Callable[[], object]], knew_torch: bool) -> None:
        if self.trains:
            generators = [random.seed, _NUMPY.seed]
        if (torch := _torch()) is not None and (self.trains or not knew_torch):
            generators.append(torch.seed)
        for each in generators:
            attempt(each, failed=None)

    def forked(self) -> None:
        """End the silence in a child of a thread outside it: the threads inside have stayed in the parent."""
        if self.askers and not getattr(_THREAD, "asks", False):
            self.askers = 0
            self._end.close()


_PROCESS, _THREAD = _Process(), threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_PROCESS.lock.__enter__,
        after_in_parent=partial(_PROCESS.lock.__exit__, None, None, None),
        after_in_child=_PROCESS.forked,
    )

# The interpreter looks this function up for each warning, filtered already; the stubs of `warnings` do not have it.
# Filters belong to the process: another thread that leaves `catch_warnings` restores them during a silence.
_show: Callable[[Any], None] = warnings._showwarnmsg  # type: ignore[attr-defined]


def _shown(message: Any) -> None:
    if not _PROCESS.askers:
        _show(message)


warnings._showwarnmsg = _shown  # type: ignore[attr-defined]


@contextmanager
def _no_descriptors() -> Iterator[None]:
    for descriptor in _DESCRIPTORS:
        _open(descriptor)
    kept = [os.dup(descriptor) for descriptor in _DESCRIPTORS]
    try:
        swallow()
        yield
    finally:
        _flush()
        for copy, descriptor in zip(kept, _DESCRIPTORS, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)


def _open(descriptor: int) -> None:
    """Point a closed descriptor to the null device for good: a file with its number would become standard output."""
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _no_streams() -> Iterator[AbstractContextManager[Any]]:
    for stream in (sys.stdout, sys.stderr):  # code may have saved a notebook's stream, which has no descriptor
        yield _replaced(stream, "write", lambda text, *_: len(text))
    for redirect, stream in zip((redirect_stdout, redirect_stderr), _nowhere(), strict=True):
        yield redirect(stream)


@functools.cache
def _nowhere() -> tuple[TextIO, ...]:
    """Return streams on the descriptors, never closed: a handler created inside keeps one, and may write later."""
    return tuple(open(descriptor, "w", closefd=False, buffering=1) for descriptor in _DESCRIPTORS)


def _no_logs() -> Iterator[AbstractContextManager[Any]]:
    """Drop records before they are made, so that filters, factories and adapters see none.

    ``logging.disable`` could be undone meanwhile. A first ``logging.warning`` would give the root a handler for good.
    """
    kinds: list[type] = [logging.Logger]
    for kind in kinds:
        kinds += kind.__subclasses__()
        for name in {"isEnabledFor", "handle", "callHandlers", "_log"} & vars(kind).keys():
            yield _replaced(kind, name, _nothing)
    yield _replaced(logging, "_logRecordFactory", logging.LogRecord)
    yield _replaced(logging, "basicConfig", _nothing)


def _no_hooks() -> Iterator[AbstractContextManager[Any]]:
    """Drop errors that nobody catches: in a thread, in a finalizer, and at the end of the process."""
    for owner, name in ((threading, "excepthook"), (sys, "unraisablehook"), (sys, "excepthook")):
        yield _replaced(owner, name, _nothing)


def _nothing(*_: Any, **__: Any) -> None:
    pass


@contextmanager
def _no_old_workers() -> Iterator[None]:
    """Make joblib start new processes: existing ones have the old descriptors."""
    loky = sys.modules.get(_LOKY)
    with _replaced(loky, "_executor", None), _replaced(loky, "_executor_kwargs", None):
        yield


def _no_processes() -> AbstractContextManager[Any]:
    """Make joblib use threads in this thread, unless a model names another backend: processes start slowly."""
    config = getattr(sys.modules.get("joblib"), "parallel_config", None)
    return nullcontext() if config is None else config(backend="threading")


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Replace an attribute temporarily; do nothing if the owner refuses or is None."""
    before = attempt(lambda: vars(owner).get(name, _ABSENT), failed=_ABSENT)
    with suppress(AttributeError, TypeError):
        setattr(owner, name, value)
    try:
        yield
    finally:
        with suppress(AttributeError, TypeError):
            delattr(owner, name) if before is _ABSENT else setattr(owner, name, before)


_NUMPY: Any = np.random


def _torch() -> Any:
    """Return PyTorch if it was imported completely."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "get_rng_state") else None


def _generators() -> list[Callable[[], object]]:
    """Return functions that restore each global generator of the process to its present state."""
    undo: list[Callable[[], object]] = [
        partial(random.setstate, random.getstate()),
        partial(_NUMPY.set_state, _NUMPY.get_state(legacy=False)),
    ]
    if (torch := _torch()) is not None:
        undo.append(partial(torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_initialized():
            undo.append(partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return undo


_C: Any = attempt(ctypes.CDLL, None, failed=None)


def _flush() -> None:
    """Flush the buffers of Python and C."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        attempt(lambda stream=stream: stream.flush(), failed=None)
    attempt(lambda: _C.fflush(None), failed=None)
