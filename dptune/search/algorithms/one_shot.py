"""Searches that ask nothing on the way, so that nothing is learned and all trials may run at once.

``VALUES``: another searcher proposes the trials, and each has a released value of its own; equal prices.

``SELECTION``: candidates spread over the space, trained in any order, and one of them is chosen at the end by the
exponential mechanism (:mod:`dptune.search.final_choice`), paid once: the price does not grow with their number. ::

    SELECTION.plan(privatizer, space, mu=0.5, seed=0, trials=400)   # nearly all of mu^2 is for the choice
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from dptune._arrays import Vector
from dptune._checks import at_least, share
from dptune.privacy.query import Question
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.search.algorithms.rounds import Rounds, Settings

USUAL_TRIALS = 100  # of a selection; of values at most


class _AsksNothing(Rounds):
    """No questions, and no points that it may still ask about."""

    def points_in_use(self) -> tuple[str, ...]:
        return ()

    def question(self) -> Question | None:
        return None

    def progress(self) -> dict[str, object]:
        return {}

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """There are no answers."""


# ---- values for another searcher ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ValuesSettings(Settings):
    """Settings of a search without questions."""

    seed: int = 0
    rounds: int = 0
    batch: int = 1


class Values(_AsksNothing):
    """Proposes nothing: another searcher looks at the trials' values."""

    unit = "value"

    @property
    def finished(self) -> bool:
        """False: a run of values is complete when its trials have theirs."""
        return False

    def price(self) -> float:
        return 0.0


def usual_values(n: int, mu: float) -> int:
    """Return as many trials as leave values that differ by 5% of the clip's width apart, at least 20, at most 100.

    The standard deviation of a value is sqrt(trials) / (n mu) of the width; two that are 2 sqrt(2) of it apart differ.
    """
    return min(max(math.floor((0.05 * n * mu / (2 * math.sqrt(2))) ** 2), 20), USUAL_TRIALS)


def plan_values(facts: PublicFacts, *, trials: int | None = None, final_share: float = 0.05) -> RunPlan:
    """Return the plan of equal releases of ``trials`` values, and a final estimate of ``final_share`` of mu^2.

    Default for ``trials``: :func:`usual_values`.
    """
    trials = usual_values(facts.n, facts.mu) if trials is None else at_least("n_trials", trials, 1)
    final_share = share("final_share", final_share)
    settings = ValuesSettings(facts.seed)
    return RunPlan("values", facts.mu, settings, trials, monitor_share=1 - final_share, final_share=final_share)


VALUES = Method("values", plan_values, Values, restored=ValuesSettings.restored)


# ---- one choice at the end ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneChoiceSettings(Settings):
    """Settings of a search by one choice, at the price ``round_mu``, among ``batch`` candidates.

    The first candidate is the user's ``default`` configuration, a point of the cube (d,), if there is one.
    """

    d: int
    batch: int
    round_mu: float
    seed: int
    default: tuple[float, ...] | None = None
    rounds: int = 1


class OneChoice(_AsksNothing):
    """Proposes a Halton sequence; its run chooses when all points of one process are in."""

    unit = "choice"

    @property
    def finished(self) -> bool:
        return self.missing() <= 0

    def ask(self, slot: int) -> Vector:
        candidates = self.settings
        if slot == 0 and candidates.default is not None:
            return np.array(candidates.default)
        halton = scipy.stats.qmc.Halton(candidates.d, rng=np.random.default_rng([candidates.seed, candidates.d]))
        return np.asarray(halton.fast_forward(slot).random(1)[0])

    def recommend(self) -> Vector:
        """Return the default configuration, or the centre: nothing is known before the choice."""
        return np.full(self.settings.d, 0.5) if self.settings.default is None else np.array(self.settings.default)


def plan_one_choice(facts: PublicFacts, *, trials: int | None = None, final_share: float = 0.05) -> RunPlan:
    """Return a plan that keeps all but ``final_share`` of mu^2 for one choice among ``trials`` candidates, usually 100.

    The user's default configuration is one of them, and is ten times as likely beforehand as all others together.
    """
    trials = at_least("n_trials", USUAL_TRIALS if trials is None else trials, 2)
    chosen = 1 - share("final_share", final_share)
    settings = OneChoiceSettings(facts.d, trials, facts.mu * chosen**0.5, facts.seed, facts.default)
    return RunPlan(
        "selection", facts.mu, settings, trials, final_share=final_share, choice_share=chosen,
        choice_among=0 if facts.default is None else trials,
    )  # fmt: skip


SELECTION = Method(
    "selection", plan_one_choice, OneChoice, shared_slots=True, any_space=True, restored=OneChoiceSettings.restored
)
