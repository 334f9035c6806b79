"""For every kernel the posterior of the gradient equals dense references, also where K is nearly singular."""

from functools import partial

import mpmath
import numpy as np
import pytest

from dptune.errors import InputError
from dptune.search.gp.kernels import RBF, Matern52, Polynomial2
from dptune.search.gp.posterior import GradientPosterior, stable_cholesky
from refusals import refused

D = 3
KERNELS = [
    RBF((0.3, 0.8, 2.0), variance=2.5),
    Matern52(0.7),
    Matern52((0.3, 0.8, 2.0), variance=0.5),
    Polynomial2(constant=0.0, variance=3.0),
]
NOISE = 1e-3

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
both_means = pytest.mark.parametrize("constant_mean", [False, True])


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def differences(f, X, step=1e-05):
    """Central differences of a scalar function, in the shape of X."""
    out = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        e = np.zeros_like(X)
        e[i] = step
        out[i] = (f(X + e) - f(X - e)) / (2 * step)
    return out


@every_kernel
def test_values_and_gradient_have_a_positive_semidefinite_covariance(kernel, rng):
    theta, X, Y, none = rng.random(D), rng.random((15, D)), rng.random((4, D)), np.zeros((0, D))
    np.testing.assert_allclose(kernel(X, Y), kernel(Y, X).T, rtol=1e-14)
    G = kernel.gradient(theta, X)
    joint = np.block([[kernel(X, X), G.T], [G, kernel.gradient_covariance(theta)]])
    assert np.linalg.eigvalsh(joint).min() > -1e-13 * np.trace(joint)
    assert (kernel(none, X).shape, kernel.gradient(theta, none).shape) == ((0, 15), (D, 0))


@every_kernel
def test_derivatives(kernel, rng):
    theta, X = rng.random(D), rng.random((4, D))
    X[0] = theta
    for argument in (theta, X):
        argument.flags.writeable = False  # arguments are not changed
    for j, x in enumerate(X):
        gradient = differences(lambda t, x=x: kernel(t[None], x[None])[0, 0], theta)
        np.testing.assert_allclose(kernel.gradient(theta, X)[:, j], gradient, rtol=1e-6, atol=1e-8)
    mixed = [differences(lambda x, a=a: kernel.gradient(theta, x[None])[a, 0], theta) for a in range(D)]
    np.testing.assert_allclose(kernel.gradient_covariance(theta), mixed, rtol=2e-4, atol=1e-6)


def test_bad_arrays_and_settings_are_refused_by_name(rng):
    X, kernel = rng.random((4, D)), RBF(0.4)
    refused(InputError, "Y must", *(partial(kernel, X, bad) for bad in (X[0], X[:, :2], np.full_like(X, np.nan))))
    refused(InputError, "theta", lambda: kernel.gradient(X[0, :2], X))
    refused(InputError, "lengthscale", *(partial(RBF, bad) for bad in (0.0, (), (0.1, -1.0))))
    refused(InputError, "variance", lambda: Matern52(1.0, variance=0.0))
    refused(InputError, "constant", lambda: Polynomial2(constant=-1.0))


# ---- the posterior -------------------------------------------------------------------------------------------


def bordered(kernel, noise, D, theta, constant_mean):
    """Weights (d, m) and covariance (d, d), from [[K, 1], [1, 0]] with 60 digits; noise (m,) per point."""
    m, edge = len(D), int(constant_mean)
    K = np.block([[kernel(D, D), np.ones((m, edge))], [np.ones((edge, m)), np.zeros((edge, edge))]])
    G = np.hstack([kernel.gradient(theta, D), np.zeros((len(theta), edge))])  # a constant is flat
    with mpmath.workdps(60):
        exact = mpmath.matrix(K) + mpmath.diag([*noise, *[0.0] * edge])
        W = np.array([list(mpmath.lu_solve(exact, mpmath.matrix(g))) for g in G])
        explained = W @ G.T
    return W[:, :m].astype(float), kernel.gradient_covariance(theta) - explained.astype(float)


