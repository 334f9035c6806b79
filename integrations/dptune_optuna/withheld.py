"""What Optuna shows of a returned value that is no number: a whole vector of losses, if the function was not decorated.

Optuna logs such a value twice ("Trial 0 failed ..."). :func:`withhold_values` has these lines say "<array withheld by
dptune>" instead, in this process, of all studies. What a function *raises* is not touched, nor is any number or None.
"""

from __future__ import annotations

import logging
import re

import optuna

_LOGGERS = ("optuna.study._optimize", "optuna.study._tell")
_VALUE = re.compile(
    r"""(?<=The\ value\ ).*(?=\ could\ not\ be\ cast\ to\ float)
    | (?<=\ failed\ with\ value\ ).*(?=\.$)
    | (?<=\ with\ values\ ).*(?=\ and\ state\ .*\ since\ trial\ was\ already\ finished)""",
    re.DOTALL | re.VERBOSE,
)
_KINDS = {"array(": "array", "tensor(": "tensor", "[": "list", "(": "tuple", "{": "dict"}  # by how a repr begins
_SHOWN = {"None", "nan", "inf", "-inf", *(f"<{kind} withheld by dptune>" for kind in (*_KINDS.values(), "value"))}


def withhold_values() -> None:
    """Withhold values in Optuna's log lines from now on; a second call changes nothing."""
    for name in _LOGGERS:
        optuna.logging.get_logger(name).addFilter(_filter)


def _filter(record: logging.LogRecord) -> bool:
    record.msg, record.args = _withheld(record.getMessage()), ()
    return True


def _withheld(message: str) -> str:
    return _VALUE.sub(lambda found: _shown(found.group()), message)


def _shown(value: str) -> str:
    if value in _SHOWN:
        return value
    kind = next((kind for begins, kind in _KINDS.items() if value.startswith(begins)), "value")
    return f"<{kind} withheld by dptune>"
