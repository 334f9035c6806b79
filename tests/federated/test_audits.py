"""The audits of the trusted server pass on the package and fail on each planted bug."""

import logging
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import federated_audits as audits
from audit_tools import Bug, noisy, planted
from dptune import InputError
from dptune.federated import server
from dptune.federated.server import FTSServer, weighted_sums
from dptune.federated.settings import FTSSettings
from dptune.ledger.events import SubsampledGaussianRelease
from dptune.ledger.plan_ledger import PlanLedger
from dptune.privacy.noise import SecretSample


@pytest.mark.parametrize("name", ["sensitivity", "empty_sample", "sample", "sample_is_final", "transcript"])
def test_the_server_keeps_its_promise(name: str, fast_path: Path) -> None:
    getattr(audits, f"audit_{name}")(fast_path)


@pytest.mark.slow
def test_the_sensitivity_is_right_at_another_size(fast_path: Path) -> None:
    size = FTSSettings(agents=12, d=3, M=6, regions=(2, 2, 1), S=0.5, hold=2, decay=2, candidates=16)
    audits.audit_sensitivity(fast_path, size)


def slow(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("where", ["before draw", slow("before record"), slow("before broadcast")])
def test_a_killed_server_resumes_from_its_ledger(where: str, fast_path: Path) -> None:
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
def test_zeroing_one_agent_moves_the_sums_by_at_most_its_weight_norm(
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


def one_region_only(true: Any) -> Any:
    """The sensitivity of a single region's sum, as if the regions were not released together."""
    return lambda self, t, q: float(self.weights(t).max()) * self.clip / q


def divided_by_the_sample(true: Any) -> Any:
    def mean(messages, sample, weights, *, clip, q):
        return true(messages, sample, weights, clip=clip, q=q) * len(sample) * q / max(sample.sum(), 1)

    return mean


def the_last_message_stands_in_for_a_silent_agent(true: Any) -> Any:
    def remembering(self, t):
        self._messages = self._last = {**getattr(self, "_last", {}), **self._messages}
        return true(self, t)

    return remembering


def empty_sample_without_noise(true: Any) -> Any:
    def record(self, t, charge, event):
        sums = self._sums(t)
        if not sums.any():
            self._unrecorded[t] = np.random.default_rng().random(sums.size)
        return true(self, t, charge, event)

    return record


def an_empty_sample_is_drawn_again(true: Any) -> Any:
    def sums(self, t):
        found = true(self, t)
        return found if found.any() else true(self, t)

    return sums


def one_sample_for_all_rounds(true: Any) -> Any:
    drawn: dict[int, np.ndarray] = {}
    return lambda self, n, q: drawn.setdefault(n, true(self, n, q))


def the_sample_is_logged(true: Any) -> Any:
    def telling(self, t):
        logging.getLogger("dptune.federated").debug(f"sampled {self._samples.mask}")
        return true(self, t)

    return telling


def the_norms_are_printed(true: Any) -> Any:
    def telling(messages, clip):
        print(np.abs(messages).max(), file=sys.stderr)
        return true(messages, clip)

    return telling


def the_last_sample_is_kept(true: Any) -> Any:
    def keeping(self, t):
        self.last_sample = self._samples.mask
        return true(self, t)

    return keeping


def without_frames_of(name: str) -> Bug:
    """The frames of an error keep what they hold."""
    return planted(FTSServer, name, lambda true: true.__wrapped__)


def by_who_has_sent(true: Any) -> Any:
    return lambda self, t: true(self, t) * self.settings.agents / max(len(self._messages), 1)


HALF = noisy(lambda draw, s, sigma: s + sigma / 2 * draw(len(s)))
IN_EVERY_REGION = noisy(lambda draw, s, sigma: s + sigma * np.tile(draw(len(s) // 2), 2))
WITHIN_A_REGION = noisy(lambda draw, s, sigma: s + sigma * draw(len(s))[np.r_[:7, 47:87, 47 : len(s)]])
AUDIT: dict[str, dict[str, Bug]] = {
    "sensitivity": {
        "clip forgotten": planted(server, "clipped", lambda _: lambda messages, clip: messages),
        "clipped to S": planted(server, "clipped", lambda true: lambda messages, clip: true(messages, 2**0.5 * clip)),
        "half": planted(FTSSettings, "sensitivity", lambda true: lambda self, t, q: true(self, t, q) / 2),
        "one region": planted(FTSSettings, "sensitivity", one_region_only),
        "divided by the sample": planted(server, "weighted_sums", divided_by_the_sample),
        "divided by who has sent": planted(FTSServer, "_sums", by_who_has_sent),
        "the last message": planted(FTSServer, "_sums", the_last_message_stands_in_for_a_silent_agent),
    },
    "empty_sample": {
        "half the noise": HALF,
        "empty without noise": planted(FTSServer, "_draw_and_record", empty_sample_without_noise),
        "same noise in every region": IN_EVERY_REGION,
        "same noise within a region": WITHIN_A_REGION,
    },
    "sample_is_final": {
        "empty drawn again": planted(FTSServer, "_sums", an_empty_sample_is_drawn_again),
    },
    "sample": {
        "divided by the sample": planted(server, "weighted_sums", divided_by_the_sample),
        "fixed size": planted(SecretSample, "draw", lambda _: lambda self, n, q: np.arange(n) < int(n * q)),
        "everybody": planted(SecretSample, "draw", lambda _: lambda self, n, q: np.ones(n, bool)),
        "one sample": planted(SecretSample, "draw", one_sample_for_all_rounds),
    },
    "transcript": {
        "messages in the repr": planted(FTSServer, "__repr__", lambda _: lambda self: repr(self._messages)),
        "sample logged": planted(FTSServer, "_sums", the_sample_is_logged),
        "norms printed": planted(server, "clipped", the_norms_are_printed),
        "sample kept": planted(FTSServer, "_sums", the_last_sample_is_kept),
        "submit with its frames": without_frames_of("submit"),
        "release with its frames": without_frames_of("_draw_and_record"),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("audit", "bug"), [(audit, bug) for audit, bugs in AUDIT.items() for bug in bugs])
def test_a_planted_bug_is_caught(audit: str, bug: str, fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AUDIT[audit][bug](monkeypatch)
    with pytest.raises(AssertionError):
        getattr(audits, f"audit_{audit}")(fast_path)


def test_a_server_that_charges_after_the_draw_is_caught(fast_path: Path) -> None:
    patch = """
true_charge = PlanLedger.charge
def late(self, t, event, **k):
    draw(OpenDPNoise(), np.zeros(4), 1.0)  # noise before the charge: a kill here leaves nothing behind
    return true_charge(self, t, event, **k)
PlanLedger.charge = late
"""
    with pytest.raises(AssertionError):
        audits.audit_crash(fast_path, "before draw", patch=patch)


def test_the_ledger_refuses_noise_that_is_smaller_than_the_plans(fast_path: Path) -> None:
    class Half(FTSServer):
        def event(self, t: int) -> SubsampledGaussianRelease:
            return replace(true := super().event(t), sigma=true.sigma / 2)

    with pytest.raises(InputError, match="smaller than z times"):
        Half(PlanLedger(fast_path / "small.db", audits.PLAN, n=7), audits.SETTINGS).release(0)