@every_kernel
@both_means
def test_weights_and_covariance_equal_the_bordered_system(kernel, constant_mean, rng):
    D, theta = rng.random((12, 3)), rng.random(3)
    posterior = GradientPosterior.from_points(kernel, NOISE, D)
    W, C = bordered(kernel, np.full(12, NOISE), D, theta, constant_mean)
    np.testing.assert_allclose(posterior.weights(theta, constant_mean=constant_mean), W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(theta, constant_mean=constant_mean), C, rtol=1e-8, atol=1e-10)
    assert sum(posterior.jitter) == 0
    assert not constant_mean or np.abs(W.sum(axis=1)).max() < 1e-9 * np.abs(W).sum()  # a constant changes nothing


def test_without_points_or_with_one_and_an_unknown_mean_the_prior_remains():
    theta, kernel = np.full(2, 0.3), RBF(0.4)
    for constant_mean in (False, True):
        none = GradientPosterior(kernel, NOISE, 2)
        assert none.weights(theta, constant_mean=constant_mean).shape == (2, 0)
        np.testing.assert_array_equal(
            none.covariance(theta, constant_mean=constant_mean), kernel.gradient_covariance(theta)
        )
    one = GradientPosterior.from_points(kernel, NOISE, [[0.2, 0.3]])
    np.testing.assert_allclose(one.weights([0.5, 0.5], constant_mean=True), 0, atol=1e-15)


@pytest.mark.parametrize("blocks", [4, 40])
def test_ill_conditioned_points_equal_a_posterior_with_jitter_as_noise(blocks, rng):
    """40 points have a condition number above 1e18."""
    D, theta, kernel = 0.5 + 0.2 * rng.random((40, 2)), np.array([0.6, 0.58]), RBF(0.5)
    eigenvalues = np.abs(np.linalg.eigvalsh(kernel(D, D)))
    assert eigenvalues.max() / eigenvalues.min() > 1e18 or eigenvalues.min() < 1e-16
    posterior = GradientPosterior(kernel, 1e-20, 2)
    for X in np.split(D, blocks):
        posterior.append(X)
    assert sum(posterior.jitter) > 0
    noise = 1e-20 + np.repeat(posterior.jitter, 40 // blocks)
    W, C = bordered(kernel, noise, D, theta, False)
    np.testing.assert_allclose(posterior.weights(theta), W, atol=0.01 * np.abs(W).max())
    y = np.sin(3 * D).sum(axis=1)  # smooth data: W y is well conditioned though W is not
    np.testing.assert_allclose(W @ y, 3 * np.cos(3 * theta), rtol=1e-4)
    np.testing.assert_allclose(posterior.weights(theta) @ y, W @ y, atol=1e-7)
    np.testing.assert_allclose(posterior.covariance(theta), C, atol=1e-12)  # the prior variance is 4


def test_points_are_copied_and_bad_ones_are_refused_and_nothing_changes():
    X = np.full((3, 2), 0.5)
    posterior = GradientPosterior.from_points(RBF(0.4), NOISE, X)
    X[:] = 0
    np.testing.assert_array_equal(posterior.points, np.full((3, 2), 0.5))
    assert not posterior.points.flags.writeable
    refused(InputError, "points", *(partial(posterior.append, bad) for bad in ([[np.nan, 0.0]], [[0.0]], [0.0, 0.0])))
    refused(InputError, "noise_variance", lambda: GradientPosterior(RBF(0.4), 0.0, 2))
    singular = np.full((2, 2), np.nan), np.diag([1.0, -1e-3])
    factorised = [partial(stable_cholesky, bad, scale=1.0, noise_variance=1e-8) for bad in singular]
    refused(InputError, "larger noise_variance", *factorised)
    assert (len(posterior), len(posterior.jitter)) == (3, 1)


def test_the_jitter_climbs_only_as_far_as_needed():
    S = np.diag([1.0, -3e-11])
    M, jitter = stable_cholesky(S, scale=1.0, noise_variance=1e-20)
    assert jitter == pytest.approx(1e-10)
    np.testing.assert_allclose(M @ M.T, S + jitter * np.eye(2), atol=1e-16)
