"""What you use today is a candidate: it stays unless another is better, and the answer is compared with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

import dptune
from dptune_sklearn.spaces import candidates
from sklearn_tools import PUBLIC, SPACE, VAL, search_in


@pytest.mark.filterwarnings("ignore:.*will learn little")
def test_a_choice_keeps_the_default_where_nothing_is_known_to_be_better(fast_path):
    settings = {"default": {"C": 1.0}, "mu": 0.01, "n_trials": 4}
    search = search_in(fast_path, "selection", **settings).fit(*PUBLIC, **VAL)
    plan = search.ledger.fact(search.name_, "plan")
    assert (plan["default"], plan["candidates"]) == (0, 4)
    assert clone(search).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == pytest.approx(0.01)


def test_a_default_of_another_parameter_is_a_candidate(fast_path):
    settings = {"param_distributions": {"n_neighbors": [3, 5, 9]}, "default": {"weights": "distance"}, "n_trials": None}
    search = search_in(fast_path, "selection", KNeighborsClassifier(), **settings).fit(*PUBLIC, **VAL)
    assert search.best_params_.keys() in ({"n_neighbors"}, {"weights"})
    assert search.ledger.fact(search.name_, "plan")["candidates"] == 4


def test_a_zero_beside_a_logarithmic_range_is_compared_at_the_nearest_point(fast_path):
    search = search_in(fast_path, param_distributions={"tol": loguniform(1e-6, 1e-1)}, default={"tol": 0.0})
    with pytest.warns(UserWarning, match=r"nearest point: tol=1e-06 for 0\.0\."):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_.defaults == pytest.approx({"tol": 1e-6})


@pytest.mark.filterwarnings("ignore:A candidate could not be trained")
@pytest.mark.parametrize(
    ("default", "said"), [(1.0, "must be a dict"), ({"C": -1.0}, "'C' parameter"), ({"D": 1}, "'D'")]
)
def test_a_default_that_cannot_be_trained_is_refused_and_costs_nothing(fast_path, default, said):
    search = search_in(fast_path, "selection", default=default, clip="auto")
    with pytest.raises(dptune.InputError, match=said):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


def test_a_default_of_a_grid_is_tried_once_and_one_outside_is_added():
    grid = {"C": np.array([0.01, 1.0, 100.0])}
    assert candidates(grid, None, 0, first={"C": 1.0})[0] == {"C": 1.0}
    assert [len(candidates(grid, None, 0, first={"C": C})) for C in (1.0, 100.0, 5.0)] == [3, 3, 4]
    assert candidates(grid, 2, 0, first={"C": 1.0})[0] == {"C": 1.0}
    assert [len(candidates(SPACE, most, 0, first={"C": 1.0})) for most in (None, 7)] == [100, 7]
