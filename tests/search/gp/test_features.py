"""Fourier features approximate their kernel, have exact gradients, and their posterior equals references."""

import numpy as np
from scipy.optimize import approx_fprime

from dptune import InputError
from dptune.search.gp.features import FeaturePosterior, FourierFeatures, ascend
from dptune.search.gp.kernels import RBF
from refusals import refused

rng = np.random.default_rng(0)
X = rng.random((12, 3))
y = np.sin(4 * X[:, 0]) + X[:, 1]


def draw(M=50, d=3):
    return FourierFeatures.draw(d=d, M=M, lengthscale=0.4, seed=3)


def test_inner_products_are_the_kernel_and_norms_are_one():
    phi = draw(M=40_000)(X)
    assert np.allclose(phi @ phi.T, RBF(0.4)(X, X), atol=0.03)
    assert np.allclose((draw()(X) ** 2).sum(axis=1), 1.0, rtol=1e-12)
    assert np.array_equal(draw()(X), draw()(X))  # from the same arguments


def test_values_and_gradients():
    features, omega = draw(), rng.standard_normal((12, 50))
    value, gradient = features.value_and_gradient(X, omega)
    assert np.allclose(value, (features(X) * omega).sum(axis=1))
    for x, w, g in zip(X, omega, gradient, strict=True):
        assert np.allclose(g, approx_fprime(x, lambda z, w=w: float(features(z[None])[0] @ w)), atol=1e-5)
    rough = features.rough_values(X.astype(np.float32), omega[0])
    assert np.allclose(rough, features(X) @ omega[0], atol=1e-4)


def test_the_mean_is_that_of_gp_regression_with_the_features_kernel():
    phi, lam = draw()(X), 0.03
    K = phi @ phi.T
    dual = phi.T @ np.linalg.solve(K + lam * np.eye(12), y)
    assert np.allclose(FeaturePosterior(phi, y, lam).nu, dual, rtol=1e-8, atol=1e-10)


def test_samples_have_the_posterior_covariance():
    phi, lam = draw(M=6)(X), 0.3
    posterior = FeaturePosterior(phi, y, lam)
    generator = np.random.default_rng(1)
    samples = np.array([posterior.sample(generator) for _ in range(20_000)])  # (20000, M)
    Sigma_inverse = np.linalg.inv(phi.T @ phi + lam * np.eye(6))
    assert np.allclose(samples.mean(axis=0), posterior.nu, atol=0.03)
    assert np.allclose(np.cov(samples.T), lam * Sigma_inverse, atol=0.03)
    assert np.array_equal(posterior.sample(generator, spread=0.0), posterior.nu)
    assert np.array_equal(FeaturePosterior(np.empty((0, 50)), np.empty(0), 0.1).nu, np.zeros(50))  # the prior's


def test_an_odd_number_of_features_is_refused():
    refused(InputError, "M", lambda: draw(M=5))


TOP = np.array([0.3, 0.9])


def hill(X):
    away = X - TOP
    value = np.exp(-5 * (away**2).sum(axis=1))
    return value, -10 * away * value[:, None]


def test_every_start_climbs_to_the_top_of_its_box():
    starts = rng.random((20, 2))
    starts.flags.writeable = False
    _, value = ascend(hill, starts, np.zeros((1, 2)), np.ones((1, 2)), first_step=5.0, iterations=3)
    assert (value >= hill(starts)[0]).all()  # none falls
    X, value = ascend(hill, starts, np.zeros((1, 2)), np.ones((1, 2)), first_step=0.1, iterations=40)
    assert np.allclose(X, TOP, atol=1e-3)
    assert np.allclose(value, hill(X)[0])
    low, high = np.tile([0.5, 0.0], (20, 1)), np.ones((20, 2))
    boxed, _ = ascend(hill, np.clip(starts, low, high), low, high, first_step=0.1, iterations=40)
    assert np.allclose(boxed, [0.5, 0.9], atol=1e-2)
