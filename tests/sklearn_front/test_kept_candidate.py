"""A choice that keeps the default unless another candidate is better."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import dptune
from dptune_sklearn.spaces import candidates
from sklearn_tools import (
    PUBLIC,
    SPACE,
    VAL,
    search_in,
)


@pytest.mark.filterwarnings("ignore:.*will learn little")
def test_a_choice_keeps_the_default_where_nothing_is_known_to_be_better(fast_path):
    settings = {"default": {"C": 1.0}, "mu": 0.01, "n_trials": 4}
    search = search_in(fast_path, "selection", **settings).fit(*PUBLIC, **VAL)
    plan = search.ledger.fact(search.name_, "plan")
    assert (plan["default"], plan["candidates"]) == (0, 4)
    assert clone(search).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == pytest.approx(0.01)


def test_a_default_of_a_grid_is_tried_once_and_one_outside_is_added(fast_path):
    grid = {"C": [0.01, 1.0, 100.0]}
    for C, count in ((100.0, 3), (5.0, 4)):
        search = search_in(fast_path, "selection", param_distributions=grid, default={"C": C}, mu=1.0)
        assert search.set_params(n_trials=None).fit(*PUBLIC, **VAL).best_params_["C"] in (0.01, 1.0, 5.0, 100.0)
        assert search.ledger.fact(search.name_, "plan")["candidates"] == count


@pytest.mark.filterwarnings("ignore:A candidate could not be trained")
@pytest.mark.parametrize(
    ("default", "said"), [(1.0, "must be a dict"), ({"C": -1.0}, "'C' parameter"), ({"D": 1}, "'D'")]
)
def test_a_default_that_cannot_be_trained_is_refused(fast_path, default, said):
    search = search_in(fast_path, "selection", default=default)
    with pytest.raises((ValueError, dptune.InputError), match=said):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


@pytest.mark.filterwarnings("ignore:A candidate could not be trained")
def test_a_default_that_cannot_be_trained_does_not_cost_a_clip(fast_path):
    search = search_in(fast_path, "selection", default={"C": -1.0}, clip="auto")
    with pytest.raises((ValueError, dptune.InputError), match="'C' parameter"):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


def test_a_name_belongs_to_its_candidates_and_its_default(fast_path):
    settings = {"param_distributions": {"C": [0.01, 1.0, 100.0]}, "n_trials": None, "mu": 1.0, "name": "mine"}
    search = search_in(fast_path, "selection", **settings, default={"C": 1.0}).fit(*PUBLIC, **VAL)
    others = ({"default": {"C": 100.0}}, {"default": None}, {"param_distributions": {"C": [0.1, 1, 10]}})
    for other in others:
        with pytest.raises(dptune.errors.BudgetMismatch, match="another name"):
            clone(search).set_params(**other).fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == pytest.approx(1.0)


def test_a_default_in_numpy_s_numbers_is_no_second_candidate(fast_path):
    grid = {"C": np.array([0.01, 1.0, 100.0])}
    assert len(candidates(grid, None, 0, first={"C": 1.0})) == 3
    assert candidates(grid, 2, 0, first={"C": 1.0})[0] == {"C": 1.0}
    assert [len(candidates(SPACE, most, 0, first={"C": 1.0})) for most in (None, 7)] == [100, 7]


def test_a_setting_that_a_selection_has_not_is_refused(fast_path):
    with pytest.raises(dptune.InputError, match="no setting 'final_share'"):
        search_in(fast_path, "selection", settings={"final_share": 0.1}).fit(*PUBLIC, **VAL)
