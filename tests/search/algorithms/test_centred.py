"""CMA-ES on centred releases: its queries, the radius, and what it learns."""

import copy
import math
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from cmaes import CMA

from dptune import InputError
from dptune.privacy import Ball, MeanQuery, NormQuery
from dptune.search import Tuning
from dptune.search.algorithms.centred import Centred, Generation
from dptune.search.algorithms.centred_plan import cell_widths
from dptune.search.algorithms.centred_settings import CentredSettings
from dptune.space import Float, Int, Space
from refusals import refused

N = 200


def make(**change):
    tuning = {each.name: change.pop(each.name) for each in fields(Tuning) if each.name in change}
    given = {"d": 4, "generations": 12, "population": 8, "mu": 1.0, "radius": 0.5, "seed": 3, **change}
    return CentredSettings(**given, tuning=Tuning(**tuning))


def sphere(u):
    """Losses (N,) of people whose optima lie around 0.7 in every coordinate, at different levels."""
    centres = 0.7 + 0.05 * np.random.default_rng(1).standard_normal((N, len(u)))
    levels = np.random.default_rng(2).random(N)
    return ((u - centres) ** 2).mean(axis=1) + levels


def share_and_mean(algorithm):
    """Return the generation's two questions; the algorithm stays where it is."""
    share = algorithm.question()
    again = copy.deepcopy(algorithm)
    again.learn(share.key, share.note, np.array([again.settings.tuning.quantile]), 0.0, own=True)  # the radius stays
    mean = again.question()
    assert isinstance(share.query, NormQuery)
    assert isinstance(mean.query, MeanQuery)
    return share.query, mean.query


def follow(algorithm, share):
    """Learn a released share and return the radius of the generation it is for."""
    algorithm.learn(f"share/{algorithm.t + 1}", {"radius": algorithm.radius}, np.array([share]), 0.0, own=True)
    return algorithm.radius


def make_generation(algorithm, values, sigma=0.1):
    """Have the generation's mean answered, after its share, if that is not answered yet."""
    question = algorithm.question()
    if question.key.startswith("share"):
        algorithm.learn(question.key, question.note, np.array([algorithm.settings.tuning.quantile]), 0.0, own=True)
        question = algorithm.question()
    algorithm.learn(question.key, question.note, values, sigma, own=True)


def fill(algorithm, name=""):
    """Observe the points that the next question needs."""
    for slot in range(algorithm.missing()):
        algorithm.observe(f"{name or f'{algorithm.t}/'}{slot}", algorithm.ask(slot))
    return algorithm


def filled(**change):
    return fill(Centred(make(**change)), "p")


def explore(algorithm, generations, loss=lambda X: X.sum(axis=1)):
    """Every generation's new points; the surrogate learns the loss."""
    points = []
    for _ in range(generations):
        fill(algorithm)
        mean = share_and_mean(algorithm)[1]
        asked = algorithm.points_at(mean.points)
        points.append(asked[: algorithm.batch])
        make_generation(algorithm, loss(asked) - loss(asked).mean(), sigma=1e-3)
    return points


# ---- the question --------------------------------------------------------------------------------------------


def test_the_question_is_centred_and_costs_what_was_planned():
    algorithm = filled()
    share, query = share_and_mean(algorithm)
    assert algorithm.price() == pytest.approx(math.hypot(share.mu, query.mu))
    assert query.weights @ np.ones(8) == pytest.approx(np.zeros(8), abs=1e-15)
    assert query.weights @ query.weights == pytest.approx(query.weights, abs=1e-15)  # a projection
    assert np.array_equal(query.weights, share.weights)
    assert query.clip == Ball(0.5)
    assert share.radius == 0.5
    assert 12 * (query.mu**2 + share.mu**2) == pytest.approx(1.0)
    assert query.failed_above == share.failed_above == pytest.approx(0.5 / np.sqrt(8))
    assert share.mu**2 == pytest.approx(0.05 * (query.mu**2 + share.mu**2))


def test_references_are_the_best_earlier_points_and_others_are_forgotten():
    algorithm = filled()
    make_generation(algorithm, np.arange(8.0), 1e-6)
    assert algorithm.points_in_use() == ("p0", "p1")
    fill(algorithm, "q")
    for query in share_and_mean(algorithm):
        assert query.points == (*(f"q{j}" for j in range(8)), "p0", "p1")
        assert query.weights.shape == (10, 10)


