"""Functions drawn from the surrogate's posterior have its law, and a descent goes down."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from dptune.gp.grouped import Group, GroupedRegression


@pytest.fixture(scope="module")
def surrogate() -> GroupedRegression:
    """Of twelve noisy values of a bowl, in two groups."""
    rng, model = np.random.default_rng(1), GroupedRegression(2)
    groups = [Group(X, 10 * g + np.sum((X - 0.3) ** 2, axis=1), 0.05) for g, X in enumerate(rng.random((2, 6, 2)))]
    model.fit(groups)
    return model


def test_without_spread_a_path_is_the_posterior_mean(surrogate: GroupedRegression) -> None:
    points = np.random.default_rng(2).random((5, 2))
    path = surrogate.draw(np.random.default_rng(3), spread=0.0)
    assert np.allclose(surrogate._unit * path.values(points), surrogate.mean(points))


def test_differences_of_paths_have_the_posteriors_law(surrogate: GroupedRegression) -> None:
    x, y = np.array([[0.1, 0.9], [0.6, 0.2]])
    rng = np.random.default_rng(4)
    drawn = np.array([np.subtract(*surrogate.draw(rng).values(np.array([x, y]))) for _ in range(300)])
    mean, deviation = surrogate.difference(x, y)
    assert surrogate._unit * drawn.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(300))
    assert surrogate._unit * drawn.std() == pytest.approx(deviation, rel=0.2)


def test_a_descent_goes_down_and_stays_within_reach(surrogate: GroupedRegression) -> None:
    path, start = surrogate.draw(np.random.default_rng(5), spread=0.5), np.array([0.95, 0.5])
    end = path.descend(start, reach=0.3, free=np.array([True, True]))
    assert np.all(np.abs(end - start) <= 0.3 + 1e-12)
    assert np.all((end >= 0) & (end <= 1))
    assert path.values(end[None, :])[0] < path.values(start[None, :])[0]
    held = path.descend(start, reach=0.3, free=np.array([True, False]))
    assert held[1] == start[1]
    assert path.values(end[None, :])[0] <= path.values(held[None, :])[0] < path.values(start[None, :])[0]
    assert path.descend(start, reach=0.3, free=np.array([False, False])).tolist() == start.tolist()


def test_the_gradient_is_the_one_of_finite_differences(surrogate: GroupedRegression) -> None:
    path = surrogate.draw(np.random.default_rng(6))
    x = np.array([0.4, 0.7])
    assert check_grad(lambda z: path.value_and_gradient(z)[0], lambda z: path.value_and_gradient(z)[1], x) < 1e-5
    assert path.value_and_gradient(x)[0] == pytest.approx(path.values(x[None, :])[0])
