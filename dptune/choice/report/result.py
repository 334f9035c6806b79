"""The contents of a report: metrics with intervals, curves and subgroups, in several formats."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune._numbers import rounded_up
from dptune._statement import counted
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.many import Confusion
from dptune.choice.report.metric import Cells, Metric
from dptune.choice.report.plan import ReportPlan
from dptune.choice.report.regression import WEIGHT, Ranges, Residuals
from dptune.ledger.ledger import Charge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = BinaryTable | Confusion | Residuals
_OF_POPULATION = "that of noise and sampling is about the population of which they are a sample"
_UNKNOWN = 3.0  # standard deviations of noise above which some examples' cells count as unknown


@dataclass(frozen=True, eq=False)
class Report:
    """A released report of a final model. Everything in it may be published. Two are equal if all of it is.

    Metrics are attributes under their names in ``sklearn.metrics``, each a :class:`dptune.choice.report.metric.Metric`:
    ``report.accuracy_score``, ``report.roc_auc_score.interval``. So are ``confusion_matrix``, ``roc_curve()``,
    ``precision_recall_curve()``, ``calibration_curve()`` and ``at(threshold)`` of two classes, ``rest`` (each class
    against the others) of more, and ``residual_table()`` of a regression.

    Attributes:
        name: in the ledger.
        plan: what was asked, public.
        results: the released table and what follows from it.
        groups: the same of each subgroup, by its value; {} without ``by=``.
        sigma: standard deviation of the noise of one count of people.
        unknown: estimated number of people whose cell is unknown: the model failed on them, or does not know their
            label or group. They count in no metric, and in a regression without ``by=`` with the largest residual. 0 if
            the release does not show any.
        private: False if noise was seeded; then nothing is protected.
        unit: whose records count as one person's, in the ledger's words.
    """

    name: str
    plan: ReportPlan
    results: Results
    groups: Mapping[str, Results]
    sigma: float
    unknown: float
    private: bool
    released: Vector = field(repr=False)
    unit: str = "one person"

    @classmethod
    def of_charge(cls, plan: ReportPlan, charge: Charge, name: str, unit: str) -> Self:
        """Return the report of a charge that has its answer."""
        value = np.asarray(charge.value, dtype=np.float64)
        made = cls.of(plan, value, float(charge.description["sigma"]), name, private=charge.private)
        return replace(made, unit=unit)

    @classmethod
    def of(cls, plan: ReportPlan, value: Vector, sigma: float, name: str = "report", *, private: bool = True) -> Self:
        """Return the report of released shares of people with noise ``sigma``."""
        counts = [block * plan.people for block in plan.query().split(value)]
        noise = sigma * plan.people
        if plan.ranges is not None:
            everybody, groups, unknown = residuals_of(plan, plan.ranges, counts, noise)
            return cls(name, plan, everybody, groups, noise, unknown, private, value)
        made = [_known(M, each, noise, plan.people) for M, each in zip(plan.query().blocks, counts, strict=True)]
        first, spread, unknown = made[0]
        size = len(first) // plan.groups
        parts = [slice(i * size, (i + 1) * size) for i in range(plan.groups)]
        whole = np.tile(np.eye(size), plan.groups)  # the sum over groups
        results = _classified(plan, whole @ first, whole @ spread @ whole.T)
        if isinstance(results, Confusion):
            rest = tuple(
                BinaryTable(bins, cells.reshape(2, -1), each, None)
                for bins, (cells, each, _) in zip(plan.bins, made[1:], strict=True)
            )
            results = replace(results, rest=rest)
        levels = () if plan.by is None else plan.by.levels
        groups = {
            str(level): _classified(plan, first[part], spread[part, part])
            for level, part in zip(levels, parts, strict=False)
        }
        return cls(name, plan, results, groups, noise, unknown, private, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self._released() == other._released() and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self._released()))

    def _released(self) -> tuple[float, ...]:
        return tuple(self.released.tolist())

    # ---- metrics -----------------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by their names."""
        return self.results.metrics()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.metrics[name]
        except KeyError:
            return getattr(self.results, name)

    @property
    def n(self) -> int:
        """Return the number of people; public."""
        return self.plan.n

    @property
    def mu(self) -> float:
        """Return the GDP price."""
        return self.plan.mu

    def notes(self) -> list[str]:
        """Return what a reader has to know: how the numbers came about, and what they are not."""
        promise = (
            f"one release of mu = {rounded_up(self.mu)} GDP (replacing all records of {self.unit}, n = {self.n} public)"
        )
        notes = [promise if self.private else f"NOT PRIVATE, as noise was seeded: {promise}", *self._left_out()]
        if isinstance(self.results, BinaryTable) and self.plan.positive is not None:
            score = "probability" if self.results.probabilities else "score"
            positive = self.plan.labels[self.plan.positive]
            notes.append(f"positive is {positive!r}, decided above a {score} of {self.results.bins.threshold:.4g}")
        if (effective := self.plan.effective) is not None:
            notes.append(
                f"weights of people differ: counts and sampling are those of {effective:.4g} people of equal ones"
            )
        notes.append("the 95% interval of noise is about the metric of these people")
        notes.append(_OF_POPULATION)
        if isinstance(self.results, Residuals):
            notes.append(f"residuals beyond {self.results.ranges.most:.4g} count as {self.results.ranges.most:.4g}")
            return notes
        notes.append("metrics are read from sums of noisy counts that add up to n and are not cut at 0")
        notes.append("tables and curves are the nearest ones without negative counts")
        if isinstance(self.results, BinaryTable):
            notes.append(
                f"{self.results.bins.count} score bins, chosen from public rows that did not train the model which "
                "scored them; the spread of scores within a bin is theirs"
            )
            if self.results.probabilities:
                notes.append("brier_score_loss is of the positive label alone, from 0 to 1")
        return notes

    def _left_out(self) -> list[str]:
        if not self.unknown:
            return []
        if self.plan.ranges is not None and self.plan.by is None:
            who = counted(round(self.unknown), "person counts", "people count")
            return [
                f"about {who} with the largest residual, as their answer or prediction is unknown: if many, compare "
                "columns and units with public rows"
            ]
        who = counted(round(self.unknown), "person is", "people are")
        return [
            f"about {who} left out, as their score, label or group is unknown: if many, "
            "compare the spelling of labels and groups with public rows"
        ]

    # ---- for people and programs -------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {
            "name": self.name,
            "model": self.plan.model,
            "n": self.n,
            "mu": self.mu,
            "private": self.private,
            "classes": list(self.plan.labels),
            "positive": None if self.plan.positive is None else self.plan.labels[self.plan.positive],
            "unknown": self.unknown,
            "sigma_of_a_count": self.sigma,
            **_as_json(self.results),
            "groups": {level: _as_json(results) for level, results in self.groups.items()},
            "notes": self.notes(),
        }

    def to_markdown(self) -> str:
        """Return the metrics as a Markdown table for a model card, with what they mean."""
        rows = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in self._table()]
        head, *lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join(
            [head, "|" + "---|" * len(rows[0]), *lines, "", f"{self.plan.model}, {'; '.join(self.notes())}."]
        )

    def _table(self) -> list[list[str]]:
        """Return the cells of the table for a model card, of which the first row is the head."""
        columns = [self.metrics, *(results.metrics() for results in self.groups.values())]
        head = ["metric", "value", "95%, noise", "95%, noise and sampling", *(f"{self._by} = {g}" for g in self.groups)]
        rows = [head]
        for name, metric in columns[0].items():
            cells = [name, _number(metric.value), _range(metric.interval), _range(metric.population)]
            cells += [
                f"{_number(c[name].value)} ({_range(c[name].interval)})" if name in c else "" for c in columns[1:]
            ]
            rows.append(cells)
        return rows

    @property
    def _by(self) -> str:
        by = self.plan.by
        return "" if by is None else "place" if by.column is None else str(by.column)

    def __str__(self) -> str:
        lines = [f"Report {self.name!r} of {self.plan.model}, with 95% intervals of the noise"]
        lines += [f"  {metric}" for metric in self.metrics.values()]
        for level, results in self.groups.items():
            lines += [f"  {self._by} = {level}", *(f"    {metric}" for metric in results.metrics().values())]
        return "\n".join([*lines, *(f"  - {note}" for note in self.notes() if note != _OF_POPULATION)])

    def _repr_html_(self) -> str:
        head, *rows = self._table()

        def row(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes())
        return f"<table>{row(head, 'th')}{''.join(row(each, 'td') for each in rows)}</table><ul>{notes}</ul>"

    def plot(self, path: str | Path | None = None, *, dark: bool = False) -> Figure:
        """Draw ROC curve, calibration and confusion matrix, or the residuals; write it to a file if a path is given.

        Raises:
            MissingExtra: matplotlib is not installed.
            InputError: the file cannot be written.
        """
        from dptune.choice.report.drawing import draw

        warning = "" if self.private else "  NOT PRIVATE (seeded noise)"
        title = f"{self.plan.model}, {counted(self.n, 'person', 'people')}, mu = {self.mu:g}{warning}"
        return draw(self.results, self.metrics, self.plan, title, path, dark=dark)


