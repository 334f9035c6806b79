"""The width of each interval is compared with 2,000 seeded draws of the noise, not with coverage alone."""

import math
from typing import Any

import numpy as np
import pytest

from dptune.choice import Report
from dptune.choice.report.cells import POINTS, Bins, with_groups
from dptune.choice.report.metric import Z_95
from dptune.choice.report.plan import Groups, ReportPlan
from dptune.choice.report.regression import Ranges
from dptune.privacy.stored_losses import People

DRAWS = 2000
TOLERANCE = 0.12  # 5 standard errors of a standard deviation of 2,000 draws are 8%; the rest is curvature
N, MU = 2000, 1.0
RNG = np.random.default_rng(0)
SCORES = RNG.random(400)
YES = RNG.random(400) < SCORES
BINS = Bins.at(np.array([0.2, 0.35, 0.5, 0.7]), 0.5, SCORES, YES)
NAMES = ("accuracy_score", "balanced_accuracy_score", "precision_score", "f1_score")
OF_TWO = (
    *NAMES,
    "roc_auc_score",
    "recall_score",
    "specificity",
    "negative_predictive_value",
    "prevalence",
)
OF_NUMBERS = ("mean_absolute_error", "root_mean_squared_error", "r2_score")
GROUPS = Groups("ward", ("a", "b"))


def plan_of(kind: str, by: Groups | None) -> ReportPlan:
    if kind == "numbers":
        answers = RNG.normal(size=400)
        ranges = Ranges.of(answers, answers + 0.5 * RNG.normal(size=400))
        return ReportPlan(MU, N, "M", "predict", (), None, (), ranges, by, ())
    labels = (0, 1) if kind == "two" else (0, 1, 2)
    positive = 1 if kind == "two" else None
    return ReportPlan(MU, N, "M", "predict_proba", labels, positive, (BINS,) if positive else (BINS,) * 3, None, by, ())


def read(results: Any, name: str) -> Any:
    """Return one metric; of a table of two labels, others than the area and the Brier score are of its decisions."""
    return getattr(results, name) if hasattr(type(results), name) else getattr(results.decisions, name)


def cells_of(plan: ReportPlan, rng: Any) -> Any:
    """Codes (N,) of people, of whom 30 are in no cell."""
    y = rng.integers(max(len(plan.labels), 1), size=N)
    if plan.ranges is not None:
        answers = rng.normal(size=N)
        own = plan.loss()(answers, answers + 0.5 * rng.normal(size=N))
    else:
        p = rng.dirichlet(np.ones(len(plan.labels)), size=N) / 2 + np.eye(len(plan.labels))[y] / 2
        p = 0.6 * p + 0.4 * np.roll(p, 1, axis=0)  # some are decided wrongly
        own = plan.loss()(y, p, labels=list(plan.labels))
    if plan.by is None and plan.ranges is not None:
        return own
    own[:30] = np.nan
    return own


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("two", None),
        ("numbers", GROUPS),
        pytest.param("two", GROUPS, marks=pytest.mark.slow),
        pytest.param("three", None, marks=pytest.mark.slow),
    ],
)
def test_intervals_are_as_wide_as_the_noise_of_2000_draws(kind: str, by: Groups | None) -> None:
    """And values are those without noise in the mean, whether or not the release shows the unknown people."""
    plan, rng = plan_of(kind, by), np.random.default_rng(1)
    codes, query = cells_of(plan, rng), plan.query()
    if by is not None:
        codes = with_groups(codes, rng.integers(2, size=N), plan.cells_of_a_group, plan.sizes)
    exact = query.mean(People.of(N, None, None), codes)
    sigma = query.diameter / (MU * N)
    names = {"two": OF_TWO if by is None else NAMES, "three": NAMES, "numbers": OF_NUMBERS}[kind]

    def metrics(value: Any) -> dict[str, Any]:
        found = Report.of(plan, value, sigma)
        results = {"": found.results, **({"group ": found.groups["a"]} if by else {})}
        return {start + name: read(each, name) for start, each in results.items() for name in names}

    usual = metrics(exact)
    noisy = [metrics(exact + rng.normal(0, sigma, query.dimension)) for _ in range(DRAWS)]
    for name, metric in usual.items():
        values = np.array([each[name].value for each in noisy])
        width = (metric.interval[1] - metric.interval[0]) / (2 * Z_95)
        wider = 4 if name.endswith("roc_auc_score") else 1 + TOLERANCE  # the order within bins is not released
        assert 1 - TOLERANCE < width / values.std() < wider, (name, width, values.std())
        assert abs(values.mean() - metric.value) < 5 * values.std() / math.sqrt(DRAWS) + 0.1 * width, name


