"""A lock that survives pickling, copying and fork: the child of a fork starts with its own, unlocked."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class ForkSafeLock:
    """A re-entrant lock for ``with``. A lock held by another thread at the time of a fork does not block the child."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid, self._lock = os.getpid(), threading.RLock()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            self._renew()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkSafeLock], tuple[()]]:
        return ForkSafeLock, ()
