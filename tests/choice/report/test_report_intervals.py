"""Intervals cover the true value in at least 93% of runs, also near 0 and 1, and bias is small against the noise."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm, rankdata

from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.cells import Bins, edges_of
from dptune.choice.report.metric import Cells, nonnegative
from dptune.choice.report.plan import Groups, ReportPlan, best_bins, with_errors
from dptune.choice.report.regression import Ranges
from dptune.choice.report.result import residuals_of
from dptune.losses.functions import label_codes

RUNS = 200
NEEDED = 0.93 - 2.5 * math.sqrt(0.07 * 0.93 / RUNS)  # 93%, seen in 200 runs
CASES = {  # area, prevalence, n, mu
    "little budget": (0.85, 0.375, 300, 0.25),
    "nearly perfect": (0.99, 0.375, 300, 0.5),
    "a coin": (0.55, 0.4, 300, 0.5),
    "rare": (0.8, 0.1, 1000, 1.0),
    "common": (0.8, 0.9, 1000, 1.0),
}


def drawn(rng: Any, n: int, area: float, prevalence: float) -> tuple[Any, Any]:
    """Calibrated scores (n,) and outcomes (n,) of two normal classes."""
    y = rng.random(n) < prevalence
    d = norm.ppf(area) * math.sqrt(2)
    x = rng.normal(size=n) + d * y
    return expit(d * x - d * d / 2 + math.log(prevalence / (1 - prevalence))), y


def area_under_curve(s: Any, y: Any) -> float:
    """The share of pairs in which the positive is ahead (Mann and Whitney)."""
    n = np.bincount(y, minlength=2)
    return float((rankdata(s)[y].sum() - n[1] * (n[1] + 1) / 2) / n.prod())


def share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def exact(s: Any, y: Any, bins: Bins) -> dict[str, float]:
    """Every metric of these people."""
    up, place = s > 0.5, bins.of(s)
    tp, fp, fn, tn = (float((a & b).sum()) for a, b in ((up, y), (up, ~y), (~up, y), (~up, ~y)))
    recall, specificity = share(tp, tp + fn), share(tn, tn + fp)
    gaps = np.bincount(place, y - s, minlength=bins.count)
    return {
        "accuracy_score": (tp + tn) / len(s),
        "balanced_accuracy_score": (recall + specificity) / 2,
        "recall_score": recall,
        "specificity": specificity,
        "precision_score": share(tp, tp + fp),
        "negative_predictive_value": share(tn, tn + fn),
        "f1_score": share(2 * tp, 2 * tp + fp + fn),
        "prevalence": float(y.mean()),
        "roc_auc_score": area_under_curve(s, y),
        "brier_score_loss": float(((s - y) ** 2).mean()),
        "expected_calibration_error": float(np.abs(gaps).sum()) / len(s),
    }


@pytest.mark.parametrize(
    "case",
    [
        "nearly perfect",
        "little budget",
        *(pytest.param(c, marks=pytest.mark.slow) for c in ("a coin", "rare", "common")),
    ],
)
def test_intervals_cover_and_bias_is_small(case: str) -> None:
    area, prevalence, n, mu = CASES[case]
    rng, sigma = np.random.default_rng(3), math.sqrt(2) / mu
    population = drawn(rng, 200_000, area, prevalence)
    errors: dict[str, list[float]] = {}
    held: dict[tuple[str, str], list[bool]] = {}
    for i in range(RUNS):
        if i % 50 == 0:
            scores, positive = drawn(rng, 300, area, prevalence)
            bins = best_bins(scores, positive, 0.5, n=n, sigma=sigma)
            truth = exact(*population, bins)
        s, y = drawn(rng, n, area, prevalence)
        place = bins.of(s)
        counts = np.concatenate([np.bincount(place[kind], minlength=bins.count) for kind in (~y, y)])
        released = bins.strategy @ counts + rng.normal(0, sigma, len(bins.strategy))
        read = np.linalg.lstsq(bins.strategy, released)[0].reshape(2, -1)
        table = BinaryTable(bins, read, bins.noise(sigma), float(n))
        own = exact(s, y, bins)
        for name, metric in table.metrics().items():
            if math.isnan(own[name]):
                continue
            errors.setdefault(name, []).append(metric.value - own[name])
            for kind, ends, value in (
                ("noise", metric.interval, own[name]),
                ("sampling", metric.population, truth[name]),
            ):
                held.setdefault((name, kind), []).append(ends[0] - 1e-9 <= value <= ends[1] + 1e-9)
    covered = {key: float(np.mean(each)) for key, each in held.items()}
    assert min(covered.values()) >= NEEDED, {key: each for key, each in covered.items() if each < NEEDED}
    for name in ("accuracy_score", "roc_auc_score", "recall_score", "specificity"):
        bias, spread = np.mean(errors[name]), np.std(errors[name])
        assert abs(bias) <= spread * (1 / 3 + 2 / math.sqrt(RUNS)) + 1e-9, f"{name}: bias {bias}, deviation {spread}"


@pytest.mark.parametrize("rate", [0.0, 0.002, 0.5, 1.0])
def test_a_share_near_0_and_1_is_covered(rate: float) -> None:
    rng, sigma, n = np.random.default_rng(0), 2.0, 200
    held = []
    for _ in range(RUNS):
        yes = rng.binomial(n, rate)
        cells = Cells.of(np.array([n - yes, yes]) + rng.normal(0, sigma, 2), sigma**2 * np.eye(2), float(n))
        found = cells.share("rate", np.array([0.0, 1.0]), np.ones(2))
        (low, high), (least, most) = found.interval, found.population
        held.append((low <= yes / n <= high, least - 1e-12 <= rate <= most + 1e-12))
    assert np.mean(held, axis=0).min() >= NEEDED


@pytest.mark.parametrize("beyond", [0.5, 2.0, 6.0])
def test_noise_beyond_0_or_1_does_not_shorten_an_interval(beyond: float) -> None:
    """The interval is that of 0 or of 1: less would be left of it within [0, 1], the further noise is beyond."""
    forms, both = (np.array([0.0, 1.0]), np.array([1.0, 0.0])), np.ones(2)
    counts = np.array([-beyond, 80.0 + beyond])
    near, exact = (Cells.of(each, 9.0 * np.eye(2), None) for each in (counts, np.array([0.0, 80.0])))
    for form in forms:
        found, wanted = near.share("share", form, both), exact.share("share", form, both)
        assert [*found.interval, *found.population] == pytest.approx([*wanted.interval, *wanted.population])
        assert max(found.interval) - min(found.interval) > 0.06


def test_a_share_that_the_noise_hides_has_the_whole_interval() -> None:
    cells = Cells.of(np.array([3.0, -2.0, 50.0]), 400.0 * np.eye(3), None)
    found = cells.share("share", np.array([1.0, 0, 0]), np.array([1.0, 1.0, 0]))
    assert found.interval == (0.0, 1.0)
    assert math.isnan(found.value)
    hidden = cells.share("share", np.array([0, 1.0, 0]), np.array([0, 1.0, 0]))
    assert math.isnan(hidden.value)
    one, other, _ = np.eye(3)
    assert math.isnan(cells.macro("mean", [(one, one + other), (other, other)]).value)
    assert "hides" in str(hidden)


def test_an_area_that_the_noise_hides_has_no_value() -> None:
    scores = np.linspace(0.0, 1.0, 100)
    bins = Bins.at(np.array([0.25, 0.5, 0.75]), 0.5, scores, scores > 0.6)
    table = BinaryTable(bins, np.array([[2.0, -1.0, 1.0, 0.0], [90.0, 100.0, 110.0, 100.0]]), bins.noise(5.0), 400.0)
    assert table.roc_auc_score.interval == (0.0, 1.0)
    assert math.isnan(table.roc_auc_score.value)
    nobody = BinaryTable(bins, np.array([[6.0, -4.0, 3.0, -5.0], [4.0, -7.0, 5.0, 2.0]]), bins.noise(5.0), None)
    assert nobody.calibration_error.interval == (0.0, 1.0)
    assert {name for name, metric in nobody.metrics().items() if not math.isnan(metric.value)} == set()


def test_decision_counts_sharpen_shares_without_adding_sensitivity() -> None:
    scores = np.linspace(0.0, 1.0, 201)
    bins = Bins.at(np.arange(1, 8) / 8, 0.5, scores, scores > 0.6, on_decisions=0.5)
    columns = bins.strategy.T
    far = max(float(np.linalg.norm(a - b)) for a in columns for b in columns)
    assert far == pytest.approx(math.sqrt(2))
    counts = np.arange(16.0) + 5.0
    table = BinaryTable(bins, counts.reshape(2, -1), bins.noise(1.0), float(counts.sum()))
    alone = BinaryTable(bins, counts.reshape(2, -1), np.eye(16), float(counts.sum()))
    tn, _, _, tp = table.decisions._forms
    assert alone.cells.variance(tn + tp) == pytest.approx(8 / 2)
    assert table.cells.variance(tn + tp) == pytest.approx(1 / (0.5 + 0.5 * 2 / 8))  # both parts, by their precision


@pytest.mark.parametrize(("n", "mu"), [(300, 0.5), (1000, 1.0)])
def test_the_area_of_a_kinked_curve_is_almost_unbiased(n: int, mu: float) -> None:
    """The order within bins is unlike what is fitted: people in the middle are told apart, others are not."""
    rng = np.random.default_rng(2)
    public, few = rng.random(300), rng.random(300) < 0.5
    rank = (np.arange(200_000) + 0.5) / 200_000
    y = rng.random(len(rank)) < np.clip(0.5 + 2.5 * (rank - 0.5), 0.4, 0.6)
    bins = best_bins(public, few, 0.5, n=n, sigma=math.sqrt(2) / mu)
    place = bins.of(rank)
    counts = np.array([np.bincount(place[kind], minlength=bins.count) for kind in (~y, y)]) * n / len(rank)
    table = BinaryTable(bins, counts, bins.noise(math.sqrt(2) / mu), float(n))
    exactly = BinaryTable(bins, counts, bins.noise(1e-6), float(n)).area()
    assert abs(exactly - area_under_curve(rank, y)) < table.area_error / 3
    assert table.area_misfit < table.area_error / 3.5  # 4.2 for people who are spread like the public rows


def test_noise_of_counts_on_a_known_sum_is_that_of_the_nearest_ones() -> None:
    """Conditioning on the sum, checked against many draws."""
    rng, bins = np.random.default_rng(0), Bins.at(np.array([0.5]), 0.5, np.linspace(0, 1, 50), np.arange(50) > 20, 0.4)
    noise, counts = bins.noise(3.0), np.array([30.0, 10.0, 20.0, 40.0])
    draws = rng.multivariate_normal(np.zeros(4), noise, size=20_000)
    moved = np.array([Cells.of(counts + each, noise, 100.0).counts for each in draws])
    assert moved.sum(axis=1) == pytest.approx(100.0)
    wanted = Cells.of(counts, noise, 100.0).noise
    assert np.abs(np.cov(moved.T) - wanted).max() < 0.05 * wanted.max()
    assert np.abs(moved.mean(axis=0) - counts).max() < 0.1


def test_the_nearest_counts_without_negative_ones() -> None:
    assert nonnegative(np.array([3.0, -1.0, 2.0]), 4.0) == pytest.approx([2.5, 0.0, 1.5])
    assert nonnegative(np.array([1.0, 2.0]), 3.0).tolist() == [1.0, 2.0]
    assert nonnegative(np.array([-1.0, -2.0]), -3.0).tolist() == [0.0, 0.0]


def test_more_people_and_budget_choose_more_bins() -> None:
    rng = np.random.default_rng(0)
    scores, positive = drawn(rng, 600, 0.85, 0.375)
    few = best_bins(scores, positive, 0.5, n=200, sigma=6.0)
    many = best_bins(scores, positive, 0.5, n=20_000, sigma=1.4)
    assert few.count < many.count
    assert 0.5 in few.edges
    assert 0.5 in many.edges


def test_bins_that_share_a_table_have_the_errors_of_their_own() -> None:
    scores, positive = drawn(np.random.default_rng(0), 600, 0.85, 0.375)
    shared = Bins.at(edges_of(scores, positive, 0.5, 6), 0.5, scores, positive)
    for (_, error), bins in with_errors(shared, 1000, 2.0):
        counts = np.asarray(bins.table)
        own = BinaryTable(bins, counts * 1000 / counts.sum(), bins.noise(2.0), 1000.0)
        assert error == pytest.approx(own.area_error + own.decisions.error, rel=1e-12)


@pytest.mark.parametrize("count", [2, 128, 300])
def test_the_bin_of_a_score_is_that_of_a_search(count: int) -> None:
    scores = np.linspace(0.0, 1.0, 601)
    bins = Bins.at(np.arange(1, count) / count, 0.5, scores, scores > 0.5)
    assert bins.of(scores).tolist() == np.searchsorted(bins.edges, scores, side="left").tolist()
    codes, edges = label_codes(np.append(scores, np.nan), list(bins.edges)), np.float32(bins.edges).tolist()
    assert codes.tolist() == [edges.index(x) if x in edges else -1 for x in np.float32([*scores, np.nan])]


@pytest.mark.parametrize(("prevalence", "mu", "allowed"), [(0.12, 0.5, {3, 4}), (0.35, 0.25, {3})])
def test_little_budget_chooses_few_bins_whatever_the_public_rows(
    prevalence: float, mu: float, allowed: set[int]
) -> None:
    found = {
        best_bins(*drawn(np.random.default_rng(i), 300, 0.77, prevalence), 0.5, n=300, sigma=math.sqrt(2) / mu).count
        for i in range(4)
    }
    assert found <= allowed


def test_one_edge_is_the_threshold_and_a_score_on_it_is_negative() -> None:
    scores = np.linspace(0.0, 1.0, 101)
    edges = edges_of(scores, scores > 0.6, 0.5, 5)
    bins = Bins.at(edges, 0.5, scores, scores > 0.6)
    assert bins.of(np.array([0.5, 0.5000001, np.nan, -np.inf, np.inf])).tolist() == [
        bins.cut - 1, bins.cut, -1, 0, bins.count - 1,
    ]  # fmt: skip


def test_scores_that_are_all_equal_make_two_bins() -> None:
    bins = best_bins(np.full(50, 0.3), np.arange(50) % 2 == 0, 0.5, n=100, sigma=1.0)
    table = BinaryTable(bins, np.array([[60.0, 0.0], [40.0, 0.0]]), bins.noise(1.0), 100.0)
    assert table.roc_auc_score.value == pytest.approx(0.5, abs=0.02)
    assert table.at(0.2).recall_score.value == pytest.approx(1.0)


# ---- regressions ---------------------------------------------------------------------------------------------


def residuals(rng: Any, n: int, groups: int) -> tuple[Any, Any, Any]:
    """Answers, predictions (n,) and groups (n,), of which later ones are predicted worse."""
    of = rng.integers(groups, size=n)
    p = rng.normal(size=n)
    return p + (0.3 + 0.3 * of) * rng.standard_t(5, size=n), p, of


def exact_residuals(y: Any, p: Any, ranges: Ranges) -> dict[str, float]:
    r = np.minimum(np.abs(p - y), ranges.most)
    return {
        "mean_absolute_error": r.mean(),
        "root_mean_squared_error": math.sqrt((r**2).mean()),
        "median_absolute_error": float(np.median(r)),
        "r2_score": 1 - (r**2).mean() / y.var(),
    }


@pytest.mark.parametrize(("public", "private"), [(10.0, 1.0), (1.0, 3.0), (10.0, "t"), ("t", "t")])
def test_a_medians_interval_covers_where_public_residuals_are_others(public: Any, private: Any) -> None:
    """Then few bins hold most people, spread unevenly. Of "t" the largest of 300 residuals is 100 times the median."""
    rng, n, held = np.random.default_rng(2), 450, []

    def drawn(size: Any, number: int) -> Any:
        return rng.standard_t(1.5, number) if size == "t" else rng.normal(0.0, size, number)

    for _ in range(60):
        p, q, r = rng.normal(size=300), rng.normal(size=n), drawn(private, n)
        ranges = Ranges.of(p + drawn(public, 300), p)
        plan = ReportPlan(0.5, n, "M", "predict", (), None, (), ranges, None, ())
        query, cells = plan.query(), ranges.cells(None, np.column_stack([q + r, q]))
        sums = [M[:, cell].sum(axis=1) for M, cell in zip(query.blocks, cells, strict=True)]
        blocks = [each + rng.normal(0, query.diameter / 0.5, len(each)) for each in sums]
        low, high = residuals_of(plan, ranges, blocks, query.diameter / 0.5)[0].median_absolute_error.interval
        held.append(low <= np.median(np.abs(r)) <= high)
    assert np.mean(held) >= NEEDED


@pytest.mark.parametrize(("n", "mu", "groups"), [(400, 1.0, 1), (600, 0.3, 2)])
def test_intervals_of_a_regression_and_of_its_subgroups_cover(n: int, mu: float, groups: int) -> None:
    rng, by = np.random.default_rng(5), Groups("g", tuple(range(groups))) if groups > 1 else None
    held: dict[tuple[str, str, str], list[bool]] = {}
    y, p, group = residuals(rng, 50_000, groups)
    for i in range(RUNS):
        if i % 80 == 0:
            ranges = Ranges.of(*residuals(rng, 300, groups)[:2])
            who = {"all": np.ones(len(y), bool), **{str(g): group == g for g in range(groups)}}
            truth = {name: exact_residuals(y[mask], p[mask], ranges) for name, mask in who.items()}
            plan = ReportPlan(mu, n, "M", "predict", (), None, (), ranges, by, ())
            query = plan.query()
            sigma = query.diameter / mu
        own, predicted, of = residuals(rng, n, groups)
        cells = ranges.cells(None, np.column_stack([own, predicted]))
        steps = [of * each for each in plan.cells_of_a_group]
        sums = [
            M[:, cell + step].sum(axis=1) for M, cell, step in zip(query.blocks, cells, steps, strict=True)
        ]  # fmt: skip
        blocks = [each + rng.normal(0, sigma, len(each)) for each in sums]
        everybody, by_group, _ = residuals_of(plan, ranges, blocks, sigma)
        for name, found in {"all": everybody, **by_group}.items():
            mask = np.ones(n, bool) if name == "all" else of == int(name)
            exactly = exact_residuals(own[mask], predicted[mask], ranges)
            for metric, released in found.metrics().items():
                for kind, (low, high), value in (
                    ("noise", released.interval, exactly[metric]),
                    ("sampling", released.population, truth[name][metric]),
                ):
                    held.setdefault((name, metric, kind), []).append(low - 1e-9 <= value <= high + 1e-9)
    covered = {key: float(np.mean(each)) for key, each in held.items()}
    assert min(covered.values()) >= NEEDED, {key: each for key, each in covered.items() if each < NEEDED}


def test_subgroups_of_a_regression_cost_no_noise() -> None:
    """People of two groups are no farther apart than two of one group."""
    ranges = Ranges.of(*residuals(np.random.default_rng(0), 300, 1)[:2])
    one, several = (
        ReportPlan(1.0, 300, "M", "predict", (), None, (), ranges, by, ()).query()
        for by in (None, Groups("g", (0, 1, 2)))
    )
    assert several.diameter == pytest.approx(one.diameter)


@pytest.mark.parametrize("prevalence", [0.1, 0.9])
def test_a_populations_interval_of_the_area_covers_whichever_label_is_rare(prevalence: float) -> None:
    rng, n = np.random.default_rng(0), 300
    bins = best_bins(*drawn(rng, 2000, 0.9, prevalence), 0.5, n=n, sigma=1e-3)
    areas, halves = [], []
    for _ in range(400):
        s, y = drawn(rng, n, 0.9, prevalence)
        areas.append(area_under_curve(s, y))
        if len(halves) < 40:
            counts = np.array([np.bincount(bins.of(s)[kind], minlength=bins.count) for kind in (~y, y)])
            metric = BinaryTable(bins, counts.astype(float), bins.noise(1e-3), float(n)).metrics()["roc_auc_score"]
            halves.append((metric.population[1] - metric.population[0]) / 2)
    assert 1.0 < np.mean(halves) / (1.96 * np.std(areas)) < 1.4  # the formula's classes are not normal: 1.3
