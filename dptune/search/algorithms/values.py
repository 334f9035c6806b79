"""A search without queries: another searcher proposes, and each trial has a released value, at equal prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dptune._arrays import Vector
from dptune._checks import at_least, share
from dptune.privacy.query import Question
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.search.algorithms.rounds import Rounds

MOST_TRIALS = 100  # by default


class Values(Rounds):
    """Proposes and learns nothing: another searcher reads the trials' values."""

    unit = "value"
    batch = 1

    @property
    def finished(self) -> bool:
        """Return False: the run is complete when its trials have their values."""
        return False

    def points_in_use(self) -> tuple[str, ...]:
        return ()

    def price(self) -> float:
        return 0.0

    def question(self) -> Question | None:
        return None

    def progress(self) -> dict[str, object]:
        return {}

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Do nothing, as there are no answers."""


def usual_values(n: int, mu: float) -> int:
    """Return the largest number of trials in [20, 100] whose values resolve 5% of the clip's width.

    A value's standard deviation is sqrt(trials) / (n mu) of the width; values that are 2 sqrt(2) of it apart differ.
    """
    return min(max(math.floor((0.05 * n * mu / (2 * math.sqrt(2))) ** 2), 20), MOST_TRIALS)


def plan_values(facts: PublicFacts, *, trials: int | None = None, final_share: float = 0.05) -> RunPlan:
    """Return the plan of equal releases of ``trials`` values, and a final estimate of ``final_share`` of mu^2.

    Default for ``trials``: :func:`usual_values`.
    """
    trials = usual_values(facts.n, facts.mu) if trials is None else at_least("n_trials", trials, 1)
    final_share = share("final_share", final_share)
    return RunPlan("values", facts.mu, None, trials, monitor_share=1 - final_share, final_share=final_share)


VALUES = Method("values", plan_values, Values)
