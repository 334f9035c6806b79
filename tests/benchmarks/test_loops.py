"""The simulated runs equal the package's runs, every method runs, and the tasks' losses equal scikit-learn's."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

from benchmarks import loops
from benchmarks.curator import Curator
from benchmarks.data import Split, split_table
from benchmarks.measurements import private as bench_private
from benchmarks.tasks import Task, kernel_ridge_task, svr_task, values
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy.query import Ball, Interval, MeanQuery, NormQuery, Query
from dptune.search.algorithms.centred_plan import CENTRED
from dptune.search.algorithms.gibo_plan import GIBO
from dptune.search.algorithms.method import Method
from noises import NoNoise

N = 70


@pytest.fixture
def task() -> Task:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    table = np.column_stack([X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)])
    return kernel_ridge_task(split_table("tiny", table, n=N, seed=1, n_train=60, n_test=50))


@pytest.fixture
def privatizer(tmp_path: Path) -> LossPrivatizer:
    ledger = PrivacyLedger(str(tmp_path / "ledger.db"), budget=Budget.gdp(mu=1.0))
    return LossPrivatizer(ledger, n=N, clip=(0.0, 3.0), dtype=np.float64, noise=NoNoise())


def queries() -> list[Query]:
    W = np.random.default_rng(1).normal(size=(2, 3))
    vector = MeanQuery(("a", "b", "c"), W, Ball(1.5), 0.2)
    share = NormQuery(("a", "b", "c"), np.eye(3) - 1 / 3, 1.0, 0.2)
    failed = MeanQuery(("a", "b", "failed", "c"), np.eye(4) - 1 / 4, Ball(1.0), 0.2, 0.5)
    cut = MeanQuery(("a", "b", "failed", "c"), np.eye(4) - 1 / 4, Ball(1.0), 0.2, 0.5, 0.3)
    return [vector, MeanQuery(("b",), np.ones((1, 1)), Interval(0.0, 3.0), 0.1), share, failed, cut]


@pytest.mark.parametrize("query", queries(), ids=["gradient", "value", "share", "failed", "saturated"])
def test_the_curator_answers_as_the_privatizer_without_noise(privatizer: LossPrivatizer, query: Query) -> None:
    curator, rng = Curator(N, (0.0, 3.0), seed=0, private=False), np.random.default_rng(2)
    for name in "abc":
        losses = rng.normal(1.0, 3.0, N)
        losses[:3] = np.nan, np.inf, -np.inf
        curator.observe(name, losses)
        privatizer.observe(name, losses)
    for either in (curator, privatizer):
        either.submit("failed", None)
    mean = privatizer.release(query, scope="s", key="k").value
    np.testing.assert_allclose(curator.answer(query), mean, rtol=1e-12)
    assert curator.sigma(query) == pytest.approx(privatizer.sigma(query), rel=1e-12)


@pytest.mark.parametrize(("method", "trials", "told"), [(GIBO, 20, "path"), (CENTRED, 40, "means")])
def test_a_whole_run_is_the_one_with_the_real_privatizer(
    task: Task, privatizer: LossPrivatizer, method: Method, trials: int, told: str
) -> None:
    """Without noise, the algorithm learns the same from the simulated curator as from the privatizer and its ledger."""
    curators = Curator(N, task.clip, seed=0, private=False), privatizer
    runs = [loops.simulate(method, task, 1.0, 3, curator=c, trials=trials).algorithm for c in curators]
    np.testing.assert_allclose(*(getattr(run, told) for run in runs), atol=1e-6)


@pytest.mark.parametrize(("method", "mu"), list(zip(bench_private.METHODS, cycle((1.0, None)))))
def test_a_run_is_reproducible_and_uses_at_most_its_trials(task: Task, method: str, mu: float | None) -> None:
    first, again = (loops.run(task, method, mu, 12, 5) for _ in range(2))
    np.testing.assert_array_equal(first.u, again.u)
    assert first.trials <= 12
    assert first.test_loss == pytest.approx(task.test_loss(first.u))


# ---- tasks --------------------------------------------------------------------------------------------------

POINTS = [np.linspace(0.1, 0.9, 7), np.random.default_rng(3).random(7)]


_rng = np.random.default_rng(0)
_X = _rng.normal(3.0, 5.0, size=(300, 6))
TABLE = np.column_stack([_X, np.sin(_X[:, 0]) + _X[:, 1] + 40.0])


@pytest.fixture
def split() -> Split:
    return split_table("tiny", TABLE, n=90, seed=1, n_train=60, n_test=50)


def test_public_training_rows_standardise_all_rows_and_splits_are_disjoint(split):
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
