"""NormQuery: the share of people in a public ball, asked, paid and named."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audit_tools import noiseless

from dptune import InputError, LossPrivatizer
from dptune.errors import KeyConflict
from dptune.privacy import Ball, Interval, MeanQuery, NormQuery


def base(**change: Any) -> NormQuery:
    return NormQuery(**{"points": ("a", "b"), "weights": np.eye(2), "radius": 1.0, "mu": 0.5, **change})


def test_a_pickled_query_is_the_same_question() -> None:
    query = base(weights=np.random.default_rng(0).normal(size=(3, 2)), failed_above=0.1)
    same = pickle.loads(pickle.dumps(query))
    assert same == query
    assert hash(same) == hash(query)
    assert same.weights.tobytes() == query.weights.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"points": ("b", "a")},
        {"weights": -np.eye(2)},
        {"weights": np.eye(2)[:1]},
        {"radius": 1.1},
        {"mu": 0.6},
        {"failed_above": 0.0},
    ],
)
def test_another_question_has_another_digest(change: dict[str, Any]) -> None:
    assert base(**change).digest() != base().digest()
    assert base(**change) != base()


def test_it_is_not_the_mean_query_of_the_same_numbers() -> None:
    assert base().digest() != MeanQuery(("a", "b"), np.eye(2), Ball(1.0), 0.5).digest()
    assert base() != "a query"


def test_it_cannot_be_changed() -> None:
    mine = np.eye(2)
    query = base(weights=mine)
    mine[0, 0] = 9.0
    assert query.weights[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        query.weights[0, 0] = 9.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.radius = 2.0


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.eye(3)},
        {"weights": np.full((2, 2), np.nan)},
        {"points": ("a", "a")},
        {"radius": 0.0},
        {"radius": np.inf},
        {"radius": np.nan},
        {"mu": 0.0},
        {"mu": np.nan},
        {"failed_above": np.nan},
    ],
)
def test_what_is_not_public_data_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        base(**change)


def test_people_on_the_sphere_count_and_those_without_a_norm_do_not() -> None:
    losses = np.array([[0.6, 0.6, 0.61, 0.0, np.nan], [0.8, 0.79, 0.8, 0.0, 0.0]])
    statistic, _ = noiseless(base(), losses, clip=(0.0, 5.0), dtype=np.float64)
    assert statistic == pytest.approx([3 / 5 - 0.5])  # NaN became 5, the upper clip; the statistic is centred at 1/2
    huge = np.full((2, 4), 1e300)
    wide = base(weights=np.full((2, 2), 1e150))
    assert noiseless(wide, huge, clip=(0.0, 1e30), dtype=np.float64)[0] == pytest.approx([-0.5])


def test_it_is_charged_recorded_and_named(privatizer: Callable[..., LossPrivatizer]) -> None:
    mine = privatizer(n=4)
    for name in "ab":
        mine.observe(name, np.zeros(4))
    released = mine.release(base(), scope="s", key="share/1")
    assert released.charge.mu == 0.5
    assert released.value.shape == (1,)
    assert released.charge.description["sensitivity"] == 0.25
    assert released.charge.description["dimension"] == 1
    assert mine.release(base(), scope="s", key="share/1").value == released.value
    with pytest.raises(KeyConflict):
        mine.release(MeanQuery(("a", "b"), np.eye(2), Ball(1.0), 0.5), scope="s", key="share/1")
    assert "share of people" in mine.ledger.statement(delta=1e-5).to_json()


def test_its_contributions_lie_between_none_and_one() -> None:
    assert base().clip == Interval(0.0, 1.0)
    assert base().dimension == 1
