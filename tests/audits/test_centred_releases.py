"""The two releases of CMA-ES on centred losses: sensitivity, noise, a lower bound, and the planted bugs found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import FreeLedger, answers, audit_pair, audit_reaches, audit_uncorrelated, complaints, lower_bound
from house_audits import plant_sensitivity

from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy import Ball, MeanQuery, NormQuery, stored_losses
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.stored_losses import StoredLosses

NAMES = tuple("abcdefgh")


def centring(m: int) -> np.ndarray:
    return np.eye(m) - 1 / m


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


def audit_saturated_mean(n: int = 21) -> None:
    """Losses cut at the person's own median reach 2C/n, and one person does not move where the others are cut."""
    query = MeanQuery(NAMES[:4], centring(4), Ball(0.5), 0.7, None, 1.0)
    losses = np.zeros((4, n))
    losses[:, 0] = [-8.0, 0.0, 0.0, 0.0]
    neighbour = losses.copy()
    neighbour[:, 0] = [50.0, 0.0, 0.0, 0.0]  # cut to [1, 0, 0, 0]
    audit_reaches(query, losses, neighbour, 1.0 / n, clip=(-50.0, 50.0))
    losses = np.tile([[0.0], [0.0], [20.0], [40.0]], n)
    losses[:, 0] = -50.0
    neighbour = losses.copy()
    neighbour[:, 0] = 50.0
    wide = MeanQuery(NAMES[:4], centring(4), Ball(50.0), 0.7, None, 1.0)
    audit_pair(wide, losses, neighbour, clip=(-50.0, 50.0))


@pytest.mark.parametrize("n", [1, 20])
def test_the_worst_neighbours_reach_the_sensitivity(n: int) -> None:
    audit_share(n)
    audit_centred_mean(n)
    audit_saturated_mean(n)


def share_of_all_people_counted_twice(patch: pytest.MonkeyPatch) -> None:
    true = stored_losses.per_person
    patch.setattr(stored_losses, "per_person", lambda g, query: 2 * true(g, query))


def norms_for_the_share(patch: pytest.MonkeyPatch) -> None:
    """The mean norm is released in place of the share."""
    true = stored_losses.per_person

    def per_person(g: Any, query: Any) -> Any:
        norms = np.linalg.norm(g, axis=0)[None, :]
        return norms - query.middle if isinstance(query, NormQuery) else true(g, query)

    patch.setattr(stored_losses, "per_person", per_person)


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    plant_sensitivity(patch, "", lambda privatizer: 0.5)


def clip_before_centring(patch: pytest.MonkeyPatch) -> None:
    """The centring matrix is applied to clipped vectors: everybody's level uses up the radius."""
    true = stored_losses.StoredLosses.mean

    def mean(self: stored_losses.StoredLosses, query: Any) -> Any:
        m = len(query.points)
        plain = MeanQuery(query.points, np.eye(m), Ball(query.clip.radius), query.mu)
        return query.weights @ true(self, plain)

    patch.setattr(stored_losses.StoredLosses, "mean", mean)


def cut_at_the_median_of_everybody(patch: pytest.MonkeyPatch) -> None:
    true = np.median
    patch.setattr(stored_losses.np, "median", lambda L, axis: np.full(L.shape[1], true(L)))


