"""A lock that survives pickling, copying and fork: the child of a fork starts with its own, unlocked."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType
from weakref import WeakSet


class ForkSafeLock:
    """A re-entrant lock for ``with``. A lock held by another thread at the time of a fork does not block the child."""

    def __init__(self) -> None:
        self._renew()
        _ALL.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # a child forked inside the block has a new lock
            self._lock.release()

    def __reduce__(self) -> tuple[type[ForkSafeLock], tuple[()]]:
        return ForkSafeLock, ()


_ALL: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in _ALL:
        lock._renew()


if hasattr(os, "register_at_fork"):  # the child has one thread at this moment, so nothing can race
    os.register_at_fork(after_in_child=_renew_all)
