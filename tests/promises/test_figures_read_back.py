"""Each number and each bar of a report's renderings and of a run's figures is read back and recomputed."""

import math
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Ridge

import dptune
from dptune.figures import _draw_losses
from dptune.search import VALUES
from dptune.search.algorithms.centred import GENERATION, Generation
from dptune.search.gp.grouped import Group, GroupedRegression
from reading import holds, numbers
from report_tools import MODEL, PRIVATE, PUBLIC, charged, report, silent

pytestmark = pytest.mark.usefixtures("own_folder")
N = 90


def test_the_band_of_a_curve_is_that_of_its_means() -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(2.0))
    run = dptune.SearchRun(
        VALUES, dptune.LossPrivatizer(ledger, n=N, clip=(0, 1)), scope="s", space=None, trials=17, mu=1.0
    )
    for trial in range(17):
        run.finish(str(trial), {"x": trial}, np.full(N, 0.5))
    shown = [each for each in ledger.charges("s") if each.key.startswith("value/")]
    values, window = np.array([each.value[0] for each in shown if each.value]), 17 // 8
    axes = plt.figure().subplots()
    _draw_losses(axes, ledger.charges("s"), ledger)
    kept = [values[i : i + window].mean() for i in range(18 - window)]
    assert list(axes.lines[1].get_ydata()) == pytest.approx(kept)
    half = float(norm.ppf(0.975)) * (1 / N / shown[0].mu) / math.sqrt(window)
    corners = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == pytest.approx((min(kept) - half, max(kept) + half), rel=1e-3)
    assert axes.lines[1].get_label() == f"mean of the last {window}"
    plt.close("all")


def test_each_cell_of_a_report_is_its_metric(tmp_path: Path) -> None:
    """Text, Markdown, HTML and JSON have each metric's value and both intervals, of everybody and of each group."""
    X, public = PRIVATE[0].copy(), PUBLIC[0].copy()
    for rows in (X, public):
        rows[:, 2] = rows[:, 2] > 0.3
    mine = silent(tmp_path)
    made = report(mine, type(MODEL)().fit(public, PUBLIC[1]), (X, PRIVATE[1]), public=(public, PUBLIC[1]), by=2)
    table = [line.strip("| ").split(" | ") for line in made.to_markdown().splitlines() if line.startswith("|")]
    assert table[0][1:4] == ["value", "95%, noise", "95%, noise and sampling"]
    assert [each.rpartition(" = ")[2] for each in table[0][4:]] == list(made.groups)
    rows = {row[0]: row[1:] for row in table[2:]}
    html = re.findall(r"<td>(.*?)</td>", made._repr_html_())
    assert html == [cell for row in table[2:] for cell in row]
    data = made.to_dict()
    everybody, groups = made.metrics, {level: each.metrics() for level, each in made.groups.items()}
    assert list(rows) == list(everybody) == list(data["metrics"])
    text, at = str(made).splitlines(), list(made.at(0.3).metrics().values())
    for level, own in groups.items():
        start = text.index(f"  2 = {level}") + 1
        assert text[start : start + len(own)] == [f"    {metric}" for metric in own.values()]
    assert str(made.at(0.3)).splitlines() == [str(metric) for metric in at]
    assert at[0].value == pytest.approx(
        np.mean((type(MODEL)().fit(public, PUBLIC[1]).predict_proba(X)[:, 1] > 0.3) == PRIVATE[1]), abs=0.02
    )
    assert "  - positive is 1, decided above a probability of 0.5" in text
    assert "records of one person, n = 400 public" in data["notes"][0]
    for name, metric in everybody.items():
        line = next(each for each in str(made).splitlines() if each.strip().startswith(f"{name}:"))
        own = [metric.value, *metric.interval]
        parts = [[metric.value], list(metric.interval), list(metric.population)]
        parts += [[g[name].value, *g[name].interval] for g in groups.values()]
        for cell, wanted in zip([*rows[name], line.partition(":")[2]], [*parts, own], strict=True):
            assert numbers(cell) == pytest.approx([each for each in wanted if np.isfinite(each)], abs=6e-4, rel=6e-3), (
                name
            )
        for stored, of in ((data, everybody), *((data["groups"][level], each) for level, each in groups.items())):
            kept = stored["metrics"][name]
            assert [kept["value"], *kept["interval"], *kept["population"]] == pytest.approx(
                [of[name].value, *of[name].interval, *of[name].population], nan_ok=True
            )
    holds(data["notes"][0].partition(": ")[2], 0.5, 400)
    assert (data["n"], data["mu"], data["unknown"]) == (400, 0.5, 0)
    assert (data["classes"], data["positive"]) == ([0, 1], 1)
    assert data["sigma_of_a_count"] == pytest.approx(400 * charged(mine)["sigma"])
    roc, calibration, confusion = made.plot().axes
    area, curve = made.roc_auc_score, made.calibration_curve()
    assert np.array(roc.lines[0].get_xydata()) == pytest.approx(np.array(made.roc_curve()[:2]).T)
    holds(roc.lines[0].get_label(), *(round(each, 2) for each in (area.value, *area.interval)))
    bars = np.array([each[:, 1] for each in calibration.containers[0].lines[2][0].get_segments()])
    assert bars == pytest.approx(np.array([share.interval for _, share in curve]))
    assert list(calibration.containers[0].lines[0].get_xdata()) == pytest.approx([p for p, _ in curve])
    assert [(each.get_xlabel(), each.get_ylabel()) for each in (roc, calibration, confusion)] == [
        ("1 - specificity: others called 1", "sensitivity: 1, and called so"),
        ("predicted probability of 1", "share who are 1"),
        ("predicted", "true"),
    ]
    counts = made.confusion_matrix
    for text, (i, j) in zip(confusion.texts, np.ndindex(2, 2), strict=True):
        assert text.get_position() == (j, i)
        said = [round(counts[i, j]), round(100 * counts[i, j] / counts[i].sum())]
        assert [int(each) for each in re.findall(r"\d+", text.get_text())] == said