@pytest.mark.parametrize(
    ("bug", "audit"),
    [
        (share_of_all_people_counted_twice, audit_share),
        (norms_for_the_share, audit_share),
        (half_the_sensitivity, audit_share),
        (half_the_sensitivity, audit_centred_mean),
        (share_of_all_people_counted_twice, audit_centred_mean),
        (clip_before_centring, audit_centred_mean),
        (cut_at_the_median_of_everybody, audit_saturated_mean),
    ],
)
def test_the_audit_finds_the_planted_bug(
    bug: Callable[[pytest.MonkeyPatch], None], audit: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit()
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit()


def null_generations(generations: int, m: int, *, n: int = 100, mu: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Answers to both questions, generation after generation, in units of sigma: (T,) and (T, m), pure noise."""
    privatizer = LossPrivatizer(FreeLedger(), n=n, clip=(0.0, 1.0))
    for name in NAMES[:m]:
        privatizer.observe(name, np.zeros(n))
    questions = NormQuery(NAMES[:m], centring(m), 0.1, mu), MeanQuery(NAMES[:m], centring(m), Ball(0.1), mu)
    asked = [[privatizer.release(q, scope=type(q).__name__, key=str(g)) for q in questions] for g in range(generations)]
    shares = np.array([(share.scalar - 1.0) * n * mu for share, _ in asked])  # everybody is in the ball
    return shares, np.array([mean.value / mean.sigma for _, mean in asked])


def audit_the_two_releases_noises(generations: int = 200, m: int = 4) -> None:
    """The share's noise is N(0, sigma^2), and independent of the means before, beside and after it."""
    shares, means = null_generations(generations, m)
    assert complaints(shares) == []
    for lag in (-1, 0, 1):
        theirs = np.roll(means, -lag, axis=0)
        for j in range(m):
            audit_uncorrelated(shares, theirs[:, j], f"share and coordinate {j} at lag {lag}")


def test_the_noise_of_a_share_has_its_law_and_is_independent_of_the_means_around_it() -> None:
    audit_the_two_releases_noises()


def reuse_of_a_shares_noise(where: int) -> Callable[[pytest.MonkeyPatch], None]:
    """The next mean has the share's z in coordinate ``where``."""

    def bug(patch: pytest.MonkeyPatch) -> None:
        true, kept = OpenDPNoise.add_gaussian, []

        def add(self: OpenDPNoise, statistic: Any, sigma: float) -> Any:
            z = true(self, np.zeros(len(statistic)), 1.0)
            if len(z) == 1:
                kept[:] = [z[0]]
            elif kept:
                z[where] = kept.pop()
            return statistic + sigma * z

        patch.setattr(OpenDPNoise, "add_gaussian", add)

    return bug


def reuse_of_a_means_noise(patch: pytest.MonkeyPatch) -> None:
    """The next share has the z of the mean's second coordinate, with the other sign."""
    true, kept = OpenDPNoise.add_gaussian, []

    def add(self: OpenDPNoise, statistic: Any, sigma: float) -> Any:
        z = true(self, np.zeros(len(statistic)), 1.0)
        if len(z) > 1:
            kept[:] = [-z[1:2]]
        elif kept:
            z = kept.pop()
        return statistic + sigma * z

    patch.setattr(OpenDPNoise, "add_gaussian", add)


@pytest.mark.parametrize("bug", [reuse_of_a_shares_noise(0), reuse_of_a_shares_noise(3), reuse_of_a_means_noise])
def test_the_audit_of_independence_finds_reused_noise(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError, match="share and coordinate"):
        audit_the_two_releases_noises()


def test_an_adversary_proves_nearly_the_claimed_mu_of_a_share_and_no_more() -> None:
    n, mu, clip = 5, 3.0, (-50.0, 50.0)
    query = NormQuery(NAMES[:2], centring(2), 0.5, mu)
    losses = np.zeros((2, n))
    neighbour = losses.copy()
    neighbour[0, 0] = 40.0
    a, b = (answers(query, people, 1200, clip)[:, 0] for people in (neighbour, losses))
    assert 0.7 * mu < lower_bound(a, b, 1 - 0.5 / n) <= mu


# ---- a run, seen from its ledger -------------------------------------------------------------------------


def test_each_release_is_charged_before_losses_are_read_and_every_radius_follows_from_released_shares(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true, seen, n = StoredLosses.combine, [], 40
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(3.0))

    def combine(self: StoredLosses, *rest: Any) -> Any:
        charges = PrivacyLedger(fast_path / "ledger.db").charges("run")
        seen.append((charges[-1].key, charges[-1].value, len(charges)))
        return true(self, *rest)

    monkeypatch.setattr(StoredLosses, "combine", combine)
    privatizer = LossPrivatizer(ledger, n=n, clip=(0.0, 1.0))
    space = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
    run = SearchRun(CENTRED, privatizer, scope="run", space=space, seed=0, trials=24, population=4)
    centres = np.linspace(0.2, 0.8, n)
    for i in range(run.plan.trials):
        x = run.ask()
        run.finish(str(i), x, None if i % 7 == 3 else (x["a"] - centres) ** 2 + 0.1 * x["b"])
    assert run.complete
    plan = run.plan.settings
    keys = [f"{kind}/{g + 1}" for g in range(plan.generations) for kind in ("share", "generation")]
    assert seen == [(key, None, i + 1) for i, key in enumerate(keys)]  # paid, read, and only then answered
    charges = {c.key: c for c in ledger.charges("run")}
    assert math.fsum(c.mu**2 for c in charges.values()) == pytest.approx(9.0 * 0.95)
    radius = plan.radius
    for g in range(1, plan.generations + 1):
        share, generation = charges[f"share/{g}"], charges[f"generation/{g}"]
        assert share.note["radius"] == radius
        inside = min(max((share.value or ())[0], 0.0), 1.0)
        radius *= math.exp(-plan.tuning.rate * (inside - plan.tuning.quantile))
        assert generation.note["radius"] == radius
        assert generation.description["sensitivity"] == pytest.approx(2 * radius / n)
