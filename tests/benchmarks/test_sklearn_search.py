"""The benchmark of searches in scikit-learn: its data, its lines and its table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sklearn import __main__ as sklearn_search

TABLES = {"SVR, parkinsons"}


@pytest.mark.parametrize("task", sorted(set(sklearn_search.TASKS) - TABLES))
def test_an_untuned_estimator_is_better_than_the_clip_and_splits_are_disjoint(task):
    made = sklearn_search.TASKS[task](0)
    rows = np.concatenate(made.X)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert made.split().get_n_splits() == 1
    found = sklearn_search.measure(task, "untuned", 0)
    assert 0 < found["test_loss"] < made.clip[1]


@pytest.mark.filterwarnings("ignore")
def test_a_private_search_of_the_benchmark_runs(monkeypatch):
    monkeypatch.setattr(sklearn_search, "TRIALS", 8)
    found = sklearn_search.measure("kernel ridge, diabetes", 'PrivateSearch, "selection"', 0)
    assert 0 < found["test_loss"] < 4
