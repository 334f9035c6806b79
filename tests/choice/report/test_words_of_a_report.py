"""Notes, names of metrics, keys and labels of figures are the documented ones, for each kind of model."""

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, LinearSVC

from dptune import InputError
from dptune.choice import Report
from dptune.choice.report.cells import Bins
from dptune.choice.report.plan import Groups, ReportPlan
from report_tools import MODEL, PRIVATE, PUBLIC, Array, people, report, silent

PRICE = "one release of mu = 0.5 GDP (replacing all records of one person, n = 400 public)"
SEEDED = f"NOT PRIVATE, as noise was seeded: {PRICE}"
LEFT_OUT = (
    "about 37 people are left out, as their score, label or group is unknown: if many, compare the spelling of labels "
    "and groups with public rows"
)
POPULATION = "that of noise and sampling is about the population of which they are a sample"
INTERVALS = ["the 95% interval of noise is about the metric of these people", POPULATION]
COUNTS = [
    "metrics are read from sums of noisy counts that add up to n and are not cut at 0",
    "tables and curves are the nearest ones without negative counts",
]
BINS = (
    "6 score bins, chosen from public rows that did not train the model which scored them; the spread of scores within "
    "a bin is theirs"
)
ALONE = "brier_score_loss is of the positive label alone, from 0 to 1"
DECISIONS = [
    "accuracy_score", "balanced_accuracy_score", "recall_score", "specificity", "precision_score",
    "negative_predictive_value", "f1_score", "prevalence", "roc_auc_score",
]  # fmt: skip
AVERAGES = ["accuracy_score", "balanced_accuracy_score", "precision_score (macro)", "f1_score (macro)"]
OF_CLASS = ("share of", "recall of", "precision of", "f1 of")
NUMBERS = ["mean_absolute_error", "root_mean_squared_error", "median_absolute_error", "r2_score"]
THREE_PUBLIC, THREE = people(300, seed=1, classes=3), people(400, classes=3)
SHARES = ("People, and their share of the row", "predicted", "true")
BARS = ("Metrics, 95%", "", "")


def roc(label: str) -> tuple[str, ...]:
    return "ROC curve", f"1 - specificity: others called {label}", f"sensitivity: {label}, and called so"


def with_answers(rows: Array) -> tuple[Array, Array]:
    return rows, rows @ [1.0, -2.0, 0.5] + np.random.default_rng(len(rows)).standard_t(4, size=len(rows))


def of_probabilities(folder: Path) -> Report:
    X = PRIVATE[0].copy()
    X[:37] = np.nan
    return report(silent(folder), MODEL, (X, PRIVATE[1]), threshold=0.25, positive=0)


def of_three(folder: Path, model: Any) -> Report:
    return report(silent(folder), model.fit(*THREE_PUBLIC), THREE, public=THREE_PUBLIC)


def of_numbers(folder: Path) -> Report:
    public = with_answers(PUBLIC[0])
    return report(silent(folder), Ridge().fit(*public), with_answers(PRIVATE[0]), public=public)


KINDS: dict[str, tuple[Any, list[str], list[str], list[str], list[tuple[str, ...]]]] = {
    "probabilities": (
        of_probabilities,
        [SEEDED, LEFT_OUT, "positive is 0, decided above a probability of 0.25", *INTERVALS, *COUNTS, BINS, ALONE],
        [*DECISIONS, "brier_score_loss", "expected_calibration_error"],
        ["confusion_matrix", "roc_curve", "calibration_curve"],
        [roc("0"), ("Calibration", "predicted probability of 0", "share who are 0"), SHARES],
    ),
    "decision values": (
        lambda folder: replace(report(silent(folder), SVC().fit(*PUBLIC)), private=True),  # noise would add a note
        [PRICE, "positive is 1, decided above a score of 0", *INTERVALS, *COUNTS, BINS],
        DECISIONS,
        ["confusion_matrix", "roc_curve"],
        [roc("1"), BARS, SHARES],
    ),
    "three labels": (
        lambda folder: of_three(folder, LogisticRegression()),
        [SEEDED, *INTERVALS, *COUNTS],
        [*AVERAGES, "roc_auc_score (ovr, macro)", *(f"{of} {j}" for j in range(3) for of in (*OF_CLASS, "roc_auc of"))],
        ["confusion_matrix"],
        [roc("the label"), BARS, SHARES],
    ),
    "three labels, predicted only": (
        lambda folder: of_three(folder, LinearSVC()),
        [SEEDED, *INTERVALS, *COUNTS],
        [*AVERAGES, *(f"{of} {j}" for j in range(3) for of in OF_CLASS)],
        ["confusion_matrix"],
        [("", "", ""), BARS, SHARES],
    ),
    "numbers": (
        of_numbers,
        [SEEDED, *INTERVALS, "residuals beyond {most} count as {most}"],
        NUMBERS,
        ["residual_table"],
        [("Residuals", "prediction", "prediction - answer"), ("Metrics, 95%; R² {r2}", "", "")],
    ),
}


