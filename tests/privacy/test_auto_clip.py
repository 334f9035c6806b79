"""A clip that is chosen privately: its law, its price, what one person moves; charge, then read, then draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clip_tools import by_hand, losses
from noises import NoNoise

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy import AutoClip, auto_clip
from dptune.privacy.auto_clip import ClipRule
from dptune.privacy.noise import SeededNoise

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
        return LossPrivatizer(settings.pop("ledger", ledger), **{"clip": "auto", **settings})

    return make


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
    assert math.hypot(AutoClip().price(2.0), AutoClip().rest(2.0)) == pytest.approx(2.0)
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


def test_it_is_chosen_once_and_a_restart_reads_it(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(auto, ledger)
    chosen, calls = AutoClip.scope.fget, itertools.count()
    anew = property(lambda self: f"{chosen(self)}/{next(calls)}")  # planted: a clip of each later trial
    monkeypatch.setattr(AutoClip, "scope", anew)
    with pytest.raises((AssertionError, InputError)):
        once(auto, ledger)


@pytest.mark.parametrize("planted", [False, True])
def test_nothing_is_read_before_it_is_paid_and_a_quantile_that_is_would_be_found(
    auto: Callable[..., LossPrivatizer], monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    order: list[str] = []
    charge, distances, checked = PrivacyLedger.charge, ClipRule.distances, LossPrivatizer.checked

    def charged(*given: Any, **more: Any) -> Any:
        paid = charge(*given, **more)
        order.append("charge")
        return paid

    def read(*given: Any) -> Any:
        order.append("read")
        return distances(*given)

    monkeypatch.setattr(PrivacyLedger, "charge", charged)

    def reads(self: LossPrivatizer, given: Any) -> Any:
        ClipRule.of(self.n, 1.0, None).distances(np.asarray(given), np.full(self.n, 1 / self.n))
        return checked(self, given)

    monkeypatch.setattr(ClipRule, "distances", read)
    if planted:
        monkeypatch.setattr(LossPrivatizer, "checked", reads)
    auto().choose_clip(losses())
    assert order == (["read", "charge", "read"] if planted else ["charge", "read"])


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


def test_what_cannot_be_chosen_is_refused_before_a_model_is_trained_and_unspent(
    auto: Callable[..., LossPrivatizer], ledger: PrivacyLedger
) -> None:
    for change, word in (({"mu": 0.1}, "100 people's losses at this price"), ({"most": 1e31}, "most")):
        with pytest.raises(InputError, match=word):
            auto().choose_clip(lambda: pytest.fail("was trained"), **change)
    with pytest.raises(InputError, match="the default configuration failed"):
        auto().choose_clip(lambda: None)
    for clip in ("automatic", AutoClip):
        with pytest.raises(InputError, match="clip must be a pair of numbers"):
            auto(clip=clip)
    for ask in (lambda one: one.observe("a", losses()), lambda one: one.mean_query("a", 0.1)):
        with pytest.raises(InputError, match="choose_clip"):
            ask(auto())
    assert ledger.spent() == 0
    other = auto(clip=(0, 1))
    other.observe("a", losses())
    other.release(other.mean_query("a", 1.0), scope="s", key="k")
    with pytest.raises(BudgetExhausted):
        auto().choose_clip(lambda: pytest.fail("was trained"))


def test_a_clip_of_seeded_noise_stamps_what_is_built_on_it(auto: Callable[..., LossPrivatizer]) -> None:
    auto(noise=SeededNoise(1)).choose_clip(losses())
    later = auto()
    assert later.interval.high > 0
    assert not later.private


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
        other = auto(clip=(0.0, 1.0))
        other.observe("a", losses())
        other.release(other.mean_query("a", 0.1), scope="s", key="k")
        return losses(1e6)

    assert auto().choose_clip(slow)[1] < 100
    assert len(ledger.charges("clip/automatic")) == 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_people_whose_loss_is_no_number_do_not_move_the_clip_and_no_error_tells_of_them(
    odd: float, auto: Callable[..., LossPrivatizer], tmp_path: Path
) -> None:
    other = auto(ledger=PrivacyLedger(tmp_path / "other.db", Budget.gdp(1.0)), noise=NoNoise())
    some = np.where(np.arange(100) < 10, odd, losses())
    assert other.choose_clip(some)[1] <= auto(noise=NoNoise()).choose_clip(losses())[1] < 20
    assert LossPrivatizer(other.ledger, n=100, clip=AutoClip("all")).choose_clip(np.full(100, odd))[1] > 0
