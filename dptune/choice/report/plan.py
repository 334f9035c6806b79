"""The plan of a report: the public facts, as JSON data in the ledger, that determine the release and its reading.

It is fixed before the charge. A retry, a restart and the command line read the same plan: they make the same query and
read its answer in the same way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dptune._arrays import Indices, Mask, Vector
from dptune._checks import attempt, kind, plain, tupled
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.cells import Asked, Bins, cells_loss, column_of, edges_of, in_many_classes, in_two_classes
from dptune.choice.report.decisions import USUAL
from dptune.choice.report.public_rows import PublicScores
from dptune.choice.report.regression import Ranges
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune.privacy.places import Places
from dptune.privacy.seal.parsing import label, numbers_in, says
from dptune.privacy.table import TableQuery

MOST_CURVES = 8  # with more classes only the confusion matrix is released
MOST_GROUPS = 12
BINS = (3, 4, 5, 6, 8, 10, 12, 16, 20)  # candidate numbers of score bins
_FEWEST_IN_BIN = 6  # least public rows of either class in a bin
ON_DECISIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # candidate shares of the budget
_OF_ERROR = 1 / 3  # largest bias of the area, as a share of its standard error
_MISFITS = 1.4  # standard deviations of that bias that count (docs/research/report.md)


@dataclass(frozen=True)
class Groups:
    """Subgroups of a report; public.

    Attributes:
        column: name or index of the column; None: the places of private people.
        levels: its values among the public rows, or the names of the places.
    """

    column: Any
    levels: tuple[Any, ...]


@dataclass(frozen=True)
class ReportPlan:
    """The public plan of a model's release and of its reading.

    Attributes:
        mu: GDP price.
        n: number of people.
        model: name of its class.
        output: the model's method.
        labels: of a classifier, in the order of its columns; () of a regression.
        positive: place of the positive label; None if there is none.
        bins: of two classes their bins, of more those of each class against the others; () where none are released.
        ranges: of a regression.
        by: subgroups.
        seen: the model's answers for some public rows, by which it is recognised.
        effective: with unequal weights w that sum to 1, 1 / sum(w^2): so many equal people vary as much (Kish 1965).
    """

    mu: float
    n: int
    model: str
    output: str
    labels: tuple[Any, ...]
    positive: int | None
    bins: tuple[Bins, ...]
    ranges: Ranges | None
    by: Groups | None
    seen: tuple[float, ...]
    effective: float | None = None

    # ---- as JSON data ----------------------------------------------------------------------------

    def stored(self) -> dict[str, Any]:
        """Return the plan as the ledger's JSON data."""
        facts = {"report": 1, **asdict(self)}
        return facts if self.effective is not None else {k: v for k, v in facts.items() if k != "effective"}

    @classmethod
    def read(cls, stored: Any) -> Self | None:
        """Return the plan of :meth:`stored` data; None if the data are another kind of plan."""
        if not isinstance(stored, dict) or "report" not in stored:
            return None
        by, ranges = stored["by"], stored["ranges"]
        made = {
            "bins": tuple(Bins(**_tupled(each)) for each in stored["bins"]),
            "ranges": None if ranges is None else Ranges(**_tupled(ranges)),
            "by": None if by is None else Groups(by["column"], tuple(by["levels"])),
            **{name: tuple(stored[name]) for name in ("labels", "seen")},
        }
        return cls(**{**{name: value for name, value in stored.items() if name != "report"}, **made})

    # ---- the query ------------------------------------------------------------------------------

    @property
    def two_classes(self) -> bool:
        """Return whether it is one table of (true class, score bin)."""
        return self.positive is not None

    @property
    def people(self) -> float:
        """Return the number of people in whose units sums are read: sampling varies like that of so many."""
        return float(self.n if self.effective is None else self.effective)

    @property
    def groups(self) -> int:
        """Return the number of subgroups; 1 if there are none."""
        return 1 if self.by is None else len(self.by.levels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of cells of each block, including the unknown cell."""
        return self.query().sizes

    def query(self) -> TableQuery:
        k = len(self.labels)
        if self.ranges is not None:
            blocks: list[npt.NDArray[np.float64]] = [*self.ranges.blocks(None if self.by is None else self.groups)]
            statistic = f"means and table of the residuals of a final model, {self.ranges.words()}"
        elif self.two_classes:
            blocks = [_with_unknown(np.asarray(np.kron(np.eye(self.groups), self.bins[0].strategy), dtype=np.float64))]
            statistic = "table of true class and score bin of a final model"
        else:
            blocks = [np.eye(self.groups * k * k + 1), *(_with_unknown(bins.strategy) for bins in self.bins)]
            statistic = "tables of true class and decision or score bin of a final model"
        return TableQuery(tuple(blocks), self.mu, statistic, meaning=json.dumps(self.stored(), sort_keys=True))

    def note(self) -> dict[str, Any] | None:
        """Return public facts for the statement's signer: the ranges of a regression, or None."""
        return None if self.ranges is None else {"ranges": self.ranges.clipped()}

    def asked(self) -> Asked:
        """Return how the model is called."""
        return Asked(self.output, list(self.labels) or None, self.positive)  # type: ignore[arg-type]  # a stored method

    @property
    def cells_of_a_group(self) -> tuple[int, ...]:
        """Return the number of cells of one group in each block; 0 in a block without groups."""
        if self.ranges is not None:
            return self.ranges.cells_of_a_group
        if self.two_classes:
            return (2 * self.bins[0].count,)
        return len(self.labels) ** 2, *(0 for _ in self.bins)

    def loss(self) -> NamedLoss:
        """Return the code of each example's cells, without groups, as a loss."""
        return cells_loss(self.asked(), self._cells, self.sizes)

    def _cells(self, codes: Indices, scores: Vector) -> list[Indices]:
        if self.ranges is not None:
            return self.ranges.cells(codes, scores)
        if self.positive is not None:
            return in_two_classes(codes, scores, self.positive, self.bins[0])
        return in_many_classes(codes, scores, len(self.labels), self.bins)


def _tupled(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: tupled(value) for name, value in stored.items()}


def _with_unknown(block: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the block, and a count of people whose cell is unknown."""
    padded = np.pad(block, ((0, 1), (0, 1)))
    padded[-1, -1] = 1.0
    return padded


def make_plan(
    model: Any,
    public: PublicScores,
    *,
    mu: float,
    n: int,
    largest_weight: float,
    threshold: float | None,
    by: Groups | None,
    bins: int | None,
    effective: float | None = None,
) -> ReportPlan:
    """Return the plan that public rows suggest.

    Args:
        mu: GDP price.
        n: number of people; the noise of a count is measured in n times ``largest_weight``, 1 for equal weights.
        threshold: above which the positive class is decided; default 0.5 of probabilities, 0 of decision values.
        by: subgroups.
        bins: their number, if it is given.
        effective: number of people of equal weights who vary as much, if weights are unequal.
    """
    asked, scores = public.asked, public.scores
    labels = tuple(asked.labels or ())
    bins_of_classes: tuple[Bins, ...] = ()
    ranges = None
    unit = math.sqrt(2) / mu * n * largest_weight  # noise of a count, if there is one block
    if threshold is not None and asked.positive is None:
        raise InputError("threshold= goes with scores of a classifier of two labels. Nothing was charged.")
    if threshold is not None and asked.output == "predict_proba" and not 0 <= threshold < 1:
        raise InputError(f"threshold= is a probability here: it must lie in [0, 1); got {threshold:g}.")
    if asked.labels is None:
        ranges = Ranges.of(*scores.T)
    elif asked.positive is not None:
        cut = float(USUAL[asked.output] if threshold is None else threshold)
        yes = public.codes == asked.positive
        bins_of_classes = (
            best_bins(scores, yes, cut, n=n, sigma=unit * math.sqrt(1 if by is None else len(by.levels)), bins=bins),
        )
    elif asked.output == "predict_proba" and len(labels) <= MOST_CURVES:
        bins_of_classes = tuple(
            best_bins(scores[:, j], public.codes == j, 0.5, n=n, sigma=unit * math.sqrt(len(labels) + 1), bins=bins)
            for j in range(len(labels))
        )
    seen = tuple(public.seen)
    return ReportPlan(
        mu, n, type(model).__name__, asked.output, labels, asked.positive, bins_of_classes, ranges, by, seen, effective
    )


def groups_of(X: Any, by: Any) -> Groups | None:
    """Return the subgroups of a column of the public rows.

    Raises:
        InputError: the column does not exist, or a value of it is missing or neither text nor a number.
        InputError: it has fewer than two or more than ``MOST_GROUPS`` different values.
    """
    if by is None:
        return None
    levels = by.names if isinstance(by, Places) else _levels(X, by)
    if not 2 <= len(levels) <= MOST_GROUPS:
        allowed = f"2 to {MOST_GROUPS}"
        if isinstance(by, Places):
            raise InputError(f"by= reports on {allowed} places; there are {len(levels)}. Nothing was charged.")
        raise InputError(
            f"the column by= must have {allowed} different values among the public rows; it has {len(levels)}. Nothing "
            "was charged."
        )
    return Groups(None if isinstance(by, Places) else by, tuple(levels))


def _levels(X: Any, by: Any) -> list[Any]:
    """Return the values of a column of the public rows."""
    column: list[Any] | None = attempt(lambda: _plain_cells(column_of(X, by)), failed=None)
    if column is None or attempt(json.dumps, by, failed=None) is None:
        raise InputError(
            "by= must be a column of public=, its name in a data frame or its place in an array, or the Places of "
            f"data=; got {kind(by)}. Nothing was charged."
        )
    if missing := sum(says(cell) is None for cell in column):
        raise InputError(
            f"the column by= is missing in {missing} of {len(column)} public rows: give these a value of their own, "
            "such as 'unknown', in the private rows, too. Nothing was charged."
        )
    levels = attempt(lambda: sorted({*column}, key=lambda level: (str(type(level)), level)), failed=None)
    if levels is None or attempt(json.dumps, levels, failed=None) is None:
        raise InputError("the column by= must hold text or numbers among the public rows. Nothing was charged.")
    if len({label(level) for level in levels}) < len(levels):
        raise InputError(
            "the column by= holds different values that are one number, such as '1.1' and '1.10', among the public "
            "rows. Private cells are compared by their number, rounded to float32. Write these values in one way, or "
            "so that they are not numbers (for example 'v1.10'), in public and private rows. Nothing was charged."
        )
    return levels


def _plain_cells(column: Any) -> list[Any]:
    """Return the cells of a public column as plain values, numbers of low precision as their shortest decimals."""
    array = np.asarray(column)
    cells = numbers_in(np.dtype(np.float64), array)[0] if array.dtype.kind == "f" else array
    return [plain(cell) for cell in cells.tolist()]


def same_settings(plan: ReportPlan, other: ReportPlan) -> Sequence[str]:
    """Return the names of the user's settings in which two plans of one name differ."""
    names = ("n", "model", "output", "labels", "positive")
    differing = [name for name in names if getattr(plan, name) != getattr(other, name)]
    differing += ["by"] if (plan.by and asdict(plan.by)) != (other.by and asdict(other.by)) else []
    differing += ["threshold"] if [b.threshold for b in plan.bins] != [b.threshold for b in other.bins] else []
    close = len(plan.seen) == len(other.seen) and np.allclose(plan.seen, other.seen, rtol=1e-5, atol=1e-8)
    return differing if close else [*differing, "the model or its public rows"]


def best_bins(
    scores: Vector, positive: Mask, threshold: float, *, n: int, sigma: float, bins: int | None = None
) -> Bins:
    """Return the bins with the least expected error for n people and noise sigma of a released number.

    More bins mean a finer curve and more noise. Their number, and the budget's part for the four counts of (class,
    decision), minimise the expected error of four metrics: area, accuracy, sensitivity and specificity. The variances
    are known, so this needs no simulation. In five of six tables, the area's bias by the unknown order within bins is
    at most a third of its standard error.

    Args:
        scores: (N,) cross-validated scores of the public rows.
        positive: (N,) whether a row is of the positive class.
        threshold: of the decision.
        n: number of private people.
        sigma: standard deviation of the noise.
        bins: their number, if it is given; else it is chosen.
    """
    most = max(2, min(int(positive.sum()), int((~positive).sum())) * 2 // _FEWEST_IN_BIN)
    wanted = [bins] if bins is not None else [b for b in BINS if b <= most] or [most]
    made = [Bins.at(edges_of(scores, positive, threshold, b), threshold, scores, positive) for b in wanted]
    tried = (each for bins in made for each in with_errors(bins, n, sigma))
    return min(tried, key=itemgetter(0))[1]


def with_errors(bins: Bins, n: int, sigma: float) -> Iterator[tuple[tuple[float, float], Bins]]:
    """Yield an expected error and the bins, for each part of the budget for decisions.

    The error is the excess of the area's bias over its limit, then the summed standard errors of four metrics. The n
    people are spread like the public rows.
    """
    counts = np.asarray(bins.table)
    table = BinaryTable(bins, counts * n / counts.sum(), bins.noise(sigma), total=float(n))
    for w in ON_DECISIONS:
        divided = replace(bins, on_decisions=w)
        table = table.with_noise(divided.noise(sigma))
        error = table.area_error
        over = max(_MISFITS * table.area_misfit - _OF_ERROR * error, 0.0) if math.isfinite(error) else math.inf
        yield (over, error + table.decisions.error), divided