def test_the_width_of_a_brier_score_has_all_its_parts() -> None:
    """Each cell's losses are those of 16 points; their means are of few public rows, and tilted to the cell's class."""
    plan, rng = plan_of("two", None), np.random.default_rng(2)
    query = plan.query()
    exact = query.mean(People.of(N, None, None), cells_of(plan, rng))
    sigma = query.diameter / (MU * N)
    found = Report.of(plan, exact, sigma).results
    metric, counts, (q0, q1) = found.brier_score_loss, found.cells.counts.reshape(2, -1), found._spread
    noisy = (Report.of(plan, exact + rng.normal(0, sigma, query.dimension), sigma) for _ in range(DRAWS))
    noise = np.var([each.results.brier_score_loss.value for each in noisy])
    reading = tilted = 0.0
    for b, points in enumerate(np.asarray(BINS.points)):
        for label, q in ((0, q0[b]), (1, q1[b])):
            losses, people = (points - label) ** 2, counts[label, b]
            mean = float(q @ losses)
            reading += float(q @ (losses - mean) ** 2) * (people + people**2 / BINS.rows[b])
            tilted += people * (mean - losses.mean()) / 2
    wanted = math.sqrt(noise + (reading + tilted**2) / found.cells.counts.sum() ** 2)
    assert (metric.interval[1] - metric.interval[0]) / (2 * Z_95) == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("where", ["everybody", "a group", "a label of three"])
def test_decisions_inside_a_bin_have_the_width_of_their_division_too(where: str) -> None:
    """Everywhere that a report has a table of score bins; the noise is that of sums with a part of the bin's cells."""
    by = GROUPS if where == "a group" else None
    plan, rng = plan_of("three" if "three" in where else "two", by), np.random.default_rng(3)
    codes, query = cells_of(plan, rng), plan.query()
    if by is not None:
        codes = with_groups(codes, rng.integers(2, size=N), plan.cells_of_a_group, plan.sizes)
    found = Report.of(plan, query.mean(People.of(N, None, None), codes), query.diameter / (MU * N))
    table = found.groups["a"] if by else found.rest[1] if plan.positive is None else found.results
    B, none = BINS.count, np.zeros(BINS.count)
    for threshold in (0.4, 0.55):
        b = int(np.searchsorted(BINS.edges, threshold))
        up = np.asarray(BINS.points)[b] > threshold
        x, m = table.cells.counts.reshape(2, -1)[:, b], BINS.rows[b]
        plain, tilted = up.mean(), np.array([q[b, up].sum() for q in table._spread])
        f = (plain + tilted) / 2
        some, all_some = ((m * share + 0.5) / (m + 1) for share in (f, plain))
        common = all_some * (1 - all_some) / m + 1 / (12 * POINTS**2)
        above = np.array([np.where(np.arange(B) == b, part, np.arange(B) > b) for part in f])
        rights = np.concatenate([1 - above[0], none]), np.concatenate([none, above[1]])
        whole = np.repeat(np.eye(2), B, axis=1)
        for name, right, of, moved in (
            ("recall_score", rights[1], whole[1], np.array([0, 1])),
            ("specificity", rights[0], whole[0], np.array([-1, 0])),
            ("accuracy_score", rights[0] + rights[1], whole.sum(axis=0), np.array([-1, 1])),
        ):
            people = float(of @ table.cells.counts)
            value = float(right @ table.cells.counts) / people
            parts = table.cells.variance(right - value * of) + float(moved**2 @ (x * some * (1 - some)))
            parts += common * float(moved @ x) ** 2 + float(moved @ (x * (tilted - plain))) ** 2
            metric = getattr(table.at(threshold), name)
            half, wider = (np.ptp(ends) / (2 * Z_95) for ends in (metric.interval, metric.population))
            assert metric.value == pytest.approx(value)
            assert half == pytest.approx(math.sqrt(parts) / people, rel=0.03), (threshold, name)
            sampled = math.sqrt(half**2 + value * (1 - value) / people)
            assert wider == pytest.approx(sampled, rel=0.05), (threshold, name)
