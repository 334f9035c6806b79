"""LossPrivatizer: what it takes and refuses, in which order it works, and what it computes."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
import pytest
import sqlalchemy as sa
from audit_tools import FreeLedger, NoNoise
from hypothesis import given, settings
from hypothesis import strategies as st

from dptune import (
    Ball,
    Budget,
    BudgetExhausted,
    BudgetMismatch,
    InputError,
    Interval,
    KeyConflict,
    LedgerError,
    LossPrivatizer,
    MeanQuery,
    NormQuery,
    PerExampleLosses,
    PrivacyLedger,
)
from dptune.privacy import privatizer as module

Make = Callable[..., LossPrivatizer]


def quiet(**chosen: Any) -> tuple[LossPrivatizer, NoNoise]:
    """Return a privatizer with the noise off, and its noise source."""
    if "groups" not in chosen:
        chosen.setdefault("n", 4)
    privatizer, noise = LossPrivatizer(FreeLedger(), **{"clip": (0.0, 1.0), **chosen}), NoNoise()
    privatizer._noise = noise
    return privatizer, noise


def mean_of(losses: object, **chosen: Any) -> float:
    privatizer, _ = quiet(**chosen)
    privatizer.observe("x", losses)
    return privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1").scalar


# ---- what it computes ----------------------------------------------------------------------------------


def test_the_clipped_mean() -> None:
    losses = [0.25, np.nan, -np.inf, 0.5]
    assert mean_of(losses) == pytest.approx((0.25 + 1 + 0 + 0.5) / 4)
    assert mean_of(np.array(losses)) == mean_of(PerExampleLosses(losses)) == mean_of(losses)
    assert mean_of([np.inf, 5, -5, 0.5]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert mean_of([True, False, True, True]) == 0.75
    assert mean_of([np.nan] * 4, clip=(-3.0, 7.0)) == 7.0


def test_people_of_several_rows_are_averaged_after_clipping() -> None:
    groups = ["b", "a", "b", "b"]
    assert mean_of([9.0, 0.5, 0.0, np.nan], groups=groups) == pytest.approx(((1 + 0 + 1) / 3 + 0.5) / 2)
    privatizer, _ = quiet(groups=groups)
    assert (privatizer.n, privatizer.rows) == (2, 4)


def test_person_weights_belong_to_people_in_the_order_of_their_examples() -> None:
    assert mean_of([1.0, 0.0, 0.0, 0.0], person_weights=[3, 1, 1, 1]) == pytest.approx(0.5)
    scaled = mean_of([1.0, 0.0, 0.0, 0.0], person_weights=np.array([3, 1, 1, 1]) * 5e307)
    assert scaled == pytest.approx(0.5)


def reference(L: Any, W: Any, clip: Any, w: Any) -> Any:
    """sum_i w_i clip(W L_i), one person after the other; L is (m, n), already within the loss range."""
    total = np.zeros(len(W))
    for i in range(L.shape[1]):
        g = W @ L[:, i]
        if isinstance(clip, Ball):
            g = g * min(1.0, clip.radius / np.linalg.norm(g)) if g.any() else g
        else:
            g = np.clip(g, clip.low, clip.high)
        total += w[i] * g
    return total / w.sum()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 30),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0.1, 30),
)
def test_the_vector_mean_is_the_formula(seed: int, n: int, m: int, p: int, dtype: type, radius: float) -> None:
    rng = np.random.default_rng(seed)
    L, W, w = rng.uniform(-2, 5, (m, n)), rng.normal(size=(p, m)), rng.uniform(0.5, 2, n)
    privatizer, noise = quiet(n=n, clip=(-2.0, 5.0), dtype=dtype, person_weights=w)
    names = tuple(f"x{j}" for j in range(m))
    for j in rng.permutation(m):  # the order of arrival does not matter
        privatizer.observe(names[j], L[j])
    clips = [Ball(radius), *([Interval(-radius, radius / 2)] if p == 1 else [])]
    for k, clip in enumerate(clips):
        value = privatizer.release(MeanQuery(names, W, clip, 1.0), scope="s", key=str(k)).value
        assert value == pytest.approx(reference(L, W, clip, w), abs=1e-5 if dtype is np.float32 else 1e-12)
    assert noise.statistic.shape == (p,)


@pytest.mark.parametrize("n", [1, 8191, 8192, 8193, 16384, 16385])
@pytest.mark.parametrize("m", [1, 63, 64, 65, 129])
def test_block_and_chunk_boundaries(n: int, m: int) -> None:
    rng = np.random.default_rng(n + m)
    L, W = rng.random((m, n)), rng.normal(size=(3, m)) / m
    privatizer, _ = quiet(n=n, dtype=np.float64)
    names = tuple(map(str, range(m)))
    for name, row in zip(names, L, strict=True):
        privatizer.observe(name, row)
    G = W @ L
    clipped = G * np.minimum(1, 0.2 / np.linalg.norm(G, axis=0))
    value = privatizer.release(MeanQuery(names, W, Ball(0.2), 1.0), scope="s", key="1").value
    assert value == pytest.approx(clipped.mean(axis=1), abs=1e-13)


def test_a_forgotten_point_leaves_its_slot_to_another_and_the_others_alone() -> None:
    privatizer, _ = quiet(n=2, dtype=np.float64)
    for j in range(130):
        privatizer.observe(str(j), [j / 130, j / 130])
    for j in range(0, 130, 2):
        privatizer.forget(str(j))
    privatizer.forget("never seen")
    for j in range(200, 240):
        privatizer.observe(str(j), [0.5, 0.7])
    assert len(privatizer._losses._blocks) == 3
    for j, expected in ((1, 1 / 130), (129, 129 / 130), (239, 0.6)):
        got = privatizer.release(privatizer.mean_query(str(j), 1.0), scope="s", key=str(j)).scalar
        assert got == pytest.approx(expected)
    with pytest.raises(InputError, match="holds no losses"):
        privatizer.release(privatizer.mean_query("0", 1.0), scope="s", key="gone")


def test_forgotten_losses_are_overwritten() -> None:
    privatizer, _ = quiet(n=2)
    privatizer.observe("x", [0.123, 0.9])
    block = privatizer._losses._blocks[0]
    row = block[(block[:, 0] == np.float32(0.123 - 0.5)).argmax()]
    assert row[0] == np.float32(0.123 - 0.5)
    privatizer.forget("x")
    assert (row == 0).all()
    assert privatizer.points() == ()


def test_a_failed_evaluation_is_the_upper_clip_of_everybody() -> None:
    privatizer, _ = quiet(clip=(-1.0, 3.0))
    privatizer.observe_failure("x")
    assert privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1").scalar == 3.0


@pytest.mark.parametrize("kind", ["mean", "share"])
def test_a_failed_evaluation_may_count_as_each_persons_mean_over_the_others(kind: str) -> None:
    """As if everybody had reported that number; what no point is left to tell is the upper clip."""
    H, C, above = np.eye(4) - 1 / 4, 0.4, 0.25
    rows = np.array([[0.1, 0.2, 0.9], [0.5, 0.25, 0.1], [0.3, 0.3, 0.7]])  # (points, people)

    def answer(points: tuple[str, ...], above: float | None, told: dict[str, np.ndarray | None]) -> np.ndarray:
        privatizer, _ = quiet(n=3, clip=(-1.0, 3.0), dtype=np.float64)
        for name, losses in told.items():
            if losses is None:
                privatizer.observe_failure(name)
            else:
                privatizer.observe(name, losses)
        query = MeanQuery(points, H, Ball(C), 1.0, above) if kind == "mean" else NormQuery(points, H, C, 1.0, above)
        return privatizer.release(query, scope="s", key="1").value

    points = ("a", "x", "b", "c")
    known = dict(zip("abc", rows, strict=True))
    written_out = answer(points, None, {**known, "x": rows.mean(axis=0) + above})
    assert answer(points, above, {**known, "x": None}) == pytest.approx(written_out)
    assert answer(points, None, {**known, "x": None}) == pytest.approx(
        answer(points, None, {**known, "x": np.full(3, 3.0)})
    )
    two = {"a": rows[0], "x": None, "b": None, "c": rows[1]}
    mean = rows[:2].mean(axis=0) + above
    assert answer(points, above, two) == pytest.approx(answer(points, None, {**two, "x": mean, "b": mean}))
    nobody = dict.fromkeys(points)
    assert answer(points, above, nobody) == pytest.approx(answer(points, None, nobody))


def test_a_point_that_is_forgotten_and_observed_again_has_not_failed() -> None:
    privatizer, _ = quiet(n=3, clip=(0.0, 1.0))
    privatizer.observe_failure("x")
    privatizer.forget("x")
    privatizer.observe("x", [0.5, 0.5, 0.5])
    privatizer.observe("y", [0.0, 0.0, 0.0])
    query = MeanQuery(("x", "y"), np.eye(2), Ball(9.0), 1.0, 0.0)
    assert privatizer.release(query, scope="s", key="1").value == pytest.approx([0.5, 0.0])


def test_the_first_losses_of_a_point_stay() -> None:
    privatizer, _ = quiet()
    privatizer.observe("x", [0.0] * 4)
    privatizer.observe("x", [1.0] * 4)
    privatizer.observe_failure("x")
    assert privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1").scalar == 0.0


def test_arguments_are_never_changed_nor_kept() -> None:
    losses, weights = np.array([np.nan, 5.0, -1.0, 0.5]), np.array([1.0, 2, 3, 4])
    privatizer, _ = quiet(person_weights=weights)
    privatizer.observe("x", losses)
    assert weights.tolist() == [1, 2, 3, 4]
    assert np.isnan(losses[0])
    losses[:] = weights[:] = 0.0
    got = privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1").scalar
    assert got == pytest.approx((1 * 1 + 2 * 1 + 3 * 0 + 4 * 0.5) / 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_public_weights_do_not_warn_and_are_clipped(dtype: type) -> None:
    for losses in ([1e300, -1e300, np.nan, 0.0], [0.5] * 4):
        privatizer, noise = quiet(dtype=dtype, clip=(-1e30, 1e30))
        privatizer.observe("x", losses)
        query = MeanQuery(("x",), np.array([[1e300], [-1e300]]), Ball(1.0), 1.0)
        privatizer.release(query, scope="s", key="1")
        assert np.isfinite(noise.statistic).all()
        assert np.linalg.norm(noise.statistic) <= 1 + 1e-12


# ---- what it refuses -----------------------------------------------------------------------------------

BAD_SETTINGS: list[dict[str, Any]] = [
    {"clip": (1.0, 1.0)},
    {"clip": (2.0, 1.0)},
    {"clip": (0.0, math.inf)},
    {"clip": (math.nan, 1.0)},
    {"clip": (0.0,)},
    {"clip": 1.0},
    {"clip": ("0", "1")},
    {"clip": None},
    {"clip": (0.0, 1e300)},
    {"n": 0},
    {"n": -3},
    {"n": 2.0},
    {"n": True},
    {"n": None},
    {"n": 4, "groups": [1, 2]},
    {"groups": []},
    {"groups": [[1, 2], [3, 4]]},
    {"groups": ["a", "a", "b"], "person_weights": [1.0, 2.0]},  # a weight would follow a place in a list
    {"groups": np.array([1.0, np.nan])},
    {"groups": np.array(["a", None])},
    {"person_weights": [1, 1, 1]},
    {"person_weights": [1, 1, 1, 0]},
    {"person_weights": [1, 1, 1, -1]},
    {"person_weights": [1, 1, 1, math.nan]},
    {"person_weights": [1, 1, 1, math.inf]},
    {"person_weights": "abcd"},
    {"dtype": np.float16},
    {"dtype": int},
]


@pytest.mark.parametrize("bad", BAD_SETTINGS, ids=str)
def test_a_bad_setting_is_refused_before_anything_is_written(ledger: PrivacyLedger, bad: dict[str, Any]) -> None:
    chosen = {"clip": (0.0, 1.0), **({} if "groups" in bad else {"n": 4}), **bad}
    with pytest.raises(InputError):
        LossPrivatizer(ledger, **chosen)
    assert ledger.n is None


def test_something_else_is_not_a_ledger() -> None:
    with pytest.raises(InputError, match="PrivacyLedger"):
        LossPrivatizer("ledger.db", n=3, clip=(0, 1))


@pytest.mark.parametrize("mu", [0, -1, math.nan, math.inf, 1e-13])
def test_a_bad_price_is_refused_before_data_is_read(privatizer: Make, reads: list[str], mu: float) -> None:
    mine = privatizer()
    mine.observe("x", [0.0] * 4)
    with pytest.raises(InputError, match="mu"):
        mine.release(mine.mean_query("x", mu), scope="s", key="1")
    assert reads == []
    assert mine.ledger.charges() == []


@pytest.mark.parametrize("k", [0.0, 0.7, math.nan])
@pytest.mark.parametrize("rows", [1, 3, 5, 4000])
def test_a_wrong_length_is_refused_in_words_that_depend_on_lengths_only(
    privatizer: Make, rows: int, k: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: object) -> None:
        raise AssertionError("private data was read")

    monkeypatch.setattr(module, "reveal", read)
    with pytest.raises(InputError) as refused:
        privatizer().observe("x", np.full(rows, k))
    assert str(refused.value) == (
        "expected 4 per-example losses, one per example, also for examples that fail; the n= or groups= of the "
        "LossPrivatizer says how many."
    )


# ---- order: check, charge, read, draw, record ----------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened during releases, in order."""
    happened: list[str] = []
    true_charge, true_record = PrivacyLedger.charge, PrivacyLedger.record
    true_combine, true_noise = module.LossRows.combine, module.OpenDPNoise.add_gaussian

    def logged(name: str, true: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kw: Any) -> Any:
            result = true(*args, **kw)  # only what did not raise has happened
            happened.append(name)
            return result

        return wrapper

    monkeypatch.setattr(PrivacyLedger, "charge", logged("charge", true_charge))
    monkeypatch.setattr(PrivacyLedger, "record", logged("record", true_record))
    monkeypatch.setattr(module.LossRows, "combine", logged("read", true_combine))
    monkeypatch.setattr(module.OpenDPNoise, "add_gaussian", logged("draw", true_noise))
    return happened


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
    other_process = privatizer(ledger=PrivacyLedger(mine.ledger._url.database))
    assert other_process.release(mine.mean_query("x", 1.0), scope="s", key="1").scalar == first.scalar


