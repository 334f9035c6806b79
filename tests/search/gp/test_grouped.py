"""Regression on groups of values that are each known up to a constant, with fitted hyperparameters."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, check_grad
from scipy.stats import multivariate_normal

from dptune.search.gp.fit import Hyperparameters, fit, negative_log_likelihood
from dptune.search.gp.grouped import OFFSET, Group, GroupedRegression
from dptune.search.gp.kernels import RBF

RNG = np.random.default_rng(0)


def stacked(data):
    """Points, values, and the covariance of the groups' unknown constants and known noise, in units of the values."""
    X, y = np.concatenate([g.points for g in data]), np.concatenate([g.values for g in data])
    names = np.repeat(np.arange(len(data)), [len(g.values) for g in data])
    return X, y, OFFSET * np.equal.outer(names, names) + (data[0].sigma / y.std()) ** 2 * np.eye(len(y))


def groups(d=3, sizes=(8, 5, 9), *, sigma=0.05):
    rng, found = np.random.default_rng(0), []
    for size in sizes:
        X = rng.random((size, d))
        values = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + sigma * rng.standard_normal(size)
        found.append(Group(X, values - values.mean(), sigma))
    return found


def test_the_gradient_of_the_objective_is_the_one_of_finite_differences():
    model = GroupedRegression(3)
    model.fit(groups())
    theta = model.theta + 0.3 * np.random.default_rng(0).standard_normal(5)
    error = check_grad(lambda t: model.objective(t)[0], lambda t: model.objective(t)[1], theta, epsilon=1e-6)
    assert error < 1e-4 * np.linalg.norm(model.objective(theta)[1])


def test_the_posterior_is_the_textbook_formula():
    model, data = GroupedRegression(3), groups()
    model.fit(data)
    X, y, noise = stacked(data)
    unit, kernel = y.std(), model.kernel_at(model.theta)
    K = kernel(X, X) + noise + np.exp(2 * model.theta[-1]) * np.eye(len(y))
    new = RNG.random((4, 3))
    assert model.mean(new) == pytest.approx(kernel(new, X) @ np.linalg.solve(K, y), abs=1e-9)
    covariance = unit**2 * (kernel(new, new) - kernel(new, X) @ np.linalg.solve(K, kernel(X, new)))
    drawn = model.samples(new, 40_000, np.random.default_rng(1))
    assert np.cov(drawn) == pytest.approx(covariance, abs=0.05 * covariance.max())
    assert drawn.mean(axis=1) == pytest.approx(model.mean(new), abs=0.05 * np.sqrt(covariance.max()))


def test_evidence_is_the_logarithm_of_a_ratio_of_densities():
    model, data = GroupedRegression(3), groups()
    assert model.evidence() == 0
    model.fit(data)
    X, y, noise = stacked(data)
    extras = [np.exp(model.theta[-1]), 0.1, 0.2, 0.4, 0.7, 1.0]
    K = model.kernel_at(model.theta)(X, X) + noise + extras[0] ** 2 * np.eye(len(y))
    constant = max(multivariate_normal(cov=noise + e**2 * np.eye(len(y))).logpdf(y / y.std()) for e in extras)
    assert model.evidence() == pytest.approx(multivariate_normal(cov=K).logpdf(y / y.std()) - constant, abs=1e-6)
    assert model.evidence() > 20


def test_a_constant_added_to_a_group_changes_nothing():
    first, second = GroupedRegression(3), GroupedRegression(3)
    data = groups()
    first.fit(data)
    second.fit([Group(g.points, g.values + shift, g.sigma) for g, shift in zip(data, (5.0, -2.0, 0.0), strict=True)])
    new = RNG.random((4, 3))
    assert second.mean(new) == pytest.approx(first.mean(new), abs=1e-9)


