"""The two releases of CMA-ES on centred losses: sensitivity, noise, a lower bound, and the planted bugs found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audit_tools import FreeLedger, answers, audit_pair, audit_reaches, lower_bound
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2, kstest, norm

from dptune import Ball, LossPrivatizer, MeanQuery, NormQuery
from dptune.privacy import privatizer as implementation

ANY_LOSS = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 5e-324]),
    st.floats(-10, 10),
    st.floats(width=64),
)
NAMES = tuple("abcdefgh")


def centring(m: int) -> np.ndarray:
    return np.eye(m) - 1 / m


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    """One of the two queries with arbitrary or centring weights, neighbours (m, n), and the privatizer's settings."""
    n, m, mu = draw(st.integers(1, 9)), draw(st.integers(2, 6)), draw(st.floats(1e-3, 20))
    chosen: dict[str, Any] = {"clip": (-3.0, 5.0), "dtype": draw(st.sampled_from([np.float32, np.float64]))}
    if draw(st.booleans()):
        chosen["person_weights"] = draw(arrays(np.float64, n, elements=st.floats(1e-3, 1e3)))
    elements = st.floats(-1e6, 1e6) | st.floats(-1e200, 1e200)
    W = centring(m) if draw(st.booleans()) else draw(arrays(np.float64, (m, m), elements=elements))
    radius = draw(st.floats(1e-6, 1e3))
    share = draw(st.booleans())
    above = draw(st.none() | st.floats(-10, 1e3))
    query = NormQuery(NAMES[:m], W, radius, mu, above) if share else MeanQuery(NAMES[:m], W, Ball(radius), mu, above)
    chosen["failed"] = draw(st.lists(st.sampled_from(NAMES[:m]), unique=True))
    losses = draw(arrays(np.float64, (m, n), elements=ANY_LOSS))
    neighbour = losses.copy()
    neighbour[:, draw(st.integers(0, n - 1))] = draw(arrays(np.float64, m, elements=ANY_LOSS))
    return query, losses, neighbour, chosen


@settings(max_examples=300, deadline=None)
@given(cases())
def test_replacing_one_person_never_moves_a_release_beyond_what_the_noise_covers(case: Any) -> None:
    query, losses, neighbour, chosen = case
    audit_pair(query, losses, neighbour, **chosen)


def audit_share(n: int = 20) -> None:
    """One person leaves the ball: 1/n, whoever the others are."""
    query = NormQuery(NAMES[:3], centring(3), 0.5, 0.7)
    for background in (0.0, 50.0, np.nan):
        losses = np.full((3, n), background)
        losses[:, 0] = 0.0
        neighbour = losses.copy()
        neighbour[:, 0] = [0.0, 10.0, np.inf]
        audit_reaches(query, losses, neighbour, 1 / n, clip=(-50.0, 50.0))


def audit_centred_mean(n: int = 20) -> None:
    """Antipodal people reach 2C/n, at any common level."""
    query = MeanQuery(NAMES[:4], centring(4), Ball(0.5), 0.7)
    direction = np.array([1.0, -1.0, 1.0, -1.0])
    for level in (-30.0, 0.0, 30.0):
        losses = np.full((4, n), level)
        losses[:, 0] = level + 10 * direction
        neighbour = losses.copy()
        neighbour[:, 0] = level - 10 * direction
        audit_reaches(query, losses, neighbour, 1.0 / n, clip=(-50.0, 50.0))


@pytest.mark.parametrize("n", [1, 7, 200])
def test_the_worst_neighbours_reach_the_sensitivity(n: int) -> None:
    audit_share(n)
    audit_centred_mean(n)


def share_of_all_people_counted_twice(patch: pytest.MonkeyPatch) -> None:
    true = implementation._per_person
    patch.setattr(implementation, "_per_person", lambda g, query, centre: 2 * true(g, query, centre))


def norms_for_the_share(patch: pytest.MonkeyPatch) -> None:
    """The mean norm is released in place of the share."""
    true = implementation._per_person

    def per_person(g: Any, query: Any, centre: float) -> Any:
        norms = np.linalg.norm(g, axis=0)[None, :]
        return norms - centre if isinstance(query, NormQuery) else true(g, query, centre)

    patch.setattr(implementation, "_per_person", per_person)


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    true = LossPrivatizer.sensitivity
    patch.setattr(LossPrivatizer, "sensitivity", lambda self, query: true(self, query) / 2)


def clip_before_centring(patch: pytest.MonkeyPatch) -> None:
    """The centring matrix is applied to clipped vectors: an unclipped norm gets through."""
    true = LossPrivatizer._clipped_mean

    def mean(self: LossPrivatizer, query: Any) -> Any:
        m = len(query.points)
        plain = MeanQuery(query.points, np.eye(m), Ball(query.clip.radius), query.mu)
        return query.weights @ true(self, plain)

    patch.setattr(LossPrivatizer, "_clipped_mean", mean)


@pytest.mark.parametrize(
    ("bug", "audit"),
    [
        (share_of_all_people_counted_twice, audit_share),
        (norms_for_the_share, audit_share),
        (half_the_sensitivity, audit_share),
        (half_the_sensitivity, audit_centred_mean),
        (share_of_all_people_counted_twice, audit_centred_mean),
        (clip_before_centring, audit_centred_mean),
    ],
)
def test_the_audit_finds_the_planted_bug(
    bug: Callable[[pytest.MonkeyPatch], None], audit: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit()
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit()


def test_the_noise_of_a_share_is_normal_with_the_promised_variance() -> None:
    n, mu, T = 40, 0.5, 1500
    privatizer = LossPrivatizer(FreeLedger(), n=n, clip=(0.0, 1.0))
    for name in "ab":
        privatizer.observe(name, np.zeros(n))
    query = NormQuery(("a", "b"), centring(2), 0.1, mu)
    values = np.array([privatizer.release(query, scope="null", key=str(t)).scalar for t in range(T)])
    z = (values - 1.0) * n * mu  # everybody is in the ball
    assert min(chi2.cdf(z @ z, T), chi2.sf(z @ z, T)) > 1e-7
    assert kstest(z, norm.cdf).pvalue > 1e-7


def test_an_adversary_proves_nearly_the_claimed_mu_of_a_share_and_no_more() -> None:
    n, mu, clip = 5, 3.0, (-50.0, 50.0)
    query = NormQuery(NAMES[:2], centring(2), 0.5, mu)
    losses = np.zeros((2, n))
    neighbour = losses.copy()
    neighbour[0, 0] = 40.0
    a, b = (answers(query, people, 1500, clip)[:, 0] for people in (neighbour, losses))
    assert 0.7 * mu < lower_bound(a, b, 1 - 0.5 / n) <= mu
