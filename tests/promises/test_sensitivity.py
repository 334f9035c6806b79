"""Without noise, replacing one person moves a release by at most what the noise covers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit_tools import (
    Bug,
    FreeLedger,
    audit_pair,
    audit_reaches,
    audit_scalar_sensitivity,
    audit_uncorrelated,
    audit_vector_sensitivity,
    complaints,
    neighbours,
    noisy,
    planted,
)
from dptune import LossPrivatizer
from dptune.privacy import Ball, MeanQuery, NormQuery, stored_losses
from dptune.privacy.query import Box, Interval
from dptune.privacy.stored_losses import StoredLosses

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


def test_the_heaviest_person_reaches_the_sensitivity() -> None:
    """People may have several rows or weights."""
    query = MeanQuery(("a",), np.ones((1, 1)), Interval(0.0, 3.0), 1.0)
    losses, neighbour = np.array([[-np.inf, 0.5, -np.inf, 0.5]]), np.array([[np.inf, 0.5, np.nan, 0.5]])
    groups = ["ann", "bob", "ann", "cid"]
    audit_reaches(query, losses, neighbour, 3.0 / 3, clip=(0.0, 3.0), groups=groups)
    losses[0, 2] = neighbour[0, 2]
    audit_reaches(query, losses, neighbour, 3.0 * 5 / 9, clip=(0.0, 3.0), person_weights=[5.0, 1.0, 2.0, 1.0])


@pytest.mark.parametrize("clip", [(1e9, 1e9 + 1e-3), (-100.0, -100.0 + 1e-9)])
def test_the_noise_covers_rounding_in_a_narrow_range_far_from_zero(clip: tuple[float, float]) -> None:
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
    region, first = draw(st.sampled_from(regions)), draw(st.integers(0, m))
    share, mean = partial(NormQuery, NAMES[:m], W, radius, *rules), partial(MeanQuery, NAMES[:m], W, region, *rules)
    query = share() if kind == "share" else mean(centred_on=first)
    return query, losses, neighbour, chosen


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_noise_covers_what_replacing_one_person_moves_a_release(case: Any) -> None:
    query, losses, neighbour, chosen = case
    audit_pair(query, losses, neighbour, **chosen)


# ---- the two releases of CMA-ES on centred losses -----------------------------------------------------


def centring(m: int) -> np.ndarray:
    return np.eye(m) - 1 / m


WIDE = (-50.0, 50.0)


def audit_share() -> None:
    """One person leaves the ball: 1/n, whoever the others are."""
    query = NormQuery(NAMES[:3], centring(3), 0.5, 0.7)
    for background in (0.0, 50.0, np.nan):
        losses = np.full((3, 20), background)
        audit_reaches(query, *with_person(losses, 0.0, [0.0, 10.0, np.inf]), 1 / 20, clip=WIDE)


def audit_centred_mean() -> None:
    """Antipodal people reach 2C/n, at any common level."""
    query = MeanQuery(NAMES[:4], centring(4), Ball(0.5), 0.7)
    far = 10 * np.array([1.0, -1.0, 1.0, -1.0])
    for level in (-30.0, 0.0, 30.0):
        audit_reaches(query, *with_person(np.full((4, 20), level), level + far, level - far), 1 / 20, clip=WIDE)


def audit_saturated_mean() -> None:
    """Losses cut at the person's own median reach 2C/n, and one person does not move where the others are cut."""
    query = MeanQuery(NAMES[:4], centring(4), Ball(0.5), 0.7, None, 1.0)
    cut = with_person(np.zeros((4, 21)), [-8.0, 0.0, 0.0, 0.0], [50.0, 0.0, 0.0, 0.0])  # the second to [1, 0, 0, 0]
    audit_reaches(query, *cut, 1 / 21, clip=WIDE)
    wide = MeanQuery(NAMES[:4], centring(4), Ball(50.0), 0.7, None, 1.0)
    audit_pair(wide, *with_person(np.tile([[0.0], [0.0], [20.0], [40.0]], 21), -50.0, 50.0), clip=WIDE)


