"""What a search without public evidence trains, how often, and what it says."""

from __future__ import annotations

import warnings
from collections import Counter

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import dptune
from dptune_sklearn import models
from sklearn_tools import PRIVATE, PUBLIC, VAL, search_in

GRID = {"C": [0.01, 0.1, 1.0, 10.0], "class_weight": [None, "balanced"]}


@pytest.fixture
def trained(monkeypatch):
    """How often each set of parameters was trained in this process."""
    counted, train = Counter(), models.train

    def counting(estimator, training, parameters):
        counted[repr(sorted(parameters.items()))] += 1
        return train(estimator, training, parameters)

    monkeypatch.setattr(models, "train", counting)
    return counted


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("clip", ["auto", (0.0, 2.0)])
def test_the_default_is_trained_once(fast_path, trained, n_jobs, clip):
    with joblib.parallel_config(backend="threading"):
        search_in(fast_path, n_jobs=n_jobs, clip=clip).fit(*PUBLIC, **VAL)
    assert trained["[('C', 1.0)]"] == 1


def test_a_grid_trains_each_model_once(fast_path, trained):
    search = search_in(fast_path, param_distributions=GRID, n_trials=40).fit(*PUBLIC, **VAL)
    assert set(trained.values()) == {1}
    assert 4 <= len(trained) <= 8
    assert search.best_params_["C"] == search.best_estimator_.C


@pytest.mark.parametrize("cv", [None, 3])
def test_joblib_s_multiprocessing_backend_works(fast_path, cv):
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        search = search_in(fast_path, "selection" if cv is None else None, n_trials=4, cv=cv, n_jobs=2)
        assert search.fit(*PUBLIC, **VAL).best_params_["C"] > 0


def test_a_zero_beside_a_logarithmic_range_is_compared_at_the_nearest_point(fast_path):
    space = {"tol": loguniform(1e-6, 1e-1)}
    search = search_in(fast_path, param_distributions=space, default={"tol": 0.0})
    with pytest.warns(UserWarning, match=r"nearest point: tol=1e-06 for 0\.0\."):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_.defaults == pytest.approx({"tol": 1e-6})


def test_an_estimator_outside_the_grid_is_a_default_of_a_grid(fast_path):
    grid = {"n_neighbors": [3, 5, 9]}
    search = search_in(
        fast_path, "selection", KNeighborsClassifier(), param_distributions=grid, default={"weights": "distance"}
    )
    search.fit(*PUBLIC, **VAL)
    assert search.ledger.fact(search.name_, "plan")["candidates"] == 4


def test_a_choice_prints_its_clip_and_its_noise(fast_path, capsys):
    search = search_in(fast_path, "selection", verbose=1).fit(*PUBLIC, **VAL)
    said = capsys.readouterr().out
    assert "Each loss is clipped to (0, 2)." in said
    assert "the best model in 95% of runs, if its mean loss is lower than the others' by" in said
    sigma = float(said.split("noise of standard deviation ")[1].split(".\n")[0])
    estimated = [
        s for what, s in zip(search.released_["release"], search.released_["sigma"], strict=True) if what == "estimate"
    ]
    assert sigma == pytest.approx(estimated[0], rel=0.01)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["a", "b", "d"], "order: only X has 'c'; only X_val has 'd'. Nothing"),
        (["b", "a", "c"], "order differs: give X_val\\[X.columns\\]. Nothing"),
        (["a", "b"], "order: only X has 'c'. Nothing"),
    ],
)
def test_other_columns_are_named(fast_path, columns, said):
    X, X_val = (pd.DataFrame(rows[0], columns=list("abc")) for rows in (PUBLIC, PRIVATE))
    X_val = X_val.rename(columns={"c": "d"}) if "d" in columns else X_val[columns]
    with pytest.raises(dptune.InputError, match=said) as refused:
        search_in(fast_path).fit(X, PUBLIC[1], X_val=X_val, y_val=PRIVATE[1])
    assert "like=" not in str(refused.value)


def test_another_number_of_columns_is_named(fast_path):
    with pytest.raises(dptune.InputError, match=r"X has 3, X_val has 2\. Nothing"):
        search_in(fast_path).fit(*PUBLIC, X_val=PRIVATE[0][:, :2], y_val=PRIVATE[1])


def test_a_sampler_is_as_it_was_after_a_search(fast_path):
    import optuna

    sampler = optuna.samplers.RandomSampler(seed=3)
    state = sampler._rng.rng.get_state()[1].copy()
    search_in(fast_path, sampler).fit(*PUBLIC, **VAL)
    assert np.array_equal(sampler._rng.rng.get_state()[1], state)


def test_an_exact_score_is_warned_of_there_too(fast_path):
    search = search_in(fast_path, "selection", LogisticRegression()).fit(*PUBLIC, **VAL)
    with pytest.warns(UserWarning, match="NOT PRIVATE"):
        search.score(*PRIVATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.score(*PUBLIC)
