"""Search by one choice: candidates spread over the space, trained in any order, one chosen at the end, paid once.

Example::

    SELECTION.plan(privatizer, space, mu=0.5, seed=0, trials=400)   # nearly all of mu^2 is for the choice

Nothing is released before the choice, so nothing is learned on the way: all trials may run at once. The price does not
grow with their number. The choice is the exponential mechanism of :mod:`dptune.search.choice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from dptune._checks import at_least, share
from dptune._numbers import tupled
from dptune.algorithms.method import Method, Plan, PublicFacts
from dptune.algorithms.rounds import AsksNothing, Settings, Vector
from dptune.space import Space

USUAL_TRIALS = 100


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


class OneChoice(AsksNothing):
    """Proposes a Halton sequence and learns nothing; its run chooses when all points of one process are in."""

    unit = "choice"

    @property
    def finished(self) -> bool:
        """Whether the run may choose."""
        return self.missing() <= 0

    def ask(self, slot: int) -> Vector:
        """Return the candidate number ``slot``."""
        given = self.settings
        if slot == 0 and given.default is not None:
            return np.array(given.default)
        halton = scipy.stats.qmc.Halton(given.d, rng=np.random.default_rng([given.seed, given.d]))
        return np.asarray(halton.fast_forward(slot).random(1)[0])

    def recommend(self) -> Vector:
        """Return the default configuration, or the centre: nothing is known before the choice."""
        return np.full(self.settings.d, 0.5) if self.settings.default is None else np.array(self.settings.default)


def plan_one_choice(facts: PublicFacts, *, trials: int | None = None, final_share: float = 0.05) -> Plan:
    """Return a plan that keeps all but ``final_share`` of mu^2 for one choice among ``trials`` candidates, usually 100.

    The user's default configuration is one of them.
    """
    trials = at_least("n_trials", USUAL_TRIALS if trials is None else trials, 2)
    chosen = 1 - share("final_share", final_share)
    settings = OneChoiceSettings(facts.d, trials, facts.mu * chosen**0.5, facts.seed, facts.default)
    return Plan("selection", facts.mu, settings, trials, final_share=final_share, choice_share=chosen)


def _restored(described: Mapping[str, Any], space: Space | None) -> OneChoiceSettings:
    """The settings that a ledger describes."""
    return OneChoiceSettings(**{name: tupled(value) for name, value in described.items()})


SELECTION = Method("selection", plan_one_choice, OneChoice, shared_slots=True, any_space=True, restored=_restored)
