"""MeanQuery: frozen, validated, serialisable, and recognised by its digest."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dptune import InputError
from dptune.privacy import Ball, Interval, MeanQuery, NormQuery
from dptune.privacy.query import Box

finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def queries(draw: st.DrawFn) -> MeanQuery:
    weights = draw(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=5), elements=finite))
    points = draw(st.lists(st.text(max_size=5), min_size=weights.shape[1], max_size=weights.shape[1], unique=True))
    clip: Interval | Ball = Ball(draw(st.floats(1e-30, 1e30)))
    if len(weights) == 1 and draw(st.booleans()):
        low = draw(st.floats(-1e10, 1e10))
        clip = Interval(low, low + draw(st.floats(1e-3, 1e10)))
    return MeanQuery(tuple(points), weights, clip, draw(st.floats(1e-9, 1e9)))


@given(queries())
def test_a_pickled_query_is_the_same_question(query: MeanQuery) -> None:
    same = pickle.loads(pickle.dumps(query))
    assert same == query
    assert hash(same) == hash(query)
    assert same.digest() == query.digest()
    assert same.weights.tobytes() == query.weights.tobytes()
    assert same.clip == query.clip


def base(**change: Any) -> MeanQuery:
    settings: dict[str, Any] = {"points": ("a", "b"), "weights": np.eye(2), "clip": Ball(1.0), "mu": 0.5}
    return MeanQuery(**{**settings, **change})


ASKED: dict[str, list[Any]] = {  # field -> what it may be; the first is the question's that the others differ from
    "points": [("a", "b"), ("b", "a"), ("a", "c")],
    "weights": [np.eye(2), np.eye(2) * (1 + 1e-15), -np.eye(2), np.eye(2)[:1]],
    "clip": [Ball(1.0), Ball(1.0 + 1e-15), Box(0.0, 1.0), Box(-1.0, 1.0)],
    "radius": [1.0, 1.0 + 1e-15],
    "mu": [0.5, 0.5 + 1e-15],
    "failed_above": [None, 0.25, 0.5],
    "saturate_above": [None, 0.25, 0.5],
}


@pytest.mark.parametrize("kind", [MeanQuery, NormQuery])
def test_every_field_of_a_question_is_part_of_its_digest(kind: type[Any]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    usual = {name: ASKED[name][0] for name in names}  # a new field needs values above
    asked = [kind(**usual)]
    for name in names:
        asked += [kind(**{**usual, name: value}) for value in ASKED[name][1:]]
    asked.append(kind(**{**usual, "failed_above": 0.25, "saturate_above": 0.25}))
    assert len(asked) > len(names)
    assert len({query.digest() for query in asked}) == len({*asked}) == len(asked)


def test_the_kind_of_clip_is_part_of_the_question() -> None:
    one = {"points": ("a",), "weights": np.ones((1, 1))}
    digests = {base(**one, clip=clip).digest() for clip in (Ball(1.0), Interval(-1.0, 1.0), Interval(0.0, 1.0))}
    assert len(digests) == 3
    assert base() != "a query"


def test_a_query_cannot_be_changed() -> None:
    mine = np.eye(2)
    query = base(weights=mine)
    before = query.digest()
    mine[0, 0] = 99.0
    assert query.digest() == before
    with pytest.raises(ValueError, match="read-only"):
        query.weights[0, 0] = 99.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.mu = 9.0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"weights": np.eye(3)}, "weights"),
        ({"weights": np.ones(3)}, "weights"),
        ({"weights": np.ones((0, 2))}, "weights"),
        ({"weights": np.ones((1, 1, 2))}, "weights"),
        ({"points": (), "weights": np.ones((1, 0))}, "weights"),
        ({"weights": np.array([[1.0, math.nan]])}, "finite"),
        ({"weights": np.array([[1.0, math.inf]])}, "finite"),
        ({"points": ("a", "a")}, "once"),
        ({"clip": Interval(0, 1)}, "Ball"),
        ({"mu": 0.0}, "mu"),
        ({"mu": -1.0}, "mu"),
        ({"mu": math.nan}, "mu"),
        ({"mu": math.inf}, "mu"),
    ],
)
def test_a_bad_query_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        base(**change)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1, 1),
        (2, 1),
        (math.nan, 1),
        (0, math.nan),
        (0, math.inf),
        (-math.inf, 0),
        (-1e300, 1e300),
        (0, 1e31),
        (0, 1e-40),
    ],
)
def test_a_bad_interval_is_refused(low: float, high: float) -> None:
    with pytest.raises(InputError, match="clip must"):
        Interval(low, high)


@pytest.mark.parametrize("radius", [0, -1, math.nan, math.inf, 1e-200, 1e200])
def test_a_bad_radius_is_refused(radius: float) -> None:
    with pytest.raises(InputError, match="radius"):
        Ball(radius)


def test_diameters() -> None:
    assert Ball(1.5).diameter == 3.0
    assert Interval(-1.0, 2.5).diameter == 3.5


@pytest.mark.parametrize(
    "change",
    [
        {"clip": object()},
        {"clip": 1.0},
        {"clip": None},
        {"points": "ab"},
        {"points": None},
        {"points": (1, 2)},
        {"points": (["a"], "b")},
        {"weights": "secret"},
        {"weights": None},
        {"weights": [[1, 2], [3]]},
        {"weights": [[10**400, 0]]},
        {"weights": [[1j, 0]]},
        {"mu": "1"},
        {"mu": 10**400},
        {"failed_above": "a"},
        {"failed_above": 10**400},
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_by_name(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(change))) as refused:
        base(**change)
    assert refused.value.__cause__ is None


def test_bounds_that_no_float_holds_are_refused() -> None:
    for clip in (lambda: Interval(0, 10**400), lambda: Ball(10**400), lambda: Interval("a", 1)):
        with pytest.raises(InputError, match="clip"):
            clip()
