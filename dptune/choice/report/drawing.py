"""Pictures of a report: for clinicians and model cards, on white or on dark paper, readable without colour."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptune._style import drawing, save
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.many import Confusion
from dptune.choice.report.metric import Metric
from dptune.choice.report.plan import ReportPlan
from dptune.choice.report.regression import Residuals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(
    results: BinaryTable | Confusion | Residuals,
    metrics: Mapping[str, Metric],
    plan: ReportPlan,
    title: str,
    path: str | Path | None,
    *,
    dark: bool,
) -> Figure:
    """Return a report's figure, and write it to ``path`` if that is given; the file's ending chooses the format."""
    with drawing(dark=dark, **{"font.size": 9, "text.parse_math": False}) as Figure:
        figure = Figure(figsize=(10, 3.9), layout="constrained")
        _panels(results, metrics, plan, figure, dark)
        figure.suptitle(title, fontsize=10)
        if path is not None:
            save(figure, Path(path))
    return figure


def _panels(
    results: BinaryTable | Confusion | Residuals,
    metrics: Mapping[str, Metric],
    plan: ReportPlan,
    figure: Figure,
    dark: bool,
) -> None:
    if isinstance(results, Residuals):
        left, right = figure.subplots(1, 2)
        _residuals(left, results, dark)
        _bars(right, metrics)
        return
    left, middle, right = figure.subplots(1, 3)
    names = [str(each) for each in plan.labels]
    if isinstance(results, BinaryTable):
        label = str(plan.labels[plan.positive or 0])
        _roc(left, [(results, "")], label)
        names = names[::-1] if plan.positive == 0 else names
        if results.probabilities:
            _calibration(middle, results, label)
        else:
            _bars(middle, metrics)
    else:
        _bars(middle, metrics)
        if results.rest:
            _roc(left, [(table, f"{name}: ") for table, name in zip(results.rest, names, strict=True)], "the label")
        else:
            left.set_axis_off()
    _confusion(right, results, names, dark)


def _roc(axes: Axes, curves: list[tuple[BinaryTable, str]], label: str) -> None:
    for table, name in curves:
        fpr, tpr, _ = table.roc_curve()
        area = table.roc_auc_score
        low, high = area.interval
        said = "area hidden by noise" if np.isnan(area.value) else f"area {area.value:.2f} ({low:.2f} to {high:.2f})"
        axes.plot(fpr, tpr, lw=2, label=f"{name}{said}")
    axes.plot([0, 1], [0, 1], color="0.5", ls=":", lw=1, label="chance")
    axes.set(xlabel=f"1 - specificity: others called {label}", ylabel=f"sensitivity: {label}, and called so")
    axes.set_title("ROC curve")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.legend(loc="lower right", fontsize=8)


def _calibration(axes: Axes, table: BinaryTable, label: str) -> None:
    curve = table.calibration_curve()
    p = np.array([each for each, _ in curve])
    shares = [metric for _, metric in curve]
    seen = np.array([not np.isnan(metric.value) for metric in shares])
    values = np.array([metric.value for metric in shares])
    low, high = np.array([metric.interval for metric in shares]).T
    errors = np.abs([np.minimum(low, values) - values, np.maximum(high, values) - values])
    axes.errorbar(
        p[seen], values[seen], errors[:, seen], fmt="o", ls="none", capsize=3, label="these people, 95% noise"
    )
    axes.plot([0, 1], [0, 1], color="0.5", ls=":", lw=1, label="as predicted")
    axes.set(xlabel=f"predicted probability of {label}", ylabel=f"share who are {label}", title="Calibration")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.legend(loc="upper left", fontsize=8)


def _confusion(axes: Axes, table: BinaryTable | Confusion, names: list[str], dark: bool) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    counts = np.asarray(table.confusion_matrix)
    ends = ["#1e2129", "#2f7fb8"] if dark else ["white", "#56B4E9"]
    axes.imshow(counts, cmap=LinearSegmentedColormap.from_list("people", ends), vmin=0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)
    for (i, j), count in np.ndenumerate(counts):
        said = f"{count:.0f}\n{shares[i, j]:.0%}" if len(names) < 4 else f"{count:.0f}"
        axes.text(j, i, said, ha="center", va="center", fontsize=11 if len(names) < 4 else 7)
    ticks: Any = range(len(names))
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.grid(visible=False)
    axes.set(xlabel="predicted", ylabel="true", title="People, and their share of the row")


def _bars(axes: Axes, metrics: Mapping[str, Metric]) -> None:
    finite = {name: each for name, each in metrics.items() if not np.isnan(each.value)}
    r2 = finite.pop("r2_score", None)  # it has no unit, the others have one
    shown = list(finite.values())[:8]
    places = np.arange(len(shown))[::-1]
    values = np.array([metric.value for metric in shown])
    for name, thin, ends in (
        ("noise and sampling", 1.0, [m.population for m in shown]),
        ("noise", 3.5, [m.interval for m in shown]),
    ):
        low, high = np.nan_to_num(np.array(ends).reshape(-1, 2), neginf=0.0).T
        axes.hlines(places, low, high, lw=thin, color="C0", label=name)
    axes.plot(values, places, "o", color="C1", ls="none")
    axes.set_yticks(places, [metric.name.removesuffix("_score").replace("_", " ") for metric in shown], fontsize=8)
    axes.set_title(
        "Metrics, 95%" if r2 is None else "Metrics, 95%; R² {:.2f} ({:.2f} to {:.2f})".format(r2.value, *r2.interval)
    )
    axes.legend(fontsize=8)


def _residuals(axes: Axes, residuals: Residuals, dark: bool) -> None:
    table = residuals.residual_table()
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)
    ends = np.array([-residuals.ranges.most, *residuals.ranges.residuals, residuals.ranges.most])
    for row, share in enumerate(shares):
        middle = np.interp([0.1, 0.25, 0.5, 0.75, 0.9], np.concatenate([[0], np.cumsum(share)]), ends)
        axes.vlines(row, middle[0], middle[4], lw=1, color="C0", label="" if row else "80% of people")
        axes.vlines(row, middle[1], middle[3], lw=5, color="C0", label="" if row else "half of the people")
        axes.plot(row, middle[2], "o", color="C1", ls="none", label="" if row else "median")
    axes.axhline(0.0, color="0.5", ls=":", lw=1)
    edges = [f"{each:.3g}" for each in residuals.ranges.predictions]
    words = [f"< {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f"> {edges[-1]}"]
    axes.set_xticks(range(len(shares)), words, fontsize=7)
    axes.set(xlabel="prediction", ylabel="prediction - answer", title="Residuals")
    axes.legend(fontsize=8)
