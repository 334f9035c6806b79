"""A task of seconds for all benchmarks' tests."""

import numpy as np
import pytest

from benchmarks.data import split_table
from benchmarks.tasks import Task, kernel_ridge_task

N = 70


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    table = np.column_stack([X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)])
    return kernel_ridge_task(split_table("tiny", table, n=N, seed=1, n_train=60, n_test=50))
