"""Hyperparameters fitted to one's own data: exact gradients, an independent reference, recovery."""

import numpy as np
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from dptune.search.gp.fit import Hyperparameters, fit, negative_log_likelihood
from dptune.search.gp.kernels import RBF

rng = np.random.default_rng(2)
X = rng.random((40, 2))
SQUARES = (X.T[:, :, None] - X.T[:, None, :]) ** 2
THETA = np.log([0.3, 0.8, 1.3, 0.05])
y = np.sin(7 * X[:, 0]) + 0.05 * rng.standard_normal(40)


def loss(theta):
    return negative_log_likelihood(theta, SQUARES, y)[0]


def test_the_likelihood_is_the_normal_density_and_its_gradient_exact():
    l1, l2, v, s2 = np.exp(THETA)
    C = RBF((l1, l2), v)(X, X) + s2 * np.eye(40)
    constant = 20 * np.log(2 * np.pi)
    assert np.isclose(loss(THETA) + constant, -multivariate_normal.logpdf(y, cov=C), rtol=1e-10)
    gradient = negative_log_likelihood(THETA, SQUARES, y)[1]
    assert np.allclose(gradient, approx_fprime(THETA, loss, 1e-7), rtol=1e-3, atol=1e-3)


def test_a_coordinate_that_does_not_matter_gets_a_long_scale():
    standardised = (y - y.mean()) / y.std()
    found = fit(X, standardised, Hyperparameters.prior(2))
    assert found.lengthscale[1] > 3 * found.lengthscale[0]
    assert found.noise < 0.1
    again = fit(X, standardised, found)
    assert np.allclose(again.lengthscale, found.lengthscale, rtol=0.2)


def test_few_or_constant_observations_stay_within_bounds():
    for m in (1, 4):
        found = fit(X[:m], np.zeros(m), Hyperparameters.prior(2))
        assert np.isfinite(found.lengthscale).all()
        assert 0.02 <= found.lengthscale.min() <= found.lengthscale.max() <= 5.0 + 1e-9
