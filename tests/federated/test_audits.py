"""The audits of the trusted server on the package, and on planted bugs, where each must fail."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path

import federated_audits as audits
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptune import InputError
from dptune.federated import server
from dptune.federated.server import FTSServer, clipped, weighted_sums
from dptune.federated.settings import FTSSettings
from dptune.privacy.noise import OpenDPNoise, SecretSample

AUDITS = [
    audits.audit_sensitivity,
    audits.audit_empty_sample,
    audits.audit_sample,
    audits.audit_sample_is_final,
    audits.audit_transcript,
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        FTSSettings(agents=3, d=1, M=4, regions=(), S=1.0, hold=2, decay=2, candidates=16),
        FTSSettings(agents=12, d=3, M=6, regions=(2, 2, 1), S=0.5, hold=2, decay=2, candidates=16),
    ],
    ids=["one region", "four regions"],
)
def test_the_sensitivity_is_right_at_other_sizes(other: FTSSettings, fast_path: Path) -> None:
    audits.audit_sensitivity(fast_path, other)


@pytest.mark.parametrize("audit", AUDITS)
def test_the_server_keeps_its_promise(audit: Callable[[Path], None], fast_path: Path) -> None:
    audit(fast_path)


@pytest.mark.parametrize(
    "where",
    [
        "before draw",
        pytest.param("before record", marks=pytest.mark.slow),
        pytest.param("before broadcast", marks=pytest.mark.slow),
    ],
)
def test_a_killed_server_goes_on_from_its_ledger(where: str, fast_path: Path) -> None:
    audits.audit_crash(fast_path, where)


# ---- any weights, any messages, any sample: the sum itself ---------------------------------------------

N, M, P = 4, 3, 3
numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60)
@example(np.full((N, M), 292.0), np.diag([0.0, 2.7e-165, 0.0, 0.0])[:, :P], np.eye(N, dtype=bool)[1], 1, 0.5, 505.0)
@given(
    arrays(np.float64, (N, M), elements=numbers),
    arrays(np.float64, (N, P), elements=st.floats(0, 1)),
    arrays(np.bool_, N),
    st.integers(0, N - 1),
    st.floats(1e-3, 1.0),
    st.floats(1e-6, 1e6),
)
def test_zeroing_out_one_agent_moves_the_sums_by_its_own_norm_of_weights_and_no_more(
    messages: np.ndarray, weights: np.ndarray, sample: np.ndarray, n: int, q: float, clip: float
) -> None:
    zeroed = messages.copy()
    zeroed[n] = 0.0
    a, b = (weighted_sums(m, sample, weights, clip=clip, q=q) for m in (messages, zeroed))
    moved, bound = math.hypot(*(a - b).ravel()), math.hypot(*weights[n]) * clip / q  # no square underflows
    rounding = 1e-12 * weights.max() * N * clip / q  # of the sums of the others, paid by noise.SLACK
    assert moved <= bound * (1 + 1e-9) + rounding
    if not sample[n]:
        assert np.array_equal(a, b)


@settings(deadline=None)
@given(arrays(np.float64, (N, M), elements=st.floats(-1e150, 1e150)), st.floats(1e-6, 1e6))
def test_clipping_keeps_directions_and_short_messages(messages: np.ndarray, clip: float) -> None:
    cut = clipped(messages, clip)
    assert np.isfinite(cut).all()
    for before, after in zip(messages, cut, strict=True):
        norm = float(np.hypot.reduce(before))
        assert np.hypot.reduce(after) <= clip * (1 + 1e-12)
        if norm <= clip * (1 - 1e-9):
            assert np.allclose(after, before, rtol=1e-12, atol=1e-300)
        elif np.isfinite(norm):
            assert np.allclose(after, before * (clip / norm), rtol=1e-9, atol=1e-290)


def test_the_sum_is_the_papers_line_by_line() -> None:
    rng = np.random.default_rng(0)
    messages, weights = 3 * rng.standard_normal((N, M)), rng.random((N, P))
    sample, clip, q = np.array([True, False, True, True]), 2.0, 0.3
    expected = np.zeros((P, M))
    for i in range(P):
        for n in range(N):
            if sample[n]:
                cut = messages[n] / max(1.0, np.linalg.norm(messages[n]) / clip)
                expected[i] += weights[n, i] / q * cut
    assert np.allclose(weighted_sums(messages, sample, weights, clip=clip, q=q), expected, rtol=1e-12)
    assert not weighted_sums(messages, np.zeros(N, bool), weights, clip=clip, q=q).any()


# ---- planted bugs ----------------------------------------------------------------------------------------


def forgotten_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(server, "clipped", lambda messages, clip: messages)


def clipped_to_s_and_not_s_over_root_p(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(server, "clipped", lambda messages, clip: clipped(messages, 2**0.5 * clip))


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    true = FTSSettings.sensitivity
    patch.setattr(FTSSettings, "sensitivity", lambda self, t, q: true(self, t, q) / 2)


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian
    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, s, sigma: true(self, s, sigma / 2))


def one_region_only(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity of a single region's sum, as if the regions were not released together."""

    def single(self: FTSSettings, t: int, q: float) -> float:
        return float(self.weights(t).max()) * self.clip / q

    patch.setattr(FTSSettings, "sensitivity", single)


