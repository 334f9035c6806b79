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


@pytest.mark.parametrize("worst", [0.3, 0.2])
def test_a_loss_with_a_largest_value_keeps_it_where_some_people_have_it(worst: float, tmp_path: Path) -> None:
    two_sided = np.where(np.arange(1000) < 1000 * worst, 36.0, 0.0)  # a tree's log losses
    privatizer = LossPrivatizer(PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0)), n=1000, clip="auto")
    assert privatizer.choose_clip(two_sided, most=36.0) == (0.0, 36.0)


def test_the_bounds_do_not_depend_on_the_losses_and_what_follows_is_cut_at_the_largest() -> None:
    assert ClipRule.of(300, 0.4, None).over.tolist() == [2.0 ** (j / 8) for j in range(-240, 480)]
    assert ClipRule.of(300, 0.4, 32.0).over.tolist() == [32.0 * 2.0 ** (j / 8) for j in range(-48, 1)]
    assert range_of(3.0, None) == range_of(3.0, 32.0) == (0.0, 12.0)
    assert range_of(16.0, 32.0) == (0.0, 32.0)


# ---- where the clip lies, by its exact probabilities -------------------------------------------------------


def chances(people: Any, mu: float, most: float | None = None) -> tuple[Any, Any]:
    """The clips that a ledger of mu may begin with, and their exact probabilities."""
    n, eta = len(people), bounded_range_from_mu(AutoClip().price(mu))
    rule = ClipRule.of(n, eta, most)
    odds = np.exp(_log_odds(rule.distances(people, np.full(n, 1 / n)), rule, 2 / (n * eta)))
    return np.array([range_of(bound, most)[1] for bound in rule.over]), odds


def hinge_losses(gamma: float) -> Any:
    """Those of README's first script, on breast cancer: nobody's exceeds 2.2, and a third of the people have one."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=300, random_state=0)
    scaler = StandardScaler().fit(X_train)
    model = SVC(C=1, gamma=gamma).fit(scaler.transform(X_train), y_train)
    return np.maximum(0.0, 1 - (2 * y_val - 1) * model.decision_function(scaler.transform(X_val)))


def log_losses_of_boosted_trees(**settings: Any) -> Any:
    import lightgbm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=500) > 0).astype(int)
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1, **settings).fit(X[:200], y[:200])
    return -np.log(np.maximum(model.predict_proba(X[200:])[np.arange(300), y[200:]], EPS))


NORMAL, FEW = np.abs(np.random.default_rng(0).normal(size=500)), losses(1.0, 300)
SMALL_TREES = {"num_leaves": 4, "n_estimators": 40}
LIES: dict[str, tuple[Callable[[], Any], float, float | None, float, float]] = {
    # losses, mu, the largest loss there is, chances of a clip above 8 times the largest, below half the .95 quantile
    "hinge, SVC": (lambda: hinge_losses(1.0), 0.5, None, 0.02, 0.001),
    "hinge, smooth SVC": (lambda: hinge_losses(0.1), 1.156, None, 0.01, 0.001),
    "trees, capped": (log_losses_of_boosted_trees, 0.5, -math.log(EPS), 0.05, 0.005),
    "small trees": (lambda: log_losses_of_boosted_trees(**SMALL_TREES), 1.0, None, 0.05, 0.005),
    "few people, small unit": (lambda: FEW * 1e-3, 0.5, None, 0.06, 0.001),
    "few people, large unit": (lambda: FEW * 1e6, 0.5, None, 0.06, 0.001),
    "half a normal law": (lambda: NORMAL, 1.0, None, 0.01, 0.01),
    "none far from the others": (lambda: 0.5 + 0.1 * NORMAL, 1.0, None, 0.01, 0.01),
    "all the same": (lambda: np.full(300, 0.7), 0.5, None, 0.08, 0.01),
    "all the same, large unit": (lambda: np.full(1000, 1e4), 1.0, None, 0.08, 0.01),
}


@pytest.mark.parametrize("case", LIES)
def test_a_clip_far_above_every_loss_or_below_most_is_rare(case: str) -> None:
    make, mu, most, above, below = LIES[case]
    people = make()
    clips, odds = chances(people, mu, most)
    assert odds[clips > 8 * people.max()].sum() < above
    assert odds[clips < np.quantile(people, 0.95) / 2].sum() < below


def test_the_clip_follows_the_losses_in_any_unit(tmp_path: Path) -> None:
    found = []
    for seed, scale in enumerate((1e-4, 1.0, 1e7) * 3):
        privatizer = LossPrivatizer(PrivacyLedger(tmp_path / f"{seed}.db", Budget.gdp(1.0)), n=1000, clip="auto")
        found.append(privatizer.choose_clip(losses(scale, 1000, seed))[1] / scale)
    assert 8 < np.median(found) < 17  # 4 times the .95 quantile of 3
    assert min(found) > 3


# ---- planted bugs --------------------------------------------------------------------------------------------


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


def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    values, weights, rule = losses(1.0, 50), np.full(50, 0.02), ClipRule.of(50, 1.0, None)
    moved = [np.append(values[1:], far) for far in (0.0, 1e3, 1e9)]

    def worst() -> float:
        u = rule.distances(values, weights)
        return float(max(np.abs(u - rule.distances(other, weights)).max() for other in moved))

    assert worst() <= 0.02 + 1e-12
    for bug in (_bounds_from_the_data, _twice_the_weight):
        with monkeypatch.context() as patch:
            bug(patch)
            assert worst() > 0.02 + 1e-12
