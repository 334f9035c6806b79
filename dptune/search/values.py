"""The method of those who bring their own searcher: equal releases of the trials' values, nothing asked jointly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dptune._checks import at_least, share
from dptune.algorithms.method import Method, Plan, PublicFacts
from dptune.algorithms.rounds import AsksNothing, Settings
from dptune.space import Space


@dataclass(frozen=True)
class _NoQuestions(Settings):
    """Settings of a search without questions."""

    seed: int = 0
    rounds: int = 0
    batch: int = 1


class Values(AsksNothing):
    """Asks nothing, proposes nothing: another searcher looks at the trials' values."""

    unit = "value"

    @property
    def finished(self) -> bool:
        """False: a run of values is complete when its trials have theirs."""
        return False

    def price(self) -> float:
        """0: there are no questions."""
        return 0.0

    def progress(self) -> dict[str, object]:
        """Return nothing: the run says how many trials it planned."""
        return {}


def plan_values(facts: PublicFacts, *, trials: int, final_share: float = 0.05) -> Plan:
    """Return the plan of equal releases of ``trials`` values, and a final estimate of ``final_share`` of mu^2."""
    trials, final_share = at_least("n_trials", trials, 1), share("final_share", final_share)
    settings = _NoQuestions(facts.seed)
    return Plan("values", facts.mu, settings, trials, monitor_share=1 - final_share, final_share=final_share)


def _restored(described: Mapping[str, Any], space: Space | None) -> _NoQuestions:
    """The settings that a ledger describes."""
    return _NoQuestions(**described)


VALUES = Method("values", plan_values, Values, restored=_restored)
