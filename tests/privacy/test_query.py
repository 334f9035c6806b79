"""MeanQuery and NormQuery are frozen, validated and serialisable, and their digests identify them."""

import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from audit_tools import noiseless
from dptune import InputError
from dptune.privacy import Ball, MeanQuery, NormQuery
from dptune.privacy.query import Box, Interval


def base(**change: Any) -> MeanQuery:
    settings: dict[str, Any] = {"points": ("a", "b"), "weights": np.eye(2), "clip": Ball(1.0), "mu": 0.5}
    return MeanQuery(**{**settings, **change})


def share(**change: Any) -> NormQuery:
    return NormQuery(**{"points": ("a", "b"), "weights": np.eye(2), "radius": 1.0, "mu": 0.5, **change})


ASKED: dict[str, list[Any]] = {  # field -> what it may be; the first is the question's that the others differ from
    "points": [("a", "b"), ("b", "a"), ("a", "c")],
    "weights": [np.eye(2), np.eye(2) * (1 + 1e-15), -np.eye(2), np.eye(2)[:1]],
    "clip": [Ball(1.0), Ball(1.0 + 1e-15), Box(0.0, 1.0), Box(-1.0, 1.0)],
    "radius": [1.0, 1.0 + 1e-15],
    "mu": [0.5, 0.5 + 1e-15],
    "failed_above": [None, 0.25, 0.5],
    "saturate_above": [None, 0.25, 0.5],
    "centred_on": [0, 1, 2],
}


@pytest.mark.parametrize("kind", [MeanQuery, NormQuery])
def test_every_field_of_a_query_changes_its_digest_and_survives_pickling(kind: type[Any]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    usual = {name: ASKED[name][0] for name in names}  # a new field needs values above
    asked = [kind(**usual)]
    for name in names:
        asked += [kind(**{**usual, name: value}) for value in ASKED[name][1:]]
    asked.append(kind(**{**usual, "failed_above": 0.25, "saturate_above": 0.25}))
    assert len(asked) > len(names)
    assert len({query.digest() for query in asked}) == len({*asked}) == len(asked)
    for query in asked:
        same = pickle.loads(pickle.dumps(query))
        assert (same, hash(same), same.digest()) == (query, hash(query), query.digest())
        assert same.weights.tobytes() == query.weights.tobytes()


def test_the_kind_of_clip_is_part_of_the_question() -> None:
    one = {"points": ("a",), "weights": np.ones((1, 1))}
    clips = (Ball(1.0), Interval(-1.0, 1.0), Interval(0.0, 1.0))
    assert len({share(**one).digest(), *(base(**one, clip=clip).digest() for clip in clips)}) == 4
    assert len({base().statistic, base(clip=Box(0.0, 1.0)).statistic, share().statistic}) == 3


@pytest.mark.parametrize("kind", [base, share])
def test_a_query_cannot_be_changed(kind: Any) -> None:
    mine = np.eye(2)
    query = kind(weights=mine)
    before = query.digest()
    mine[0, 0] = 99.0
    assert query.digest() == before
    assert not query.weights.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.mu = 9.0


BAD: list[tuple[dict[str, Any], str]] = [  # of both kinds
    *(({"weights": W}, "weights") for W in (np.eye(3), np.ones(3), np.ones((0, 2)), np.ones((1, 1, 2)))),
    ({"points": (), "weights": np.ones((1, 0))}, "weights"),
    *(({"weights": W}, "weights") for W in ("secret", None, [[1, 2], [3]], [[10**400, 0]], [[1j, 0]])),
    *(({"weights": np.array([[1.0, odd]])}, "finite") for odd in (math.nan, math.inf)),
    ({"points": ("a", "a")}, "once"),
    *(({"points": points}, "points") for points in ("ab", (1, 2))),
    *(({"mu": mu}, "mu") for mu in (0.0, math.nan)),
    *(({"failed_above": above}, "failed_above") for above in (math.nan, "a", 10**400)),
]
BAD_INTERVALS = [(1, 1), (2, 1), (math.nan, 1), (0, math.nan), (0, math.inf), (-math.inf, 0)]
BAD_INTERVALS += [(-1e300, 1e300), (0, 1e31), (0, 1e-40), (0, 10**400), ("a", 1)]
BAD_RADII = (0, -1, math.nan, math.inf, 1e-200, 1e200, 10**400)


def test_a_bad_query_or_region_is_refused_by_name() -> None:
    bad: list[tuple[Callable[..., Any], dict[str, Any], str]]
    bad = [(kind, change, word) for kind in (base, share) for change, word in BAD]
    bad += [(base, {"clip": clip}, "Ball") for clip in (Interval(0, 1), object(), 1.0, None)]  # not of its dimension
    bad += [(Interval, {"low": low, "high": high}, "clip") for low, high in BAD_INTERVALS]
    bad += [(kind, {"radius": radius}, "radius") for kind in (Ball, share) for radius in BAD_RADII]
    for make, given, word in bad:
        with pytest.raises(InputError, match=word) as refused:
            make(**given)
        assert refused.value.__cause__ is None


# ---- the share of people in a ball -------------------------------------------------------------------


def test_people_on_the_sphere_count_and_those_without_a_norm_do_not() -> None:
    losses = np.array([[0.6, 0.6, 0.61, 0.0, np.nan], [0.8, 0.79, 0.8, 0.0, 0.0]])
    statistic, _ = noiseless(share(), losses, clip=(0.0, 5.0), dtype=np.float64)
    assert statistic == pytest.approx([3 / 5 - 0.5])  # NaN became 5, the upper clip; the statistic is centred at 1/2
    huge, far = np.full((65, 4), 1e300), np.zeros((1, 65))
    far[0, [0, -1]] = 1e300, -1e300  # of two blocks of points: infinite less infinite
    for W in (np.full((2, 2), 1e150), far):
        wide = NormQuery(tuple(map(str, range(W.shape[1]))), W, 1.0, 0.5)
        found, _ = noiseless(wide, huge[: W.shape[1]], clip=(0.0, 1e30), dtype=np.float64)
        assert found == pytest.approx([-0.5])
