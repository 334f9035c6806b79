"""Calls of the user's model about private rows: no warning of theirs is seen, and what they raise is returned.

The filters of warnings belong to the process. A thread that trains may restore its own in the middle of a call, as
``warnings.catch_warnings`` does on leaving. So warnings are dropped where Python shows them, too, whatever the filters
say. They are dropped for the whole process while a call lasts, and one call is made at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dptune._locks import ForkSafeLock

_ONE_AT_A_TIME = ForkSafeLock()


# The interpreter looks this function up for each warning, filtered already; the stubs of `warnings` do not have it.
_show: Callable[[Any], None] = warnings._showwarnmsg  # type: ignore[attr-defined]
_asking: list[None] = []  # not empty while private rows are asked about


def _shown(message: Any) -> None:
    if not _asking:
        _show(message)


warnings._showwarnmsg = _shown  # type: ignore[attr-defined]


def quietly(method: Callable[[Any], Any], X: Any) -> Any:
    """The method's result, or what it raised, panics included; without a warning, which one person could cause."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _asking.append(None)  # a call within a call ends with the outer one
        try:
            return method(X)
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - one person's record may have caused it
            return error
        finally:
            _asking.pop()
    raise KeyboardInterrupt  # a new one: the other's frames hold private values
