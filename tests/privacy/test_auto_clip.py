"""A clip that is chosen privately: its law, its price, its order, what one person moves, how near it comes."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.losses.functions import EPS
from dptune.privacy import AutoClip, auto_clip
from dptune.privacy.auto_clip import ABOVE, ClipQuery, range_of
from dptune.privacy.noise import SeededNoise
from noises import NoNoise
from watched import Watched

PRICE = math.sqrt(0.05)  # of a ledger with mu = 1


def watched(path: Path) -> Watched:
    return Watched(path, Budget.gdp(1.0))


class Reads(LossPrivatizer):
    """Notes when losses are read."""

    def _values(self, losses: Any) -> Any:
        self.ledger.happened.append("read")
        return super()._values(losses)


class ReadsEarly(Reads):
    """Planted: a quantile that is taken before it is paid."""

    def checked(self, losses: Any) -> Any:
        taken = super().checked(losses)
        np.quantile(self._values(taken), 0.95)
        return taken


@pytest.fixture
def ledger(fast_path: Path) -> Watched:
    return watched(fast_path / "ledger.db")


def auto(ledger: PrivacyLedger, kind: type[LossPrivatizer] = LossPrivatizer, **change: Any) -> LossPrivatizer:
    """A privatizer of 100 people whose clip is to be chosen."""
    people = {} if "groups" in change else {"n": 100}
    return kind(ledger, **{**people, "clip": "auto", **change})


def killed(ledger: Watched, **options: Any) -> None:
    """Choose, and die before anything is recorded."""
    ledger.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        auto(ledger).choose_clip(losses(), **options)
    ledger.error = None


def losses(scale: float = 1.0, n: int = 100, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).exponential(scale, n)


def asked(n: int, most: float | None = None, mu: float = 1.0) -> ClipQuery:
    return ClipQuery.of(n, mu, "loss", most)


def by_hand(values: Any, weights: Any, query: ClipQuery) -> list[float]:
    """u of each bound, by counting."""
    never = -math.inf if query.most is None else math.inf
    known = [v if math.isfinite(v) else never for v in values]

    def share_above(t: float) -> float:
        return sum(w for v, w in zip(known, weights, strict=True) if v > t)

    u = []
    for j, t in enumerate(query.over):
        near = ABOVE + query.far - (share_above(t / 2) if j >= 8 else 1.0)
        u.append(max(abs(share_above(t) - ABOVE), near))
    return u


# ---- the release -------------------------------------------------------------------------------------------


def test_the_noise_is_that_of_the_exponential_mechanism_and_a_persons_rows_are_one_loss(ledger: Watched) -> None:
    noise, values = NoNoise(), losses()
    auto(ledger, noise=noise, groups=np.repeat(np.arange(100), 3)).choose_clip(np.repeat(values, 3))
    eta = bounded_range_from_mu(PRICE)
    query = asked(100, mu=PRICE)
    u = np.array(by_hand(values, [0.01] * 100, query))
    assert noise.sigma == pytest.approx(2 * 0.01 / eta, rel=1e-5)
    assert noise.sigma >= 2 * 0.01 / eta
    assert noise.statistic == pytest.approx(u + noise.sigma * query.handicaps, abs=1e-9)


def test_it_is_charged_recorded_and_stated(ledger: Watched) -> None:
    privatizer = auto(ledger)
    assert "to be chosen" in repr(privatizer)
    low, high = privatizer.choose_clip(losses())
    (charge,) = ledger.charges("clip/automatic")
    assert charge.mu == ledger.spent() == pytest.approx(PRICE)
    assert math.hypot(AutoClip().price(2.0), AutoClip().rest(2.0)) == pytest.approx(2.0)
    assert (low, high) == (0.0, 4 * charge.value[0])
    assert privatizer.describe()["clip"] == [low, high]
    assert auto_clip.STATISTIC in str(ledger.statement(delta=1e-5))


def test_it_is_chosen_once_and_a_restart_reads_it(ledger: Watched) -> None:
    """Whoever asks later, with whatever losses, is told the first choice, and nobody trains or pays again."""
    first = auto(ledger).choose_clip(losses())
    again = auto(ledger)
    assert again.knows_clip
    assert again.interval.high == first[1]
    assert again.choose_clip(lambda: pytest.fail("nobody has to train again")) == first
    assert auto(ledger).choose_clip(losses(1e6)) == first  # another model's losses change nothing
    assert ledger.count() == 1


def test_nothing_is_read_before_it_is_paid_and_a_quantile_that_is_would_be_found(
    ledger: Watched, fast_path: Path
) -> None:
    auto(ledger, Reads).choose_clip(losses())
    assert ledger.happened == ["charge", "read", "record"]
    planted = watched(fast_path / "planted.db")
    auto(planted, ReadsEarly).choose_clip(losses())
    assert planted.happened == ["read", "charge", "read", "record"]


def test_what_cannot_be_chosen_is_refused_before_a_model_is_trained_and_unspent(ledger: Watched) -> None:
    def train() -> Any:
        pytest.fail("was trained")

    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: auto(ledger).choose_clip(train, mu=0.1), "100 people's losses at this price"),
        (lambda: auto(ledger).choose_clip(lambda: None), "the default configuration failed"),
        (lambda: auto(ledger, clip="automatic"), "clip must be a pair of numbers"),
        (lambda: auto(ledger).observe("a", losses()), "choose_clip"),
        (lambda: auto(ledger).mean_query("a", 0.1), "choose_clip"),
    ]
    for ask, words in refused:
        with pytest.raises(InputError, match=words):
            ask()
    assert ledger.spent() == 0
    spend(ledger, 1.0)
    with pytest.raises(BudgetExhausted):
        auto(ledger).choose_clip(train)


def spend(ledger: PrivacyLedger, mu: float) -> None:
    other = auto(ledger, clip=(0, 1))
    other.observe("a", losses())
    other.release(other.mean_query("a", mu), scope="s", key="k")


def test_a_clip_of_seeded_noise_stamps_what_is_built_on_it(ledger: Watched) -> None:
    auto(ledger, noise=SeededNoise(1)).choose_clip(losses())
    later = auto(ledger)
    assert later.interval.high > 0
    assert not later.private


def test_one_name_has_one_kind_of_loss(ledger: Watched) -> None:
    killed(ledger)
    for recorded in (False, True):
        with pytest.raises(KeyConflict) as refused:
            auto(ledger).choose_clip(losses(), loss="log_loss", most=36.0)
        assert "was chosen for loss, and this is log_loss" in str(refused.value)
        if not recorded:
            auto(ledger).choose_clip(losses())
    bounded = auto(ledger)
    bounded.use_clip((0.0, 1.0))  # known of its loss, whatever the ledger has
    assert bounded.choose_clip(lambda: pytest.fail("nothing is chosen")) == (0.0, 1.0)
    with pytest.raises(InputError, match="another LossPrivatizer"):
        bounded.use_clip((0.0, 2.0))


def test_a_charge_is_answered_at_its_own_price_only(ledger: Watched) -> None:
    killed(ledger, most=36.0, mu=0.2)
    assert ledger.spent() == pytest.approx(0.2 * PRICE)
    assert not auto(ledger).knows_clip
    weighted = auto(ledger, person_weights=np.r_[3.0, np.ones(99)])
    with pytest.raises(KeyConflict):  # the same scale of noise would be a larger mu
        weighted.choose_clip(losses(), most=36.0, mu=0.5881328833479337)
    auto(ledger).choose_clip(losses(), most=36.0, mu=0.7)  # goes on at what was paid
    (charge,) = ledger.charges("clip/automatic")
    assert charge.mu == pytest.approx(0.2 * PRICE)


def test_another_process_that_was_first_is_no_conflict(ledger: Watched) -> None:
    def slow() -> Any:
        auto(ledger, noise=NoNoise()).choose_clip(losses())
        spend(ledger, 0.1)
        return losses(1e6)

    assert auto(ledger, noise=NoNoise()).choose_clip(slow)[1] < 100
    assert len(ledger.charges("clip/automatic")) == 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_people_whose_loss_is_no_number_do_not_move_the_clip_and_no_error_tells_of_them(
    odd: float, ledger: Watched, fast_path: Path
) -> None:
    other = auto(watched(fast_path / "other.db"), noise=NoNoise())
    some = np.where(np.arange(100) < 10, odd, losses())
    assert other.choose_clip(some)[1] <= auto(ledger, noise=NoNoise()).choose_clip(losses())[1] < 20
    assert auto(other.ledger, clip=AutoClip("all")).choose_clip(np.full(100, odd))[1] > 0


# ---- the rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [None, 36.0])
def test_the_statistic_is_what_counting_gives(most: float | None) -> None:
    query = asked(60, most)
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.exponential(3, 56), [np.nan, np.inf, -np.inf, query.over[5]]])  # one is a bound
    weights = rng.dirichlet(np.ones(60))
    assert query.far == 12 / (60 * bounded_range_from_mu(1.0)) < asked(20, 1.0).far == 0.2
    assert query.distances(values, weights) == pytest.approx(by_hand(values, weights, query), abs=1e-12)


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
    query, eta, entry = asked(len(values), most, 20.0), 0.4, weights.max()
    u, v = (query.distances(np.array(given), weights) for given in (values, [other, *values[1:]]))
    assert np.abs(u - v).max() <= weights[0] + 1e-12
    ratio = log_odds(u, query, 2 * entry / eta) - log_odds(v, query, 2 * entry / eta)
    assert ratio.max() - ratio.min() <= eta + 1e-9  # bounded range


def log_odds(u: Any, query: ClipQuery, scale: float) -> Any:
    """Logarithms of the probabilities of the bounds."""
    logits = -u / scale - query.handicaps
    return logits - np.logaddexp.reduce(logits)


def test_a_distance_that_one_person_moves_further_is_found() -> None:
    """Planted: bounds that end at the largest loss, and a distance that is scaled."""
    values, weights, query = losses(1.0, 50), np.full(50, 0.02), asked(50)
    moved = [np.append(values[1:], far) for far in (0.0, 1e3, 1e9)]

    def of_the_data(values: Any, weights: Any) -> Any:
        return replace(query, over=query.over * np.nanmax(values)).distances(values, weights)

    def worst(distances: Callable[[Any, Any], Any]) -> float:
        u = distances(values, weights)
        return float(max(np.abs(u - distances(other, weights)).max() for other in moved))

    assert worst(query.distances) <= 0.02 + 1e-12
    for bug in (of_the_data, lambda *given: 2 * query.distances(*given)):
        assert worst(bug) > 0.02 + 1e-12


def test_a_loss_with_a_largest_value_keeps_it_where_some_people_have_it(ledger: Watched) -> None:
    two_sided = np.where(np.arange(1000) < 200, 36.0, 0.0)  # a tree's log losses
    assert auto(ledger, n=1000).choose_clip(two_sided, most=36.0) == (0.0, 36.0)


def test_the_bounds_do_not_depend_on_the_losses_and_what_follows_is_cut_at_the_largest() -> None:
    assert asked(300).over.tolist() == [2.0 ** (j / 8) for j in range(-240, 480)]
    assert asked(300, 32.0).over.tolist() == [32.0 * 2.0 ** (j / 8) for j in range(-48, 1)]
    assert range_of(3.0, None) == range_of(3.0, 32.0) == (0.0, 12.0)
    assert range_of(16.0, 32.0) == (0.0, 32.0)


# ---- where the clip lies, by its exact probabilities -------------------------------------------------------

RNG = np.random.default_rng(0)
NORMAL, FEW = np.abs(RNG.normal(size=500)), losses(1.0, 300)
HINGE = np.where(RNG.random(300) < 1 / 3, 1.0, RNG.uniform(0.0, 2.2, 300))  # a third of the people share one loss
CERTAIN = np.logaddexp(0.0, -RNG.normal(3.0, 4.0, 300))  # log losses of a model that is too sure
LIES: dict[str, tuple[Any, float, float | None, float, float]] = {
    # losses, mu, the largest loss there is, chances of a clip above 8 times the largest, below half the .95 quantile
    "hinge": (HINGE, 0.5, None, 0.02, 0.001),
    "log losses, capped": (2 * CERTAIN, 0.5, -math.log(EPS), 0.05, 0.005),
    "log losses": (CERTAIN, 1.0, None, 0.05, 0.005),
    "few people, small unit": (FEW * 1e-3, 0.5, None, 0.06, 0.001),
    "half a normal law": (NORMAL, 1.0, None, 0.01, 0.01),
    "all the same": (np.full(300, 0.7), 0.5, None, 0.08, 0.01),
    "all the same, large unit": (np.full(1000, 1e4), 1.0, None, 0.08, 0.01),
}


@pytest.mark.parametrize("case", LIES)
def test_a_clip_far_above_every_loss_or_below_most_is_rare(case: str) -> None:
    people, mu, most, above, below = LIES[case]
    n, price = len(people), AutoClip().price(mu)
    query, scale = asked(n, most, price), 2 / (n * bounded_range_from_mu(price))
    odds = np.exp(log_odds(query.distances(people, np.full(n, 1 / n)), query, scale))
    clips = np.array([range_of(bound, most)[1] for bound in query.over])
    assert odds[clips > 8 * people.max()].sum() < above
    assert odds[clips < np.quantile(people, 0.95) / 2].sum() < below
