"""DP-GIBO equals an independent dense reference and its golden trajectory, and stays within its rules."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit_tools import FreeLedger
from dptune import InputError, LossPrivatizer
from dptune.privacy import Ball
from dptune.privacy.noise import SeededNoise
from dptune.search import DPGIBO, AdaGradNorm, GIBOSettings
from dptune.search.algorithms.gibo import AdaGrad, GradientDescent
from dptune.search.gp import RBF, Polynomial2
from noises import NoNoise
from refusals import refused

PEOPLE, D = 30, 3


def losses_of(x):
    """Losses (n,) of people who want different things, within [0, 3]."""
    wishes = np.random.default_rng(7).uniform(0.1, 0.9, (PEOPLE, D))
    return np.asarray(((x - wishes) ** 2).sum(axis=1))


def settings(**change):
    base = {
        "d": D,
        "steps": 6,
        "batch": 4,
        "mu": 1.0,
        "clip": 0.8,
        "kernel": RBF(0.4),
        "noise_variance": 1e-3,
        "rule": GradientDescent(0.15),
        "theta0": (0.3, 0.6, 0.2),
        "seed": 5,
    }
    return GIBOSettings(**{**base, **change})


def fill(algorithm, name=""):
    """Observe the points that the next question needs."""
    for j in range(algorithm.missing()):
        algorithm.observe(f"{name}{j}", algorithm.ask(j))
    return algorithm


def learn(algorithm, gradient, *, own=False):
    """Learn the next step's gradient; None: its answer is lost."""
    answer = None if gradient is None else np.array(gradient)
    algorithm.learn(f"step/{algorithm.t + 1}", {}, answer, 0.0, own=own)


def run(algorithm, privatizer):
    """Run all steps as documented; return the points of each step."""
    batches = []
    while not algorithm.finished:
        batch = []
        while algorithm.missing() > 0:
            x = algorithm.ask(len(batch))
            name = f"{len(batches)}/{len(batch)}"
            privatizer.observe(name, losses_of(x))
            algorithm.observe(name, x)
            batch.append(x)
        question = algorithm.question()
        released = privatizer.release(question.query, scope="run", key=question.key)
        batches.append(batch)
        algorithm.learn(question.key, question.note, released.value, released.sigma, own=True)
    return batches


def reference(batches, s, *, rule):
    """Algorithm 1 from line 5 on, with dense matrices, one person after the other; RBF 0.4, memory of all points."""
    theta, path, g2, D_t = np.array(s.theta0), [], 0.0, np.zeros((0, D))
    path.append(theta)
    for batch in batches:
        D_t = np.vstack([D_t, batch])

        def k(A, B):
            return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * 0.4**2))

        inverse = np.linalg.inv(k(D_t, D_t) + s.noise_variance * np.eye(len(D_t)))
        dk = (D_t - theta) / 0.4**2 * k(D_t, theta[None])  # (m, d): gradient of k(theta, x) in theta
        total = np.zeros(D)
        for i in range(PEOPLE):
            y = np.array([losses_of(x)[i] for x in D_t])
            g = dk.T @ inverse @ y
            total += g * min(1.0, s.clip / np.sqrt((g * g).sum()))
        g = total / PEOPLE
        g2 = g2 + g * g
        theta = np.clip(theta - (s.rule.eta * g if rule == "sgd" else s.rule.eta * g / np.sqrt(g2)), 0, 1)
        path.append(theta)
    return path


@pytest.mark.parametrize(
    ("rule", "name", "change"),  # everybody is clipped, or nobody; the varying batch of Algorithm 2
    [
        (GradientDescent(0.15), "sgd", {"clip": 0.3}),
        (AdaGrad(0.1), "adagrad", {"clip": 50.0}),
        (GradientDescent(0.15), "sgd", {"batch": (4, 2, 6, 1, 4, 3)}),
    ],
)
def test_noiseless_gibo_is_the_dense_reference(rule, name, change):
    s = settings(rule=rule, **change)
    algorithm = DPGIBO(s)
    batches = run(algorithm, LossPrivatizer(FreeLedger(), n=PEOPLE, clip=(0.0, 3.0), dtype=np.float64, noise=NoNoise()))
    expected = reference(batches, s, rule=name)
    assert len(algorithm.path) == s.steps + 1
    assert tuple(map(len, batches)) == change.get("batch", (4,) * s.steps)
    assert s.evaluations == sum(map(len, batches))
    # the closed-form design may measure at the nearest place around which its points fit into the cube
    inside = all(x.min() > 0.02 and x.max() < 0.98 for batch in batches for x in batch)
    assert inside, "choose a problem inside the cube"
    for ours, dense in zip(algorithm.path, expected, strict=True):
        assert ours == pytest.approx(dense, abs=1e-9)


def test_the_query_is_what_lines_6_and_7_ask_for():
    algorithm = fill(DPGIBO(settings()))
    question = algorithm.question()
    query = question.query
    assert (question.key, question.note) == ("step/1", {"theta": [0.3, 0.6, 0.2]})
    assert query.mu == algorithm.price() == 1.0 / math.sqrt(6)
    assert query.clip == Ball(0.8)
    assert query.points == ("0", "1", "2", "3")
    assert query.weights.shape == (D, 4)
    constant = fill(DPGIBO(settings(constant_mean=True))).question()  # it ignores the level of a person's loss
    assert constant.query.weights.sum(axis=1) == pytest.approx(0, abs=1e-9)


