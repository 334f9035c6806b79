"""A privatizer's settings, copies and reprs: what is refused, what makes another question; no loss in any of them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audit_tools import FreeLedger

from dptune import InputError, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch, KeyConflict
from dptune.privacy import Ball, MeanQuery
from dptune.privacy.noise import SeededNoise

Make = Callable[..., LossPrivatizer]
BAD_SETTINGS: list[dict[str, Any]] = [
    *({"clip": clip} for clip in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, 1e300))),
    *({"clip": clip} for clip in ((0.0,), 1.0, ("0", "1"), None)),
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
    privatizer(n=4)
    with pytest.raises(BudgetMismatch):  # the number of people is the ledger's
        privatizer(n=5)


def test_a_wrong_length_is_refused_in_words_that_depend_on_lengths_only(privatizer: Make) -> None:
    for rows, k in ((1, 0.0), (3, 0.7), (5, math.nan), (4000, 0.7)):
        with pytest.raises(InputError) as refused:
            privatizer().observe("x", np.full(rows, k))
        assert str(refused.value) == (
            "expected 4 per-example losses, one per example, also for examples that fail; the n= or groups= of the "
            "LossPrivatizer says how many."
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


def test_strict_floating_point_errors_of_the_caller_do_not_show_private_values(privatizer: Make) -> None:
    mine = privatizer()
    with np.errstate(all="raise"):
        for name, loss in (("a", 1e-50), ("b", 1e-3), ("c", 1e300)):
            mine.observe(name, [loss] * 4)
            mine.release(mine.mean_query(name, 0.1), scope="s", key=name)
    assert mine.points() == ("a", "b", "c")
