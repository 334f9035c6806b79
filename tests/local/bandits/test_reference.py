"""Each core equals the word-for-word form in each round: mean, deviation, beta, gamma, dictionary, chosen point.

Means and deviations agree to 1e-8 absolutely, where k(x, x) = 1. The chosen point is the literal form's, from its own
mean, deviation and beta, or one whose literal bound is within 1e-8 of it: rounding decides between equal bounds.
"""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from benchmarks.ldp import literal
from benchmarks.ldp.problems import HeavyTailedReplies
from dptune.local.bandits.ata import LDPATA
from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.local.bandits.moma import LDPMoMA
from dptune.local.bandits.replies import LaplaceReplies, Replies
from dptune.local.bandits.tgp import LDPTGP
from dptune.search.gp.kernels import RBF, Kernel, Matern52
from dptune.search.gp.nystroem import RCOND, Features

M = 25
X = np.linspace(0, 1, M)[:, None]
LDP, HEAVY = LaplaceReplies(1.0, B=1.0, R=0.5), HeavyTailedReplies(v=8.0, B=1.0)
V = {LDP: 1 + 0.25 + 2 * 3.0**2, HEAVY: 8.0}  # second moments; the Laplace scale is 2 (1 + 0.5)/1 = 3
T, LAM, DELTA, ACCURACY, EXPLORATION = 200, 1.3, 0.1, 0.5, 0.05
CASES = [(RBF(0.2), LDP), (Matern52(0.2), HEAVY)]
every_case = pytest.mark.parametrize(("kernel", "replies"), CASES)


def settings(kernel: Kernel, replies: Replies, **more: Any) -> LDPSettings:
    constants = {"delta": DELTA, "accuracy": ACCURACY, "exploration": EXPLORATION}
    return LDPSettings(replies, kernel, horizon=T, lam=LAM, **constants, **more)


def cut_at(replies: Replies, t: int) -> float:
    """b_t of TGP."""
    return 1.5 + 3 * math.log(t) if replies is LDP else math.sqrt(8) * t**0.25


def bias(replies: Replies, t: int) -> float:
    """Sum of the squared biases in TGP's beta."""
    return V[LDP] * (math.log(t) + 1) if replies is LDP else 2 * 8 * math.sqrt(t)


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
            j = int(self.rng.integers(len(self.K)))
        reply = float(np.sin(6 * self.core.points[j, 0]) + 3 * self.rng.standard_t(2))
        self.core.tell(j, reply)
        self.x.append(j)
        self.y.append(reply)
        return j

    def agrees(self, mean: Any, deviation: Any, beta: float) -> None:
        np.testing.assert_allclose(self.core.mean(), mean, atol=1e-8, rtol=0)
        np.testing.assert_allclose(self.core.deviation(), deviation, atol=1e-8, rtol=0)
        assert self.core.beta() == pytest.approx(EXPLORATION * beta, abs=1e-8)
        bound = mean + EXPLORATION * beta * deviation
        assert bound[self.core.ask()] >= bound.max() - 1e-8


@every_case
def test_tgp_equals_the_literal_form(kernel: Kernel, replies: Replies) -> None:
    core = LDPTGP(X[::6], settings(kernel, replies))  # so few that the posterior is computed afresh within 60 rounds
    play = Play(core)
    for t in range(1, 61):
        play.round()
        b = [cut_at(replies, s) for s in range(1, t + 1)]
        mean, deviation, gain = literal.tgp(play.K, play.x, play.y, b, LAM)
        play.agrees(mean, deviation, literal.tgp_beta(1.0, b[-1], gain, bias(replies, t), LAM, DELTA))
        assert core.gamma == pytest.approx(gain, abs=1e-8)
    assert any(abs(y) > limit for y, limit in zip(play.y, b, strict=True)), "nothing was cut"


@every_case
@pytest.mark.parametrize("redraw", [0.0, 0.3])
def test_ata_equals_the_literal_form(kernel: Kernel, replies: Replies, redraw: float) -> None:
    rounds, core = 30, LDPATA(X, settings(kernel, replies, q=0.7, redraw=redraw, seed=5))
    play = Play(core)
    bites = 0
    for _ in range(rounds):
        play.round()
        D = literal.dictionaries(play.K, play.x, LAM, 0.7, redraw, 5)
        assert core.dictionary.tolist() == D
        if not D:
            continue
        phi, b = literal.features(play.K, D), literal.ata_threshold(V[replies], len(D), T, DELTA)
        mean = literal.ata_estimate(phi, play.x, np.array(play.y), b, LAM)
        beta = literal.ata_beta(1.0, V[replies], len(D), T, LAM, DELTA, ACCURACY)
        play.agrees(mean, literal.deviation(play.K, phi, play.x, LAM), beta)
        whole = literal.ata_estimate(phi, play.x, np.array(play.y), 1e9, LAM)
        bites += not np.allclose(mean, whole, atol=1e-6)
    assert bites > rounds // 3, "nothing was cut"


@pytest.mark.parametrize(("kernel", "replies", "redraw", "k"), [(*CASES[0], 0.0, 1), (*CASES[1], 0.3, 4)])
def test_moma_equals_the_literal_form(kernel: Kernel, replies: Replies, redraw: float, k: int) -> None:
    rounds, core = 25, LDPMoMA(X, settings(kernel, replies, q=0.7, redraw=redraw, seed=5, plays=k))
    play = Play(core)
    open_replies: dict[int, list[float]] = {}
    epochs: list[int] = []
    replies_of: list[list[float]] = []
    for _ in range(rounds * k):
        j = play.round()
        open_replies.setdefault(j, []).append(play.y[-1])
        if len(open_replies[j]) < k:
            continue
        epochs.append(j)
        replies_of.append(open_replies.pop(j))
        D = literal.dictionaries(play.K, epochs, LAM, 0.7, redraw, 5)
        assert core.dictionary.tolist() == D
        if D:
            phi = literal.features(play.K, D)
            mean = literal.moma_estimate(phi, epochs, np.array(replies_of), LAM)
            beta = literal.moma_beta(1.0, V[replies], len(D), LAM, ACCURACY)
            play.agrees(mean, literal.deviation(play.K, phi, epochs, LAM), beta)
    assert len(epochs) >= rounds // 3


UNEVEN = [[12, 13, 14, 15, 16, 17, 18, 21], [0, 4, 5, 6, 7, 8, 9, 11, 19]]  # met in the runs above


@pytest.mark.parametrize(
    ("kernel", "D"), [(RBF(0.5), UNEVEN[1]), (Matern52(0.2), UNEVEN[0]), (RBF(0.5), list(range(0, M, 2)))]
)
def test_features_are_those_of_exact_arithmetic(kernel: Kernel, D: list[int]) -> None:
    """|phi~|^2 at all candidates from 40 digits; smooth kernels have eigenvalues of K_DD down to the cut of 1e-10."""
    K = kernel(X, X)
    with mpmath.workdps(40):
        w, E = mpmath.eigsy(mpmath.matrix(K[np.ix_(D, D)].tolist()))
        B = mpmath.matrix(K[:, D].tolist()) * E
        kept = [r for r in range(len(D)) if w[r] > mpmath.mpf(RCOND) * w[len(D) - 1]]
        exact = [float(sum(B[j, r] ** 2 / w[r] for r in kept)) for j in range(M)]
    phi = Features.on(K, np.array(D)).F
    np.testing.assert_allclose((phi**2).sum(axis=1), exact, atol=1e-9, rtol=0)
    np.testing.assert_allclose((literal.features(K, D) ** 2).sum(axis=1), exact, atol=1e-8, rtol=0)
