"""A user's function on its way to another process: read there after that process was silenced, not before.

Ray reads a class or an argument before any code of ours runs. Reading a function from a module imports that module, and
what its top level prints would be in the session's logs. So the function travels as bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ray import cloudpickle

import dptune


class Carried:
    """A function that is pickled as bytes and read by :meth:`load`.

    Args:
        function: to carry.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Callable[..., Any] | None = function
        self._bytes = b""
        self._lock = threading.Lock()

    def load(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            InputError: it cannot be read in this process, e.g. for want of a module; tells the error's type only.
        """
        with self._lock:
            if self._function is None:
                self._function = _read(self._bytes)
            return self._function

    def __call__(self, *args: Any) -> Any:
        """Read the function and call it."""
        return self.load()(*args)

    def __getstate__(self) -> dict[str, bytes]:
        return {"bytes": self._bytes if self._function is None else cloudpickle.dumps(self._function)}

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self._function, self._bytes, self._lock = None, state["bytes"], threading.Lock()


def _read(pickled: bytes) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = cloudpickle.loads(pickled)
    except BaseException as error:  # noqa: BLE001 - a module's top level is the user's code
        failure = type(error).__name__
    else:
        return function
    raise dptune.InputError(
        f"the function could not be read where the trial runs ({failure}); are its modules installed there?"
    )