def test_an_exhausted_budget_is_refused_before_data_is_read(privatizer: Make, reads: list[str]) -> None:
    mine = privatizer()
    mine.observe("x", [0.0] * 4)
    with pytest.raises(BudgetExhausted):
        mine.release(mine.mean_query("x", 10.1), scope="s", key="1")
    assert reads == []


def test_a_point_that_is_not_held_is_refused_before_it_is_paid(privatizer: Make, reads: list[str]) -> None:
    mine = privatizer()
    with pytest.raises(InputError, match="holds no losses"):
        mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    assert reads == []
    assert mine.ledger.spent() == 0.0


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


@pytest.fixture
def fast_ledger(fast_path: Any) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(10.0))


# ---- seeds, copies, reprs ------------------------------------------------------------------------------


def test_seeded_noise_is_stamped_everywhere(privatizer: Make) -> None:
    mine = privatizer(insecure_seed=1)
    mine.observe("x", [0.0] * 4)
    released = mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    assert not mine.private
    assert not released.charge.private
    assert not mine.ledger.private
    assert "NOT PRIVATE" in repr(mine)
    assert "NOT PRIVATE" in str(mine.ledger.statement(delta=1e-3))


def test_seeded_and_true_noise_never_answer_for_each_other(privatizer: Make) -> None:
    true, seeded = privatizer(), privatizer(insecure_seed=1)
    for mine in (true, seeded):
        mine.observe("x", [0.0] * 4)
    true.release(true.mean_query("x", 1.0), scope="s", key="1")
    with pytest.raises(KeyConflict):
        seeded.release(seeded.mean_query("x", 1.0), scope="s", key="1")
    assert true.ledger.private


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_shares_the_budget_and_holds_no_losses(
    privatizer: Make, copied: Callable[[LossPrivatizer], LossPrivatizer]
) -> None:
    mine = privatizer(groups=[1, 1, 2], clip=(-1.0, 2.0))
    mine.observe("x", [0.123456789, 0.2, 0.3])
    other = copied(mine)
    assert other.points() == ()
    assert mine.points() == ("x",)
    assert other.ledger == mine.ledger
    query = mine.mean_query("x", 1.0)
    assert (other.n, other.rows, other.sigma(query)) == (mine.n, mine.rows, mine.sigma(query))
    other.observe("x", [0.1, 0.2, 0.3])
    other.release(query, scope="s", key="1")
    assert mine.ledger.spent() == 1.0


