"""The simulated runs answer as the package does, and every method and figure of the benchmark runs end to end."""

from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from noises import NoNoise

from benchmarks import loops
from benchmarks.curator import Curator
from benchmarks.measurements import private as bench_private
from benchmarks.report import run_missing
from benchmarks.tasks import Task
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy.query import Ball, Interval, MeanQuery, NormQuery, Query
from dptune.search.algorithms.centred_plan import CENTRED
from dptune.search.algorithms.gibo_plan import GIBO
from dptune.search.algorithms.method import Method

N = 70


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
        either.observe_failure("failed")
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


def seed_once(folder: Path, cell: bench_private.Cell) -> float:
    """A measurement that fails if it is made again."""
    (folder / f"{cell.seed} {cell.method}").touch(exist_ok=False)
    return float(cell.seed)


def test_a_benchmark_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    asked = [replace(next(iter(bench_private.cells(1))), seed=seed) for seed in range(4)]
    kept = partial(run_missing, partial(seed_once, tmp_path), jobs=1, name="private", out=tmp_path)
    first = kept(asked[:2])
    again = kept(asked)
    assert again[:2] == first
    assert [result["test_loss"] for result in again] == [0.0, 1.0, 2.0, 3.0]
