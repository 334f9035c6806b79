"""A privatizer's settings, copies and reprs contain no loss, and a release is exact before its noise."""

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_tools import FreeLedger
from dptune import InputError, LossPrivatizer, PrivacyLedger
from dptune.choice.outlook import future_people
from dptune.errors import BudgetMismatch, KeyConflict
from dptune.privacy import Ball, MeanQuery, NormQuery, PerExampleLosses
from dptune.privacy.noise import SeededNoise
from dptune.privacy.query import Interval
from noises import NoNoise

Make = Callable[..., LossPrivatizer]
BAD_SETTINGS: list[dict[str, Any]] = [
    *({"clip": clip} for clip in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, 1e300))),
    *({"clip": clip} for clip in ((0.0,), 1.0, ("0", "1"), "auto")),
    *({"n": n} for n in (0, -3, 2.0, True, None)),
    {"n": 4, "groups": [1, 2]},
    *({"groups": groups} for groups in ([], [[1, 2], [3, 4]], np.array([1.0, np.nan]))),
    {"groups": ["a", "a", "b"], "person_weights": [1.0, 2.0]},  # a weight would follow a place in a list
    *({"person_weights": [1, 1, 1, *last]} for last in ((), (0,), (-1,), (math.nan,), (math.inf,))),
    {"dtype": np.float16},
    {"ledger": "ledger.db"},
]


def test_a_bad_setting_is_refused_before_anything_is_written(ledger: PrivacyLedger, privatizer: Make) -> None:
    for bad in BAD_SETTINGS:
        with pytest.raises(InputError) as refused:
            privatizer(**bad)
        named = {"n": "n", "ledger": "PrivacyLedger"}.get([*bad][-1], [*bad][-1])
        assert named in str(refused.value)
        assert ledger.n is None, bad
    made = privatizer(n=4)
    made.observe("x", [0.5] * 4)
    made.release(made.mean_query("x", 0.5), scope="s", key="1")
    with pytest.raises(BudgetMismatch):  # the number of people is the ledger's
        privatizer(n=5)


def test_a_wrong_length_is_refused_in_words_that_depend_on_lengths_only(privatizer: Make) -> None:
    for rows, k in ((1, 0.0), (3, 0.7), (5, math.nan), (4000, 0.7)):
        with pytest.raises(InputError) as refused:
            privatizer().observe("x", np.full(rows, k))
        assert str(refused.value) == (
            "expected 4 per-example losses, one per example, also for examples that fail: n= or groups= says how many. "
            "A table of losses has one row for each candidate."
        )


def test_a_retry_under_other_settings_is_another_question(privatizer: Make) -> None:
    query = MeanQuery(("x",), np.ones((1, 1)), Ball(1.0), 0.5)

    def release(**settings: Any) -> None:
        mine = privatizer(**settings)
        mine.observe("x", [0.5] * 4)
        mine.release(query, scope="s", key="ball")

    release()
    release(clip=(0.0, 2.0))  # the ball does not depend on the clip of the losses
    for other in ({"person_weights": [1, 1, 1, 5]}, {"noise": SeededNoise(1)}):
        with pytest.raises(KeyConflict):
            release(**other)
    assert privatizer().ledger.private


def test_settings_are_told_apart_and_the_public_ones_say_nothing_of_groups() -> None:
    ledger = FreeLedger()
    made = {
        "plain": {"n": 4},
        "clip": {"n": 4, "clip": (0, 2)},
        "precision": {"n": 4, "dtype": np.float64},
        "seed": {"n": 4, "noise": SeededNoise(1)},
        "another seed": {"n": 4, "noise": SeededNoise(2)},
        "weights": {"n": 4, "person_weights": [1, 2, 3, 4]},
        "pairs": {"groups": [0, 0, 1, 1, 2, 2, 3, 3]},
        "other pairs": {"groups": [0, 1, 2, 3, 0, 1, 2, 3]},
    }
    all_of_them = {name: LossPrivatizer(ledger, **{"clip": (0, 1), **given}) for name, given in made.items()}
    assert len({one.fingerprint() for one in all_of_them.values()}) == len(made)
    assert LossPrivatizer(ledger, n=4, clip=(0, 1)).fingerprint() == all_of_them["plain"].fingerprint()
    assert all_of_them["pairs"].describe() == all_of_them["other pairs"].describe()
    public = {"n": 4, "rows": 8, "clip": [0.0, 1.0], "dtype": "float32", "private": True}
    assert all_of_them["pairs"].describe() == {**public, "person_weights": None}


