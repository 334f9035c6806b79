"""A clip that is chosen privately: its law, its price, what one person moves; charge, then read, then draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noises import NoNoise
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.losses.functions import EPS
from dptune.privacy import AutoClip, auto_clip
from dptune.privacy.auto_clip import ClipRule, range_of
from dptune.privacy.noise import SeededNoise

MOST_LOG_LOSS = -math.log(EPS)
PRICE = math.sqrt(0.05)  # of a ledger with mu = 1


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    return PrivacyLedger(tmp_path / "ledger.db", Budget.gdp(1.0))


@pytest.fixture
def auto(ledger: PrivacyLedger) -> Callable[..., LossPrivatizer]:
    """A factory of privatizers of 100 people whose clip is to be chosen, on the ledger of this test."""

    def make(**settings: Any) -> LossPrivatizer:
        if "groups" not in settings:
            settings.setdefault("n", 100)
        return LossPrivatizer(settings.pop("ledger", ledger), clip="auto", **settings)

    return make


def losses(scale: float = 1.0, n: int = 100, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).exponential(scale, n)


# ---- the rule ----------------------------------------------------------------------------------------------


def by_hand(values: Any, weights: Any, rule: ClipRule) -> list[float]:
    """u of each bound, by counting."""
    known = [v if math.isfinite(v) else rule.never for v in values]

    def share_above(t: float) -> float:
        return sum(w for v, w in zip(known, weights, strict=True) if v > t)

    u = []
    for j, t in enumerate(rule.over):
        near = rule.above + rule.far - (share_above(t / 2) if j >= 8 else 1.0)
        u.append(max(abs(share_above(t) - rule.above), near))
    return u


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


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_people_whose_loss_is_no_number_do_not_move_the_clip_and_no_error_tells_of_them(
    odd: float, auto: Callable[..., LossPrivatizer], tmp_path: Path
) -> None:
    other = auto(ledger=PrivacyLedger(tmp_path / "other.db", Budget.gdp(1.0)), noise=NoNoise())
    some = np.where(np.arange(100) < 10, odd, losses())
    assert other.choose_clip(some)[1] <= auto(noise=NoNoise()).choose_clip(losses())[1] < 20
    assert LossPrivatizer(other.ledger, n=100, clip=AutoClip("all")).choose_clip(np.full(100, odd))[1] > 0


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
    lightgbm = pytest.importorskip("lightgbm")
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


# ---- the release -------------------------------------------------------------------------------------------


def test_the_noise_is_that_of_the_exponential_mechanism(auto: Callable[..., LossPrivatizer]) -> None:
    noise, values = NoNoise(), losses()
    auto(noise=noise).choose_clip(values)
    eta = bounded_range_from_mu(PRICE)
    rule = ClipRule.of(100, eta, None)
    u = np.array(by_hand(values, [0.01] * 100, rule))
    assert noise.sigma == pytest.approx(2 * 0.01 / eta, rel=1e-5)
    assert noise.sigma >= 2 * 0.01 / eta
    assert noise.statistic == pytest.approx(u + noise.sigma * rule.handicaps, abs=1e-9)


def test_it_is_charged_recorded_and_stated(auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger) -> None:
    privatizer = auto()
    assert "to be chosen" in repr(privatizer)
    low, high = privatizer.choose_clip(losses())
    (charge,) = ledger.charges("clip/automatic")
    assert charge.mu == pytest.approx(PRICE)
    assert ledger.spent() == pytest.approx(PRICE)
    assert charge.value is not None
    assert (low, high) == (0.0, 4 * charge.value[0])
    assert privatizer.describe()["clip"] == [low, high]
    assert auto_clip.STATISTIC in str(ledger.statement(delta=1e-5))


def test_a_persons_rows_become_one_loss(auto: Callable[..., LossPrivatizer], tmp_path: Path) -> None:
    noise = NoNoise()
    auto(noise=noise, groups=np.repeat(np.arange(100), 3)).choose_clip(np.repeat(losses(), 3))
    alone = NoNoise()
    auto(ledger=PrivacyLedger(tmp_path / "other.db", Budget.gdp(1.0)), noise=alone).choose_clip(losses())
    assert noise.statistic == pytest.approx(alone.statistic)


def once(auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger) -> None:
    """Audit: whoever asks later, with whatever losses, is told the first choice, and nobody trains or pays again."""
    first = auto().choose_clip(losses())
    again = auto()
    assert again.knows_clip
    assert again.interval.high == first[1]
    assert again.choose_clip(lambda: pytest.fail("nobody has to train again")) == first
    assert auto().choose_clip(losses(1e6)) == first  # another model's losses change nothing
    assert len(ledger.charges("clip/automatic")) == 1


def in_order(auto: Callable[..., LossPrivatizer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit: charge, then read, then draw."""
    order: list[str] = []
    charge, distances = PrivacyLedger.charge, ClipRule.distances

    def charged(*given: Any, **more: Any) -> Any:
        paid = charge(*given, **more)
        order.append("charge")
        return paid

    def read(*given: Any) -> Any:
        order.append("read")
        return distances(*given)

    monkeypatch.setattr(PrivacyLedger, "charge", charged)
    monkeypatch.setattr(ClipRule, "distances", read)
    auto().choose_clip(losses())
    assert order == ["charge", "read"]


def test_it_is_chosen_once_and_a_restart_reads_it(auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger) -> None:
    once(auto, ledger)


