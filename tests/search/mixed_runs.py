"""The small run of centred_runs in a space with a category and a condition."""

from __future__ import annotations

from typing import Any

import centred_runs
from run_harness import SPACE

from dptune import Categorical, Float, PrivacyLedger, SearchRun, Space

MIXED = Space(
    {**SPACE, "kind": Categorical(["x", "y", "z"]), "c": Float(0.0, 1.0), "fixed": Categorical([7])},
    when={"c": {"kind": ["y"]}},
)


def start(ledger: PrivacyLedger, **change: Any) -> SearchRun:
    return centred_runs.start(ledger, **{"space": MIXED, **change})