def test_a_regressions_figure_has_its_intervals_and_quantiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3))
    X[300:, 0] += 1.5  # the private answers have another mean
    y = X @ [1.0, -2.0, 0.5] + rng.standard_t(4, size=700)
    ridge = Ridge().fit(X[:300], y[:300])
    made = report(silent(tmp_path), ridge, (X[300:], y[300:]), public=(X[:300], y[:300]))
    residuals, bars = made.plot().axes
    assert (residuals.get_xlabel(), residuals.get_ylabel()) == ("prediction", "prediction - answer")
    r2 = made.metrics["r2_score"]
    cut = np.clip(ridge.predict(X[300:]) - y[300:], -made.ranges.most, made.ranges.most)
    answers = np.clip(y[300:], made.ranges.middle - made.ranges.reach, made.ranges.middle + made.ranges.reach)
    assert r2.value == pytest.approx(1 - (cut**2).mean() / answers.var(), abs=0.01)
    holds(bars.get_title().partition("R²")[2], *(round(each, 2) for each in (r2.value, *r2.interval)))
    others = [each for name, each in made.metrics.items() if name != "r2_score"]
    for lines, ends in zip(bars.collections, ("population", "interval"), strict=True):
        assert [list(each[:, 0]) for each in lines.get_segments()] == [
            pytest.approx(list(getattr(each, ends))) for each in others
        ]
    edges = np.array([-made.ranges.most, *made.ranges.residuals, made.ranges.most])
    for row, counts in enumerate(made.residual_table()):
        below = np.cumsum([0, *counts]) / counts.sum()
        wide, half = (residuals.collections[2 * row + i].get_segments()[0][:, 1] for i in (0, 1))
        assert np.interp(wide, edges, below) == pytest.approx([0.1, 0.9])
        assert np.interp(half, edges, below) == pytest.approx([0.25, 0.75])
        assert np.interp(residuals.lines[row].get_ydata(), edges, below) == pytest.approx([0.5])
    plt.close("all")


def test_bars_of_generations_are_two_deviations_of_the_surrogate() -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(4.0))
    space = dptune.Space({"a": dptune.Float(0.0, 1.0)})
    privatizer = dptune.LossPrivatizer(ledger, n=400, clip=(0, 1))
    run = dptune.SearchRun(dptune.CENTRED, privatizer, scope="s", space=space, trials=12, mu=3.0)
    for trial in range(12):
        x = run.ask(trial)
        run.finish(str(trial), x, np.full(400, x["a"] ** 2))
    axes = plt.figure().subplots()
    _draw_losses(axes, ledger.charges("s"), ledger)
    bar = next(each for each in axes.containers if getattr(each, "has_yerr", False))
    generations = [each for each in ledger.charges("s") if each.key.startswith(GENERATION)]
    made = [Generation.from_note(c.note, np.array(c.value), c.description["sigma"]) for c in generations]
    groups = [Group(each.points, each.values, each.sigma) for each in made]
    followed, drawn = GroupedRegression(1, memory=100), GroupedRegression(1, memory=100)
    for count in range(len(groups)):
        followed.fit(groups[: count + 1])  # as the run: each fit starts where the last one ended
    drawn.fit(groups)
    places = np.concatenate([each.points[: each.new] for each in made])
    middle = np.array([0.5])
    for x in places:
        assert run.algorithm.value(x) == pytest.approx(sum(followed.difference(x, middle)))  # an upper estimate
    apart = [drawn.difference(x, middle) for x in places]
    segments = np.array([each[:, 1] for each in bar.lines[2][0].get_segments()])
    wanted = [[mean - 1.96 * deviation, mean + 1.96 * deviation] for mean, deviation in apart]
    assert segments == pytest.approx(np.array(wanted), abs=1e-9)
    plt.close("all")
