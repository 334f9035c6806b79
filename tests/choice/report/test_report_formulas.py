"""Numbers of a report are recomputed from their definitions: areas, their errors, bins and ranges of residuals."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.cells import Bins, edges_of
from dptune.choice.report.metric import Metric, averaged, ratio
from dptune.choice.report.plan import best_bins
from dptune.choice.report.regression import Ranges

RNG = np.random.default_rng(5)
YES = RNG.random(240) < 0.3
SCORES = expit(RNG.normal(size=240) + 1.5 * YES - 0.5)
EDGES = np.array([0.25, 0.5, 0.7])
BINS = Bins.at(EDGES, 0.5, SCORES, YES, on_decisions=0.4)
COUNTS = np.array([[80.0, 60.0, 30.0, 10.0], [12.0, 30.0, 24.0, 34.0]])


def share_ahead(people: np.ndarray) -> list[float]:
    """Return how often the positive of two people in a bin is ahead, less half, by a logistic curve of the ranks.

    A bin's people are at the 16 points of its public scores.
    """
    place = np.searchsorted(EDGES, SCORES)
    rows = np.bincount(place)
    first = np.cumsum(rows) - rows
    ranks = [(first[b] + rows[b] * (np.arange(16) + 0.5) / 16) / 240 for b in range(4)]
    no, yes = people + [np.bincount(place[kind], minlength=4) for kind in (~YES, YES)] + 0.5
    x = np.array([logit(each).mean() for each in ranks])

    def unlikely(theta: np.ndarray) -> float:
        p = expit(theta[0] + theta[1] * x)
        return -float(yes @ np.log(p) + no @ np.log(1 - p))

    alpha, beta = minimize(unlikely, [0.0, 1.0], method="BFGS", tol=1e-10).x
    found = []
    for b in range(4):
        h = expit(alpha + beta * logit(ranks[b]))
        pairs = [(h[i] * (1 - h[j]), i, j) for i, j in product(range(16), range(16))]
        whole = sum(weight for weight, *_ in pairs)
        found.append(sum(weight * ((i > j) + (i == j) / 2) for weight, i, j in pairs) / whole - 0.5)
    return found


def test_an_area_is_that_of_all_pairs_without_the_bias_of_the_known_sum() -> None:
    table = BinaryTable(BINS, COUNTS, BINS.noise(3.0), 290.0)
    assert list(table.ahead) == pytest.approx(share_ahead(table.table), abs=1e-3)
    cells = table.cells.counts.reshape(2, 4)
    assert cells.sum() == pytest.approx(290.0)
    noise = table.cells.noise
    ahead = numerator = 0.0
    for b, other in product(range(4), range(4)):  # a positive of one bin, and a negative of another
        weight = 1.0 if b > other else 0.5 if b == other else 0.0
        numerator += weight * (cells[1, b] * cells[0, other] - noise[4 + b, other])
        ahead += (b == other) * table.table[0, b] * table.table[1, b] * table.ahead[b]
    pairs = cells[0].sum() * cells[1].sum() - noise[4:, :4].sum()
    assert table.area() == table.roc_auc_score.value == pytest.approx((numerator + ahead) / pairs)
    assert table.area_misfit == pytest.approx(0.04 * math.sqrt((table.table.prod(axis=0) ** 2).sum()) / pairs)
    quiet = BinaryTable(BINS, COUNTS, BINS.noise(1e-9), 280.0)
    both = COUNTS.prod(axis=0)
    variance = (0.04 * both) @ (0.04 * both) + both @ COUNTS.sum(axis=0) / 12
    assert quiet.area_error == pytest.approx(math.sqrt(variance) / COUNTS.sum(axis=1).prod())


def test_chosen_bins_are_those_of_the_least_error() -> None:
    """The candidates are written out: numbers of bins up to a third of the rarer label's rows, and shares of budget."""
    for rows, n, sigma in ((240, 20_000, 1.0), (60, 5_000, 1.0)):
        scores, yes = SCORES[:rows], YES[:rows]
        counts = [b for b in (3, 4, 5, 6, 8, 10, 12, 16, 20) if b <= yes.sum() / 3]
        found = []
        for b, w in product(counts, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)):
            bins = Bins.at(edges_of(scores, yes, 0.5, b), 0.5, scores, yes, on_decisions=w)
            people = np.array(bins.table)
            table = BinaryTable(bins, people * n / people.sum(), bins.noise(sigma), float(n))
            over = max(1.4 * table.area_misfit - table.area_error / 3, 0.0)
            found.append((over, table.area_error + table.decisions.error, bins))
        *_, bins = min(found, key=lambda each: each[:2])
        chosen = best_bins(scores, yes, 0.5, n=n, sigma=sigma)
        assert (chosen.edges, chosen.on_decisions) == (bins.edges, bins.on_decisions)
        if rows == 60:
            assert yes.sum() // 3 == max(counts)
    few = np.arange(240) < 5
    assert best_bins(SCORES, few, 0.5, n=100, sigma=1.0).edges == tuple(edges_of(SCORES, few, 0.5, 2).tolist())