def test_the_radius_follows_released_shares_only():
    for share, moved in ((1.0, np.exp(-0.5)), (0.5, 1.0), (1e9, np.exp(-0.5))):  # noise may leave [0, 1]
        assert follow(filled(), share) == pytest.approx(0.5 * moved)
    algorithm = filled()
    before = algorithm.price()
    follow(algorithm, 1.0)
    assert algorithm.price() == algorithm.settings.mean_mu < before
    made = Generation(np.full((8, 4), 0.5), 8, np.zeros(8), 0.1, 0.123)  # by another process
    algorithm.learn("generation/1", made.note(), made.values, made.sigma, own=False)
    assert algorithm.radius == 0.123
    assert algorithm.missing() == 0  # one's own points wait for the next


def test_the_radius_stays_where_it_can_clip_and_divide_the_noise():
    algorithm = filled(generations=100)
    for t in range(20):
        follow(algorithm, 1.0)
        algorithm.learn(f"generation/{t + 1}", {}, None, 0.0, own=False)
    assert algorithm.radius == 0.5 * 0.01
    for first, share in ((1e-29, 1.0), (9e29, 0.0)):
        extreme = filled(radius=first, rate=1e300, floor=1e-12)
        assert follow(extreme, share) == (1e-30 if share else 1e30)
        assert extreme.question().query.clip == Ball(extreme.radius)


# ---- the search ----------------------------------------------------------------------------------------------


def test_without_surrogate_choice_it_is_cma_es_told_the_surrogates_means():
    algorithm = Centred(make(candidates=1, references=0))
    plain = CMA(np.full(4, 0.5), 0.2, bounds=np.tile([0.0, 1.0], (4, 1)), population_size=8, seed=3, n_max_resampling=3)
    for g in range(4):
        plain.reseed_rng(int(np.random.default_rng([3, g]).integers(2**31)))
        X = [plain.ask() for _ in range(8)]
        for slot in range(8):
            assert np.array_equal(algorithm.ask(slot), X[slot])
            algorithm.observe(f"{g}/{slot}", X[slot])
        make_generation(algorithm, np.array([sphere(x).mean() for x in X]), 0.0)
        means = algorithm.surrogate.mean(np.array(X))
        plain.tell([(x, float(v)) for x, v in zip(X, means, strict=True)])
        assert np.array_equal(algorithm.means[-1], plain.mean)


@pytest.mark.parametrize("candidates", [1, 40])
def test_proposals_are_distinct_points_of_the_cube(candidates):
    """Few candidates suffice."""
    algorithm, other = (Centred(make(generations=4, candidates=candidates, seed=seed)) for seed in (3, 4))
    first, second = (explore(each, 4, lambda X: ((X - 0.7) ** 2).mean(axis=1)) for each in (algorithm, other))
    assert not np.array_equal(first, second)
    algorithm.t -= 1
    X = np.array([algorithm.ask(slot) for slot in range(32)])
    assert ((X >= 0) & (X <= 1)).all()
    assert len(np.unique(X, axis=0)) == 32
    algorithm.learn("generation/4", {}, None, 0.0, own=False)  # used up: its proposals are not asked again
    assert not np.array_equal(algorithm.ask(0), X[0])


def test_whole_numbers_are_proposed_on_their_cells():
    space = Space({"a": Int(1, 4), "b": Float(0, 1), "c": Int(1, 100, log=True), "e": Float(0, 1, step=0.5)})
    steps = cell_widths(space)
    assert steps == (0.25, 0.0, 0.0, 1 / 3)
    algorithm = Centred(make(steps=steps, explored=8))
    for X in (np.array([algorithm.ask(slot) for slot in range(32)]), explore(algorithm, 4)[-1]):
        assert set(np.round(X[:, 0], 12)) <= {0.125, 0.375, 0.625, 0.875}
        assert set(np.round(X[:, 3], 6)) <= {0.166667, 0.5, 0.833333}


def test_a_fine_grid_is_a_continuum():
    space = Space({"a": Int(1, 4), "b": Int(0, 10**17), "c": Float(0, 1), "e": Float(0, 1, step=1e-7)})
    X = explore(Centred(make(steps=cell_widths(space))), 3)[-1]
    assert np.isfinite(X).all()
    assert set(np.round(X[:, 0], 12)) <= {0.125, 0.375, 0.625, 0.875}


# ---- settings and plan ---------------------------------------------------------------------------------------


def test_settings_are_checked_by_name():
    for wrong in (
        {"population": 3},
        {"radius": 1e31},
        {"steps": (2.0, 0, 0, 0)},
        {"floor": 1.1},
        {"most_explored": 0.5},
    ):
        refused(InputError, next(iter(wrong)), partial(make, **wrong))