def _known(M: Matrix, released: Vector, noise: float, n: float) -> tuple[Vector, Matrix, float]:
    """Return known cells' counts, their noise's covariance, and people in none if the release shows them.

    Counts are read from the released M counts + N(0, noise^2 I) by least squares, and moved onto their known sum. The
    last cell is one of them, for people whose cell is unknown: their number is never assumed to be 0.
    """
    inverse: Matrix = np.linalg.inv(M.T @ M).astype(np.float64)
    cells = Cells.of(inverse @ (M.T @ released), noise**2 * inverse, n)
    unknown = float(cells.counts[-1])
    return cells.counts[:-1], cells.noise[:-1, :-1], unknown if unknown > _UNKNOWN * noise else 0.0


def residuals_of(
    plan: ReportPlan, ranges: Ranges, sums: list[Vector], noise: float
) -> tuple[Residuals, dict[str, Results], float]:
    """Return residuals of everybody and of each subgroup, and the number of unknown people if the release shows it."""
    blocks = [*sums[:2], sums[2][:-1]]
    unknown, of_people = float(sums[2][-1]) / WEIGHT, noise / WEIGHT
    shown = unknown if unknown > _UNKNOWN * of_people else 0.0
    if plan.by is None:
        return replace(Residuals.of(ranges, blocks, noise, plan.people), unknown=shown), {}, shown
    parts = [block.reshape(plan.groups, -1) for block in blocks]
    results: dict[str, Results] = {
        str(level): Residuals.of(ranges, [part[i] for part in parts], noise) for i, level in enumerate(plan.by.levels)
    }
    total = [part.sum(axis=0) for part in parts]
    everybody = Residuals.of(ranges, total, noise * math.sqrt(plan.groups), plan.people - unknown, of_people)
    return everybody, results, shown