def test_bins_have_means_of_sixteenths_of_their_scores() -> None:
    scores = np.append(np.arange(32) / 64, [0.75, 0.875])
    bins = Bins.at(np.array([0.5, 0.6]), 0.6, scores, np.arange(34) % 3 == 0)
    assert bins.points[0] == pytest.approx([(4 * k + 1) / 128 for k in range(16)])
    assert bins.points[1] == pytest.approx(np.linspace(0.5, 0.6, 16))  # nobody is there
    assert bins.points[2] == pytest.approx([0.75] * 8 + [0.875] * 8)
    assert (bins.count, bins.cut, bins.table) == (3, 2, ((21, 0, 1), (11, 0, 1)))
    assert list(bins.rows) == [32, 1, 2]
    assert bins.ranks[2] == pytest.approx([(33 + 0.5) / 35] * 8 + [(33 + 1.5) / 35] * 8)  # equal points, one rank


def test_ranges_of_residuals_are_those_of_public_rows() -> None:
    y = RNG.normal(size=200) ** 2
    p = y + RNG.normal(0.2, 0.5, size=200)
    found = Ranges.of(y, p)
    assert found.most == pytest.approx(1.1 * np.abs(p - y).max())
    assert (found.middle, found.reach) == pytest.approx((y.mean(), 1.1 * np.abs(y - y.mean()).max()))
    assert list(found.residuals) == pytest.approx(list(np.quantile(p - y, np.arange(1, 6) / 6)))
    assert list(found.predictions) == pytest.approx(list(np.quantile(p, [0.25, 0.5, 0.75])))
    eighths = np.quantile(np.abs(p - y), np.arange(1, 8) / 8)
    assert list(found.sizes) == pytest.approx(list(np.round(eighths / found.most * 400) * found.most / 400))
    size, answer, plot = found.blocks(None)
    assert (size.shape, answer.shape) == ((11, 402), (2, 401))
    assert plot == pytest.approx(0.7 * np.eye(4 * 6 + 1))
    assert size[:3, [0, 399, 400, 401]] == pytest.approx(
        np.array([[-0.49875, 0.49875, 0.5, 0.5], [0.00125**2 - 0.5, 0.99875**2 - 0.5, 0.5, 0.5], [0.7] * 4])
    )
    assert answer[:, [0, -2, -1]] == pytest.approx(np.array([[-0.5, 0.5, 0.0], [0.5, 0.5, -0.5]]))
    assert found.words() == (
        f"residuals in [{-found.most:.4g}, {found.most:.4g}] and answers in "
        f"[{found.middle - found.reach:.4g}, {found.middle + found.reach:.4g}] by public rows"
    )
    cells = found.cells(None, np.array([[1.0, 1.0 + found.most], [0.5, 0.5], [9e9, 0.0], [np.nan, 1.0]]))
    assert [int(each[0]) for each in cells][:1] == [400]
    assert cells[0].tolist()[1:] == [0, 400, -1]
    assert cells[1].tolist()[2:] == [399, -1]
    assert cells[2].tolist()[3] == -1
    for i, (answers, predicted) in enumerate([(1.0, 1.0 + found.most), (0.5, 0.5), (9e9, 0.0)]):
        row, column = (
            sum(predicted > e for e in found.predictions),
            sum(predicted - answers > e for e in found.residuals),
        )
        assert cells[2][i] == 6 * row + column


def test_metrics_are_kept_within_their_range() -> None:
    for values, middle in (([0.02, 0.01], 0.015), ([0.98, 0.99], 0.985), ([1.05, 0.99], 1.0), ([-0.1, 0.05], 0.0)):
        found = averaged("mean", np.array(values), lambda r: 0.03**2 * np.eye(2), lambda r: 0.04**2 * np.eye(2))
        for deviation, ends in ((0.03, found.interval), (0.04, found.population)):
            half = 1.96 * deviation / math.sqrt(2)
            assert ends == pytest.approx((max(middle - half, 0.0), min(middle + half, 1.0)), abs=1e-4)
        assert found.value == pytest.approx(middle)
    one_end = Metric("x", 0.3, (0.0, 0.9), (0.0, 1.0))
    assert one_end.unless_hidden((0.0, 1.0)) == one_end
    assert str(one_end) == "x: 0.300 (0.000 to 0.900)"
    hidden = Metric("x", 0.3, (0.0, 1.0), (0.25, 1.0)).unless_hidden((0.0, 1.0))
    assert str(hidden) == "x: the noise hides it"
    assert hidden.to_dict() == {"value": None, "interval": [0.0, 1.0], "population": [0.0, 1.0]}
    assert ratio(3.0, 1.959964, (1.0, 0.0, 1.0)) == (-math.inf, math.inf)
