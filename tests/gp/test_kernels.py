"""Conformance of every kernel: what the posterior and the designs rely on."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from dptune.errors import InputError
from dptune.gp.kernels import RBF, Kernel, Matern52, Polynomial2
from dptune.gp.points import FloatArray

D = 3
KERNELS: list[Kernel] = [
    RBF(0.4),
    RBF((0.3, 0.8, 2.0), variance=2.5),
    Matern52(0.7),
    Matern52((0.3, 0.8, 2.0), variance=0.5),
    Polynomial2(),
    Polynomial2(constant=0.0, variance=3.0),
]
STEP = 1e-5

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def numerical_gradient(f, X: FloatArray, step: float = STEP) -> FloatArray:
    """Central differences of a scalar function, in the shape of X."""
    out = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        e = np.zeros_like(X)
        e[i] = step
        out[i] = (f(X + e) - f(X - e)) / (2 * step)
    return out


@every_kernel
def test_values_are_symmetric_and_positive_semidefinite(kernel: Kernel, rng: np.random.Generator) -> None:
    X, Y = rng.random((20, D)), rng.random((4, D))
    assert kernel(X, Y).shape == (20, 4)
    np.testing.assert_allclose(kernel(X, Y), kernel(Y, X).T, rtol=1e-14)
    K = kernel(X, X)
    assert np.linalg.eigvalsh(K).min() > -1e-13 * np.trace(K)


@every_kernel
def test_values_of_no_points(kernel: Kernel, rng: np.random.Generator) -> None:
    none, X = np.zeros((0, D)), rng.random((4, D))
    assert kernel(none, X).shape == (0, 4)
    assert kernel.gradient(X[0], none).shape == (D, 0)


@every_kernel
def test_gradient_is_the_derivative_of_the_values(kernel: Kernel, rng: np.random.Generator) -> None:
    theta, X = rng.random(D), rng.random((6, D))
    X[0] = theta
    for j, x in enumerate(X):
        expected = numerical_gradient(lambda t, x=x: kernel(t[None], x[None])[0, 0], theta)
        np.testing.assert_allclose(kernel.gradient(theta, X)[:, j], expected, rtol=1e-6, atol=1e-8)


@every_kernel
def test_gradient_covariance_is_the_mixed_derivative(kernel: Kernel, rng: np.random.Generator) -> None:
    theta = rng.random(D)
    expected = np.stack(
        [numerical_gradient(lambda x, a=a: kernel.gradient(theta, x[None])[a, 0], theta) for a in range(D)]
    )
    np.testing.assert_allclose(kernel.gradient_covariance(theta), expected, rtol=2e-4, atol=1e-6)


@every_kernel
def test_values_and_gradient_are_jointly_positive_semidefinite(kernel: Kernel, rng: np.random.Generator) -> None:
    theta, X = rng.random(D), rng.random((15, D))
    G = kernel.gradient(theta, X)
    joint = np.block([[kernel(X, X), G.T], [G, kernel.gradient_covariance(theta)]])
    assert np.linalg.eigvalsh(joint).min() > -1e-13 * np.trace(joint)


@every_kernel
def test_value_pullback(kernel: Kernel, rng: np.random.Generator) -> None:
    X, Y, C = rng.random((4, D)), rng.random((5, D)), rng.standard_normal((4, 5))
    Y[0] = X[0]
    expected = numerical_gradient(lambda x: np.sum(C * kernel(x, Y)), X)
    np.testing.assert_allclose(kernel.value_pullback(X, Y, C), expected, rtol=1e-6, atol=1e-8)


@every_kernel
def test_gradient_pullback(kernel: Kernel, rng: np.random.Generator) -> None:
    theta, X, C = rng.random(D), rng.random((4, D)), rng.standard_normal((4, D))
    expected = numerical_gradient(lambda x: np.sum(C * kernel.gradient(theta, x).T), X)
    np.testing.assert_allclose(kernel.gradient_pullback(theta, X, C), expected, rtol=1e-6, atol=1e-8)


@every_kernel
def test_gradient_pullback_at_theta_is_the_gradient_covariance(kernel: Kernel, rng: np.random.Generator) -> None:
    theta = rng.random(D)
    pulled = kernel.gradient_pullback(theta, np.tile(theta, (D, 1)), np.eye(D))
    np.testing.assert_allclose(pulled, kernel.gradient_covariance(theta), rtol=1e-13, atol=1e-14)


@every_kernel
def test_arguments_are_not_changed(kernel: Kernel, rng: np.random.Generator) -> None:
    theta, X, C = rng.random(D), rng.random((4, D)), rng.random((4, D))
    before = theta.copy(), X.copy(), C.copy()
    kernel(X, X)
    kernel.gradient(theta, X)
    kernel.gradient_covariance(theta)
    kernel.value_pullback(X, X, C @ C.T)
    kernel.gradient_pullback(theta, X, C)
    for array, copy in zip((theta, X, C), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every_kernel
def test_kernels_are_frozen_hashable_and_plain(kernel: Kernel) -> None:
    assert json.loads(json.dumps(kernel.describe())) == kernel.describe()
    assert kernel.describe()["kernel"] == type(kernel).__name__
    assert hash(kernel) == hash(dataclasses.replace(kernel))
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.variance = 2.0


@every_kernel
def test_bad_arrays_are_refused(kernel: Kernel, rng: np.random.Generator) -> None:
    X = rng.random((4, D))
    for bad in (X[0], X[:, :2], np.full_like(X, np.nan)):
        with pytest.raises(InputError):
            kernel(X, bad)
    with pytest.raises(InputError):
        kernel.gradient(X[0, :2], X)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, (), (0.1, 0.0)])
@pytest.mark.parametrize("kind", [RBF, Matern52])
def test_bad_lengthscales_are_refused(kind: type[RBF] | type[Matern52], bad: float) -> None:
    with pytest.raises(InputError, match="lengthscale"):
        kind(bad)


def test_other_bad_settings_are_refused() -> None:
    for make in (
        lambda: RBF(1.0, variance=0.0),
        lambda: Polynomial2(constant=-1.0),
        lambda: Polynomial2(constant=np.nan),
        lambda: Polynomial2(variance=np.inf),
    ):
        with pytest.raises(InputError):
            make()


def test_the_number_of_lengthscales_must_be_the_dimension() -> None:
    with pytest.raises(InputError, match="2 length-scales, but the points have 3"):
        RBF((0.1, 0.2))(np.zeros((1, 3)), np.zeros((1, 3)))


def test_equal_lengthscales_equal_one_lengthscale(rng: np.random.Generator) -> None:
    X = rng.random((5, D))
    np.testing.assert_array_equal(RBF((0.4,) * D)(X, X), RBF(0.4)(X, X))


def test_matern_is_rougher_than_rbf_but_flat_at_the_origin() -> None:
    near = np.array([[1e-9]])
    assert Matern52(1.0).slope(near**2)[0, 0] == pytest.approx(-5 / 6)
    assert Matern52(1.0).curvature(np.zeros(1))[0] == pytest.approx(25 / 12)