def test_nothing_is_read_before_it_is_paid(
    auto: Callable[..., LossPrivatizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order(auto, monkeypatch)


def _killed(privatizer: LossPrivatizer, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """Choose, and die before anything is recorded."""
    with monkeypatch.context() as broken:
        broken.setattr(ClipRule, "distances", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            privatizer.choose_clip(losses(), **settings)


def test_a_kill_between_charge_and_record_costs_once(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed(auto(), monkeypatch)
    spent = ledger.spent()
    assert spent == pytest.approx(PRICE)
    assert not auto().knows_clip
    auto().choose_clip(losses())
    assert ledger.spent() == spent


def test_an_exhausted_ledger_and_too_few_people_refuse_before_a_model_is_trained(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger
) -> None:
    with pytest.raises(InputError, match="100 people's losses at this price"):
        auto().choose_clip(losses(), mu=0.1)
    assert ledger.spent() == 0
    other = LossPrivatizer(ledger, n=100, clip=(0, 1))
    other.observe("a", losses())
    other.release(other.mean_query("a", 1.0), scope="s", key="k")
    with pytest.raises(BudgetExhausted):
        auto().choose_clip(lambda: pytest.fail("was trained"))


def test_until_it_is_chosen_nothing_can_be_held_or_asked(auto: Callable[..., LossPrivatizer]) -> None:
    privatizer = auto()
    for refused in (lambda: privatizer.observe("a", losses()), lambda: privatizer.mean_query("a", 0.1)):
        with pytest.raises(InputError, match="choose_clip"):
            refused()


def test_one_name_has_one_kind_of_loss(auto: Callable[..., LossPrivatizer], monkeypatch: pytest.MonkeyPatch) -> None:
    _killed(auto(), monkeypatch)
    with pytest.raises(KeyConflict):
        auto().choose_clip(losses(), loss="log_loss", most=36.0)
    auto().choose_clip(losses())
    with pytest.raises(KeyConflict, match="was chosen for loss, and this is log_loss"):  # recorded, too
        auto().choose_clip(losses(), loss="log_loss", most=36.0)
    bounded = auto()
    bounded.use_clip((0.0, 1.0))  # known of its loss, whatever the ledger has
    assert bounded.interval.high == 1.0
    with pytest.raises(InputError, match="another LossPrivatizer"):
        bounded.use_clip((0.0, 2.0))


def test_a_charge_is_answered_at_its_own_price_only(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed(auto(), monkeypatch, most=36.0, mu=0.2)
    weighted = auto(person_weights=np.r_[3.0, np.ones(99)])
    with pytest.raises(KeyConflict):  # the same scale of noise would be a larger mu
        weighted.choose_clip(losses(), most=36.0, mu=0.5881328833479337)
    noise = NoNoise()
    auto().choose_clip(losses(), most=36.0, mu=0.7)  # goes on at what was paid
    (charge,) = ledger.charges("clip/automatic")
    assert charge.mu == pytest.approx(0.2 * PRICE)
    assert not noise.seen


def test_another_process_that_was_first_is_no_conflict(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger
) -> None:
    def slow() -> Any:
        auto().choose_clip(losses())
        other = LossPrivatizer(ledger, n=100, clip=(0.0, 1.0))
        other.observe("a", losses())
        other.release(other.mean_query("a", 0.1), scope="s", key="k")
        return losses(1e6)

    assert auto().choose_clip(slow)[1] < 100
    assert len(ledger.charges("clip/automatic")) == 1


def test_a_clip_of_seeded_noise_stamps_what_is_built_on_it(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger
) -> None:
    auto(noise=SeededNoise(1)).choose_clip(losses())
    later = auto()
    assert later.interval.high > 0
    assert not later.private


def test_a_largest_loss_that_no_clip_can_have_is_refused_unspent(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger
) -> None:
    with pytest.raises(InputError, match="most"):
        auto().choose_clip(losses(), most=1e31)
    assert ledger.spent() == 0


@pytest.mark.parametrize("clip", ["automatic", AutoClip])
def test_what_is_no_clip_is_refused(clip: Any, ledger: PrivacyLedger) -> None:
    with pytest.raises(InputError, match="clip must be a pair of numbers"):
        LossPrivatizer(ledger, n=100, clip=clip)


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


@pytest.mark.parametrize("bug", [_bounds_from_the_data, _twice_the_weight])
def test_planted_bugs_are_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    values, weights = losses(1.0, 50), np.full(50, 0.02)
    rule = ClipRule.of(50, 1.0, None)
    moved = [np.append(values[1:], far) for far in (0.0, 1e3, 1e9)]
    worst = max(np.abs(rule.distances(values, weights) - rule.distances(other, weights)).max() for other in moved)
    assert worst > 0.02 + 1e-12


def test_a_clip_from_the_losses_of_a_later_trial_is_found(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = AutoClip.scope.fget  # type: ignore[attr-defined]
    calls = itertools.count()
    monkeypatch.setattr(
        AutoClip, "scope", property(lambda self: f"{chosen(self)}/{next(calls)}")
    )  # a new one each time
    with pytest.raises((AssertionError, InputError)):
        once(auto, ledger)


def test_a_quantile_that_is_read_before_it_is_paid_is_found(
    auto: Callable[..., LossPrivatizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = LossPrivatizer.checked

    def reads(self: LossPrivatizer, given: Any) -> Any:
        ClipRule.of(self.n, 1.0, None).distances(np.asarray(given), np.full(self.n, 1 / self.n))
        return checked(self, given)

    monkeypatch.setattr(LossPrivatizer, "checked", reads)
    with pytest.raises(AssertionError):
        in_order(auto, monkeypatch)
