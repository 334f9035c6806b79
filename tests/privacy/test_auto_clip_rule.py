"""The rule of a clip that is chosen privately: its bounds, what one person moves, how near it comes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clip_tools import by_hand, losses
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.losses.functions import EPS
from dptune.privacy import AutoClip
from dptune.privacy.auto_clip import ClipRule, range_of

MOST_LOG_LOSS = -math.log(EPS)
PRICE = math.sqrt(0.05)  # of a ledger with mu = 1


@pytest.mark.parametrize("most", [None, 36.0])
def test_the_statistic_is_what_counting_gives(most: float | None) -> None:
    rule = ClipRule.of(60, 1.0, most)
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.exponential(3, 56), [np.nan, np.inf, -np.inf, rule.over[5]]])  # one is a bound
    weights = rng.dirichlet(np.ones(60))
    assert (rule.never, rule.far) == (-math.inf if most is None else math.inf, 0.2)
    counted = by_hand(values, weights, rule)
    assert rule.distances(values, weights) == pytest.approx(counted, abs=1e-12)


NUMBER = st.floats(allow_nan=True, allow_infinity=True)


@given(
    values=st.lists(NUMBER, min_size=2, max_size=30),
    other=NUMBER,
    raw=st.lists(st.floats(0.01, 1.0), min_size=30, max_size=30),
    most=st.sampled_from([None, 1.0, 36.0]),
)
@settings(max_examples=60, deadline=None)
def test_one_person_moves_no_entry_by_more_than_their_weight_and_the_odds_by_no_more_than_eta(
    values: list[float], other: float, raw: list[float], most: float | None
) -> None:
    weights = np.array(raw[: len(values)]) / sum(raw[: len(values)])
    rule, eta, entry = ClipRule.of(len(values), 50.0, most), 0.4, weights.max()
    u, v = (rule.distances(np.array(given), weights) for given in (values, [other, *values[1:]]))
    assert np.abs(u - v).max() <= weights[0] + 1e-12
    ratio = _log_odds(u, rule, 2 * entry / eta) - _log_odds(v, rule, 2 * entry / eta)
    assert ratio.max() - ratio.min() <= eta + 1e-9  # bounded range


def _log_odds(u: Any, rule: ClipRule, scale: float) -> Any:
    """Logarithms of the probabilities of the bounds."""
    logits = -u / scale - rule.handicaps
    return logits - np.logaddexp.reduce(logits)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e7])
def test_the_clip_follows_the_losses_in_any_unit(scale: float, tmp_path: Path) -> None:
    found = []
    for seed in range(20):
        ledger = PrivacyLedger(tmp_path / f"{seed}.db", Budget.gdp(1.0))
        privatizer = LossPrivatizer(ledger, n=1000, clip="auto")
        found.append(privatizer.choose_clip(losses(scale, 1000, seed))[1] / scale)
    assert 8 < np.median(found) < 17  # 4 times the .95 quantile of 3
    assert min(found) > 3


@pytest.mark.parametrize("worst", [0.3, 0.2])
def test_a_loss_with_a_largest_value_keeps_it_where_some_people_have_it(worst: float, tmp_path: Path) -> None:
    two_sided = np.where(np.arange(1000) < 1000 * worst, 36.0, 0.0)  # a tree's log losses
    privatizer = LossPrivatizer(PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0)), n=1000, clip="auto")
    assert privatizer.choose_clip(two_sided, most=36.0) == (0.0, 36.0)


def test_the_bounds_do_not_depend_on_the_losses_and_what_follows_is_cut_at_the_largest() -> None:
    assert ClipRule.of(300, 0.4, None).over.tolist() == [2.0 ** (j / 8) for j in range(-240, 480)]
    assert ClipRule.of(300, 0.4, 32.0).over.tolist() == [32.0 * 2.0 ** (j / 8) for j in range(-48, 1)]
    assert range_of(3.0, None) == (0.0, 12.0)
    assert range_of(3.0, 32.0) == (0.0, 12.0)
    assert range_of(16.0, 32.0) == (0.0, 32.0)


@pytest.mark.parametrize(
    ("people", "price"),
    [
        (np.abs(np.random.default_rng(0).normal(size=500)), 0.2236),
        (np.random.default_rng(0).exponential(1e6, 300), 0.1118),
        (np.random.default_rng(0).normal(0.5, 0.1, 1000), 0.2236),  # none is far from the others
    ],
)
def test_a_clip_far_above_every_loss_or_below_most_is_rare(people: Any, price: float) -> None:
    n, eta = len(people), bounded_range_from_mu(price)
    rule = ClipRule.of(n, eta, None)
    odds = np.exp(_log_odds(rule.distances(people, np.full(n, 1 / n)), rule, 2 / (n * eta)))  # exact
    clip = np.array([range_of(bound, None)[1] for bound in rule.over])
    assert odds[clip > 16 * people.max()].sum() < 0.01
    assert odds[clip < np.median(people)].sum() < 0.01


def chances(people: Any, mu: float, most: float | None = None) -> tuple[Any, Any]:
    """The clips that a ledger of mu may begin with, and their exact probabilities."""
    n, eta = len(people), bounded_range_from_mu(AutoClip().price(mu))
    rule = ClipRule.of(n, eta, most)
    odds = np.exp(_log_odds(rule.distances(people, np.full(n, 1 / n)), rule, 2 / (n * eta)))
    return np.array([range_of(bound, most)[1] for bound in rule.over]), odds


def hinge_losses(people: int, gamma: float, *, standardised: bool) -> Any:
    """Those of README's first script, on breast cancer."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=people, random_state=0)
    if standardised:
        scaler = StandardScaler().fit(X_train)
        X_train, X_val = scaler.transform(X_train), scaler.transform(X_val)
    margins = SVC(C=1, gamma=gamma).fit(X_train, y_train).decision_function(X_val)
    return np.maximum(0.0, 1 - (2 * y_val - 1) * margins)


