"""The objectives equal scikit-learn's, are pure functions of u, and need no file from outside the repository."""

import gzip
from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

from benchmarks import data
from benchmarks.data import Split, load_split, load_table, split_table
from benchmarks.measurements import paper_examples
from benchmarks.tasks import Task, kernel_ridge_task, svr_task, values

POINTS = [np.full(7, 0.5), np.linspace(0.1, 0.9, 7), np.random.default_rng(3).random(7)]


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 5.0, size=(300, 6))
    return np.column_stack([X, np.sin(X[:, 0]) + X[:, 1] + 40.0])


@pytest.fixture
def folder(tmp_path: Path, table: np.ndarray) -> Path:
    with gzip.open(tmp_path / "parkinsons.csv.gz", "wt") as file:
        np.savetxt(file, table, delimiter=",")
    return tmp_path


@pytest.fixture
def split(table: np.ndarray) -> Split:
    return split_table("tiny", table, n=90, seed=1, n_train=60, n_test=50)


def every_task(split: Split) -> list[Task]:
    return [
        kernel_ridge_task(split),
        svr_task(split),
        paper_examples.quadratic_task(0),
        paper_examples.huber_task(0),
        paper_examples.length_scales_task(0, log=False, n=80, n_train=40),
        paper_examples.length_scales_task(0, log=True, n=80, n_train=40),
    ]


def test_a_table_is_read_from_the_argument_or_the_environment(folder, table, monkeypatch):
    np.testing.assert_array_equal(load_table("parkinsons", folder), table)
    monkeypatch.setenv("DPTUNE_DATA", str(folder))
    assert data.available("parkinsons")
    np.testing.assert_array_equal(load_table("parkinsons"), table)
    split = load_split("parkinsons", n=90, seed=1, n_train=60, n_test=50)
    assert (split.name, split.X_val.shape) == ("parkinsons", (90, 6))


def test_a_missing_table_is_named_with_what_to_do(tmp_path):
    assert not data.available("pumadyn32nm", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"pumadyn32nm\.csv\.gz.*DPTUNE_DATA"):
        load_table("pumadyn32nm", tmp_path)


def test_rows_are_standardised_by_the_public_training_rows_and_none_is_in_two_parts(split):
    rows = np.concatenate([split.X_train, split.X_val, split.X_test])
    assert len(np.unique(rows, axis=0)) == len(rows) == 60 + 90 + 50
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), 1)
    np.testing.assert_allclose([split.y_train.mean(), split.y_train.std()], [0, 1], atol=1e-12)


def test_validation_sets_nest_and_leave_training_and_test_alone(table, split):
    small = split_table("tiny", table, n=30, seed=1, n_train=60, n_test=50)
    np.testing.assert_array_equal(small.X_val, split.X_val[:30])
    np.testing.assert_array_equal(small.X_train, split.X_train)
    np.testing.assert_array_equal(small.y_test, split.y_test)


def test_shapes_clip_and_determinism(split):
    for task in every_task(split):
        u, v = np.full(task.d, 0.4), np.linspace(0, 1, task.d)
        first = task.losses(u)
        task.losses(v)
        assert first.shape == (task.n,), task.name
        assert len(task.parameters) == task.d
        assert task.clip[0] == 0 < task.clip[1]
        assert np.isfinite(first).all()
        assert (first >= 0).all()
        np.testing.assert_array_equal(task.losses(u), first)  # whatever was evaluated between
        assert task.test_loss(u) == task.test_loss(u) > 0
        assert np.isfinite(task.losses(np.zeros(task.d))).all()
        assert np.isfinite(task.losses(np.ones(task.d))).all()


def test_the_ranges_are_those_of_the_paper(split):
    *scales, epsilon, C, gamma = svr_task(split).parameters
    assert all(p.low == pytest.approx(exp(-2)) and p.high == pytest.approx(exp(2)) and p.log for p in scales)
    assert [(p.low, p.high) for p in (epsilon, C, gamma)] == [(0.01, 1), (0.1, 3), (0.01, 5)]
    assert svr_task(split, features=4).d == 4 + 3
    assert kernel_ridge_task(split).parameters[0].at(0.5) == pytest.approx(sqrt(6))


@pytest.mark.parametrize("u", POINTS)
def test_kernel_ridge_equals_scikit_learn(split, u):
    task = kernel_ridge_task(split)
    *scales, ridge = values(task.parameters, u)
    X, X_val, X_test = (Z / np.array(scales) for Z in (split.X_train, split.X_val, split.X_test))
    model = KernelRidge(kernel="rbf", gamma=0.5, alpha=ridge).fit(X, split.y_train)
    np.testing.assert_allclose(task.losses(u), (model.predict(X_val) - split.y_val) ** 2, rtol=1e-7, atol=1e-10)
    assert task.test_loss(u) == pytest.approx(np.mean((model.predict(X_test) - split.y_test) ** 2), rel=1e-7)


@pytest.mark.parametrize("u", [np.append(u, [0.6, 0.2]) for u in POINTS])
def test_svr_equals_scikit_learn(split, u):
    task = svr_task(split)
    *scales, epsilon, C, gamma = values(task.parameters, u)
    X, X_val = (Z / np.array(scales) for Z in (split.X_train, split.X_val))
    model = SVR(kernel="rbf", gamma=gamma, C=C, epsilon=epsilon, tol=1e-9).fit(X, split.y_train)
    np.testing.assert_allclose(
        np.sqrt(task.losses(u)), np.abs(model.predict(X_val) - split.y_val), atol=5e-3
    )  # libsvm stops at tol 1e-3


def test_the_minimiser_of_the_quadratic_example_is_least_squares():
    task = paper_examples.quadratic_task(5)
    assert (task.n, task.d) == (50, 5)
    expected = np.linalg.lstsq(task.X, task.y, rcond=None)[0]
    np.testing.assert_allclose(task.minimiser(), expected, atol=1e-5)
    assert task.excess(np.zeros(5)) > 0.05
    np.testing.assert_array_equal(task.losses(np.full(5, 0.5)), task.losses_at(np.zeros(5)))


def test_quadratic_losses_lie_in_the_span_of_the_polynomial_kernel():
    task = paper_examples.quadratic_task(0)
    thetas = np.random.default_rng(0).normal(size=(60, 5))
    L = np.array([task.losses_at(theta) for theta in thetas])  # (60, n)
    K = (thetas @ thetas.T + 1) ** 2
    assert np.linalg.matrix_rank(K) == 21
    np.testing.assert_allclose(K @ np.linalg.pinv(K, rcond=1e-10) @ L, L, atol=1e-6)


def test_huber_gradients_are_at_most_root_two_long():
    task, h = paper_examples.huber_task(1), 1e-5
    assert (task.n, task.d) == (100, 4)
    for theta in np.random.default_rng(0).uniform(-2, 2, size=(20, 4)):
        steps = h * np.eye(4)
        G = np.array([(task.losses_at(theta + e) - task.losses_at(theta - e)) / (2 * h) for e in steps])
        assert np.linalg.norm(G, axis=0).max() <= sqrt(2) * (1 + 1e-6)
    assert np.linalg.norm(G, axis=0).max() > 0.5
    assert all(task.excess(task.minimiser() + e) > 0 for e in 0.1 * np.eye(4))