def divided_by_the_sample(patch: pytest.MonkeyPatch) -> None:
    def mean(messages, sample, weights, *, clip, q):
        return weighted_sums(messages, sample, weights, clip=clip, q=q) * len(sample) * q / max(sample.sum(), 1)

    patch.setattr(server, "weighted_sums", mean)


def renormalised_by_who_has_sent(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._sums

    def mean(self, t):
        return true(self, t) * self.settings.agents / max(len(self._messages), 1)

    patch.setattr(FTSServer, "_sums", mean)


def the_last_message_stands_in_for_a_silent_agent(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._sums

    def remembering(self, t):
        self._messages = self._last = {**getattr(self, "_last", {}), **self._messages}
        return true(self, t)

    patch.setattr(FTSServer, "_sums", remembering)


def empty_sample_without_noise(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._draw_and_record

    def record(self, t, charge, event):
        sums = self._sums(t)
        if not sums.any():
            self._unrecorded[t] = np.random.default_rng().random(sums.size)
        return true(self, t, charge, event)

    patch.setattr(FTSServer, "_draw_and_record", record)


def an_empty_sample_is_drawn_again(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._sums

    def sums(self, t):
        found = true(self, t)
        return found if found.any() else true(self, t)

    patch.setattr(FTSServer, "_sums", sums)


def an_empty_sample_is_filled(patch: pytest.MonkeyPatch) -> None:
    true = SecretSample.draw

    def draw(self, n, q):
        found = true(self, n, q)
        return found if found.any() else np.arange(n) == 0

    patch.setattr(SecretSample, "draw", draw)


def the_same_noise_twice_within_a_region(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian

    def shared(self, statistic, sigma):
        noise = true(self, np.zeros(len(statistic)), sigma)
        noise[7:47] = noise[47:87]
        return statistic + noise

    patch.setattr(OpenDPNoise, "add_gaussian", shared)


def fixed_size_sample(patch: pytest.MonkeyPatch) -> None:
    def first(self, n, q):
        return np.arange(n) < int(n * q)

    patch.setattr(SecretSample, "draw", first)


def everybody_is_sampled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SecretSample, "draw", lambda self, n, q: np.ones(n, bool))


def one_sample_for_all_rounds(patch: pytest.MonkeyPatch) -> None:
    drawn: dict[int, np.ndarray] = {}
    true = SecretSample.draw
    patch.setattr(SecretSample, "draw", lambda self, n, q: drawn.setdefault(n, true(self, n, q)))


def the_same_noise_in_every_region(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian

    def shared(self, statistic, sigma):
        half = len(statistic) // 2
        noise = true(self, np.zeros(half), sigma)
        return statistic + np.concatenate([noise, noise])

    patch.setattr(OpenDPNoise, "add_gaussian", shared)


def the_messages_show_in_the_repr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FTSServer, "__repr__", lambda self: repr(self._messages))


def the_sample_is_logged(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._sums

    def telling(self, t):
        logging.getLogger("dptune.federated").debug(f"sampled {self._samples.mask}")
        return true(self, t)

    patch.setattr(FTSServer, "_sums", telling)


def the_norms_are_printed(patch: pytest.MonkeyPatch) -> None:
    def telling(messages, clip):
        print(np.abs(messages).max(), file=sys.stderr)
        return clipped(messages, clip)

    patch.setattr(server, "clipped", telling)


def the_last_sample_is_kept(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._sums

    def keeping(self, t):
        self.last_sample = self._samples.mask
        return true(self, t)

    patch.setattr(FTSServer, "_sums", keeping)


def the_last_messages_are_kept(patch: pytest.MonkeyPatch) -> None:
    true = FTSServer._release

    def keeping(self, t):
        self._old = self._messages
        true(self, t)

    patch.setattr(FTSServer, "_release", keeping)


def submit_raises_with_its_frames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FTSServer, "submit", FTSServer.submit.__wrapped__)


def release_raises_with_its_frames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FTSServer, "_draw_and_record", FTSServer._draw_and_record.__wrapped__)


BUGS = [
    (forgotten_clip, audits.audit_sensitivity),
    (clipped_to_s_and_not_s_over_root_p, audits.audit_sensitivity),
    (half_the_sensitivity, audits.audit_sensitivity),
    (half_the_noise, audits.audit_empty_sample),
    (one_region_only, audits.audit_sensitivity),
    (divided_by_the_sample, audits.audit_sensitivity),
    (divided_by_the_sample, audits.audit_sample),
    (renormalised_by_who_has_sent, audits.audit_sensitivity),
    (the_last_message_stands_in_for_a_silent_agent, audits.audit_sensitivity),
    (empty_sample_without_noise, audits.audit_empty_sample),
    (an_empty_sample_is_drawn_again, audits.audit_sample_is_final),
    (an_empty_sample_is_filled, audits.audit_sample_is_final),
    (fixed_size_sample, audits.audit_sample),
    (everybody_is_sampled, audits.audit_sample),
    (one_sample_for_all_rounds, audits.audit_sample),
    (the_same_noise_in_every_region, audits.audit_empty_sample),
    (the_same_noise_twice_within_a_region, audits.audit_empty_sample),
    (the_messages_show_in_the_repr, audits.audit_transcript),
    (the_sample_is_logged, audits.audit_transcript),
    (the_norms_are_printed, audits.audit_transcript),
    (the_last_sample_is_kept, audits.audit_transcript),
    (the_last_messages_are_kept, audits.audit_transcript),
    (submit_raises_with_its_frames, audits.audit_transcript),
    (release_raises_with_its_frames, audits.audit_transcript),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "audit"), BUGS, ids=lambda f: f.__name__)
def test_a_planted_bug_is_caught(
    bug: Callable[[pytest.MonkeyPatch], None],
    audit: Callable[[Path], None],
    fast_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit(fast_path)


def test_a_server_that_charges_after_the_draw_is_caught(fast_path: Path) -> None:
    patch = """
true_charge = PlanLedger.charge
def late(self, t, event, **k):
    draw(OpenDPNoise(), np.zeros(4), 1.0)  # noise before the charge: a kill here leaves nothing behind
    return true_charge(self, t, event, **k)
PlanLedger.charge = late
"""
    with pytest.raises(AssertionError, match="not counted"):
        audits.audit_crash(fast_path, "before draw", patch=patch)


def test_the_ledger_refuses_noise_that_is_smaller_than_the_plans(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = server.noise_scale
    monkeypatch.setattr(server, "noise_scale", lambda **k: true(**k) / 2)
    with pytest.raises(InputError, match="smaller than z times"):
        audits.server(fast_path, "small").release(0)