@pytest.mark.parametrize("mu", [0.5, 0.92, 1.156])  # the others: epsilon = 4 in GDP, and with a choice of its own limit
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 0.1])
@pytest.mark.parametrize("people", [300, 400])
def test_a_clip_of_hinge_losses_lies_near_the_largest(people: int, gamma: float, standardised: bool, mu: float) -> None:
    """Nobody's loss exceeds 2.2, and of most models a third of the people have the same: clips of 6,890 were likely."""
    losses = hinge_losses(people, gamma, standardised=standardised)
    clips, odds = chances(losses, mu)
    assert losses.max() < 2.2
    assert odds[clips > 8 * losses.max()].sum() < (0.02 if mu == 0.5 else 0.01)
    assert odds[clips < np.quantile(losses, 0.95) / 2].sum() < 0.001


@pytest.mark.parametrize("mu", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("capped", [True, False])
def test_a_clip_of_log_losses_of_boosted_trees_lies_near_the_largest(seed: int, capped: bool, mu: float) -> None:
    import lightgbm

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 6))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=500) > 0).astype(int)
    settings = {"num_leaves": 4, "n_estimators": 40} if seed % 2 else {}  # a largest loss of about 3, or of 7
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1, **settings).fit(X[:200], y[:200])
    losses = -np.log(np.maximum(model.predict_proba(X[200:])[np.arange(300), y[200:]], EPS))
    clips, odds = chances(losses, mu, MOST_LOG_LOSS if capped else None)
    assert odds[clips > 8 * losses.max()].sum() < 0.05
    assert odds[clips < np.quantile(losses, 0.95) / 2].sum() < 0.005


@pytest.mark.parametrize(("n", "mu"), [(300, 0.5), (300, 1.0), (1000, 1.0)])
@pytest.mark.parametrize("level", [0.01, 0.7, 1.0, 40.0, 1e4])
def test_where_everybody_loses_the_same_the_clip_is_not_far_above(level: float, n: int, mu: float) -> None:
    clips, odds = chances(np.full(n, level), mu)
    assert odds[clips > 9 * level].sum() < 0.08
    assert odds[clips < level].sum() < 0.01


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_few_people_and_a_small_budget_leave_the_clip_between_the_bulk_and_the_largest(scale: float) -> None:
    people = np.random.default_rng(0).exponential(scale, 300)
    clips, odds = chances(people, 0.5)
    assert odds[clips > 8 * people.max()].sum() < 0.06
    assert odds[clips < np.quantile(people, 0.95) / 2].sum() < 0.001


def _bounds_from_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of bounds ends at the largest loss."""
    right = ClipRule.distances

    def distances(self: ClipRule, values: Any, weights: Any) -> Any:
        return right(ClipRule(self.over * np.nanmax(values), self.above, self.handicaps), values, weights)

    monkeypatch.setattr(ClipRule, "distances", distances)


def _twice_the_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distance is squared and scaled: a person moves it by more than their weight."""
    right = ClipRule.distances
    monkeypatch.setattr(ClipRule, "distances", lambda self, *given: 2 * right(self, *given))


@pytest.mark.parametrize("bug", [_bounds_from_the_data, _twice_the_weight])
def test_planted_bugs_are_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    values, weights = losses(1.0, 50), np.full(50, 0.02)
    rule = ClipRule.of(50, 1.0, None)
    moved = [np.append(values[1:], far) for far in (0.0, 1e3, 1e9)]
    worst = max(np.abs(rule.distances(values, weights) - rule.distances(other, weights)).max() for other in moved)
    assert worst > 0.02 + 1e-12
