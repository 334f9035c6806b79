"""Designs are as good as the numerical optimum, inside the cube, and repeatable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, minimize

from dptune.errors import InputError
from dptune.search.gp.design import regular_simplex, simplex_design, step_length
from dptune.search.gp.kernels import RBF, Matern52
from dptune.search.gp.posterior import GradientPosterior
from refusals import refused


def middle(d):
    return np.full(d, 0.5)


def trace_left(kernel, noise, *points):
    """The trace of the posterior covariance of the gradient in the middle of the cube."""
    D = np.vstack(points)
    return np.trace(GradientPosterior.from_points(kernel, noise, D).covariance(middle(D.shape[1])))


@pytest.mark.parametrize(
    ("kernel", "noise", "d", "b", "factor"),
    [
        *((RBF(0.2), noise, d, d + 1, 1.01) for noise, d in ((1e-8, 2), (1e-2, 4))),
        *((RBF(0.15, variance=4.0), 1e-4, 3, b, 1.02) for b in (2, 3, 4, 6)),
        (Matern52(0.15), 1e-4, 3, 5, 1.02),
    ],
)
def test_the_closed_form_is_near_the_optimum(kernel, noise, d, b, factor):
    closed = simplex_design(middle(d), kernel, noise, b, np.random.default_rng(0))
    np.testing.assert_array_equal(closed.centre, middle(d))
    left = trace_left(kernel, noise, closed.points)
    rng = np.random.default_rng(1)
    clouds = [middle(d) + radius * rng.standard_normal((b, d)) for radius in (0.02, 0.05, 0.1)]

    def share(flat):
        return trace_left(kernel, noise, flat.reshape(b, d)) / left

    runs = [
        minimize(share, start.ravel(), method="L-BFGS-B", bounds=Bounds(0, 1)) for start in (closed.points, *clouds)
    ]
    assert min(run.fun for run in runs) >= 1 / factor


@pytest.mark.parametrize("q", [1, 2, 33])
def test_the_step_has_its_closed_form_and_the_simplex_is_regular(q):
    noise = 1e-9
    expected = (1.5 * noise) ** (1 / 6) if q == 1 else (2 * noise * q**2 / (q**2 - 1)) ** 0.25
    assert step_length(RBF(0.2), noise, q) == pytest.approx(expected, rel=1e-2)
    assert step_length(RBF(7.0, variance=3.0), 3 * noise, q) == pytest.approx(expected, rel=1e-2)
    U = regular_simplex(q)
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(U @ U.T, (1 + 1 / q) * np.eye(q + 1) - 1 / q, atol=1e-14)


@pytest.mark.parametrize("b", [2, 5])
def test_few_points_measure_the_least_known_directions(b):
    kernel, rng = RBF(0.3), np.random.default_rng(2)
    posterior = GradientPosterior.from_points(kernel, 1e-6, middle(6) + 0.05 * rng.standard_normal((5, 6)))
    C = posterior.covariance(middle(6))
    told = simplex_design(middle(6), kernel, 1e-6, b, rng, covariance=C)
    blind = simplex_design(middle(6), kernel, 1e-6, b, rng)
    trace = trace_left(kernel, 1e-6, posterior.points, told.points)
    if b < 5:  # from b = 5 on both leave about 1% of the prior
        assert trace < 0.9 * trace_left(kernel, 1e-6, posterior.points, blind.points)
    top = np.linalg.eigvalsh(C)[::-1][: b - 1].sum()  # what resolving b - 1 directions would remove
    assert trace < np.trace(C) - 0.9 * top


def in_the_cube(X):
    return bool(((X >= 0) & (X <= 1)).all())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, 1e-3, 1 - 1e-9]), min_size=1, max_size=6),
    *(st.integers(1, 14), st.floats(0.01, 50.0), st.floats(1e-10, 10.0), st.integers(0, 2**32 - 1), st.booleans()),
)
def test_designs_lie_in_the_cube_around_their_centre(corner, b, scale, noise, seed, told):
    theta, d = np.array(corner), len(corner)
    C = np.diag(np.arange(1.0, d + 1)) if told else None
    design = simplex_design(theta, RBF(scale), noise, b, np.random.default_rng(seed), covariance=C)
    assert design.points.shape == (b, d)
    assert in_the_cube(design.centre)
    assert in_the_cube(design.points)
    if 2 <= b <= 2 * d:
        np.testing.assert_allclose(design.points.mean(axis=0), design.centre, atol=1e-9)


def test_the_centre_moves_only_as_far_as_needed():
    design = simplex_design([0.0, 0.5], RBF(0.1), 1e-4, 4, np.random.default_rng(0))
    assert design.centre[1] == 0.5
    assert 0 < design.centre[0] < 0.1
    assert design.points[:, 0].min() == pytest.approx(0, abs=1e-15)


def test_bad_settings_are_refused():
    rng = np.random.default_rng(0)
    refused(InputError, "theta", lambda: simplex_design([1.5, 0.0], RBF(0.3), 1e-4, 3, rng))
    refused(InputError, "covariance", lambda: simplex_design([0.5], RBF(0.3), 1e-4, 2, rng, covariance=np.eye(3)))
