"""The objectives equal scikit-learn's, are pure functions of u, and need no file from outside the repository."""

import gzip

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

from benchmarks import data
from benchmarks.data import Split, load_table, split_table
from benchmarks.tasks import kernel_ridge_task, svr_task, values

POINTS = [np.linspace(0.1, 0.9, 7), np.random.default_rng(3).random(7)]


_rng = np.random.default_rng(0)
_X = _rng.normal(3.0, 5.0, size=(300, 6))
TABLE = np.column_stack([_X, np.sin(_X[:, 0]) + _X[:, 1] + 40.0])


@pytest.fixture
def split() -> Split:
    return split_table("tiny", TABLE, n=90, seed=1, n_train=60, n_test=50)


def test_a_table_is_read_from_the_argument_or_the_environment(monkeypatch, tmp_path):
    with gzip.open(tmp_path / "parkinsons.csv.gz", "wt") as file:
        np.savetxt(file, TABLE, delimiter=",")
    np.testing.assert_array_equal(load_table("parkinsons", tmp_path), TABLE)
    monkeypatch.setenv("DPTUNE_DATA", str(tmp_path))
    assert data.available("parkinsons")
    np.testing.assert_array_equal(load_table("parkinsons"), TABLE)
    with pytest.raises(FileNotFoundError, match=r"pumadyn32nm\.csv\.gz.*DPTUNE_DATA"):
        load_table("pumadyn32nm", tmp_path / "nowhere")


def test_rows_are_standardised_by_the_public_training_rows_and_none_is_in_two_parts(split):
    rows = np.concatenate([split.X_train, split.X_val, split.X_test])
    assert len(np.unique(rows, axis=0)) == len(rows) == 60 + 90 + 50
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), 1)
    np.testing.assert_allclose([split.y_train.mean(), split.y_train.std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize("u", POINTS)
def test_the_losses_equal_scikit_learns(split, u):
    task = kernel_ridge_task(split)
    *scales, ridge = values(task.parameters, u)
    X, X_val, X_test = (Z / np.array(scales) for Z in (split.X_train, split.X_val, split.X_test))
    model = KernelRidge(kernel="rbf", gamma=0.5, alpha=ridge).fit(X, split.y_train)
    np.testing.assert_allclose(task.losses(u), (model.predict(X_val) - split.y_val) ** 2, rtol=1e-7, atol=1e-10)
    assert task.test_loss(u) == pytest.approx(np.mean((model.predict(X_test) - split.y_test) ** 2), rel=1e-7)
    task, u = svr_task(split), np.append(u, [0.6, 0.2])
    *scales, epsilon, C, gamma = values(task.parameters, u)
    X, X_val = (Z / np.array(scales) for Z in (split.X_train, split.X_val))
    model = SVR(kernel="rbf", gamma=gamma, C=C, epsilon=epsilon, tol=1e-9).fit(X, split.y_train)
    off = np.abs(model.predict(X_val) - split.y_val)
    np.testing.assert_allclose(np.sqrt(task.losses(u)), off, atol=5e-3)  # libsvm stops at tol 1e-3
