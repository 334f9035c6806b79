"""What the trials of a run without a release of its own for each have reported, kept in the ledger.

Where a trial's value is a release, its charge records it. Otherwise the value is a function of released values at the
time the trial ended, and would be another one later: so it is a fact of the run, fixed when it is first told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import dptune

REPORTED = "reported/"


class Reports:
    """Values told to trials of one run, each with the parameters it is for; public, and durable.

    Args:
        ledger: where they are kept.
        scope: the run's name.
    """

    def __init__(self, ledger: dptune.PrivacyLedger, scope: str) -> None:
        self._ledger, self._scope = ledger, scope

    def find(self, trial: str, parameters: Mapping[str, Any]) -> float | None:
        """Return what the trial was told, None if nothing yet.

        Raises:
            KeyConflict: it was told that about other parameters.
        """
        stored = self._ledger.fact(self._scope, REPORTED + trial)
        return None if stored is None else self._checked(trial, stored, parameters)

    def fix(self, trial: str, parameters: Mapping[str, Any], value: float) -> float:
        """Keep what the trial is told; return it, or what it was told before.

        Raises:
            KeyConflict: it was told that about other parameters.
        """
        fact = {"parameters": _plain(parameters), "value": value}
        return self._checked(trial, self._ledger.fix(self._scope, REPORTED + trial, fact), parameters)

    def __contains__(self, trial: str) -> bool:
        return self._ledger.fact(self._scope, REPORTED + trial) is not None

    def _checked(self, trial: str, stored: Any, parameters: Mapping[str, Any]) -> float:
        if stored["parameters"] != _plain(parameters):
            raise dptune.KeyConflict(
                f"the trial {trial!r} of the run {self._scope!r} has reported a value at other parameters; give a new "
                "trial a new name."
            )
        return float(stored["value"])


def _plain(parameters: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(parameters), default=str), parse_constant=str)  # NaN equals nothing
