"""A budget in (epsilon, delta) that no charge has divided: what is stated covers whatever may follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dptune
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.ledger import About, Risk, record
from dptune.ledger.approximate import PURE_UP_TO, Limits, largest_mu
from dptune.ledger.divisions import Divisions
from dptune.ledger.events import FlipRelease, GaussianRelease
from dptune.ledger.filter import PURE
from dptune.ledger.gdp import mu_from_pure
from dptune.search.outlook import risk_in_words
from dptune.training import TrainingLedger, TrainingPlan, join

DELTA = 1e-5
PURE_RUN = -1.0
Ledgers = Callable[..., PrivacyLedger]


@pytest.fixture
def ledgers(fast_path: Path) -> Ledgers:
    numbers = itertools.count()

    def make(budget: Budget, n: int = 300) -> PrivacyLedger:
        made = PrivacyLedger(fast_path / f"{next(numbers)}.db", budget, dataset=f"data {next(numbers)}")
        made.bind_people(n)
        return made

    return make


def divide(ledger: PrivacyLedger, share: float) -> None:
    """Make the first charge: one that gives the choice of a run this share of mu^2, or none, or one of a pure run."""
    if share == PURE_RUN:
        ledger.fix_plan("run", lambda rest: {"mu": mu_from_pure(rest.pure), PURE: True})
        ledger.charge("run", "first", FlipRelease(mu_from_pure(0.01), 0.01, 1.0, 1.0, 5, "means"), digest="first")
        return
    if share == 0:
        ledger.charge("run", "first", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="first")
        return
    losses = np.random.default_rng(0).random((5, 300))
    dptune.select(losses, LossPrivatizer(ledger, n=300, clip=(0.0, 1.0)), name="s", estimate_share=1 - share)


@pytest.mark.parametrize(
    ("share", "epsilon", "mu"),
    [(0.0, 3.0, 1.0), (0.5, 1.0, 2.0), (0.9, 8.0, 0.3), (1.0, 3.0, 1.0), (PURE_RUN, 1.0, 2.0)],
)
def test_no_division_costs_more_than_was_stated_before_it(
    ledgers: Ledgers, epsilon: float, mu: float, share: float
) -> None:
    ledger, other = ledgers(Budget.approximate_dp(epsilon, DELTA)), ledgers(Budget.gdp(mu))
    third = ledgers(Budget.approximate_dp(epsilon, DELTA))

    def said() -> list[float]:
        alone = [ledger.statement(delta=delta).epsilon for delta in (1e-3, DELTA, 1e-8)]
        joined = [join([ledger, *others], delta=DELTA).epsilon for others in ([other], [other, third])]
        risk = Risk.of_statement(ledger.statement())
        apart = join([ledger, other], delta=1e-3, disjoint=True).epsilon
        return [*alone, *joined, apart, risk.advantage, risk.detected, ledger.statement().exposure.gdp]

    before = said()
    assert ledger.statement().epsilon == pytest.approx(epsilon, rel=1e-6)
    assert "the figures hold for every division" in ledger.statement().to_text()
    divide(ledger, share)
    after = said()
    assert all(x <= y * (1 + 1e-9) for x, y in zip(after, before, strict=True))
    if share == (PURE_RUN if epsilon <= PURE_UP_TO else 1.0):
        # the worst there is at these deltas: so no more was stated than may follow
        assert after[0] == pytest.approx(before[0], rel=5e-3)
        assert after[3] == pytest.approx(before[3], rel=5e-3)


def test_certificate_record_and_announcement_state_the_worst(ledgers: Ledgers, about: Path) -> None:
    """At delta = 1e-3 a new (3, 1e-5) ledger in GDP would say 2.096, where 2.944 may follow."""
    ledger = ledgers(Budget.approximate_dp(3.0, DELTA))
    privatizer = LossPrivatizer(ledger, n=300, clip=(0.0, 1.0))
    statement = ledger.statement(delta=1e-3)
    worst = Risk.of_statement(statement)
    loss = record(statement, About.read(about))["deployment"]["privacy_loss"]
    assert 2.9435 < loss["privacy_parameters"]["epsilon"] < 2.947
    assert "The budget is mu = 1.816 in Gaussian" in loss["privacy_parameters_details"]
    announced = risk_in_words(privatizer)
    divide(ledger, 1.0)
    assert Risk.of_statement(ledger.statement()).advantage == pytest.approx(worst.advantage, rel=1e-3)
    assert risk_in_words(privatizer) == announced
    assert "at most 82 times" in announced


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_worst_is_the_largest_of_many_divisions(epsilon: float) -> None:
    found = Divisions.of(Budget.approximate_dp(epsilon, DELTA))
    etas = np.linspace(0.01, max(found.eta) * 0.9999, 57)
    limits = [Limits(Budget.approximate_dp(epsilon, DELTA).mu), *[Limits(0.0, pure=epsilon)] * (epsilon <= PURE_UP_TO)]
    limits += [Limits(largest_mu(eta, epsilon, DELTA), eta) for eta in etas.tolist()]
    for delta in (1e-3, 1e-8):
        worst = max(each.epsilon(delta) for each in limits)
        assert worst * (1 - 1e-6) <= found.epsilon(delta) <= worst * 1.005
    for at in (0.0, epsilon / 2, 2 * epsilon):
        worst = max(each.delta(at) for each in limits)
        assert worst * (1 - 1e-9) <= found.delta(at) <= worst * 1.06


def test_with_a_training_it_covers_what_follows(ledgers: Ledgers, fast_path: Path) -> None:
    ledger = ledgers(Budget.approximate_dp(3.0, DELTA))
    train = TrainingLedger(fast_path / "train.db", TrainingPlan(2.0, 0.05, 400), n=300)
    before = join([ledger, train], delta=DELTA).epsilon
    divide(ledger, 1.0)
    after = join([ledger, train], delta=DELTA).epsilon
    assert after <= before <= 1.01 * after
