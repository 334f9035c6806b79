"""A forest of ``max_features=1`` sees one column, of ``1.0`` all of them; ``C=1`` and ``C=1.0`` are one model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune_sklearn import PrivateSearch

Found = tuple[dict[str, Any], dptune.Selection]


def rows(count: int, seed: int) -> tuple[Any, Any]:
    """Only the first of four columns says anything, so a tree that sees one of them at a time is bad."""
    X = np.random.default_rng(seed).normal(size=(count, 4))
    return X, 2 * X[:, 0]


PUBLIC, PRIVATE = rows(80, 0), rows(200, 1)


def by_grid_search(folder: Path, model: Any, name: str, values: list[Any], default: Any) -> Found:
    grid = GridSearchCV(model, {name: values}, cv=3, scoring="neg_mean_squared_error")
    ledger = dptune.PrivacyLedger(folder / "grid.db", dptune.Budget.gdp(1e4))
    search = PrivateSearch(grid, ledger=ledger, loss="squared_error", default={name: default})
    search.fit(*PUBLIC, X_val=PRIVATE[0], y_val=PRIVATE[1])
    return dict(search.best_params_), search.selection_


def by_optuna(folder: Path, model: Any, name: str, values: list[Any], default: Any) -> Found:
    study = optuna.create_study(sampler=optuna.samplers.GridSampler({name: values}, seed=0))

    def objective(trial: optuna.Trial) -> float:
        one = type(model)(**{**model.get_params(), name: trial.suggest_categorical(name, values)})
        dptune_optuna.candidate(trial, one, rows=PUBLIC)
        return float(np.square(one.fit(*PUBLIC).predict(PUBLIC[0]) - PUBLIC[1]).mean())

    study.optimize(objective, n_trials=len(values))
    ledger = dptune.PrivacyLedger(folder / "optuna.db", dptune.Budget.gdp(1e4))
    choice = dptune_optuna.choose(
        study, objective, ledger=ledger, loss="squared_error", data=PRIVATE, default={name: default}
    )
    return dict(choice.params), choice.selection


@pytest.mark.parametrize("search", [by_grid_search, by_optuna])
def test_a_default_of_another_type_is_a_model_of_its_own(search: Callable[..., Found], tmp_path: Path) -> None:
    """At mu = 1e4 the best one is chosen, and it is the default: nothing is better."""
    forest = RandomForestRegressor(n_estimators=10, random_state=0)
    params, found = search(tmp_path, forest, "max_features", [1, 2], 1.0)
    assert [(type(value), value) for value in params.values()] == [(float, 1.0)]
    assert found.candidates == 3
    assert found.index == found.default


@pytest.mark.parametrize("search", [by_grid_search, by_optuna])
@pytest.mark.parametrize("default", [1, 1.0])
def test_a_default_of_another_type_with_equal_losses_is_the_searched_one(
    search: Callable[..., Found], default: Any, tmp_path: Path
) -> None:
    params, found = search(tmp_path, Ridge(), "alpha", [1, 1000], default)
    assert [(type(value), value) for value in params.values()] == [(int, 1)]
    assert (found.candidates, found.index == found.default) == (2, True)


def test_an_unseeded_search_is_refused_although_its_default_fails(tmp_path: Path) -> None:
    """A depth of 5.0, as a table of pandas has it, fails and is the searched 5; another candidate shows the seed."""
    forest = RandomForestRegressor(n_estimators=3)
    with pytest.raises(dptune.InputError, match="seed"):
        by_optuna(tmp_path, forest, "max_depth", [1, 2, 5], 5.0)
    assert dptune.PrivacyLedger(tmp_path / "optuna.db").count() == 0


def test_a_default_is_searched_in_one_of_several_grids(tmp_path: Path) -> None:
    """The grids search different parameters, so the default has those of its own grid."""
    grids = [{"alpha": [1, 1000]}, {"alpha": [500], "solver": ["svd"]}]
    search = PrivateSearch(
        GridSearchCV(Ridge(), grids, cv=3, scoring="neg_mean_squared_error"),
        ledger=dptune.PrivacyLedger(tmp_path / "grids.db", dptune.Budget.gdp(1e4)),
        loss="squared_error",
    ).fit(*PUBLIC, X_val=PRIVATE[0], y_val=PRIVATE[1])
    assert (search.selection_.candidates, search.selection_.index == search.selection_.default) == (3, True)
    assert search.best_params_ == {"alpha": 1}
    assert search.best_index_ == 0
