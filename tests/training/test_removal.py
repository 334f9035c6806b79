"""The cost of removing one person equals the smallest ball around all possible changes, for each kind of release."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC

import dptune
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.choice.report.plan import ReportPlan
from dptune.ledger.approximate import Limits
from dptune.ledger.dominating import together
from dptune.ledger.gdp import bounded_range_from_mu, epsilon_from_mu, mu_from_bounded_range
from dptune.privacy import Ball, MeanQuery, NormQuery
from dptune.privacy.mechanism import GaussianMechanism, LaplaceMechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.query import Box, Interval, Query
from dptune.privacy.stored_losses import per_person
from dptune.training import TrainingLedger, TrainingPlan, join
from dptune.training.profiles import removal_mu, removed
from noises import NoNoise

Array = np.ndarray
DELTA = 1e-5

# ---- clipped statistics: half ------------------------------------------------------------------------------

QUERIES: dict[str, Query] = {
    "a mean loss": MeanQuery(("a",), np.ones((1, 1)), Interval(1.0, 3.0), 1.0),
    "means of a choice": MeanQuery(("a", "b", "c"), np.eye(3), Box(-1.0, 2.0, 3), 1.0),
    "a clipped vector": MeanQuery(("a", "b", "c"), np.eye(3), Ball(0.7), 1.0),
    "a centred vector": MeanQuery(("a", "b", "c"), np.eye(3), Ball(0.7), 1.0, centred_on=3),
    "a share of people": NormQuery(("a", "b", "c"), np.eye(3), 0.7, 1.0),
}


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_nobody_adds_more_than_half_of_what_replacing_moves(name: str, data: st.DataObject) -> None:
    """So whoever is removed, and adds 0, moves a release by half of its sensitivity at most."""
    query = QUERIES[name]
    elements = st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, 1e300]), st.floats(-10, 10))
    rows = 1 if name == "a mean loss" else 3
    g = data.draw(arrays(np.float64, (rows, 4), elements=elements))
    added = np.linalg.norm(per_person(g, query), axis=0)
    assert (added <= query.clip.diameter / 2 * (1 + 1e-12)).all()


@pytest.mark.parametrize("mechanism", [GaussianMechanism, LaplaceMechanism, NoisyMin, PermuteAndFlip])
@given(mu=st.floats(0.1, 6), m=st.integers(2, 6), seed=st.integers(0, 1000))
def test_half_a_move_has_half_of_the_range_or_of_epsilon(mechanism: Any, mu: float, m: int, seed: int) -> None:
    """The exact laws of a release with and without a person whose losses are at an end of the clip, [0, 1]."""
    count = 1 if mechanism is LaplaceMechanism else m
    query = MeanQuery(tuple("abcdef"[:count]), np.eye(count), Box(0.0, 1.0, count) if count > 1 else Interval(0, 1), mu)
    how, n, rng = mechanism(NoNoise()), 9, np.random.default_rng(seed)
    sensitivity = query.clip.diameter / n
    scale = how.scale(query, sensitivity)
    event = how.event(query, sensitivity, scale)
    means, extreme = rng.random(count), rng.choice([-0.5, 0.5], count) / n
    if mechanism is GaussianMechanism:
        assert math.sqrt(count) * 0.5 / n / scale <= mu / 2
    elif mechanism is LaplaceMechanism:
        assert 0.5 / n / scale <= event.epsilon / 2
    elif mechanism is NoisyMin:
        logs = [-u / scale for u in (means + extreme, means)]
        p, q = (np.exp(log - np.logaddexp.reduce(log)) for log in logs)
        assert np.ptp(np.log(p / q)) <= event.eta / 2 * (1 + 1e-9)
        assert mu_from_bounded_range(event.eta / 2) <= removal_mu(mu)
    else:
        p, q = (flipped(u / scale) for u in (means + extreme, means))
        assert np.abs(np.log(p / q)).max() <= event.epsilon / 2 * (1 + 1e-9)
        assert mu_from_bounded_range(event.epsilon) <= removal_mu(mu)


def flipped(u: Array) -> Array:
    """The law of permute-and-flip among scores (m,): each order of candidates is as likely, the smallest is taken."""
    keep = np.exp(-(u - u.min()))
    law = np.zeros(len(u))
    for order in itertools.permutations(range(len(u))):
        tried = np.cumprod([1.0, *(1 - keep[list(order)])])[:-1]
        law[list(order)] += tried * keep[list(order)] / math.factorial(len(u))
    return law


# ---- a report's table: more than half, at most 1/sqrt(2) -----------------------------------------------------


def enclosing(blocks: Sequence[Array], rounds: int = 5000) -> tuple[float, float]:
    """Return bounds of the radius of the smallest ball around a person's part, a column of each block.

    Badoiu & Clarkson (2003): a centre moves 1/(k + 1) of the way to the farthest point. The distance of the farthest
    point is an upper bound. The points that were visited are a law, and the root of their variance is a lower bound.
    """
    columns = [np.unique(block.T, axis=0) for block in blocks]  # (s, p) each
    centre = [each.mean(axis=0) for each in columns]
    counts = [np.zeros(len(each)) for each in columns]
    upper = math.inf
    for k in range(rounds):
        farthest = [int(((c - at) ** 2).sum(axis=1).argmax()) for c, at in zip(columns, centre, strict=True)]
        points = [c[j] for c, j in zip(columns, farthest, strict=True)]
        upper = min(upper, math.sqrt(sum(((p - at) ** 2).sum() for p, at in zip(points, centre, strict=True))))
        centre = [at + (p - at) / (k + 2) for p, at in zip(points, centre, strict=True)]
        for visits, j in zip(counts, farthest, strict=True):
            visits[j] += 1 / rounds
    means = [visits @ c for visits, c in zip(counts, columns, strict=True)]
    lower = sum(v @ (c**2).sum(axis=1) - m @ m for v, c, m in zip(counts, columns, means, strict=True))
    return math.sqrt(lower), upper


def rows(n: int, classes: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, 3)) + 1.2 * np.eye(4)[y][:, :3]
    return np.column_stack([X, rng.integers(3, size=n)]), y


REPORTS: dict[str, tuple[Any, int, dict[str, Any], dict[str, Any]]] = {  # model, classes, settings, who
    "binary": (LogisticRegression(), 2, {}, {}),
    "two bins": (LogisticRegression(), 2, {"bins": 2}, {}),
    "decision values": (SVC(), 2, {}, {}),
    "groups": (LogisticRegression(), 2, {"by": 3}, {}),
    "decisions": (SVC(), 3, {}, {}),
    "several classes": (LogisticRegression(), 4, {}, {}),
    "several classes, groups": (LogisticRegression(), 3, {"by": 3}, {}),
    "regression": (Ridge(), 0, {}, {}),
    "regression, groups": (Ridge(), 0, {"by": 3}, {}),
    "weighted": (LogisticRegression(), 2, {}, {"n": 300, "person_weights": np.r_[np.full(90, 3.0), np.ones(210)]}),
    "several rows a person": (LogisticRegression(), 2, {}, {"groups": np.arange(300) % 120}),
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_joint_statement_covers_a_report_of_each_kind(kind: str, fast_path: Path) -> None:
    model, classes, settings, who = REPORTS[kind]
    public, private = rows(300, classes or 2, 1), rows(300, classes or 2, 2)
    if not classes:
        public, private = ((X, X[:, 0] + y) for X, y in (public, private))
    ledger = PrivacyLedger(fast_path / "val.db", Budget.gdp(1.0), unit="one person")
    mine = LossPrivatizer(ledger, clip=(0, 1), **(who or {"n": 300}))
    dptune.report(model.fit(*public), mine, data=private, public=public, mu=1.0, **settings)
    query = ReportPlan.read(ledger.fact("report", "plan")).query()
    sigma = ledger.charges("report")[0].description["sigma"]
    lower, upper = (bound * mine.largest_weight / sigma for bound in enclosing(query.blocks))
    assert 0.55 < lower <= upper * (1 + 1e-9) <= removal_mu(1.0), "half of mu is too little, and 1/sqrt(2) enough"
    nothing = math.sqrt(sum((block**2).sum(axis=0).max() for block in query.blocks)) * mine.largest_weight / sigma
    assert nothing <= removal_mu(1.0) or kind == "regression", "so it is if whoever is removed adds 0"
    plan = TrainingPlan(noise_multiplier=1000.0, sample_rate=1e-4, steps=1, trainings=1)  # it costs next to nothing
    train = TrainingLedger(fast_path / "train.db", plan, n=300, unit="one person")
    assert join([train, ledger], delta=DELTA).epsilon >= epsilon_from_mu(upper, DELTA)


@given(st.lists(st.tuples(st.floats(0.01, 2.0), st.sampled_from(["mean", "choice", "table"])), min_size=1, max_size=8))
def test_whatever_is_spent_within_a_filter_stays_within_that_of_removal(spent: list[tuple[float, str]]) -> None:
    def cost(mu: float, kind: str) -> float:
        if kind == "choice":
            return mu_from_bounded_range(bounded_range_from_mu(mu) / 2)
        return mu / 2 if kind == "mean" else mu / math.sqrt(2)

    whole = math.hypot(*(mu for mu, _ in spent))
    assert math.hypot(*(cost(*each) for each in spent)) <= removal_mu(whole) <= whole


@given(st.floats(1e-3, 30.0))
def test_half_of_a_range_costs_at_least_half_and_at_most_a_table(mu: float) -> None:
    assert 0.5 <= mu_from_bounded_range(bounded_range_from_mu(mu) / 2) / mu * (1 + 1e-9) <= math.sqrt(0.5)


def test_each_limit_costs_its_own_share_of_a_replacement() -> None:
    exposure = Limits(0.5, 0.8, 0.0)
    whole, half = (Limits(mu, eta, 0.0) for mu, eta in ((0.5, 0.8), (0.5 / math.sqrt(2), 0.4)))
    curve = together(removed(exposure), DELTA)
    assert curve.epsilon(DELTA) == pytest.approx(together(half.profiles(), DELTA).epsilon(DELTA), rel=1e-2)
    assert curve.epsilon(DELTA) < 0.8 * together(whole.profiles(), DELTA).epsilon(DELTA)
    pure = together(removed(Limits(0.0, 0.0, 1.0)), DELTA)
    assert pure.epsilon(1e-12) == pytest.approx(0.5, rel=1e-2)
