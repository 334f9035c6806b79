"""Means of shares near 1, and intervals of noise and sampling: coverage in 200 runs of seeded noise."""

import math

import numpy as np
import pytest

from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.cells import Bins
from dptune.choice.report.many import Confusion
from dptune.choice.report.metric import Cells, averaged
from dptune.choice.report.plan import best_bins

RUNS = 200
NEEDED = 0.93 - 2.5 * math.sqrt(0.07 * 0.93 / RUNS)  # 93%, seen in 200 runs


def test_a_mean_of_shares_has_the_error_of_their_mean() -> None:
    v = np.array([0.4, 0.5, 0.6])
    found = averaged("mean", v, lambda r: 0.05**2 * np.eye(3), lambda r: 0.1**2 * np.eye(3))
    assert found.value == pytest.approx(0.5)
    for deviation, ends in ((0.05, found.interval), (0.1, found.population)):
        half = 1.96 * deviation / math.sqrt(3)
        assert ends == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)


PERFECT = np.diag([80.0] * 5)
ONE_OFTEN_WRONG = np.diag([80.0] * 4 + [40.0]) + 40.0 * np.outer(np.eye(5)[4], np.eye(5)[0])


@pytest.mark.parametrize("people", [PERFECT, ONE_OFTEN_WRONG, np.array([[240.0, 0.0], [80.0, 80.0]])])
def test_means_of_shares_near_1_are_covered(people: np.ndarray) -> None:
    """Shares that are cut at 1 before their mean is taken have a mean below 1 and an interval that is too short."""
    k, n, rng = len(people), people.sum(), np.random.default_rng(0)
    recall, precision = np.diag(people) / people.sum(axis=1), np.diag(people) / people.sum(axis=0)
    apart = Bins((0.5,), 0.5, ((50.0, 0.0), (0.0, 50.0)), ((0.2,) * 16, (0.8,) * 16), 0.3)
    wanted = {
        "balanced_accuracy_score": recall.mean(),
        "precision_score": precision.mean(),
        "f1_score": np.mean(2 * recall * precision / (recall + precision)),
        "roc_auc_score": 1.0,
    }
    held: dict[str, list[bool]] = {name: [] for name in wanted}
    for _ in range(RUNS):
        rest = tuple(
            BinaryTable(apart, np.diag([n - each, each]) + rng.normal(0, 1.5, (2, 2)), 1.5**2 * np.eye(4), None)
            for each in people.sum(axis=1)
        )
        cells = people.ravel() + rng.normal(0, 1.5, k * k)
        confusion = Confusion(tuple(range(k)), cells, 1.5**2 * np.eye(k * k), None, rest)
        for name, value in wanted.items():
            metric = getattr(confusion, name)
            held[name].append(metric.interval[0] - 1e-9 <= value <= metric.interval[1] + 1e-9)
    assert min(map(np.mean, held.values())) >= NEEDED, {name: np.mean(each) for name, each in held.items()}


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) and outcomes (n,)."""
    y = rng.random(n) < 0.4
    return 1 / (1 + np.exp(-rng.normal(size=n) - y + 0.8)), y


@pytest.mark.parametrize("n", [2, 10])
def test_an_interval_of_noise_and_sampling_holds_that_of_noise(n: int) -> None:
    """Few people, and a model whose scores are equal."""
    rng = np.random.default_rng(0)
    one_score = Bins((0.5,), 0.5, ((50.0, 0.0), (50.0, 0.0)), ((0.3,) * 16, (0.7,) * 16), 0.3)
    for bins in (best_bins(*drawn(rng, 300), 0.5, n=n, sigma=0.3), one_score):
        for sigma in (0.003, 0.3):
            s, y = drawn(rng, n)
            counts = np.array([np.bincount(bins.of(s)[kind], minlength=bins.count) for kind in (~y, y)], dtype=float)
            released = counts + rng.normal(0, sigma, counts.shape)
            for metric in BinaryTable(bins, released, bins.noise(sigma), float(n)).metrics().values():
                (low, high), (least, most) = metric.interval, metric.population
                assert least <= low <= high <= most, metric


def test_a_populations_interval_of_a_mean_counts_common_noise_once() -> None:
    """The noise moves both recalls together, and sampling hardly matters."""
    together = np.array([1.0, -1.0, -1.0, 1.0])
    cells = Cells(np.array([8e4, 2e4, 2e4, 8e4]), 1e6 * np.outer(together, together) + np.eye(4))
    tn, fp, fn, tp = np.eye(4)
    found = cells.macro("balanced accuracy", [(tp, tp + fn), (tn, tn + fp)])
    one = cells.share("recall", tp, tp + fn)
    for mean, alone in ((found.interval, one.interval), (found.population, one.population)):
        assert mean[1] - mean[0] == pytest.approx(alone[1] - alone[0], rel=0.02)


@pytest.mark.parametrize("f1", [False, True])
@pytest.mark.parametrize("counts", [(50.0, 30.0, 90.0), (3.0, 40.0, 200.0), (40.0, 1.0, 60.0), (9.0, 0.0, 200.0)])
def test_a_macro_average_of_equal_shares_is_the_share(counts: tuple[float, ...], f1: bool) -> None:
    """Of one share, and of two that are the same; the noise of b.x is large in some."""
    cells = Cells(np.array(counts), 6.0 * np.eye(3))
    part = (np.array([1.0, 0, 0]), np.array([1.0, 1.0, 0]))
    share = cells.share("share", *part)
    usual = share.mapped(lambda r: 2 * r / (1 + r)) if f1 else share
    for parts in ([part], [part, part]):
        found = cells.macro("share", parts, f1=f1)
        assert found.value == pytest.approx(usual.value)
        assert found.interval == pytest.approx(usual.interval, abs=1e-6)
        assert found.population == pytest.approx(usual.population, abs=1e-6)


def test_a_calibration_error_below_that_of_noise_has_an_interval() -> None:
    """In a subgroup without people, the sum of the released differences may be smaller than noise alone makes it."""
    rng = np.random.default_rng(0)
    bins = best_bins(*drawn(rng, 300), 0.5, n=300, sigma=1.4)
    nobody = BinaryTable(bins, np.zeros((2, bins.count)), bins.noise(1.4), None)
    low, high = nobody.calibration_error.interval
    assert low == 0.0
    assert high > 0.5