def test_a_copy_shares_the_budget_and_holds_no_losses(privatizer: Make) -> None:
    mine = privatizer(groups=[1, 1, 2], clip=(-1.0, 2.0))
    before, query = pickle.dumps(mine), mine.mean_query("x", 1.0)
    mine.observe("x", [0.123456789, 0.2, 0.3])
    assert pickle.dumps(mine) == before
    assert "0.12" not in repr(mine)
    for k, other in enumerate((copy.copy(mine), copy.deepcopy(mine), pickle.loads(before))):
        assert (other.points(), mine.points()) == ((), ("x",))
        assert other.ledger == mine.ledger
        assert (other.n, other.rows, other.sigma(query)) == (mine.n, mine.rows, mine.sigma(query))
        other.observe("x", [0.1, 0.2, 0.3])
        other.release(query, scope="s", key=str(k))
        assert mine.ledger.spent() == pytest.approx((k + 1) ** 0.5)


def test_a_callers_strict_numpy_error_state_reveals_no_private_value(privatizer: Make) -> None:
    mine = privatizer()
    with np.errstate(all="raise"):
        for name, loss in (("a", 1e-50), ("b", 1e-3), ("c", 1e300)):
            mine.observe(name, [loss] * 4)
            mine.release(mine.mean_query(name, 0.1), scope="s", key=name)
    assert mine.points() == ("a", "b", "c")


# ---- the statistic ------------------------------------------------------------------------------------


def quiet(told: dict[str, Any] | None = None, **chosen: Any) -> tuple[LossPrivatizer, NoNoise]:
    """Return a privatizer with the noise off, that was told losses at points (None: failed), and its noise source."""
    if "groups" not in chosen:
        chosen.setdefault("n", 4)
    noise = NoNoise()
    privatizer = LossPrivatizer(FreeLedger(), **{"clip": (0.0, 1.0), "noise": noise, **chosen})
    for name, losses in (told or {}).items():
        if losses is None:
            privatizer.submit(name, None)
        else:
            privatizer.observe(name, losses)
    return privatizer, noise


def answer(privatizer: LossPrivatizer, name: str = "x") -> float:
    return privatizer.release(privatizer.mean_query(name, 1.0), scope="s", key=name).scalar


def mean_of(losses: object, **chosen: Any) -> float:
    return answer(quiet({"x": losses}, **chosen)[0])


