"""Each audit is run on the package and must pass, and on the package with one planted bug and must fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import (
    audit_crash,
    audit_fork,
    audit_lower_bound,
    audit_noise_law,
    audit_scalar_sensitivity,
    audit_transcript,
    audit_vector_sensitivity,
)

from dptune import PrivacyLedger
from dptune.privacy import mechanism
from dptune.privacy import stored_losses as held
from dptune.privacy.noise import OpenDPNoise, noise_scale
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Ball
from dptune.privacy.stored_losses import StoredLosses

Bug = Callable[[pytest.MonkeyPatch], None]


AUDITS: dict[str, Callable[[Path], object]] = {
    "scalar sensitivity": lambda _: audit_scalar_sensitivity(),
    "vector sensitivity": lambda _: audit_vector_sensitivity(),
    "noise law below one": lambda _: audit_noise_law(radius=1.0),
    "noise law above one": lambda _: audit_noise_law(radius=500.0),
    "fork": lambda _: audit_fork(),
    "scalar lower bound": lambda _: audit_lower_bound("scalar", mu=3.0, count=1200),
    "vector lower bound": lambda _: audit_lower_bound("vector", mu=3.0, count=1200),
    "transcript": audit_transcript,
}


# ---- the bugs ------------------------------------------------------------------------------------------


def forgotten_clip_of_vectors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(held, "clipped", lambda g, clip, middle: g)


def forgotten_clip_of_losses(patch: pytest.MonkeyPatch) -> None:
    def clean(self: StoredLosses, values: Any) -> Any:
        return np.nan_to_num(values, nan=9.0, posinf=9.0, neginf=-9.0) - self.interval.middle

    patch.setattr(StoredLosses, "clean", clean)
    patch.setattr(held, "clipped", lambda g, clip, middle: g)


def cube_for_ball(patch: pytest.MonkeyPatch) -> None:
    true = held.clipped

    def clip_each_coordinate(g: Any, clip: Any, middle: float) -> Any:
        return np.clip(g, -clip.radius, clip.radius) if isinstance(clip, Ball) else true(g, clip, middle)

    patch.setattr(held, "clipped", clip_each_coordinate)


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    true = LossPrivatizer.sensitivity
    patch.setattr(LossPrivatizer, "sensitivity", lambda self, query: true(self, query) / 2)


def twice_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    true = LossPrivatizer.sensitivity
    patch.setattr(LossPrivatizer, "sensitivity", lambda self, query: true(self, query) * 2)


def variance_for_std(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mechanism, "noise_scale", lambda **kw: noise_scale(**kw) ** 2)


def variance_for_std_in_the_sampler(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian
    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, s, sigma: true(self, s, sigma**2))


def mean_over_finite_losses(patch: pytest.MonkeyPatch) -> None:
    """NaN losses are left out and the mean is over the others."""
    true_clean, true_mean = StoredLosses.clean, StoredLosses.mean
    finite: dict[int, float] = {}

    def clean(self: StoredLosses, values: Any) -> Any:
        finite[id(self)] = max(float(np.mean(~np.isnan(values))), 1 / len(values))
        return np.where(np.isnan(values), 0.0, true_clean(self, values))

    patch.setattr(StoredLosses, "clean", clean)
    patch.setattr(StoredLosses, "mean", lambda self, query: true_mean(self, query) / finite[id(self)])


def noise_reused_in_every_step(patch: pytest.MonkeyPatch) -> None:
    true, once = OpenDPNoise.add_gaussian, {}

    def add(self: OpenDPNoise, statistic: Any, sigma: float) -> Any:
        noise = once.setdefault(len(statistic), true(self, np.zeros(len(statistic)), 1.0))
        return statistic + sigma * noise

    patch.setattr(OpenDPNoise, "add_gaussian", add)


def noise_reused_in_every_second_step(patch: pytest.MonkeyPatch) -> None:
    true, kept = OpenDPNoise.add_gaussian, []

    def add(self: OpenDPNoise, statistic: Any, sigma: float) -> Any:
        if kept:
            return statistic + sigma * kept.pop()
        kept.append(true(self, np.zeros(len(statistic)), 1.0))
        return statistic + sigma * kept[0]

    patch.setattr(OpenDPNoise, "add_gaussian", add)


def noise_shared_by_coordinates(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian
    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, s, sigma: s + true(self, np.zeros(1), sigma))


def uniform_noise(patch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3).uniform
    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, s, sigma: s + sigma * draw(-(3**0.5), 3**0.5, size=len(s)))


def generator_of_the_parent(patch: pytest.MonkeyPatch) -> None:
    """A generator made at import is copied into every forked child."""
    generator = np.random.default_rng()
    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, s, sigma: s + generator.normal(0, sigma, len(s)))


def value_stored_raw(patch: pytest.MonkeyPatch) -> None:
    true_mean, raw = StoredLosses.mean, {}

    def remember(self: StoredLosses, query: Any) -> Any:
        raw["mean"] = true_mean(self, query)
        return raw["mean"]

    true_record = PrivacyLedger.record
    patch.setattr(StoredLosses, "mean", remember)
    patch.setattr(PrivacyLedger, "record", lambda self, charge, _: true_record(self, charge, raw["mean"].tolist()))


def raw_mean_in_the_note(patch: pytest.MonkeyPatch) -> None:
    """The released value is noisy, but a debugging aid stores the raw one beside it."""
    true = PrivacyLedger.charge

    last: list[Any] = []
    true_clean = StoredLosses.clean

    def clean(self: StoredLosses, values: Any) -> Any:
        last[:] = [true_clean(self, values)]
        return last[0]

    def charge(self: Any, scope: str, key: str, event: Any, **kw: Any) -> Any:
        return true(self, scope, key, event, **{**kw, "note": {"debug": float(last[0].mean())}})

    patch.setattr(StoredLosses, "clean", clean)
    patch.setattr(PrivacyLedger, "charge", charge)


FOUND: dict[Bug, tuple[str, ...]] = {
    forgotten_clip_of_vectors: ("vector sensitivity",),
    forgotten_clip_of_losses: ("scalar sensitivity",),
    cube_for_ball: ("vector sensitivity",),
    half_the_sensitivity: ("scalar sensitivity", "scalar lower bound", "vector lower bound"),
    twice_the_sensitivity: ("vector sensitivity", "noise law above one"),
    variance_for_std: ("scalar sensitivity", "vector sensitivity"),
    variance_for_std_in_the_sampler: ("noise law below one", "noise law above one"),
    mean_over_finite_losses: ("scalar sensitivity",),
    noise_reused_in_every_step: ("noise law below one", "fork"),
    noise_reused_in_every_second_step: ("noise law below one",),
    noise_shared_by_coordinates: ("noise law below one",),
    uniform_noise: ("noise law below one",),
    generator_of_the_parent: ("fork",),
    value_stored_raw: ("transcript",),
    raw_mean_in_the_note: ("transcript",),
}


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_passes_on_the_package(audit: str, fast_path: Path) -> None:
    AUDITS[audit](fast_path)


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "audit"), [(bug, audit) for bug, audits in FOUND.items() for audit in audits])
def test_the_audit_finds_the_planted_bug(
    bug: Bug, audit: str, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        AUDITS[audit](fast_path)


CHARGE_AFTER_DRAW = """
from dptune.ledger.events import GaussianRelease
from dptune.privacy.privatizer import Released
def release(self, query, *, scope, key, note=None):
    known = self.ledger.find(scope, key)
    if known is None:
        noisy = OpenDPNoise().add_gaussian(self._held.mean(query), self.sigma(query))
        if where == "before record":
            die()
        event = GaussianRelease(query.mu, self.sensitivity(query), self.sigma(query), query.dimension, "x")
        known = self.ledger.charge(scope, key, event, digest=query.digest())
        known = self.ledger.record(known, noisy.tolist())
    return Released(np.array(known.value), known, self.sigma(query))
LossPrivatizer.release = release
"""
PUBLISH_THE_SECOND_DRAW = """
def forget_the_first(self, charge, value):
    if where == "after record":
        die()
    import dataclasses
    return dataclasses.replace(charge, value=tuple(value))
PrivacyLedger.record = forget_the_first
"""


@pytest.mark.parametrize(
    ("patch", "where", "complaint"),
    [
        (CHARGE_AFTER_DRAW, "before record", "1 draws, 0 charges"),
        (PUBLISH_THE_SECOND_DRAW, "after record", "a recorded value"),
    ],
    ids=["refund after crash", "released but never recorded"],
)
def test_the_crash_audit_finds_the_planted_bug(patch: str, where: str, complaint: str, fast_path: Path) -> None:
    with pytest.raises(AssertionError, match=complaint):
        audit_crash(fast_path, where, patch)