# ---- golden trajectory -----------------------------------------------------------------------------------

GOLDEN = [  # theta after 0, 1, 3 and 6 steps
    [0.5, 0.5, 0.5],
    [0.6, 0.6, 0.4],
    [0.42081679, 0.53301476, 0.47563195],
    [0.42081974, 0.58097309, 0.5251947],
]


def golden_run():
    privatizer = LossPrivatizer(FreeLedger(), n=PEOPLE, clip=(0.0, 3.0), noise=SeededNoise(11))
    algorithm = DPGIBO(
        settings(starts=4, start_mu=0.5, start_clip=1.0, theta0=None, rule=AdaGrad(0.1), constant_mean=True, memory=1)
    )
    run(algorithm, privatizer)
    return np.array(algorithm.path)[[0, 1, 3, 6]]


def test_golden_trajectory():
    """Any change of designs, weights, clipping, noise scale, steps or seeds shows here; renew it knowingly."""
    assert golden_run() == pytest.approx(np.array(GOLDEN), abs=1e-5)


# ---- rules of conduct -----------------------------------------------------------------------------------


def test_a_seed_determines_the_points_which_are_in_the_cube():
    for kernel in (RBF(0.5), Polynomial2()):
        corner = {"theta0": (0.0, 1.0, 0.0), "kernel": kernel}
        one, same, other = (DPGIBO(settings(seed=seed, **corner)) for seed in (1, 1, 2))
        asked = [one.ask(slot) for slot in range(9)]  # beyond the batch: fresh designs
        assert all(np.array_equal(same.ask(slot), x) for slot, x in enumerate(asked))
        assert not any(np.array_equal(other.ask(slot), x) for slot, x in enumerate(asked))
        assert np.unique(asked, axis=0).shape == (9, D)
        assert np.min(asked) >= 0
        assert np.max(asked) <= 1


def test_memory_forgets_old_batches():
    for memory, kept in ((None, 12), (0, 0), (1, 4), (2, 8)):
        algorithm = DPGIBO(settings(memory=memory))
        for batch in range(3):
            fill(algorithm, f"{batch}/")
            learn(algorithm, np.zeros(D), own=True)
        assert len(algorithm.points_in_use()) == kept
        assert algorithm.missing() == 4
        if kept:
            assert algorithm.points_in_use()[-1] == "2/3"


def test_the_answer_is_the_mean_of_the_last_iterates_in_the_cube():
    algorithm = DPGIBO(settings(average=3))
    assert algorithm.recommend() == pytest.approx([0.3, 0.6, 0.2])
    for step in range(5):
        learn(algorithm, np.full(D, 0.1 * step))
    assert algorithm.recommend() == pytest.approx(np.mean(algorithm.path[-3:], axis=0))
    learn(algorithm, [1e9, -1e9, 0.0])
    assert algorithm.theta[:2].tolist() == [0.0, 1.0]


def test_the_best_of_the_starts_is_the_start():
    algorithm = fill(DPGIBO(settings(starts=4, start_mu=0.5, start_clip=2.0)))
    points = [algorithm.ask(slot).tolist() for slot in range(4)]
    assert points[0] == [0.3, 0.6, 0.2]
    question = algorithm.question()
    assert question.query.weights == pytest.approx(np.eye(4) - 0.25)
    assert (question.query.clip, question.query.mu, algorithm.price()) == (Ball(2.0), 0.5, 0.5)
    assert question.note == {"points": points}
    algorithm.learn(question.key, question.note, np.array([0.1, 0.2, -0.5, 0.0]), 0.0, own=True)
    assert algorithm.started
    assert algorithm.theta.tolist() == points[2]
    assert algorithm.settings.evaluations == 4 + 24


def test_a_bad_setting_is_refused_by_name():
    for bad in (
        {"batch": (1, 2)},
        {"batch": (1, 2, 3, 0, 1, 1)},
        {"theta0": (0.5, 0.5, 1.5)},
        {"start_mu": 0.0, "starts": 3},
    ):
        refused(InputError, next(iter(bad)), partial(settings, **bad))
    refused(InputError, "eta", lambda: AdaGrad(0.0))


# ---- the step rules that the reference lacks --------------------------------------------------------------

gradients = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))
)


@given(gradients, st.floats(1e-3, 10))
def test_adagrad_of_norms_is_its_formula_and_no_gradient_means_no_step(g, eta):
    size = math.hypot(*g.ravel())
    if size > 1e-140:  # below, squares are lost
        assert AdaGradNorm(eta).step(g) == pytest.approx(-eta * math.sqrt(g.shape[1]) * g[-1] / size, abs=1e-9)
    for rule in (GradientDescent, AdaGrad, AdaGradNorm):
        assert (rule(eta).step(np.zeros((3, 2))) == 0).all()