def test_the_clipped_mean() -> None:
    losses = [0.25, np.nan, -np.inf, 0.5]
    assert mean_of(losses) == pytest.approx((0.25 + 1 + 0 + 0.5) / 4)
    assert mean_of(np.array(losses)) == mean_of(PerExampleLosses(losses)) == mean_of(losses)
    assert mean_of([np.inf, 5, -5, 0.5]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert mean_of([True, False, True, True]) == 0.75
    assert mean_of([np.nan] * 4, clip=(-3.0, 7.0)) == 7.0
    several, _ = quiet(dict.fromkeys("xyz", np.full(4, 2.5)), clip=(1.0, 3.0))
    assert several.release(several.means_query("xyz", 1.0), scope="s", key="k").value.tolist() == [2.5] * 3
    assert mean_of(None, clip=(-1.0, 3.0)) == 3.0  # a failed evaluation is the upper clip of everybody


def test_a_persons_rows_are_averaged_after_clipping() -> None:
    """Weights of people are in the order of their examples."""
    groups = ["b", "a", "b", "b"]
    assert mean_of([9.0, 0.5, 0.0, np.nan], groups=groups) == pytest.approx(((1 + 0 + 1) / 3 + 0.5) / 2)
    privatizer, _ = quiet(groups=groups)
    assert (privatizer.n, privatizer.rows) == (2, 4)
    for scale in (1, 5e307):
        assert mean_of([1.0, 0.0, 0.0, 0.0], person_weights=np.array([3, 1, 1, 1]) * scale) == pytest.approx(0.5)


IDS = ["p1", "p2", "p1", "é\0"]
NAMED: dict[str, Any] = {
    "list": IDS,
    "tuple": tuple(IDS),
    "array": np.array(["p1", "p2", "p1", "p3"]),
    "objects": np.array(IDS, dtype=object),
    "StringDType": np.array(IDS, dtype=np.dtypes.StringDType()),
    "bytes": np.array([b"p1", b"p2", b"p1", b"p3"]),
    "objects of bytes": np.array([b"p1", b"p2", b"p1", b"p3"], dtype=object),
    "mixed": [1, "x", "1", "y"],
    "mixed objects": np.array([1, "x", "1", "y"], dtype=object),
    "large numbers": [2**70, 1, 2**70, -3],
    "unsigned numbers": [2**63, 1, 2**63, 7],
    "column": pd.Series(IDS),
    "column of objects": pd.Series(IDS, dtype=object),
    "column of strings": pd.Series(IDS, dtype="string"),
    "column of categories": pd.Series(IDS, dtype="category"),
    "categorical": pd.Categorical(IDS),
    "index": pd.Index(IDS),
    "whole": pd.Series([5, 3, 5, 7]),
    "nullable": pd.Series([5, 3, 5, 7], dtype="Int64"),
    "Arrow": pa.array(IDS),
    "Polars": pl.Series(IDS),
    "masked without a gap": np.ma.masked_array([5, 3, 5, 7], mask=False),
}
UNNAMED: dict[str, Any] = {
    "masked": np.ma.masked_array([5, 3, 5, 7], mask=[1, 0, 0, 0]),
    "masked text": np.ma.masked_array(["p1", "p2", "p1", "p3"], mask=[1, 0, 0, 0]),
    "masked objects": np.ma.masked_array(np.array(IDS, dtype=object), mask=[1, 0, 0, 0]),
    **{
        f"{name}, {missing!r}": hold([missing, *IDS[1:]])
        for name, hold in {
            "list": list, "objects": lambda ids: np.array(ids, dtype=object), "column": pd.Series,
            "strings": lambda ids: pd.Series(ids, dtype="string"), "categories": lambda ids: pd.Categorical(ids),
        }.items()
        for missing in (None, np.nan, pd.NA)
    },
    "nullable": pd.Series([5, None, 5, 7], dtype="Int64"),
    "Arrow": pa.array([None, *IDS[1:]]),
    "Polars": pl.Series([None, *IDS[1:]]),
    "StringDType": np.array([None, *IDS[1:]], dtype=np.dtypes.StringDType(na_object=None)),
    "fractions": [0.5, "p2", "p1", "p3"],
}  # fmt: skip


@pytest.mark.parametrize("form", NAMED)
def test_people_are_named_by_text_or_whole_numbers_in_every_form(form: str) -> None:
    privatizer, _ = quiet(groups=NAMED[form])
    assert (privatizer.n, privatizer.rows) == (3, 4)
    assert mean_of([1.0, 0.0, 0.0, 0.0], groups=NAMED[form]) == pytest.approx(1 / 6)
    assert future_people(FreeLedger(), None, groups=NAMED[form]).n == 3


@pytest.mark.parametrize("form", UNNAMED)
def test_people_without_a_name_are_refused(form: str) -> None:
    for call in (quiet, partial(future_people, FreeLedger(), None)):
        with pytest.raises(InputError, match=r"^groups must be whole numbers or text, without missing ones; got "):
            call(groups=UNNAMED[form])


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


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 30),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0.1, 30),
    st.integers(0, 6),
)
def test_the_vector_mean_is_the_formula(
    seed: int, n: int, m: int, p: int, dtype: type, radius: float, first: int
) -> None:
    rng = np.random.default_rng(seed)
    L, W, w = rng.uniform(-2, 5, (m, n)), rng.normal(size=(p, m)), rng.uniform(0.5, 2, n)
    told = {f"x{j}": L[j] for j in rng.permutation(m)}  # the order of arrival does not matter
    privatizer, noise = quiet(told, n=n, clip=(-2.0, 5.0), dtype=dtype, person_weights=w)
    names = tuple(f"x{j}" for j in range(m))
    clips = [Ball(radius), *([Interval(-radius, radius / 2)] if p == 1 else [])]
    for k, clip in enumerate(clips):
        query = MeanQuery(names, W, clip, 1.0, centred_on=min(first, m))
        value = privatizer.release(query, scope="s", key=str(k)).value
        expected = reference(L - np.median(L[:first], axis=0) if first else L, W, clip, w)
        assert value == pytest.approx(expected, abs=1e-5 if dtype is np.float32 else 1e-10)  # the grid: 30 * 2^-40
    assert noise.statistic.shape == (p,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m"), [(1, 129), (8191, 64), (8192, 63), (8193, 65), (16384, 1), (16385, 129)])
def test_block_and_chunk_boundaries(n: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(n + m)
    L, W = rng.random((m, n)), rng.normal(size=(3, m)) / m
    names = tuple(map(str, range(m)))
    privatizer, _ = quiet(dict(zip(names, L, strict=True)), n=n, dtype=dtype)
    G = W @ L
    clipped = G * np.minimum(1, 0.2 / np.linalg.norm(G, axis=0))
    value = privatizer.release(MeanQuery(names, W, Ball(0.2), 1.0), scope="s", key="1").value
    assert value == pytest.approx(clipped.mean(axis=1), abs=1e-7 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_public_weights_do_not_warn_and_are_clipped(dtype: type) -> None:
    for losses in ([1e300, -1e300, np.nan, 0.0], [0.5] * 4):
        privatizer, noise = quiet({"x": losses}, dtype=dtype, clip=(-1e30, 1e30))
        query = MeanQuery(("x",), np.array([[1e300], [-1e300]]), Ball(1.0), 1.0)
        privatizer.release(query, scope="s", key="1")
        assert np.isfinite(noise.statistic).all()
        assert np.linalg.norm(noise.statistic) <= 1 + 1e-12


def test_arguments_are_never_changed_nor_kept() -> None:
    losses, weights = np.array([np.nan, 5.0, -1.0, 0.5]), np.array([1.0, 2, 3, 4])
    privatizer, _ = quiet({"x": losses}, person_weights=weights)
    assert weights.tolist() == [1, 2, 3, 4]
    assert np.isnan(losses[0])
    losses[:] = weights[:] = 0.0
    assert answer(privatizer) == pytest.approx((1 * 1 + 2 * 1 + 3 * 0 + 4 * 0.5) / 10)


# ---- points that are forgotten or failed ---------------------------------------------------------------


def test_a_forgotten_point_is_overwritten_and_its_slot_is_reused() -> None:
    privatizer, _ = quiet({str(j): [j / 130, j / 130] for j in range(130)}, n=2, dtype=np.float64)
    for j in range(0, 130, 2):
        privatizer.forget(str(j))
    privatizer.forget("never seen")
    left = {x for block in privatizer._held.blocks for x in block[:, 0].tolist()}
    assert {j / 130 - 0.5 for j in range(1, 130, 2)} <= left
    assert not left & {j / 130 - 0.5 for j in range(0, 130, 2)}
    for j in range(200, 240):
        privatizer.observe(str(j), [0.5, 0.7])
    assert len(privatizer._held.blocks) == 3
    assert [answer(privatizer, name) for name in ("1", "129", "239")] == pytest.approx([1 / 130, 129 / 130, 0.6])
    assert "0" not in privatizer.points()
    with pytest.raises(InputError):
        answer(privatizer, "0")


def test_the_first_losses_of_a_point_stay() -> None:
    privatizer, _ = quiet({"x": [0.0] * 4})
    privatizer.observe("x", [1.0] * 4)
    privatizer.submit("x", None)
    assert answer(privatizer) == 0.0


@pytest.mark.parametrize("kind", ["mean", "share"])
def test_a_failed_evaluation_may_count_as_each_persons_other_mean(kind: str) -> None:
    """As if everybody had reported that number; what no point is left to tell is the upper clip."""
    H, C, above = np.eye(4) - 1 / 4, 0.4, 0.25
    rows = np.array([[0.1, 0.2, 0.9], [0.5, 0.25, 0.1], [0.3, 0.3, 0.7]])  # (points, people)
    points = ("a", "x", "b", "c")

    def answered(above: float | None, told: dict[str, np.ndarray | None]) -> Any:
        privatizer, _ = quiet(told, n=3, clip=(-1.0, 3.0), dtype=np.float64)
        query = MeanQuery(points, H, Ball(C), 1.0, above) if kind == "mean" else NormQuery(points, H, C, 1.0, above)
        return privatizer.release(query, scope="s", key="1").value

    known = dict(zip("abc", rows, strict=True))
    one, two = {**known, "x": None}, {"a": rows[0], "x": None, "b": None, "c": rows[1]}
    nobody = dict.fromkeys(points)
    mean = rows[:2].mean(axis=0) + above
    for told, written_out in (
        (one, {**known, "x": rows.mean(axis=0) + above}),
        (two, {**two, "x": mean, "b": mean}),
        (nobody, nobody),
    ):
        assert answered(above, told) == pytest.approx(answered(None, written_out))
    assert answered(None, one) == pytest.approx(answered(None, {**known, "x": np.full(3, 3.0)}))


def test_a_point_that_is_forgotten_and_observed_again_has_not_failed() -> None:
    privatizer, _ = quiet({"x": None}, n=3)
    privatizer.forget("x")
    privatizer.observe("x", [0.5] * 3)
    privatizer.observe("y", [0.0] * 3)
    query = MeanQuery(("x", "y"), np.eye(2), Ball(9.0), 1.0, 0.0)
    assert privatizer.release(query, scope="s", key="1").value == pytest.approx([0.5, 0.0])
