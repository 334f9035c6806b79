"""The same people in two ledgers: what removing one of them moves, and one selection that two ledgers pay for."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptune import Budget, InputError, PrivacyLedger
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_bounded_range
from dptune.privacy import Ball, Interval, MeanQuery, NormQuery
from dptune.privacy.query import Box, Query
from dptune.privacy.stored_losses import per_person
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.profiles import epsilon_of, removal_mu

DELTA = 1e-5
ONE = TrainingPlan(2.0, 0.05, 400)
QUERIES: dict[str, Query] = {
    "a mean loss": MeanQuery(("a",), np.ones((1, 1)), Interval(1.0, 3.0), 1.0),
    "means of a choice": MeanQuery(("a", "b", "c"), np.eye(3), Box(-1.0, 2.0, 3), 1.0),
    "a clipped vector": MeanQuery(("a", "b", "c"), np.eye(3), Ball(0.7), 1.0),
    "a share of people": NormQuery(("a", "b", "c"), np.eye(3), 0.7, 1.0),
}


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_nobody_adds_more_than_half_of_what_replacing_moves(name: str, data: st.DataObject) -> None:
    """So whoever is removed, and adds 0, moves a release by half of its sensitivity at most."""
    query = QUERIES[name]
    elements = st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, 1e300]), st.floats(-10, 10))
    rows = 3 if name in ("a clipped vector", "a share of people") else query.dimension
    g = data.draw(arrays(np.float64, (rows, 4), elements=elements))
    added = np.linalg.norm(per_person(g, query), axis=0)
    assert (added <= query.clip.diameter / 2 * (1 + 1e-12)).all()


@given(st.floats(0.1, 6), st.integers(2, 6), st.integers(0, 1000))
def test_a_choice_has_half_of_its_bounded_range_when_somebody_is_removed(mu: float, m: int, seed: int) -> None:
    eta, n, rng = bounded_range_from_mu(mu), 9, np.random.default_rng(seed)
    means, extreme = rng.random(m), rng.choice([-0.5, 0.5], m)  # losses in [0, 1], less the middle
    logs = [-eta * u * n / 2 for u in (means + extreme / n, means)]
    p, q = (np.exp(log - np.logaddexp.reduce(log)) for log in logs)
    assert np.ptp(np.log(p / q)) <= eta / 2 * (1 + 1e-9)
    assert mu_from_bounded_range(eta / 2) <= removal_mu(mu)


@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8), st.booleans())
def test_whatever_is_spent_within_a_filter_stays_within_that_of_removal(mus: list[float], choose: bool) -> None:
    paid = [mu_from_bounded_range(bounded_range_from_mu(mu) / 2) if choose else mu / 2 for mu in mus]
    assert math.hypot(*paid) <= removal_mu(math.hypot(*mus)) <= math.hypot(*mus)


def test_planted_bug_half_of_mu_is_too_little_for_a_choice() -> None:
    assert mu_from_bounded_range(bounded_range_from_mu(2.0) / 2) > 1.02 * 2.0 / 2


@pytest.mark.parametrize(("mu", "before", "now"), [(1.0, 5.086, 3.13), (0.5, 3.114, 2.49)])
def test_the_figures_of_the_page(mu: float, before: float, now: float, fast_path: Path) -> None:
    """docs/research/training.md; dp-accounting with half of mu is below, and with all of it far above."""
    train = TrainingLedger(fast_path / "train.db", ONE, n=900)
    val = PrivacyLedger(fast_path / "val.db", Budget.gdp(mu))
    joint = join([train, val], delta=DELTA)
    assert joint.epsilon == pytest.approx(now, abs=0.01)
    assert "at half the price of replacing" in joint.adjacency
    for share, reference in ((1.0, before), (0.5, None)):
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0)), 400))
        composed = accountant.compose(GaussianDpEvent(1 / (share * mu))).get_epsilon(DELTA)
        assert composed == pytest.approx(reference or now, abs=0.02)
        assert (composed > joint.epsilon) == (share == 1.0)


def test_two_ledgers_of_one_selection_are_one_plan_in_any_order(fast_path: Path) -> None:
    """Their costs do not add up: they share the number of repeats. Before both are charged, the larger holds."""
    law, trained, scored = Repeats.poisson(3), TrainingPlan(2.0, 1.0, 1), 0.5
    plans = {"train": SelectionPlan(law, trained), "val": SelectionPlan(law, score_mu=scored)}
    plans |= {"new": plans["train"], "other": plans["val"]}
    ledgers = {name: TrainingLedger(fast_path / f"{name}.db", plan, n=900) for name, plan in plans.items()}

    def joint(*names: str) -> float:
        return join([ledgers[name] for name in names], delta=DELTA).epsilon

    apart = epsilon_of([plans["train"], plans["val"]], DELTA)
    one = epsilon_of([SelectionPlan(law, trained, scored)], DELTA)
    assert one < joint("train", "val") == apart
    ledgers["train"].begin_selection("one question", secure=True)
    ledgers["val"].begin_selection("one question", secure=True)
    ledgers["other"].begin_selection("another question", secure=True)
    assert joint("train", "val") == one
    assert joint("train", "other") == apart
    found = [joint(*names) for names in (["train", "val", "new"], ["new", "train", "val"], ["val", "new", "train"])]
    assert max(found) == pytest.approx(min(found), rel=1e-9)  # the new one may come to belong to it, and adds its own
    assert min(found) > one
    ledgers["new"].begin_selection("one question", secure=True)
    with pytest.raises(InputError, match="train in one selection"):
        joint("train", "val", "new")