def test_a_pickle_holds_no_loss(privatizer: Make) -> None:
    mine, twin = privatizer(n=3), privatizer(n=3)
    before = pickle.dumps(mine)
    mine.observe("x", [0.123456789, 0.2, 0.3])
    assert pickle.dumps(mine) == before == pickle.dumps(twin)
    assert "0.12" not in repr(mine)


def test_the_number_of_people_is_the_ledgers(privatizer: Make) -> None:
    privatizer(n=4)
    with pytest.raises(BudgetMismatch):
        privatizer(n=5)


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


def test_a_retry_under_other_settings_is_another_question(privatizer: Make) -> None:
    for clip in ((0.0, 1.0), (0.0, 2.0)):
        mine = privatizer(clip=clip)
        mine.observe("x", [0.5] * 4)
        query = MeanQuery(("x",), np.ones((1, 1)), Ball(1.0), 0.5)
        mine.release(query, scope="s", key="ball")  # the ball does not depend on the clip of the losses
    weighted = privatizer(person_weights=[1, 1, 1, 5])
    weighted.observe("x", [0.5] * 4)
    with pytest.raises(KeyConflict):
        weighted.release(query, scope="s", key="ball")


def test_strict_floating_point_errors_of_the_caller_do_not_show_private_values(privatizer: Make) -> None:
    mine = privatizer()
    with np.errstate(all="raise"):
        for name, loss in (("a", 1e-50), ("b", 1e-3), ("c", 1e300)):
            mine.observe(name, [loss] * 4)
            mine.release(mine.mean_query(name, 0.1), scope="s", key=name)
    assert mine.points() == ("a", "b", "c")


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
    assert frames[-2:] == ["release", "_draw_and_record"]


