"""Conformance of every kernel: what the posterior and the designs rely on."""

from functools import partial

import numpy as np
import pytest
from gp_tools import differences
from refusals import refused

from dptune.errors import InputError
from dptune.search.gp.kernels import RBF, Matern52, Polynomial2

D = 3
KERNELS = [
    RBF((0.3, 0.8, 2.0), variance=2.5),
    Matern52(0.7),
    Matern52((0.3, 0.8, 2.0), variance=0.5),
    Polynomial2(constant=0.0, variance=3.0),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@every_kernel
def test_values_and_gradient_are_symmetric_and_jointly_positive_semidefinite(kernel, rng):
    theta, X, Y, none = rng.random(D), rng.random((15, D)), rng.random((4, D)), np.zeros((0, D))
    np.testing.assert_allclose(kernel(X, Y), kernel(Y, X).T, rtol=1e-14)
    G = kernel.gradient(theta, X)
    joint = np.block([[kernel(X, X), G.T], [G, kernel.gradient_covariance(theta)]])
    assert np.linalg.eigvalsh(joint).min() > -1e-13 * np.trace(joint)
    assert (kernel(none, X).shape, kernel.gradient(theta, none).shape) == ((0, 15), (D, 0))


@every_kernel
def test_derivatives_and_pullbacks(kernel, rng):
    theta, X, Y, C = rng.random(D), rng.random((4, D)), rng.random((5, D)), rng.standard_normal((4, 5))
    X[0] = Y[0] = theta
    for argument in (theta, X, Y, C):
        argument.flags.writeable = False  # arguments are not changed
    for j, x in enumerate(X):
        gradient = differences(lambda t, x=x: kernel(t[None], x[None])[0, 0], theta)
        np.testing.assert_allclose(kernel.gradient(theta, X)[:, j], gradient, rtol=1e-6, atol=1e-8)
    mixed = [differences(lambda x, a=a: kernel.gradient(theta, x[None])[a, 0], theta) for a in range(D)]
    np.testing.assert_allclose(kernel.gradient_covariance(theta), mixed, rtol=2e-4, atol=1e-6)
    pulled = differences(lambda x: np.sum(C * kernel(x, Y)), X)
    np.testing.assert_allclose(kernel.value_pullback(X, Y, C), pulled, rtol=1e-6, atol=1e-8)
    away, c = X[1:], C[1:, :D]  # at theta itself the second derivative of a Matern kernel has a kink: exact, below
    pulled = differences(lambda x: np.sum(c * kernel.gradient(theta, x).T), away)
    np.testing.assert_allclose(kernel.gradient_pullback(theta, away, c), pulled, rtol=1e-6, atol=1e-8)
    at_theta = kernel.gradient_pullback(theta, np.tile(theta, (D, 1)), np.eye(D))
    np.testing.assert_allclose(at_theta, kernel.gradient_covariance(theta), rtol=1e-13, atol=1e-14)


def test_bad_arrays_and_settings_are_refused_by_name(rng):
    X, kernel = rng.random((4, D)), RBF(0.4)
    refused(InputError, "Y must", *(partial(kernel, X, bad) for bad in (X[0], X[:, :2], np.full_like(X, np.nan))))
    refused(InputError, "theta", lambda: kernel.gradient(X[0, :2], X))
    refused(InputError, "2 length-scales, but the points have 3", lambda: RBF((0.1, 0.2))(X, X))
    refused(InputError, "lengthscale", *(partial(RBF, bad) for bad in (0.0, (), (0.1, -1.0))))
    refused(InputError, "variance", lambda: Matern52(1.0, variance=0.0))
    refused(InputError, "constant", lambda: Polynomial2(constant=-1.0))