def test_cma_moves_once_enough_is_explored_and_begins_in_the_better_half():
    algorithm = Centred(make(explored=20))
    engines, means = [algorithm.cma], [np.full(4, 0.5)]
    for _ in range(4):
        points = explore(algorithm, 1)
        engines.append(algorithm.cma)
        means.append(np.array(algorithm.cma.mean))
    assert engines[0] is engines[1] is engines[2]
    assert engines[2] is not engines[3] is engines[4]  # 24 points, 8 a generation
    assert np.array_equal(means[2], means[0])
    assert means[3].sum() < 1.8
    assert not np.array_equal(means[4], means[3])
    assert points[0].mean() < 0.45


@pytest.mark.parametrize(("noise", "generations"), [(1e-3, 2), (10.0, 5)])
def test_more_is_explored_as_long_as_the_answers_do_not_tell_points_apart(noise, generations):
    algorithm = Centred(make(explored=8, most_explored=36))
    engine, rng = algorithm.cma, np.random.default_rng(0)
    for done in range(generations):
        assert algorithm.cma is engine, done
        fill(algorithm)
        asked = algorithm.points_at(share_and_mean(algorithm)[1].points).sum(axis=1)
        make_generation(algorithm, asked - asked.mean() + noise * rng.standard_normal(len(asked)), sigma=noise)
    assert algorithm.cma is not engine


def test_what_is_explored_is_weighted_as_cma_weights_a_generation():
    algorithm = Centred(make(population=8, explored=8))
    [points] = explore(algorithm, 1)
    order = np.argsort(algorithm.surrogate.mean(points))
    weights = math.log(4.5) - np.log([1.0, 2.0, 3.0, 4.0])
    assert algorithm.means[-1] == pytest.approx(weights @ points[order[:4]] / weights.sum())


def test_both_queries_of_the_first_generations_saturate_losses():
    """Three of five generations are 60%."""
    algorithm = Centred(make(generations=5, saturation=2.0, saturated=0.6))
    cuts = []
    for _ in range(5):
        fill(algorithm)
        queries = share_and_mean(algorithm)
        m = len(queries[1].points)
        height = 2.0 * algorithm.radius / math.sqrt(m)
        assert {query.saturate_above for query in queries} <= {None, height}
        cuts.append([query.saturate_above is not None for query in queries])
        make_generation(algorithm, np.zeros(m))
    assert cuts == [[True, True]] * 3 + [[False, False]] * 2


# ---- golden trajectory -----------------------------------------------------------------------------------

# of each generation: the first point, the radius, CMA-ES's mean, the recommendation, and what it gains
FIRST = [[0.5004, 0.5932, 0.3557, 0.4398], [0.5228, 0.8085, 0.5989, 0.207], [0.6532, 0.6761, 0.4946, 0.3176]]
RADII = [0.3704091, 0.33516, 0.3704091]
MEANS = [[0.4914, 0.5728, 0.418, 0.4669], [0.6105, 0.6323, 0.453, 0.3687], [0.699, 0.5741, 0.4848, 0.2264]]
BEST = [[0.6914, 0.7566, 0.618, 0.4195], [0.7168, 0.6202, 0.4913, 0.2781], [0.6932, 0.5856, 0.4949, 0.2311]]
GAINS = [(0.12474, 0.10497), (0.13793, 0.04208), (0.14886, 0.02698)]


def test_golden_trajectory():
    """Any change of proposals, the surrogate, CMA-ES or the radius shows here; renew it knowingly."""
    algorithm = Centred(make(seed=11, candidates=10))
    for g in range(3):
        fill(algorithm)
        follow(algorithm, 0.8 - 0.2 * g)
        question = algorithm.question()
        X = algorithm.points_at(question.query.points)
        values = ((X - [0.7, 0.6, 0.5, 0.2]) ** 2).sum(axis=1)
        algorithm.learn(question.key, question.note, values - values.mean(), 0.02, own=True)
        assert X[0] == pytest.approx(FIRST[g], abs=2e-3)
        assert algorithm.radius == pytest.approx(RADII[g], abs=1e-6)
        assert algorithm.means[-1] == pytest.approx(MEANS[g], abs=2e-3)
        assert algorithm.recommend() == pytest.approx(BEST[g], abs=5e-3)
        assert algorithm.difference(algorithm.means[0], algorithm.recommend()) == pytest.approx(GAINS[g], abs=1e-3)