def _classified(plan: ReportPlan, counts: Vector, noise: Matrix) -> BinaryTable | Confusion:
    if plan.two_classes:
        return BinaryTable(plan.bins[0], counts.reshape(2, -1), noise, None, plan.output == "predict_proba")
    return Confusion(plan.labels, counts, noise, None)


def _as_json(results: Results) -> dict[str, Any]:
    """Return metrics and tables of one set of people."""
    metrics = {name: metric.to_dict() for name, metric in results.metrics().items()}
    if isinstance(results, Residuals):
        return {"metrics": metrics, "residual_table": results.residual_table().tolist()}
    tables: dict[str, Any] = {"metrics": metrics, "confusion_matrix": results.confusion_matrix.tolist()}
    if isinstance(results, BinaryTable):
        names = ("false_positive_rates", "true_positive_rates", "thresholds")
        curves = zip(names, results.roc_curve(), strict=True)
        tables["roc_curve"] = {name: [_finite(each) for each in values] for name, values in curves}
        if results.probabilities:
            tables["calibration_curve"] = [
                {"predicted": p, **each.to_dict()} for p, each in results.calibration_curve()
            ]
    return tables


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: float) -> str:
    return "hidden by noise" if math.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _range(ends: tuple[float, float]) -> str:
    return " to ".join(_number(end) for end in ends)