def test_a_real_database_error_is_bare(fast_ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(fast_ledger, n=2, clip=(0.0, 1.0))
    privatizer.observe("x", [0.1, 0.2])
    fast_ledger.charges()
    with fast_ledger._engine.connect() as connection:
        connection.execute(
            sa.text("CREATE TRIGGER full BEFORE INSERT ON dptune_releases BEGIN SELECT RAISE(ABORT, 'full'); END")
        )
        connection.commit()
    with pytest.raises(LedgerError) as caught:
        privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1")
    assert caught.value.__context__ is None


def test_settings_are_told_apart_and_the_public_ones_say_nothing_of_groups() -> None:
    ledger = FreeLedger()
    made = {
        "plain": {"n": 4},
        "clip": {"n": 4, "clip": (0, 2)},
        "precision": {"n": 4, "dtype": np.float64},
        "seed": {"n": 4, "insecure_seed": 1},
        "another seed": {"n": 4, "insecure_seed": 2},
        "weights": {"n": 4, "person_weights": [1, 2, 3, 4]},
        "pairs": {"groups": [0, 0, 1, 1, 2, 2, 3, 3]},
        "other pairs": {"groups": [0, 1, 2, 3, 0, 1, 2, 3]},
    }
    all_of_them = {name: LossPrivatizer(ledger, **{"clip": (0, 1), **given}) for name, given in made.items()}
    assert len({one.fingerprint() for one in all_of_them.values()}) == len(made)
    assert LossPrivatizer(ledger, n=4, clip=(0, 1)).fingerprint() == all_of_them["plain"].fingerprint()
    assert all_of_them["pairs"].describe() == all_of_them["other pairs"].describe()
    public = {"n": 4, "rows": 8, "clip": [0.0, 1.0], "dtype": "float32", "private": True}
    assert all_of_them["pairs"].describe() == public
