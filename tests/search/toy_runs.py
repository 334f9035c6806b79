"""A method of a few lines, so that the contract of all methods is not a contract of two: random points, and winners."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from run_harness import begin

from dptune import PrivacyLedger, SearchRun
from dptune.algorithms import Method, Plan, PublicFacts
from dptune.algorithms.rounds import Rounds, RoundSettings
from dptune.privacy import Ball, MeanQuery, Question

N, BATCH, ROUNDS = 30, 3, 4
TRIALS = BATCH * ROUNDS


class RandomPoints(Rounds):
    """Ends with the mean of the points that won a round."""

    def __init__(self, settings: RoundSettings) -> None:
        super().__init__(settings)
        self.winners: list[list[float]] = []

    def ask(self, slot: int) -> np.ndarray:
        return np.random.default_rng([self.settings.seed, self.t, slot]).random(self.settings.d)

    def next_question(self) -> Question:
        names = self.waiting()
        query = MeanQuery(names, np.eye(self.batch) - 1 / self.batch, Ball(self.settings.clip), self.settings.round_mu)
        return Question(f"round/{self.t + 1}", query, {"points": self.points_at(names).tolist()})

    def learn(self, key: str, note: Mapping[str, Any], answer: Any, sigma: float, *, own: bool) -> None:
        self.used_up(own=own, forget=True)
        if answer is not None:
            self.winners.append(note["points"][int(np.argmin(answer))])

    def recommend(self) -> np.ndarray:
        return np.mean(self.winners or [[0.5] * self.settings.d], axis=0)


def plan(facts: PublicFacts, *, trials: int = TRIALS, clip: float = 0.4) -> Plan:
    mu, radius = facts.mu * math.sqrt(0.85), clip * facts.loss_range
    settings = RoundSettings(facts.d, trials // BATCH, BATCH, mu, radius, facts.seed)
    return Plan("toy", facts.mu, settings, trials, monitor_share=0.1, final_share=0.05, spare=2 * BATCH)


TOY = Method("toy", plan, RandomPoints, shared_slots=True)


def start(ledger: PrivacyLedger, **change: Any) -> SearchRun:
    return begin(TOY, ledger, N, **change)
