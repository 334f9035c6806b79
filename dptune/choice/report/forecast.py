"""The worth of a report before it is released: the half-widths of its intervals for people who are expected.

The people have two labels, and the logits of their probabilities are two normal classes, calibrated. Their tables are
simulated from a fixed seed, and the code that reads a released table reads them. So half-widths are those of reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, logit, ndtri

from dptune._arrays import Indices, Vector
from dptune._checks import at_least, positive, real
from dptune._numbers import rounded_down
from dptune.choice.report.cells import Asked
from dptune.choice.report.metric import Metric
from dptune.choice.report.plan import MOST_GROUPS, Groups, make_plan
from dptune.choice.report.public_rows import PublicScores
from dptune.choice.report.result import Report
from dptune.errors import InputError

ROWS = 300  # public rows
AREA = 0.8  # area under the ROC curve, if nothing is known
_GROUP = "noise, in a group"
_FEWEST = 6  # public rows of a label
_REPORTS = 15  # simulated reports, of whose half-widths the median counts


@dataclass(frozen=True)
class Expected:
    """A report that is expected of n people.

    Attributes:
        n: number of people; mu: GDP price.
        prevalence: share of the positive label.
        groups: number of equal subgroups, as by ``by=``; 1 without.
        area: area under the ROC curve.
        bins: as in :func:`dptune.report`.

    Raises:
        InputError: a number is out of its range.
    """

    n: int
    mu: float
    prevalence: float
    groups: int = 1
    area: float = AREA
    bins: int | None = None

    def __post_init__(self) -> None:
        at_least("n", self.n, 2)
        positive("mu", self.mu)
        for name, number, low in (("prevalence", self.prevalence, 0.0), ("auc", self.area, 0.5)):
            if (value := real(number)) is None or not low < value < 1:
                raise InputError(f"{name} must lie between {low:g} and 1; got {number!r}.")
        if not 1 <= self.groups <= MOST_GROUPS:
            raise InputError(f"groups must lie in [1, {MOST_GROUPS}]; got {self.groups}.")

    @cached_property
    def reports(self) -> list[Report]:
        """Simulated reports, each of other people and with other noise."""
        codes, scores = _normal_classes(self.prevalence, self.area)
        public = PublicScores(Asked("predict_proba", [0, 1], 1), codes, scores, [])
        by = Groups("group", tuple(range(self.groups))) if self.groups > 1 else None
        plan = make_plan(
            None, public, mu=self.mu, n=self.n, largest_weight=1 / self.n, threshold=None, by=by, bins=self.bins
        )
        table = np.asarray(plan.bins[0].table)
        shares = table / table.sum(axis=1, keepdims=True) * [[1 - self.prevalence], [self.prevalence]]
        cells = np.append(np.tile(shares.ravel() / self.groups, self.groups), 0.0)  # nobody is unknown
        query, rng = plan.query(), np.random.default_rng(0)
        sigma = query.diameter / (self.mu * self.n)
        made = []
        for _ in range(_REPORTS):
            people = rng.multinomial(self.n, cells) / self.n
            made.append(Report.of(plan, query.blocks[0] @ people + rng.normal(0, sigma, query.dimension), sigma))
        return made

    def half_widths(self) -> dict[str, dict[str, float]]:
        """Return +- by noise, by noise and sampling, and by noise in a subgroup, of each metric; NaN: hidden."""
        of_all = [report.metrics for report in self.reports]
        kinds = {"noise": _half_widths(of_all, "interval"), "noise and sampling": _half_widths(of_all, "population")}
        if self.groups > 1:
            kinds[_GROUP] = _half_widths([report.groups["0"].metrics() for report in self.reports], "interval")
        return {name: {kind: widths[name] for kind, widths in kinds.items()} for name in of_all[0]}

    def hidden(self) -> list[str]:
        """Return the metrics that the noise hides."""
        return [
            f"{name} in a group" if kind == _GROUP else name
            for name, widths in self.half_widths().items()
            for kind, width in widths.items()
            if math.isnan(width) and kind != "noise and sampling"
        ]

    def advice(self) -> Iterator[str]:
        """Yield in words which metrics the noise hides, and what shows some of them."""
        if not (hidden := self.hidden()):
            return
        yield f"At mu = {self.mu:.3g} the noise is likely to hide {', '.join(hidden)}."
        fewer = {"bins=2, which asks for decisions only,": replace(self, bins=2)}
        if self.groups > 1:
            fewer |= {"no subgroups": replace(self, groups=1), "neither": replace(self, groups=1, bins=2)}
        for words, report in fewer.items():
            still = report.hidden()
            shown = [name for name in hidden if name not in still and (report.groups > 1 or "group" not in name)]
            if shown:
                yield f"With {words} it shows {', '.join(shown)}."
                return
        yield "Fewer bins or subgroups do not help. More people or a larger mu do."

    def words(self) -> str:
        """Return one line for the plan of a choice."""
        widths = self.half_widths()
        shown = {"AUC": "roc_auc_score", "sensitivity": "recall_score", "accuracy": "accuracy_score"}
        said = [
            f"{word} hidden by noise" if math.isnan(width := widths[name]["noise"]) else f"{word} +-{width:.2g}"
            for word, name in shown.items()
        ]
        about = f"mu = {rounded_down(self.mu)}, {self.prevalence:.0%} positive, AUC {self.area:g}"
        return f"{', '.join(said)} (95%, by noise; {about}, no groups)"


def _half_widths(reports: Sequence[Mapping[str, Metric]], which: str) -> dict[str, float]:
    """Return the median half-width of each metric; NaN if half of the reports hide it."""

    def of_one(metric: Metric) -> float:
        low, high = getattr(metric, which)
        return math.inf if math.isnan(metric.value) else (high - low) / 2

    medians = {name: float(np.median([of_one(each[name]) for each in reports])) for name in reports[0]}
    return {name: width if math.isfinite(width) else math.nan for name, width in medians.items()}


def _normal_classes(prevalence: float, area: float) -> tuple[Indices, Vector]:
    """Return labels (ROWS,) and calibrated probabilities at quantiles of two normal classes with this area."""
    some = min(max(round(prevalence * ROWS), _FEWEST), ROWS - _FEWEST)
    d = math.sqrt(2) * ndtri(area)
    x = [ndtri((np.arange(count) + 0.5) / count) + moved for count, moved in ((ROWS - some, 0.0), (some, d))]
    codes = np.repeat([0, 1], [ROWS - some, some])
    return codes, np.asarray(expit(d * np.concatenate(x) - d * d / 2 + logit(prevalence)))
