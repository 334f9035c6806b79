"""What a run calls its releases in the ledger, and its points with the curator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from dptune.errors import InputError
from dptune.space import Value

# Keys of the run's own releases; all others are the algorithm's.
VALUE, RUNG, CHOICE, FINAL = "value/", "rung/", "choice", "final"
DEFAULT = "default"  # the point of the default configuration that the final estimate is compared with


def refuse_name(trial: str) -> None:
    """Refuse a trial that has the name of a point of the final estimate.

    Raises:
        InputError: it has.
    """
    if trial in (FINAL, DEFAULT):
        raise InputError(f"{trial!r} names a point of a run's final estimate; give the trial another name.")


def point_name(scope: str, trial: str, parameters: Mapping[str, Value]) -> str:
    """Return a name for the trial's losses that no other run and no other parameters share."""
    where = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()[:12]
    return json.dumps([scope, trial, where])


def as_stored(parameters: Mapping[str, Value]) -> Mapping[str, object]:
    """Return parameters as the JSON data that a ledger keeps of them."""
    kept: dict[str, object] = json.loads(json.dumps(dict(parameters), default=str), parse_constant=str)
    return kept
