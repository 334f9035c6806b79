"""What Optuna shows of a returned value that is no number: a whole vector of losses, if the function was not decorated.

Optuna logs such a value twice ("Trial 0 failed ..."), and ``study.tell`` quotes it in a warning, an error and, for a
trial that has ended, a log line. :func:`withhold_values` has their texts say "<array withheld by dptune>" instead, in
this process, of all studies. What a function *raises* is not touched, nor is any number or None.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable

import optuna
from optuna.study import _tell

_LOGGERS = ("optuna.study._optimize", "optuna.study._tell")
_VALUE = re.compile(
    r"""(?<=The\ value\ ).*(?=\ could\ not\ be\ cast\ to\ float)
    | (?<=\ failed\ with\ value\ ).*(?=\.$)
    | (?<=\ with\ values\ ).*(?=\ and\ state\ .*\ since\ trial\ was\ already\ finished)""",
    re.DOTALL | re.VERBOSE,
)
_KINDS = {"array(": "array", "tensor(": "tensor", "[": "list", "(": "tuple", "{": "dict"}  # by how a repr begins
_SHOWN = {"None", "nan", "inf", "-inf", *(f"<{kind} withheld by dptune>" for kind in (*_KINDS.values(), "value"))}
_Check = Callable[..., str | None]


def withhold_values() -> None:
    """Withhold values in Optuna's log lines, warnings and errors from now on; a second call changes nothing."""
    for name in _LOGGERS:
        optuna.logging.get_logger(name).addFilter(_filter)
    check: _Check | None = getattr(_tell, "_check_values_are_feasible", None)  # Optuna's own: its text is shown
    if check is not None and not hasattr(check, "__wrapped__"):
        _tell._check_values_are_feasible = _without_value(check)


def _filter(record: logging.LogRecord) -> bool:
    record.msg, record.args = _withheld(record.getMessage()), ()
    return True


def _without_value(check: _Check) -> _Check:
    @functools.wraps(check)
    def checked(*args: object, **kwargs: object) -> str | None:
        message = check(*args, **kwargs)
        return None if message is None else _withheld(message)

    return checked


def _withheld(message: str) -> str:
    return _VALUE.sub(lambda found: _shown(found.group()), message)


def _shown(value: str) -> str:
    if value in _SHOWN:
        return value
    kind = next((kind for begins, kind in _KINDS.items() if value.startswith(begins)), "value")
    return f"<{kind} withheld by dptune>"
