"""The three bandits share these tests: more candidates, refusals, theorem constants and golden trajectories."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptune.errors import InputError
from dptune.local import InsecureRandomizer
from dptune.local.bandits.ata import LDPATA, TruncatedSums
from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.local.bandits.moma import LDPMoMA
from dptune.local.bandits.replies import LaplaceReplies
from dptune.local.bandits.tgp import LDPTGP
from dptune.search.gp.kernels import RBF
from dptune.search.gp.nystroem import NystroemVariance, draw_dictionary
from dptune.search.gp.points import sobol_candidates
from refusals import refused

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


GOLDEN = {
    LDPTGP: [0, 10, 6, 21, 29, 16, 0, 19, 19, 0, 29, 29],
    LDPATA: [0, 9, 14, 12, 12, 0, 22, 5, 10, 13, 7, 20],
    LDPMoMA: [0, 29, 17, 9, 23, 13, 5, 20, 29, 24, 4, 14],
}


@ALL
def test_golden_trajectory(algorithm: type[LocalBandit]) -> None:
    bandit, asked = make(algorithm, exploration=0.5), []
    for _ in range(60):
        asked.append(bandit.ask())
        bandit.tell(asked[-1], value(X[asked[-1]]))
    assert asked[::5] == GOLDEN[algorithm]


@ALL
def test_a_bandit_plays_good_candidates_and_bears_extreme_replies(algorithm: type[LocalBandit]) -> None:
    """Extreme replies beyond the horizon leave its means finite."""
    bandit = algorithm(sobol_candidates(1, 16), LDPSettings(REPLIES, horizon=1500, plays=5, exploration=0.2))
    run(bandit, 1500)
    assert abs(bandit.points[bandit.recommend()] - 0.7) < 0.1
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


# ---- truncated sums, Nystroem features, candidates and reply models by themselves -----------------------------

plays = st.lists(
    st.tuples(st.integers(0, 3), st.floats(-100, 100) | st.sampled_from([0.0, 1e90, -1e90])), min_size=1, max_size=120
)


@given(plays, st.floats(0.5, 40.0), st.integers(0, 2**32 - 1))
def test_truncated_sums_equal_the_sum_over_all_replies(told: list[tuple[int, float]], b: float, seed: int) -> None:
    sums, rng = TruncatedSums(4, b), np.random.default_rng(seed)
    for j, y in told:
        sums.add(j, y)
    counts = np.bincount([j for j, _ in told], minlength=4)
    U = rng.uniform(-1, 1, (5, 4)) / np.sqrt(np.maximum(counts, 1))
    U[0] = 0.0
    U[1] = np.sign(U[1]) / np.sqrt(np.maximum(counts, 1))
    columns, replies = np.array([j for j, _ in told]), np.array([y for _, y in told])
    products = U[:, columns] * replies
    literal = np.where(np.abs(products) <= b, products, 0.0).sum(axis=1)
    np.testing.assert_allclose(sums.cut(U, b), literal, atol=1e-8, rtol=1e-8)


def test_memory_of_truncated_sums_does_not_grow_with_t() -> None:
    rng, replies = np.random.default_rng(0), LaplaceReplies(1.0, 1.0, 1.0)
    sums, kept = TruncatedSums(2, math.sqrt(replies.second_moment / math.log(4 * 2 * 50_000 / 0.1))), []
    for t in range(1, 10_001):
        sums.add(t % 2, 1.0 + rng.laplace(0, replies.L))
        kept.append(len(sums))
    assert max(kept[1_000:]) <= max(kept[:1_000]) <= 128


def test_the_dictionary_is_public_seeded_and_has_the_stated_law() -> None:
    counts, variance = np.array([0, 1, 3, 50]), np.array([1.0, 0.2, 0.1, 2.0])
    drawn = [draw_dictionary(counts, variance, q=0.5, seed=1, number=n) for n in [*range(2000), 7]]
    shares = np.array([np.isin(np.arange(4), one) for one in drawn]).mean(axis=0)
    np.testing.assert_allclose(shares, 1 - (1 - np.minimum(0.5 * variance, 1)) ** counts, atol=0.04)
    assert shares[0] == 0
    np.testing.assert_array_equal(drawn[7], drawn[-1])


def test_candidates_are_in_the_cube_and_seeded() -> None:
    design = sobol_candidates(3, 100, seed=2)
    assert design.shape == (100, 3)
    assert ((design >= 0) & (design <= 1)).all()
    np.testing.assert_array_equal(design, sobol_candidates(3, 100, seed=2))


@pytest.mark.parametrize("lam", [1e-6, 1e-13])
def test_rounding_does_not_bring_eigenvalues_below_lambda(lam: float) -> None:
    """Where little was played V is lambda, which is lost in the rounding of what was played much."""
    X = np.linspace(0, 1, 40)[:, None]
    K = RBF(0.3)(X, X)
    state = NystroemVariance(K, lam=lam, q=1e9, redraw=math.inf, seed=1)
    state.rest_on(np.arange(40))
    state.counts[::10] = 10**12
    state.rest_on(state.features.members)
    assert np.linalg.eigvalsh(state.V)[0] < lam / 2, "the case does not need the floor"
    variance = state.variance(state.inverse_root())
    assert np.isfinite(variance).all()
    assert (variance >= 0).all()
    assert (variance <= np.diag(K) * (1 + 1e-6)).all()


def test_moments_and_truncation_of_replies() -> None:
    ldp = LaplaceReplies(0.5, B=2.0, R=1.0)
    assert ldp.L == 12.0
    assert ldp.second_moment == pytest.approx(4 + 1 + 8 * 9 / 0.25)
    assert (ldp.truncation(1), ldp.bias(0), ldp.bias(1)) == (3.0, 0.0, ldp.second_moment)
    assert sum(ldp.second_moment / t for t in range(1, 1001)) <= ldp.bias(1000)
    noise = np.random.default_rng(0).laplace(0, ldp.L, 200_000)
    for t in (2, 10, 100):  # b_t is passed with probability 1/t at most
        assert (np.abs(3.0 + noise) > ldp.truncation(t)).mean() <= 1 / t * 1.1
    refused(InputError, "epsilon", lambda: LaplaceReplies(0.0, 1.0, 1.0))
