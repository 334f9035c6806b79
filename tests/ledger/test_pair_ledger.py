"""An (epsilon, delta) budget is divided before the first release, and both of its limits hold."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune import Budget, BudgetExhausted, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.ledger import Risk
from dptune.ledger.approximate import (
    PURE_UP_TO,
    Limits,
    composed_delta,
    composed_epsilon,
    largest_mu,
    largest_plan,
)
from dptune.ledger.events import FlipRelease, GaussianRelease, SelectionRelease
from dptune.ledger.filter import PURE, Divisions
from dptune.ledger.gdp import bounded_range_from_mu, epsilon_from_mu, mu_from_pure
from dptune.ledger.registry import About, record
from dptune.results import risk_in_words
from dptune.training import TrainingLedger, TrainingPlan, join
from ledger_tools import edit
from refusals import refused

EPSILON, DELTA = 1.0, 1e-5
PAIR = Budget.approximate_dp(EPSILON, DELTA)
WHOLE = largest_plan(0.7, EPSILON, DELTA)  # mu of a plan whose choice has .7 of mu^2


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", PAIR)


def gaussian(ledger: PrivacyLedger, key: str, mu: float, scope: str = "run") -> Any:
    return ledger.charge(scope, key, GaussianRelease(mu, 1.0, 1.0, 1, "mean"), digest=key)


def choice(ledger: PrivacyLedger, mu: float, scope: str = "run", key: str = "choice") -> Any:
    event = SelectionRelease(mu, bounded_range_from_mu(mu), 1.0, 1.0, 9, "means")
    return ledger.charge(scope, key, event, digest=key)


def plan(ledger: PrivacyLedger, mu: float = WHOLE, share: float = 0.7, scope: str = "run") -> None:
    ledger.fix_plan(scope, lambda rest: {"mu": mu, "shares": {"choice": share}})


def test_a_plan_gets_more_than_in_gdp_and_not_a_bit_more(ledger: PrivacyLedger) -> None:
    plan(ledger)
    for t in range(4):
        gaussian(ledger, f"step/{t}", WHOLE * math.sqrt(0.3 / 4))
    assert choice(ledger, WHOLE * math.sqrt(0.7)).mu is None
    gaussian_more, choice_more = partial(gaussian, ledger, "more"), partial(choice, ledger, key="again")
    refused(BudgetExhausted, None, lambda: gaussian_more(0.01 * WHOLE), lambda: choice_more(0.1 * WHOLE))
    again = PrivacyLedger(ledger.url.database or "", PAIR)  # read, row by row
    limits = again.filter.limits
    assert (again.allowance().unplanned, again.remaining()) == (0.0, 0.0)
    assert again.spent() == pytest.approx(WHOLE) == again.mu > 1.2 * PAIR.mu
    assert choice(again, WHOLE * math.sqrt(0.7)).seq == 5, "it is paid, once"
    assert f"epsilon={EPSILON!r}, delta={DELTA!r})" in repr(again)  # and not the mu of another division
    assert composed_delta(limits.mu, limits.eta, EPSILON) <= DELTA < composed_delta(1.001 * limits.mu, limits.eta, 1.0)
    for delta in (1e-9, DELTA, 1e-3):
        assert again.statement(delta=delta).epsilon == composed_epsilon(limits.mu, limits.eta, delta)
    statement = again.statement()
    assert statement.epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert statement.spent_epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert epsilon_from_mu(WHOLE, DELTA) > 1.2, "what GDP alone would say"
    text = statement.to_text()
    for words in ("and, more sharply, epsilon = 1 at", "Dong, Durfee & Rogers", "for the choice of the run 'run'"):
        assert words in text
    assert statement.to_dict()["limits"] == {"mu": limits.mu, "eta_of_choices": limits.eta}


def test_the_first_charge_divides_the_budget_and_its_run_gets_the_choice(ledger: PrivacyLedger) -> None:
    plan(ledger)
    plan(ledger, scope="other")
    gaussian(ledger, "first", 0.05)
    limits = ledger.filter.limits
    assert (ledger.filter.holder, limits.eta) == ("run", bounded_range_from_mu(WHOLE * math.sqrt(0.7)))
    refused(BudgetExhausted, None, lambda: choice(ledger, WHOLE * math.sqrt(0.7), scope="other"))
    assert choice(ledger, 0.05, scope="other").mu == 0.05, "paid in GDP"
    ledger.fix("run", "another fact", {"shares": {"choice": 1.0}})
    assert choice(ledger, WHOLE * math.sqrt(0.7)).mu is None
    assert ledger.filter.limits == limits


def test_without_a_fitting_plan_a_pair_ledger_works_as_in_gdp(ledger: PrivacyLedger) -> None:
    plan(ledger, 5.0, 1.0, scope="alone")
    gaussian(ledger, "alone", PAIR.mu / 2)
    plan(ledger)
    assert (ledger.filter.limits.mu, ledger.filter.limits.eta, ledger.mu) == (PAIR.mu, 0.0, PAIR.mu)
    refused(BudgetExhausted, None, lambda: choice(ledger, WHOLE * math.sqrt(0.7)))
    assert ledger.allowance().whole(0.7) == ledger.allowance().unplanned
    assert ledger.statement().epsilon == pytest.approx(EPSILON)


def test_more_budget_is_more_mu_beside_the_same_choice(ledger: PrivacyLedger) -> None:
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    eta, mu = ledger.filter.limits.eta, ledger.filter.limits.mu
    refused(InputError, r"\(epsilon, delta\)", lambda: ledger.raise_budget(Budget.gdp(3.0)))
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    assert (ledger.filter.limits.eta, ledger.filter.limits.mu > mu) == (eta, True)
    assert ledger.statement().epsilon == pytest.approx(2.0, rel=1e-6)
    again = PrivacyLedger(ledger.url.database or "")
    assert again.filter.limits == ledger.filter.limits
    refused(InputError, "only raised", lambda: ledger.raise_budget(Budget.approximate_dp(2.1, 1e-3 * DELTA)))


def test_a_division_after_another_ledgers_first_charge_is_late(fast_path: Path) -> None:
    """Which run charges first may be decided by then, also where one run was planned before."""
    names = ("in time", "planned", "two plans", "planned later", "unplanned", "same time")
    other = PrivacyLedger(fast_path / "other.db", Budget.gdp(0.5), dataset="other")
    made = {name: PrivacyLedger(fast_path / f"{name}.db", PAIR, dataset=name) for name in names}
    for name in ("planned", "two plans", "in time", "same time"):
        plan(made[name])
    plan(made["two plans"], scope="second")
    gaussian(made["in time"], "first", 0.05)
    gaussian(other, "first", 0.1)
    plan(made["planned later"])
    assert not any(each.planned_after(other) for each in made.values()), "what was stated holds for every division"
    for name in names[1:]:
        gaussian(made[name], "first", 0.05)
    late = {name for name, each in made.items() if each.planned_after(other)}
    assert late == {*names} - {"in time"}
    assert join([made["in time"], made["planned"], other], delta=DELTA).late == ("planned",)
    for each in (other, made["same time"]):
        edit(each, "UPDATE dptune_charges SET charged_at = '2999-01-01'")
    assert [name for name, each in made.items() if each.planned_after(other)] == ["same time"]


FACTS = "UPDATE dptune_facts SET value = json_set(value, '$.is.{}', {}) WHERE name LIKE 'limits/%'"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (FACTS.format("mu", 5.0), "its limits are not those"),
        (FACTS.format("eta", 5.0), "its limits are not those"),
        (FACTS.format("holder", "'other'"), "its limits are not those"),
        ("UPDATE dptune_charges SET mu = NULL WHERE seq = 1", "does not follow"),
        ("UPDATE dptune_charges SET description = replace(description, '\"eta\"', '\"mu\"')", "does not follow"),
    ],
)
def test_planted_bugs_of_the_file_are_refused(ledger: PrivacyLedger, change: str, words: str) -> None:
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    choice(ledger, WHOLE * math.sqrt(0.7))
    edit(ledger, change)
    refused(LedgerError, words, lambda: PrivacyLedger(ledger.url.database or ""))


def test_a_run_without_the_limit_of_choices_keeps_its_whole_plan(ledger: PrivacyLedger) -> None:
    """The choice of such a run is paid from mu."""
    plan(ledger)
    gaussian(ledger, "first", 0.05)
    holder, other = WHOLE * math.sqrt(0.3), 0.1
    assert ledger.allowance().unplanned == pytest.approx(math.sqrt(ledger.filter.limits.mu**2 - holder**2), abs=1e-7)
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    plan(ledger, mu=other, share=0.7, scope="other")
    gaussian(ledger, "first", 0.02, scope="other")
    rest = ledger.filter.limits.mu**2 - holder**2
    assert ledger.allowance().unplanned == pytest.approx(math.sqrt(rest - other**2), rel=1e-9)
    free = math.sqrt(rest - 0.3 * other**2)  # planted bug: the choice of the other run costs nothing
    assert ledger.allowance().unplanned < free * (1 - 1e-4)


# ---- before the first charge -----------------------------------------------------------------------------


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
        ledger.fix_plan("run", lambda rest: {"mu": mu_from_pure(rest.pure), PURE: rest.pure})
        ledger.charge("run", "first", FlipRelease(mu_from_pure(0.01), 0.01, 1.0, 1.0, 5, "means"), digest="first")
        return
    if share == 0:
        gaussian(ledger, "first", 0.01)
        return
    losses = np.random.default_rng(0).random((5, 300))
    dptune.select(losses, LossPrivatizer(ledger, n=300, clip=(0.0, 1.0)), name="s", estimate_share=1 - share)


@pytest.mark.parametrize(
    ("share", "epsilon", "mu"),
    [(0.0, 3.0, 1.0), (0.9, 8.0, 0.3), (1.0, 3.0, 1.0), (PURE_RUN, 1.0, 2.0)],
)
def test_no_division_costs_more_than_was_stated_before_it(
    ledgers: Ledgers, fast_path: Path, epsilon: float, mu: float, share: float
) -> None:
    ledger, other = ledgers(Budget.approximate_dp(epsilon, DELTA)), ledgers(Budget.gdp(mu))
    third = ledgers(Budget.approximate_dp(epsilon, DELTA))
    train = TrainingLedger(fast_path / "train.db", TrainingPlan(2.0, 0.05, 400), n=300)

    def said() -> list[float]:
        alone = [ledger.statement(delta=delta).epsilon for delta in (1e-3, DELTA, 1e-8)]
        joined = [join([ledger, *others], delta=DELTA).epsilon for others in ([other], [other, third])]
        risk = Risk.of_statement(ledger.statement())
        apart = join([ledger, other], delta=1e-3, disjoint=True).epsilon
        trained = join([ledger, train], delta=DELTA).epsilon
        return [*alone, *joined, apart, risk.advantage, risk.detected, ledger.statement().exposure.gdp, trained]

    before = said()
    assert ledger.statement().epsilon == pytest.approx(epsilon, rel=1e-6)
    assert "the figures hold for every division" in ledger.statement().to_text()
    divide(ledger, share)
    after = said()
    assert after[6] == pytest.approx(ledger.filter.limits.delta(0.0), rel=1e-9)
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
    assert "All releases are within mu = 1.816 in Gaussian" in loss["privacy_parameters_details"]
    announced = risk_in_words(privatizer, ledger.exposure())
    divide(ledger, 1.0)
    assert Risk.of_statement(ledger.statement()).advantage == pytest.approx(worst.advantage, rel=1e-3)
    assert risk_in_words(privatizer, ledger.exposure()) == announced
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
