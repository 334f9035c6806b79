"""Noise off: replacing one person moves a release by 2C/n or (high - low)/n at most, and can move it that far."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from audit_tools import audit_pair, audit_reaches, audit_scalar_sensitivity, audit_vector_sensitivity, neighbours
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptune.privacy import Ball, Box, Interval, MeanQuery, NormQuery

NAMES = tuple("abcdefgh")


def test_antipodal_people_reach_the_sensitivity() -> None:
    for clip, n in (((0.0, 1.0), 1), ((-1e-12, 1e-12), 20), ((1e6, 3e6), 2), ((1000.0, 1000.001), 20)):
        audit_scalar_sensitivity(clip=clip, n=n)
    for p, radius in ((1, 1e-3), (4, 1.0), (33, 7.0)):
        audit_vector_sensitivity(p=p, radius=radius)
    losses = np.full((3, 5), 0.5)
    losses[:, 0] = -np.inf
    neighbour = losses.copy()
    neighbour[:, 0] = np.inf
    several = MeanQuery(NAMES[:3], np.eye(3), Box(0.0, 1.0, 3), 0.7)
    audit_reaches(several, losses, neighbour, 3**0.5 / 5, clip=(0.0, 1.0))


def test_of_weighted_people_and_people_with_many_rows_the_heaviest_reaches_the_sensitivity() -> None:
    query = MeanQuery(("a",), np.ones((1, 1)), Interval(0.0, 3.0), 1.0)
    losses, neighbour = np.array([[-np.inf, 0.5, -np.inf, 0.5]]), np.array([[np.inf, 0.5, np.nan, 0.5]])
    groups = ["ann", "bob", "ann", "cid"]
    audit_reaches(query, losses, neighbour, 3.0 / 3, clip=(0.0, 3.0), groups=groups)
    losses[0, 2] = neighbour[0, 2]
    audit_reaches(query, losses, neighbour, 3.0 * 5 / 9, clip=(0.0, 3.0), person_weights=[5.0, 1.0, 2.0, 1.0])


@pytest.mark.parametrize("clip", [(1e9, 1e9 + 1e-3), (-100.0, -100.0 + 1e-9)])
def test_a_narrow_range_far_from_zero_is_not_rounded_beyond_what_the_noise_covers(clip: tuple[float, float]) -> None:
    rng, n = np.random.default_rng(0), 3000
    query = MeanQuery(("a",), np.ones((1, 1)), Interval(*clip), 1.0)
    for person in rng.integers(0, n, 12):
        losses = rng.uniform(*clip, (1, n))
        losses[0, person] = -np.inf
        neighbour = losses.copy()
        neighbour[0, person] = np.inf
        audit_reaches(query, losses, neighbour, (clip[1] - clip[0]) / n, clip=clip)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    """A query of any kind, people's losses (m, rows), the same with one person replaced, and the privatizer's settings.

    Weights are arbitrary or centring, some points have failed, and losses may be saturated.
    """
    losses, neighbour, chosen = draw(neighbours(st.integers(1, 6)))
    m, mu, clip = len(losses), draw(st.floats(1e-3, 20)), chosen["clip"]
    kind = draw(st.sampled_from(["scalar", "vector", "share"]))
    p = 1 if kind == "scalar" else draw(st.integers(1, 6))
    elements = st.floats(-1e6, 1e6) | st.floats(-1e200, 1e200)
    centring = kind != "scalar" and draw(st.booleans())
    W = np.eye(m) - 1 / m if centring else draw(arrays(np.float64, (p, m), elements=elements))
    above = st.none() | st.floats(-10, 1e3)
    rules, radius = (mu, draw(above), draw(above)), draw(st.floats(1e-6, 1e3))
    regions = [Interval(*clip)] if kind == "scalar" else [Ball(radius), Box(-radius, radius, len(W))]
    region, centred = draw(st.sampled_from(regions)), draw(st.booleans())
    share, mean = partial(NormQuery, NAMES[:m], W, radius, *rules), partial(MeanQuery, NAMES[:m], W, region, *rules)
    query = share() if kind == "share" else mean(centred=centred)
    return query, losses, neighbour, chosen


@settings(max_examples=100, deadline=None)
@given(cases())
def test_replacing_one_person_never_moves_a_release_beyond_what_the_noise_covers(case: Any) -> None:
    query, losses, neighbour, chosen = case
    audit_pair(query, losses, neighbour, **chosen)