def test_it_finds_the_coordinates_that_matter_and_beats_the_noise():
    sigma, truth = 0.3, lambda X: np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    model = GroupedRegression(6)
    model.fit(groups(6, (20,) * 10, sigma=sigma))
    assert set(np.argsort(model.theta[: model.d])[:2]) == {0, 1}
    new = RNG.random((200, 6))
    error = (model.mean(new) - truth(new)) - np.mean(model.mean(new) - truth(new))
    assert error.std() < sigma / 2


def test_whole_groups_are_kept_newest_first():
    model = GroupedRegression(3, memory=15)
    model.fit(groups())
    assert sum(len(group.values) for group in model.groups) == 5 + 9
    model = GroupedRegression(3, memory=2)
    model.fit(groups())
    assert sum(len(group.values) for group in model.groups) == 9  # at least the newest


def test_each_group_has_its_own_noise_and_memory_counts_whole_groups():
    data = [Group(g.points, g.values, sigma) for g, sigma in zip(groups(), (0.5, 0.01, 0.1), strict=True)]
    model = GroupedRegression(3, memory=14)
    model.fit(data)
    assert [group.sigma for group in model.groups] == [0.01, 0.1]  # 14 values
    X, y = np.concatenate([g.points for g in data[1:]]), np.concatenate([g.values for g in data[1:]])
    names, sigmas = np.repeat([0, 1], [5, 9]), np.repeat([0.01, 0.1], [5, 9]) / y.std()
    noise = np.diag(sigmas**2 + np.exp(2 * model.theta[-1])) + OFFSET * np.equal.outer(names, names)
    kernel = model.kernel_at(model.theta)
    expected = kernel(X[:4], X) @ np.linalg.solve(kernel(X, X) + noise, y)
    assert model.mean(X[:4]) == pytest.approx(expected, abs=1e-9)


def test_theta_moves_at_every_third_fit_once_the_memory_is_full():
    model, moved, data = GroupedRegression(3, memory=14), [], groups(sizes=(4,) * 10)
    for count in range(1, 11):
        before = model.theta
        model.fit(data[:count])
        moved.append(not np.array_equal(model.theta, before))
    assert moved == [True] * 4 + [False, False, True, False, False, True]


def test_the_minimiser_is_within_reach_and_updated_by_each_fit():
    """The returned array belongs to the caller."""
    X, start, model = np.random.default_rng(5).random((60, 2)), np.array([0.5, 0.6]), GroupedRegression(2)
    assert model.minimiser(start, reach=0.3).tolist() == start.tolist()  # nothing is known
    assert model.mean(X[:3]).tolist() == [0.0, 0.0, 0.0]
    for truth in ([0.7, 0.4], [0.3, 0.8]):
        model.fit([Group(X, ((X - truth) ** 2).sum(axis=1), 1e-3)])
        for _ in range(2):
            found = model.minimiser(start, reach=0.3)
            assert found == pytest.approx(truth, abs=0.03)
            found[:] = 9.0
    assert model.minimiser(start, reach=0.1) == pytest.approx([0.4, 0.7], abs=1e-6)
    assert model.minimiser(np.array([0.99, 0.01]), reach=0.05) == pytest.approx([0.94, 0.06], abs=1e-6)


@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_equal_values_are_no_problem(sigma):
    model = GroupedRegression(2)
    model.fit([Group(RNG.random((5, 2)), np.zeros(5), sigma)])
    assert model.mean(RNG.random((3, 2))) == pytest.approx(np.zeros(3), abs=1e-9)
    assert np.isfinite(model.samples(RNG.random((3, 2)), 2, RNG)).all()


# ---- hyperparameters fitted to one's own data ----------------------------------------------------------------

RNG_OF_FIT = np.random.default_rng(2)
X = RNG_OF_FIT.random((40, 2))
SQUARES = (X.T[:, :, None] - X.T[:, None, :]) ** 2
THETA = np.log([0.3, 0.8, 1.3, 0.05])
y = np.sin(7 * X[:, 0]) + 0.05 * RNG_OF_FIT.standard_normal(40)


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