def with_person(losses: np.ndarray, mine: Any, other: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return two neighbours: person 0 has the losses ``mine`` or the losses ``other``."""
    a, b = losses.copy(), losses.copy()
    a[:, 0], b[:, 0] = mine, other
    return a, b


def norms_for_the_share(true: Any) -> Any:
    """The mean norm is released in place of the share."""

    def per_person(g: Any, query: Any) -> Any:
        norms = np.linalg.norm(g, axis=0)[None, :]
        return norms - query.middle if isinstance(query, NormQuery) else true(g, query)

    return per_person


def clip_before_centring(true: Any) -> Any:
    """The centring matrix is applied to clipped vectors: everybody's level uses up the radius."""

    def mean(self: StoredLosses, query: Any) -> Any:
        plain = MeanQuery(query.points, np.eye(len(query.points)), Ball(query.clip.radius), query.mu)
        return query.weights @ true(self, plain)

    return mean


TWICE = planted(stored_losses, "per_person", lambda true: lambda g, query: 2 * true(g, query))
MEDIAN_OF_ALL = planted(
    stored_losses.np, "median", lambda true: lambda L, axis: np.full(L.shape[1], true(L))
)  # of everybody, not of each person


@pytest.mark.parametrize(
    ("bug", "audit"),
    [
        (TWICE, audit_share),
        (TWICE, audit_centred_mean),
        (planted(stored_losses, "per_person", norms_for_the_share), audit_share),
        (planted(StoredLosses, "mean", clip_before_centring), audit_centred_mean),
        (MEDIAN_OF_ALL, audit_saturated_mean),
    ],
)
def test_the_audit_finds_the_planted_bug(bug: Bug, audit: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    audit()
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit()


# ---- the noise of both --------------------------------------------------------------------------------------


def audit_noises(generations: int = 200, m: int = 4, n: int = 100, mu: float = 0.5) -> None:
    """The share's noise is N(0, sigma^2), and independent of the means before, beside and after it."""
    privatizer, names = LossPrivatizer(FreeLedger(), n=n, clip=(0.0, 1.0)), NAMES[:m]
    for name in names:
        privatizer.observe(name, np.zeros(n))
    ask_share, ask_mean = NormQuery(names, centring(m), 0.1, mu), MeanQuery(names, centring(m), Ball(0.1), mu)
    shares, means = np.zeros(generations), np.zeros((generations, m))
    for g in range(generations):  # in units of sigma; everybody is in the ball
        shares[g] = (privatizer.release(ask_share, scope="share", key=str(g)).scalar - 1.0) * n * mu
        means[g] = privatizer.release(ask_mean, scope="mean", key=str(g)).value / (2 * 0.1 / (n * mu))
    assert complaints(shares) == []
    for lag in (-1, 0, 1):
        theirs = np.roll(means, -lag, axis=0)
        for j in range(m):
            audit_uncorrelated(shares, theirs[:, j], f"share and coordinate {j} at lag {lag}")


def reused(where: int, *, of_the_mean: bool = False) -> Bug:
    """The next mean has the share's z in coordinate ``where``; or the next share minus the mean's."""
    kept: list[float] = []

    def add(draw: Any, statistic: Any, sigma: float) -> Any:
        z = draw(len(statistic))
        if (len(z) > 1) is of_the_mean:
            kept[:] = [-z[where] if of_the_mean else z[0]]
        elif kept:
            z[0 if of_the_mean else where] = kept.pop()
        return statistic + sigma * z

    return noisy(add)


def test_the_noise_of_a_share_has_its_law_and_is_independent_of_the_means() -> None:
    audit_noises()


@pytest.mark.parametrize("bug", [reused(0), reused(3), reused(1, of_the_mean=True)])
def test_the_audit_of_independence_finds_reused_noise(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError) as found:
        audit_noises()
    assert "share and coordinate" in str(found.value)
