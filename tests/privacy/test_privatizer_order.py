"""The order of a release, check, charge, read, draw, record; and what an error on the way leaves behind."""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa

from dptune import Budget, BudgetExhausted, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.errors import KeyConflict
from dptune.ledger import schema
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.stored_losses import StoredLosses

Make = Callable[..., LossPrivatizer]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened during releases, in order."""
    happened: list[str] = []
    true_charge, true_record = PrivacyLedger.charge, PrivacyLedger.record
    true_combine, true_noise = StoredLosses.combine, OpenDPNoise.add_gaussian

    def logged(name: str, true: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kw: Any) -> Any:
            result = true(*args, **kw)  # only what did not raise has happened
            happened.append(name)
            return result

        return wrapper

    monkeypatch.setattr(PrivacyLedger, "charge", logged("charge", true_charge))
    monkeypatch.setattr(PrivacyLedger, "record", logged("record", true_record))
    monkeypatch.setattr(StoredLosses, "combine", logged("read", true_combine))
    monkeypatch.setattr(OpenDPNoise, "add_gaussian", logged("draw", true_noise))
    return happened


@pytest.fixture
def fast_ledger(fast_path: Any) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(10.0))


def test_a_release_charges_then_reads_then_draws_then_records(privatizer: Make, reads: list[str]) -> None:
    mine = privatizer()
    mine.observe("x", [0.0, 1.0, 0.5, 0.5])
    released = mine.release(mine.mean_query("x", 1.0), scope="s", key="1", note={"public": 1})
    assert reads == ["charge", "read", "draw", "record"]
    assert released.charge == mine.ledger.find("s", "1")
    assert released.value.tolist() == list(released.charge.value or ())
    assert released.charge.note == {"public": 1}
    assert released.sigma == pytest.approx(0.25, rel=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        released.value[0] = 0.0


def test_a_retry_is_free_equal_and_does_not_read(privatizer: Make, reads: list[str]) -> None:
    mine = privatizer()
    mine.observe("x", [0.0, 1.0, 0.5, 0.5])
    first = mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    mine.forget("x")  # not even there
    reads.clear()
    again = mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    assert again.value.tolist() == first.value.tolist()
    assert set(reads) <= {"charge"}
    assert mine.ledger.spent() == 1.0
    other_process = privatizer(ledger=PrivacyLedger(mine.ledger.url.database))
    assert other_process.release(mine.mean_query("x", 1.0), scope="s", key="1").scalar == first.scalar


# ---- refused before data is read -----------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0, -1, math.nan, math.inf, 1e-13, 10.1])
def test_what_cannot_be_paid_or_is_not_held_is_refused_before_data_is_read(
    privatizer: Make, reads: list[str], mu: float
) -> None:
    mine = privatizer()
    with pytest.raises(InputError, match="holds no losses"):
        mine.release(mine.mean_query("y", 1.0), scope="s", key="1")
    mine.observe("x", [0.0] * 4)
    with pytest.raises(BudgetExhausted if mu == 10.1 else InputError, match="mu"):
        mine.release(mine.mean_query("x", mu), scope="s", key="1")
    assert reads == []
    assert mine.ledger.charges() == []


def test_a_key_cannot_be_used_for_another_question(privatizer: Make, reads: list[str]) -> None:
    mine = privatizer()
    for point in "xy":
        mine.observe(point, [0.0] * 4)
    mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    reads.clear()
    for other in (mine.mean_query("y", 1.0), mine.mean_query("x", 0.5)):
        with pytest.raises(KeyConflict):
            mine.release(other, scope="s", key="1")
    assert reads == []
    assert mine.ledger.spent() == 1.0


# ---- after the draw ------------------------------------------------------------------------------------


def test_threads_with_one_key_get_one_value(fast_ledger: PrivacyLedger) -> None:
    mine = LossPrivatizer(fast_ledger, n=4, clip=(0.0, 1.0))
    mine.observe("x", [0.5] * 4)
    barrier = threading.Barrier(6)

    def release(_: int) -> float:
        barrier.wait()
        return mine.release(mine.mean_query("x", 1.0), scope="s", key="1").scalar

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(release, range(6)))) == 1
    assert fast_ledger.spent() == 1.0


def test_a_draw_that_could_not_be_recorded_is_the_one_a_retry_publishes(
    privatizer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = privatizer()
    mine.observe("x", [0.5] * 4)
    query, record, drawn = mine.mean_query("x", 0.5), PrivacyLedger.record, []

    def fail(self: PrivacyLedger, charge: Any, value: Any) -> Any:
        drawn.append(list(value))
        raise LedgerError("the disk is full")

    monkeypatch.setattr(PrivacyLedger, "record", fail)
    with pytest.raises(LedgerError):
        mine.release(query, scope="s", key="1")
    monkeypatch.setattr(PrivacyLedger, "record", record)
    assert mine.release(query, scope="s", key="1").value.tolist() == drawn[0]
    assert len(mine.ledger.charges()) == 1


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), KeyboardInterrupt(), MemoryError()])
def test_an_error_after_the_draw_carries_neither_frames_nor_what_it_was_raised_from(
    privatizer: Make, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Both would hold the losses or the draw, and a framework may store a traceback."""

    def failing(self: PrivacyLedger, charge: object, value: list[float]) -> NoReturn:
        try:
            raise ValueError(value)
        except ValueError:
            raise error  # noqa: B904 - its context is what is tested

    one = privatizer()
    one.observe("x", [0.1, 0.2, 0.3, 0.4])
    monkeypatch.setattr(PrivacyLedger, "record", failing)
    with pytest.raises(type(error)) as caught:
        one.release(one.mean_query("x", 1.0), scope="s", key="1")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["_release", "call"]


def test_a_real_database_error_is_bare(fast_ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(fast_ledger, n=2, clip=(0.0, 1.0))
    privatizer.observe("x", [0.1, 0.2])
    fast_ledger.charges()
    with schema.connect(fast_ledger.url).connect() as connection:
        connection.execute(
            sa.text("CREATE TRIGGER full BEFORE INSERT ON dptune_releases BEGIN SELECT RAISE(ABORT, 'full'); END")
        )
        connection.commit()
    with pytest.raises(LedgerError) as caught:
        privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1")
    assert caught.value.__context__ is None