@pytest.fixture(scope="module")
def each_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    return {kind: KINDS[kind][0](tmp_path_factory.mktemp("kind")) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_report_has_its_words(each_kind: dict[str, Report], kind: str) -> None:
    (_, notes, names, tables, panels), found = KINDS[kind], each_kind[kind]
    said = {}
    if kind == "numbers":
        r2, most = found.metrics["r2_score"], found.ranges.most
        said = {"most": f"{most:.4g}", "r2": "{:.2f} ({:.2f} to {:.2f})".format(r2.value, *r2.interval)}
        notes = [note.format(**said) for note in notes]
    model = found.plan.model
    assert found.notes() == notes == found.to_dict()["notes"]
    assert list(found.metrics) == names
    first = f"Report 'report' of {model}, with 95% intervals of the noise"
    others = [f"  - {note}" for note in notes if note != POPULATION]
    assert str(found).splitlines() == [first, *(f"  {metric}" for metric in found.metrics.values()), *others]
    assert found.to_markdown().splitlines()[-1] == f"{model}, {'; '.join(notes)}."
    assert re.findall("<li>(.*?)</li>", found._repr_html_()) == [html.escape(note) for note in notes]
    keys = ["name", "model", "n", "mu", "private", "classes", "positive", "unknown", "sigma_of_a_count", "metrics"]
    assert list(found.to_dict()) == [*keys, *tables, "groups", "notes"]
    figure = found.plot()
    warning = "  NOT PRIVATE (seeded noise)" if notes[0] == SEEDED else ""
    assert figure._suptitle.get_text() == f"{model}, 400 people, mu = 0.5{warning}"
    drawn = [(each.get_title(), each.get_xlabel(), each.get_ylabel()) for each in figure.axes]
    assert drawn == [tuple(each.format(**said) for each in panel) for panel in panels]
    plt.close("all")


def legend(axes: Any) -> list[str]:
    return [each.get_text() for each in axes.get_legend().get_texts()]


def ticks(axes: Any, which: str) -> list[str]:
    return [each.get_text() for each in getattr(axes, f"get_{which}ticklabels")()]


def test_figures_name_their_curves_bars_and_labels(each_kind: dict[str, Report]) -> None:
    """The positive label is the second one of a confusion matrix, in each figure."""
    found, three, numbers = (each_kind[kind] for kind in ("probabilities", "three labels", "numbers"))
    curve, calibration, shares = found.plot().axes
    area = found.roc_auc_score
    assert legend(curve) == ["area {:.2f} ({:.2f} to {:.2f})".format(area.value, *area.interval), "chance"]
    assert legend(calibration) == ["as predicted", "these people, 95% noise"]
    assert (ticks(shares, "x"), ticks(shares, "y")) == (["1", "0"], ["1", "0"])
    curves, bars, shares = three.plot().axes
    areas = [three.metrics[f"roc_auc of {j}"] for j in range(3)]
    said = [f"{j}: area {a.value:.2f} ({a.interval[0]:.2f} to {a.interval[1]:.2f})" for j, a in enumerate(areas)]
    assert legend(curves) == [*said, "chance"]
    assert legend(bars) == ["noise and sampling", "noise"]
    first = list(three.metrics.values())[:8]
    assert ticks(bars, "y") == [
        "accuracy", "balanced accuracy", "precision score (macro)", "f1 score (macro)", "roc auc score (ovr, macro)",
        "share of 0", "recall of 0", "precision of 0",
    ]  # fmt: skip
    assert list(bars.lines[0].get_xdata()) == [each.value for each in first]
    assert list(bars.lines[0].get_ydata()) == list(bars.get_yticks()) == [7, 6, 5, 4, 3, 2, 1, 0]
    thin, thick = bars.collections
    for lines, ends in ((thin, "population"), (thick, "interval")):
        assert [list(each[:, 0]) for each in lines.get_segments()] == [list(getattr(each, ends)) for each in first]
    assert thin.get_linewidth() < thick.get_linewidth()
    residuals, bars = numbers.plot().axes
    a, b, c = (f"{each:.3g}" for each in numbers.ranges.predictions)
    assert ticks(residuals, "x") == [f"< {a}", f"{a} to {b}", f"{b} to {c}", f"> {c}"]
    assert legend(residuals) == ["80% of people", "half of the people", "median"]
    assert ticks(bars, "y") == ["mean absolute error", "root mean squared error", "median absolute error"]
    plt.close("all")


def test_an_area_that_no_report_of_such_labels_has_is_refused(each_kind: dict[str, Report]) -> None:
    with pytest.raises(InputError, match=r"^a report has areas of 8 labels at most, of a model with predict_proba, "):
        _ = each_kind["three labels, predicted only"].roc_auc_score
    assert "roc_auc_score (ovr, macro)" not in each_kind["three labels, predicted only"].metrics


def read_back(labels: tuple[Any, ...], levels: tuple[str, ...] = ("a", "b"), seed: int = 0) -> Report:
    """A report of labels and groups of any spelling."""
    rng = np.random.default_rng(seed)
    bins = Bins.at(np.array([0.3, 0.5, 0.7]), 0.5, rng.random(300), rng.random(300) < 0.5)
    two = len(labels) == 2
    plan = ReportPlan(
        5.0, 200, "M", "predict_proba", labels, 1 if two else None, (bins,) * (1 if two else len(labels)), None,
        Groups("ward", levels), (),
    )  # fmt: skip
    query = plan.query()
    cells = [rng.dirichlet(np.ones(size)) for size in query.sizes]
    value = np.concatenate([block @ each for block, each in zip(query.blocks, cells, strict=True)])
    return Report.of(plan, value, query.diameter / (plan.mu * plan.n))


ODD = ("a|b", "two\nlines", r"<$\frac$ of 5>")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("others", [("x",), ("x", "y")])
def test_tables_and_figures_take_labels_and_groups_of_any_spelling(
    odd: str, others: tuple[str, ...], tmp_path: Path
) -> None:
    found = read_back((*others, odd), (odd, "other"))
    head, rule, *rows = found.to_markdown().partition("\n\n")[0].splitlines()
    assert {len(re.split(r"(?<!\\)\|", line)) for line in (head, rule, *rows)} == {8}
    assert len(rows) == len(found.metrics)
    page = found._repr_html_()
    assert (page.count("<th>"), page.count("<td>")) == (6, 6 * len(rows))
    assert f"<th>ward = {html.escape(odd)}</th>" in page
    figure = found.plot(tmp_path / "report.png")
    assert odd in {each.get_text() for each in figure.axes[-1].get_xticklabels()}


def test_reports_are_equal_if_all_that_they_say_is() -> None:
    found, again = read_back((0, 1)), read_back((0, 1))
    assert found == again
    assert len({found, again, read_back((0, 1), seed=1), read_back((0, 2))}) == 3
    assert found != read_back((0, 1), seed=1)
    assert found.at(0.4) != found.at(0.4)  # parts of a report are compared by identity
    assert found.results == found.results
    plan = ReportPlan(0.01, 16, "M", "predict", (0, 1, 2), None, (), None, None, (0.1,))
    hidden = np.array([[528.0, *each, *[-64.0] * 5, -32.0, -32.0] for each in ((-64, -64), (-80, -48))])
    two = [Report.of(plan, plan.query().blocks[0] @ each / 16, 62.5) for each in hidden]
    assert two[0].to_dict() == two[1].to_dict()  # the noise hides most
    assert two[0] != two[1]
