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
from dptune.privacy import observed as module
from dptune.privacy.noise import SeededNoise

Make = Callable[..., LossPrivatizer]
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


def test_a_bad_setting_is_refused_before_anything_is_written(ledger: PrivacyLedger) -> None:
    for bad in BAD_SETTINGS:
        chosen = {"clip": (0.0, 1.0), **({} if "groups" in bad else {"n": 4}), **bad}
        with pytest.raises(InputError):
            LossPrivatizer(ledger, **chosen)
        assert ledger.n is None, bad
    with pytest.raises(InputError, match="PrivacyLedger"):
        LossPrivatizer("ledger.db", n=3, clip=(0, 1))


def test_a_wrong_length_is_refused_in_words_that_depend_on_lengths_only(
    privatizer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "reveal", lambda _: pytest.fail("private data was read"))
    for rows, k in ((1, 0.0), (3, 0.7), (5, math.nan), (4000, 0.7)):
        with pytest.raises(InputError) as refused:
            privatizer().observe("x", np.full(rows, k))
        assert str(refused.value) == (
            "expected 4 per-example losses, one per example, also for examples that fail; the n= or groups= of the "
            "LossPrivatizer says how many."
        )


def test_the_number_of_people_is_the_ledgers(privatizer: Make) -> None:
    privatizer(n=4)
    with pytest.raises(BudgetMismatch):
        privatizer(n=5)


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


# ---- seeds, copies, pickles and reprs ----------------------------------------------------------------


def test_seeded_and_true_noise_never_answer_for_each_other(privatizer: Make) -> None:
    true, seeded = privatizer(), privatizer(noise=SeededNoise(1))
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
    before = pickle.dumps(mine)
    mine.observe("x", [0.123456789, 0.2, 0.3])
    assert pickle.dumps(mine) == before
    assert "0.12" not in repr(mine)
    other = copied(mine)
    assert (other.points(), mine.points()) == ((), ("x",))
    assert other.ledger == mine.ledger
    query = mine.mean_query("x", 1.0)
    assert (other.n, other.rows, other.sigma(query)) == (mine.n, mine.rows, mine.sigma(query))
    other.observe("x", [0.1, 0.2, 0.3])
    other.release(query, scope="s", key="1")
    assert mine.ledger.spent() == 1.0


def test_strict_floating_point_errors_of_the_caller_do_not_show_private_values(privatizer: Make) -> None:
    mine = privatizer()
    with np.errstate(all="raise"):
        for name, loss in (("a", 1e-50), ("b", 1e-3), ("c", 1e300)):
            mine.observe(name, [loss] * 4)
            mine.release(mine.mean_query(name, 0.1), scope="s", key=name)
    assert mine.points() == ("a", "b", "c")
