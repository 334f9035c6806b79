"""Each core equals the word-for-word O(t^3) form in each round: mean, deviation, gamma, dictionary, chosen point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import ldp_literal as literal
from dptune.algorithms.ldp_ata import LDPATA
from dptune.algorithms.ldp_bandit import LDPSettings, LocalBandit
from dptune.algorithms.ldp_moma import LDPMoMA
from dptune.algorithms.ldp_replies import HeavyTailedReplies, LaplaceReplies, Replies
from dptune.algorithms.ldp_tgp import LDPTGP
from dptune.gp.kernels import RBF, Kernel, Matern52

M = 25
X = np.linspace(0, 1, M)[:, None]
LDP, HEAVY = LaplaceReplies(1.0, B=1.0, R=0.5), HeavyTailedReplies(v=8.0, B=1.0)
CASES = [(RBF(0.2), LDP), (Matern52(0.2), LDP), (Matern52(0.2), HEAVY)]
GAPS = (0.0, 0.3)


def settings(kernel: Kernel, replies: Replies, **more: Any) -> LDPSettings:
    return LDPSettings(replies, kernel, horizon=200, lam=1.3, exploration=0.05, **more)


class Play:
    """A run of one core; ``x`` and ``y`` are what it was told."""

    def __init__(self, core: LocalBandit, seed: int = 0) -> None:
        self.core = core
        self.x: list[int] = []
        self.y: list[float] = []
        self.rng = np.random.default_rng(seed)
        self.K = core.settings.kernel(core.points, core.points)

    def round(self) -> int:
        j = self.core.ask()
        if self.rng.random() < 0.2:  # somebody else's point
            j = int(self.rng.integers(M))
        reply = float(np.sin(6 * X[j, 0]) + 3 * self.rng.standard_t(2))
        self.core.tell(j, reply)
        self.x.append(j)
        self.y.append(reply)
        return j

    def agrees(self, mean: Any, deviation: Any) -> None:
        np.testing.assert_allclose(self.core.mean(), mean, atol=1e-8, rtol=1e-8)
        np.testing.assert_allclose(self.core.deviation(), deviation, atol=1e-7, rtol=1e-8)
        bound = mean + self.core.beta() * deviation
        assert bound[self.core.ask()] >= bound.max() - 1e-8


@pytest.mark.parametrize(("kernel", "replies"), CASES)
def test_tgp_equals_the_literal_form(kernel: Kernel, replies: Replies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptune.algorithms.ldp_tgp.AFRESH", 1)  # both ways to the posterior within 80 rounds
    core = LDPTGP(X, settings(kernel, replies))
    play = Play(core)
    for t in range(1, 81):
        play.round()
        b = [replies.truncation(s) for s in range(1, t + 1)]
        mean, deviation, gain = literal.tgp(play.K, play.x, play.y, b, 1.3)
        play.agrees(mean, deviation)
        assert core.gamma == pytest.approx(gain, abs=1e-8)
    assert any(abs(y) > limit for y, limit in zip(play.y, b, strict=True)), "nothing was cut"


@pytest.mark.parametrize(("kernel", "replies"), CASES)
@pytest.mark.parametrize("redraw", GAPS)
def test_ata_equals_the_literal_form(kernel: Kernel, replies: Replies, redraw: float) -> None:
    core = LDPATA(X, settings(kernel, replies, q=0.7, redraw=redraw, seed=5))
    play = Play(core)
    bites = 0
    for _ in range(120):
        play.round()
        D = literal.dictionaries(play.K, play.x, 1.3, 0.7, redraw, 5)
        assert core._nystroem.features.members.tolist() == D
        if not D:
            continue
        phi, b = literal.features(play.K, D), core.truncation(len(D))
        mean = literal.ata_estimate(phi, play.x, np.array(play.y), b, 1.3)
        play.agrees(mean, literal.deviation(play.K, phi, play.x, 1.3))
        whole = literal.ata_estimate(phi, play.x, np.array(play.y), 1e9, 1.3)
        bites += not np.allclose(mean, whole, atol=1e-6)
    assert bites > 20, "nothing was cut"


@pytest.mark.parametrize(("kernel", "replies"), CASES)
@pytest.mark.parametrize("redraw", GAPS)
@pytest.mark.parametrize("k", [1, 4, 5])
def test_moma_equals_the_literal_form(kernel: Kernel, replies: Replies, redraw: float, k: int) -> None:
    core = LDPMoMA(X, settings(kernel, replies, q=0.7, redraw=redraw, seed=5, plays=k))
    play = Play(core)
    open_replies: dict[int, list[float]] = {}
    epochs: list[int] = []
    replies_of: list[list[float]] = []
    for _ in range(60 * k):
        j = play.round()
        open_replies.setdefault(j, []).append(play.y[-1])
        if len(open_replies[j]) < k:
            continue
        epochs.append(j)
        replies_of.append(open_replies.pop(j))
        D = literal.dictionaries(play.K, epochs, 1.3, 0.7, redraw, 5)
        assert core._nystroem.features.members.tolist() == D
        if D:
            phi = literal.features(play.K, D)
            mean = literal.moma_estimate(phi, epochs, np.array(replies_of), 1.3)
            play.agrees(mean, literal.deviation(play.K, phi, epochs, 1.3))
    assert core.epochs == len(epochs) > 20


def test_ata_with_every_point_in_the_dictionary_and_no_cut_is_the_exact_process() -> None:
    replies = HeavyTailedReplies(v=1e12, B=1.0)
    ata = LDPATA(X, settings(Matern52(0.2), replies, q=1e6, redraw=0.0))
    tgp = LDPTGP(X, settings(Matern52(0.2), replies))
    play = Play(ata)
    for _ in range(60):
        j = play.round()
        tgp.tell(j, play.y[-1])
    np.testing.assert_allclose(ata.mean(), tgp.mean(), atol=1e-7)
    np.testing.assert_allclose(ata.deviation(), tgp.deviation(), atol=1e-6)
