"""The public result of a choice: the released improvement, and all that a user needs to act on it.

The improvement is the mean over people of the default's loss minus the chosen candidate's. Person i has
D_i = L_i(default) - L_i(chosen), cut to [-r, r]. The mean of the cut D_i has sensitivity 2r/n under replacing one
person. So N(0, (2r / (n mu))^2) makes it mu-GDP, and Laplace noise of scale 2r / (n epsilon) epsilon-DP. With r well
below the range R of a loss this is r/R of the noise of two released levels at the same price. The interval is one of
the mean of the *cut* differences.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

from scipy.special import ndtr

from dptune._numbers import rounded_up
from dptune.ledger.entries import Charge
from dptune.ledger.events import is_laplace
from dptune.results import SEEDED, Estimate, NoiseLaw, improvement_in_words, next_step

PEOPLE_A_ROW = 4  # most private people for a public row for which it was counted how often the summary is true
SURPRISING = float(ndtr(3.0))  # probability that a normal variable is below three standard deviations


@dataclass(frozen=True)
class PairedEstimate(Estimate):
    """A released improvement over the default, in units of the loss; above 0 is better.

    Attributes:
        radius: r, at which each person's difference is cut.
        predicted: the same mean over the public rows, by cross-validation; public.
        sampling: standard deviation of the difference of both means, without the noise, if both groups are random
            samples of one population.
        beyond: mean over the public rows of what is cut off; above 0 the cut hides a part of the improvement. None:
            there are more than ``PEOPLE_A_ROW`` people for each public row, so public rows are too few to tell.

    Example:
        >>> PairedEstimate(0.05, 0.01, private=True, radius=0.4, predicted=0.06, sampling=0.01).verdict
        'better'
    """

    radius: float = 0.0
    predicted: float = 0.0
    sampling: float = 0.0
    beyond: float | None = 0.0

    @classmethod
    def of(cls, released: Charge) -> PairedEstimate:
        (value,) = released.value or (math.nan,)
        description, note = released.description, released.note
        return cls(
            value, float(description["sigma"]), released.private, laplace=is_laplace(description),
            radius=note["radius"], predicted=note["predicted"], sampling=note["sampling"], beyond=note["beyond"],
        )  # fmt: skip

    @property
    def surprising(self) -> bool:
        """Return whether private people and public rows are further apart than noise and sampling of both explain."""
        noise, sampling = NoiseLaw(self.sigma, self.laplace), NoiseLaw(self.sampling)
        far = math.hypot(noise.quantile(SURPRISING), sampling.quantile(SURPRISING))
        return abs(self.value - self.predicted) > far

    @property
    def at_least(self) -> float | None:
        """Return by how much the uncut mean improves or rises at least; None: the interval is of cut differences alone.

        Cutting mostly understates, and more so where populations differ. So the end of the interval that is nearer to 0
        holds without the cut, too, unless public rows say that the cut hides the opposite. How often it holds was
        counted for up to ``PEOPLE_A_ROW`` people for each public row; beyond that nothing is said.
        """
        low, high = self.interval()
        if self.beyond is None:
            return None
        if self.verdict == "better" and self.beyond >= 0:
            return low
        return -high if self.verdict == "worse" and self.beyond <= 0 else None

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        return (
            f"{self.verdict}: the mean loss improves by {self.value:.3g} (95% interval of the privacy noise: {low:.3g} "
            f"to {high:.3g}; each person's difference is cut at +-{self.radius:.3g}){seeded}"
        )


UNREAD = "Labels or columns that cannot be read show no preference, too: compare their spelling."
INDEX, IMPROVEMENT = "index", "improvement"  # keys of the two releases
OLD = "data= played no part: new people need a new ledger."  # remark on an answer that was recorded before


@dataclass(frozen=True)
class Selection:
    """The chosen candidate; public.

    Attributes:
        index: its place among the candidates, from 0.
        candidates: how many there were.
        estimate: its mean clipped loss, with the interval of the privacy noise; None without ``estimate_share``, and
            where public rows took part: then there is ``improvement``.
        mu: GDP price of everything that was planned.
        method: how it was chosen.
        private: False if noise was seeded.
        improvement: how much better it is than the default, by one release; None without a default, or if the default
            was chosen.
        finalists: among how many of the candidates private people chose.
        default: place of the default.
        public_loss: mean loss of the public rows under the chosen candidate, by cross-validation.
        people: number of private people.
        cost: ``mu`` in words; in those of a budget in (epsilon, delta), if the choice has all of it.
        recorded: the day on which it was charged, if the ledger had all of it before; "" if it was made now.
    """

    index: int
    candidates: int
    estimate: Estimate | None
    mu: float
    method: str
    private: bool
    improvement: PairedEstimate | None = None
    finalists: int | None = None
    default: int | None = None
    public_loss: float | None = None
    people: int | None = None
    cost: str = ""
    recorded: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", self.cost or f"mu={rounded_up(self.mu)}")

    def __str__(self) -> str:
        seeded = "" if self.private else ", NOT PRIVATE"
        loss = "" if self.estimate is None else f"; mean loss {self.estimate}"
        better = "" if self.improvement is None else f"; {self.improvement}"
        return f"candidate {self.index} of {self.candidates} by {self.method}, {self.cost}{seeded}{loss}{better}"

    @property
    def verdict(self) -> str:
        """Return the verdict: "better", "worse", "not distinguishable", or that of :func:`unestimated`."""
        return unestimated(self.index, self.default) if self.improvement is None else self.improvement.verdict

    def summary(self, chosen: str = "", *, left: str = "") -> str:
        """Return the verdict, what was chosen, what public rows predicted, and the next step, in a few lines.

        Args:
            chosen: the chosen candidate in words, such as its parameters; default its place.
            left: what is left of the ledger's budget, in words.
        """
        among = f"{self.finalists} finalists" if self.finalists else f"{self.candidates} candidates"
        price = f"at most {self.cost}" if self.index == self.default else self.cost  # what was planned
        lines = [
            "" if self.private else SEEDED,
            self.recorded and f"Recorded answer, from {self.recorded}. {OLD}",
            self._verdict_in_words(),
            f"Chosen: {chosen or f'candidate {self.index}'}, by one private choice among {among} ({price}).",
        ]
        if (gain := self.improvement) is not None:
            lines.append(
                f"Public rows predicted {_predicted(gain)}. Each person's difference is cut at +-{gain.radius:.3g}"
                f"{'' if gain.at_least is None else f'; without the cut read at least {gain.at_least:.3g}'}."
            )
            if gain.surprising:
                lines.append(_causes(gain))
        if self.estimate is not None:
            lines.append(f"Its mean loss: {self.estimate}.")
        lines += [left, self._next_step()]
        return "\n".join(line for line in lines if line)

    def _verdict_in_words(self) -> str:
        if self.index == self.default:
            unread = UNREAD if self.public_loss is None else f"{UNREAD[:-1]} with public rows."
            return f"Keep the default: it was chosen, so no improvement is estimated. {unread}"
        if (gain := self.improvement) is None:
            return "" if self.default is not None else "No default was given, so nothing says how much better it is."
        return improvement_in_words(gain, "the default")

    def _next_step(self) -> str:
        if self.index == self.default:
            return "Next: keep what you have, and publish the statement."
        return "" if self.improvement is None else next_step(self.verdict, self.people)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON data, for attributes of a study; the interval and verdict of the improvement with it."""
        selection = {**asdict(self), "verdict": self.verdict}
        if self.improvement is not None:
            selection["improvement"] = {**asdict(self.improvement), "interval": list(self.improvement.interval())}
        return selection


def unestimated(index: int, default: int | None) -> str:
    """Return the verdict without an estimate: "the default" if that was chosen, "no default" or "not estimated"."""
    if default is None:
        return "no default"
    return "the default" if index == default else "not estimated"


def _predicted(gain: PairedEstimate) -> str:
    """Return what public rows predicted, in the verdict's direction or with its own."""
    if gain.value >= 0:
        return f"{gain.predicted:.3g}"
    return f"{'a rise' if gain.predicted < 0 else 'an improvement'} of {abs(gain.predicted):.3g}"


def _causes(gain: PairedEstimate) -> str:
    """Return possible causes of an improvement that public rows did not predict, the likeliest first."""
    overfitted = "; the search overfitted the public rows" if gain.value < gain.predicted else ""
    return (
        "Noise and sampling do not explain the difference. Likely causes, in this order: the populations differ (then "
        "give public_weight=0.5 in the next choice); private labels or columns are written differently (compare "
        f"spelling, units and dtypes){overfitted}. The verdict is about the private people and stands."
    )
