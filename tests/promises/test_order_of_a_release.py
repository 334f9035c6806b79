"""Every mechanism checks, charges, reads, draws and records in this order, and errors leave nothing private."""

import math
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from dptune import Budget, BudgetExhausted, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.errors import KeyConflict
from dptune.ledger import schema
from dptune.ledger.events import GaussianRelease
from dptune.privacy.mechanism import AnyQuery, GaussianMechanism, NoisyMin
from dptune.privacy.noise import SeededNoise
from noises import NoNoise
from watched import Draws, Watched


@pytest.fixture
def mine(fast_path: Path) -> LossPrivatizer:
    """A privatizer on a watched ledger, with everybody's loss 0 at x and y."""
    ledger = Watched(fast_path / "ledger.db", Budget.gdp(10.0))
    made = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0), noise=Draws(ledger.happened))
    for name in "xy":
        made.observe(name, [0.0] * 4)
    return made


def test_a_release_charges_then_reads_then_draws_then_records(mine: LossPrivatizer) -> None:
    def change() -> None:
        mine.forget("x")
        mine.observe("x", [1.0] * 4)

    mine.ledger.after_charge = change  # a release that had read before would be about the old losses
    released = mine.release(mine.mean_query("x", 1.0), scope="s", key="1", note={"public": 1})
    assert released.scalar == 1.0
    assert mine.ledger.happened == ["charge", "draw", "record"]
    assert released.charge == mine.ledger.find("s", "1")
    assert released.value.tolist() == list(released.charge.value or ())
    assert released.charge.note == {"public": 1}
    assert released.sigma == pytest.approx(0.25, rel=1e-5)
    assert not released.value.flags.writeable


def test_a_retry_is_free_equal_and_does_not_read(mine: LossPrivatizer) -> None:
    query = mine.mean_query("x", 1.0)
    first = mine.release(query, scope="s", key="1")
    mine.forget("x")  # not even there
    mine.ledger.happened.clear()
    again = mine.release(query, scope="s", key="1")
    assert again.value.tolist() == first.value.tolist()
    assert set(mine.ledger.happened) <= {"charge"}
    assert mine.ledger.spent() == 1.0
    ledger = PrivacyLedger(mine.ledger.url.database)  # as in another process
    other = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0), noise=NoNoise())
    assert other.release(query, scope="s", key="1").scalar == first.scalar


@pytest.mark.parametrize("mu", [0, -1, math.nan, math.inf, 1e-13, 10.1])
def test_what_cannot_be_paid_or_is_not_held_is_refused_before_data_is_read(mine: LossPrivatizer, mu: float) -> None:
    for name, price, word in (("z", 1.0, "holds no losses"), ("x", mu, "mu")):
        with pytest.raises(BudgetExhausted if price == 10.1 else InputError) as refused:
            mine.release(mine.mean_query(name, price), scope="s", key="1")
        assert word in str(refused.value)
    assert mine.ledger.happened == []
    assert mine.ledger.charges() == []


def test_a_key_cannot_be_used_for_another_question(mine: LossPrivatizer) -> None:
    mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    mine.ledger.happened.clear()
    for other in (mine.mean_query("y", 1.0), mine.mean_query("x", 0.5)):
        with pytest.raises(KeyConflict):
            mine.release(other, scope="s", key="1")
    assert mine.ledger.happened == []
    assert mine.ledger.spent() == 1.0


# ---- another mechanism -----------------------------------------------------------------------------------


class Doubled(GaussianMechanism):
    """Twice the noise at a quarter of the price."""

    def event(self, query: AnyQuery, sensitivity: float, scale: float) -> GaussianRelease:
        return GaussianRelease(query.mu / 4, sensitivity, scale, query.dimension, "doubled " + query.statistic)

    def scale(self, query: AnyQuery, sensitivity: float) -> float:
        return 2 * super().scale(query, sensitivity)


