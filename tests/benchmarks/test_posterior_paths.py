"""Functions drawn from the surrogate's posterior have its law, and a descent goes down."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.what_did_not_work.posterior_paths import Path
from dptune.search.gp.grouped import Group, GroupedRegression


@pytest.fixture(scope="module")
def surrogate() -> GroupedRegression:
    """Of twelve noisy values of a bowl, in two groups."""
    rng, model = np.random.default_rng(1), GroupedRegression(2)
    groups = [Group(X, 10 * g + np.sum((X - 0.3) ** 2, axis=1), 0.05) for g, X in enumerate(rng.random((2, 6, 2)))]
    model.fit(groups)
    return model


def test_without_spread_a_path_is_the_posterior_mean(surrogate: GroupedRegression) -> None:
    points = np.random.default_rng(2).random((5, 2))
    path = Path(surrogate, np.random.default_rng(3), 0.0)
    assert np.allclose(surrogate.unit * path.values(points), surrogate.mean(points))


def test_differences_of_paths_have_the_posteriors_law(surrogate: GroupedRegression) -> None:
    x, y = np.array([[0.1, 0.9], [0.6, 0.2]])
    rng = np.random.default_rng(4)
    drawn = np.array([np.subtract(*Path(surrogate, rng, 1.0).values(np.array([x, y]))) for _ in range(300)])
    mean, deviation = surrogate.difference(x, y)
    assert surrogate.unit * drawn.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(300))
    assert surrogate.unit * drawn.std() == pytest.approx(deviation, rel=0.2)


def test_a_descent_goes_down_and_stays_within_reach(surrogate: GroupedRegression) -> None:
    path, start = Path(surrogate, np.random.default_rng(5), 0.5), np.array([0.95, 0.5])
    end = path.descend(start, 0.3)
    assert np.all(np.abs(end - start) <= 0.3 + 1e-12)
    assert np.all((end >= 0) & (end <= 1))
    assert path.values(end[None, :])[0] < path.values(start[None, :])[0]
