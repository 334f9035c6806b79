"""What the three share: storage, lost and late replies, more candidates, refusals, theorem constants, learning."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import refused

from dptune.errors import InputError
from dptune.local import InsecureRandomizer
from dptune.local.bandits.ata import LDPATA
from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.local.bandits.moma import LDPMoMA
from dptune.local.bandits.replies import LaplaceReplies
from dptune.local.bandits.tgp import LDPTGP
from dptune.search.gp.points import local_candidates, sobol_candidates

ALL = pytest.mark.parametrize("algorithm", [LDPTGP, LDPATA, LDPMoMA])
BAD: list[dict[str, Any]] = [{"lam": 0.0}, {"delta": 1.0}, {"accuracy": 1.0}, {"plays": 0}, {"kernel": "RBF"}]
REPLIES = LaplaceReplies(4.0, B=1.0, R=0.2)
X = np.linspace(0, 1, 30)[:, None]


def make(algorithm: type[LocalBandit], points: Any = X, **more: Any) -> LocalBandit:
    return algorithm(points, LDPSettings(REPLIES, horizon=3000, plays=5, **more))


def value(x: Any) -> float:
    return float(1 - 4 * np.sum((np.asarray(x) - 0.7) ** 2))


def run(bandit: LocalBandit, rounds: int, seed: int = 0) -> None:
    user = InsecureRandomizer(4.0, 1.2, insecure_seed=seed)
    for _ in range(rounds):
        j = bandit.ask()
        bandit.tell(j, user.randomize(value(bandit.points[j])))


def same(a: LocalBandit, b: LocalBandit) -> None:
    np.testing.assert_allclose(a.mean(), b.mean(), atol=1e-9)
    np.testing.assert_allclose(a.deviation(), b.deviation(), atol=1e-8)
    assert a.ask() == b.ask()
    assert a.beta() == pytest.approx(b.beta())


@ALL
def test_lost_replies_and_repeated_questions_change_nothing(algorithm: type[LocalBandit]) -> None:
    bandit, other = make(algorithm), make(algorithm)
    user = InsecureRandomizer(4.0, 1.2, insecure_seed=0)
    for t in range(300):
        j = bandit.ask()
        assert bandit.ask() == j
        if t % 3:  # the others never come back
            reply = user.randomize(value(X[j]))
            bandit.tell(j, reply)
            other.tell(j, reply)
    same(bandit, other)


@ALL
def test_more_candidates_are_found_and_used_whatever_comes_beyond_the_horizon(algorithm: type[LocalBandit]) -> None:
    points = 0.4 * sobol_candidates(1, 16)  # the best, 0.7, is not among them
    bandit = algorithm(points, LDPSettings(REPLIES, horizon=1500, plays=5, exploration=0.2))
    run(bandit, 500)
    rows = bandit.extend(local_candidates([0.7], 0.1, 8))
    assert rows == range(16, 24)
    run(bandit, 1000, seed=1)
    assert bandit.recommend() in rows
    played = sum(n * value(x) for n, x in zip(bandit.counts, bandit.points, strict=True)) / bandit.t
    assert played > np.mean([value(x) for x in bandit.points]) + 0.1  # above uniform play
    assert bandit.counts.sum() == bandit.t == 1500
    for reply in (1e99, -1e99, 0.0, 1e99, 5e-324):
        bandit.tell(bandit.ask(), reply)
    assert np.isfinite(bandit.mean()).all()
    assert np.isfinite(bandit.deviation()).all()
    assert 0 <= bandit.ask() < len(bandit.points)


def test_what_is_refused() -> None:
    bandit = make(LDPTGP)
    before = bandit.mean().tolist()
    for point in (-1, 30, 1.5):
        refused(InputError, "candidates", partial(bandit.tell, point, 0.0), partial(bandit.ask, [point]))
    for reply in (math.nan, 1e101, "0.5"):
        refused(InputError, "finite", partial(bandit.tell, 0, reply))
    refused(InputError, "number", partial(bandit.tell, 0, 0.0, number=0))
    assert (bandit.t, bandit.mean().tolist()) == (0, before)
    bad_points = (np.zeros((0, 2)), np.zeros(3), np.array([[math.nan]]))
    refused(InputError, None, *(partial(make, LDPTGP, points) for points in bad_points))
    for bad in BAD:
        refused(InputError, next(iter(bad)), partial(LDPSettings, **{"replies": REPLIES, **bad}))


def test_the_theorem_s_beta_of_the_first_round() -> None:
    bandit = LDPTGP(X, LDPSettings(REPLIES, lam=1.0, exploration=1.0))
    assert bandit.beta() == pytest.approx(1 + 2 * math.sqrt(2) * 1.2 * math.sqrt(math.log(10)))  # t = 1: no ln 0


def test_beta_bounds_every_reply_that_was_not_cut() -> None:
    """Of 100 replies every second was lost: those that came were cut at b_2, b_4, ..., b_100."""
    whole, half = (make(LDPTGP, lam=1.0, exploration=1.0) for _ in range(2))
    for t in range(1, 101):
        whole.tell(t % 30, 0.0)
        if t % 2 == 0:
            half.tell(t % 30, 0.0, number=t)
    width = 2 * math.sqrt(2) * REPLIES.truncation(100)
    for bandit, t in ((whole, 100), (half, 50)):
        root = math.sqrt(bandit.gamma + math.log(10))
        assert bandit.beta() == pytest.approx(REPLIES.B + width * root + math.sqrt(REPLIES.bias(t)))
    cut_off = sum(REPLIES.second_moment / s for s in range(2, 101, 2))
    assert cut_off <= REPLIES.bias(50)