def test_another_mechanism_pays_its_own_price_and_adds_its_own_noise(mine: LossPrivatizer) -> None:
    with pytest.raises(BudgetExhausted):  # before it draws
        mine.release(mine.mean_query("x", 41.0), scope="s", key="k", mechanism=Doubled)
    assert mine.ledger.happened == []
    query = mine.mean_query("x", 0.4)
    released, again = (mine.release(query, scope="s", key="k", mechanism=Doubled) for _ in range(2))
    assert released.charge.mu == pytest.approx(0.1)
    assert released.sigma == pytest.approx(2 * mine.sigma(query))
    assert again.value == released.value
    assert mine.ledger.happened.count("draw") == 1
    mine.release(query, scope="s", key="default")
    names = [name for name, *_ in mine.ledger.statement(delta=1e-5).mechanisms]
    assert sorted(name.split(" on ")[0] for name in names) == ["Gaussian mechanism", "Gaussian mechanism"]
    assert sum("doubled" in name for name in names) == 1


def test_a_retry_with_another_prior_is_another_question(mine: LossPrivatizer) -> None:
    query = mine.means_query("xy", 1.0)
    for prior in ((), (1.0, 3.0)):
        mine.release(query, scope="s", key=str(prior), mechanism=partial(NoisyMin, prior=prior))
        for other in {(), (1.0, 3.0), (3.0, 1.0)} - {prior}:
            with pytest.raises(KeyConflict):
                mine.release(query, scope="s", key=str(prior), mechanism=partial(NoisyMin, prior=other))


# ---- threads --------------------------------------------------------------------------------------------


def test_a_thread_whose_losses_another_one_forgot_gets_the_recorded_answer(mine: LossPrivatizer) -> None:
    """The other thread charges, records and forgets between this one's charge and its draw."""
    query = mine.mean_query("x", 1.0)

    def other() -> None:
        mine.ledger.after_charge = lambda: None
        mine.release(query, scope="s", key="1")
        mine.forget("x")

    mine.ledger.after_charge = other
    assert mine.release(query, scope="s", key="1").value.tolist() == list(mine.ledger.charges()[0].value or ())
    assert mine.ledger.happened.count("draw") == 1
    assert mine.ledger.spent() == 1.0


def test_losses_that_are_gone_before_any_answer_are_named(mine: LossPrivatizer) -> None:
    mine.ledger.after_charge = lambda: mine.forget("x")
    with pytest.raises(InputError, match="holds no losses for"):
        mine.release(mine.mean_query("x", 1.0), scope="s", key="1")


# ---- after the draw ------------------------------------------------------------------------------------


def test_a_draw_that_could_not_be_recorded_is_the_one_a_retry_publishes(fast_path: Path) -> None:
    """A real error of the database."""
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0))
    mine = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0), noise=SeededNoise(1))
    mine.observe("x", [0.5] * 4)
    query = mine.mean_query("x", 0.5)
    full = "CREATE TRIGGER full BEFORE INSERT ON dptune_releases BEGIN SELECT RAISE(ABORT, 'full'); END"
    for change in (full, "DROP TRIGGER full"):
        ledger.charges()
        with schema.connect(ledger.url).begin() as connection:
            connection.execute(sa.text(change))
        if change == full:
            with pytest.raises(LedgerError) as caught:
                mine.release(query, scope="s", key="1")
            assert caught.value.__context__ is None
    first = SeededNoise(1).add_gaussian(np.zeros(1), mine.sigma(query))
    assert mine.release(query, scope="s", key="1").value == pytest.approx(0.5 + first)
    assert len(ledger.charges()) == 1


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), KeyboardInterrupt(), MemoryError()])
def test_an_error_after_the_draw_has_neither_private_frames_nor_a_cause(
    mine: LossPrivatizer, error: BaseException
) -> None:
    """Both would hold the losses or the draw, and a framework may store a traceback."""
    mine.ledger.error = error
    with pytest.raises(type(error)) as caught:
        mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["_release", "call"]
