"""What a choice returns: public, and all that a user needs to act on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dptune.choice.paired import PairedEstimate
from dptune.search.answer import Estimate


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

    def __str__(self) -> str:
        seeded = "" if self.private else ", NOT PRIVATE"
        loss = "" if self.estimate is None else f"; mean loss {self.estimate}"
        better = "" if self.improvement is None else f"; {self.improvement}"
        return f"candidate {self.index} of {self.candidates} by {self.method}, mu={self.mu:g}{seeded}{loss}{better}"

    @property
    def verdict(self) -> str:
        """What is known about the default: "better", "worse", "not distinguishable", "the default" or "no default"."""
        if self.improvement is not None:
            return self.improvement.verdict
        return "the default" if self.index == self.default else "no default"

    def summary(self) -> str:
        """Return the verdict, what public rows said, and what it holds for, in a few lines."""
        seeded = "" if self.private else "NOT PRIVATE: the noise was seeded.\n"
        of = f"{self.finalists} finalists" if self.finalists else f"{self.candidates} candidates"
        lines = [f"{seeded}Candidate {self.index} was chosen among {of}, by one private choice (mu={self.mu:.3g})."]
        if self.index == self.default:
            lines.append("It is the default: nothing that was tried is preferred to it.")
        if (gain := self.improvement) is not None:
            low, high = gain.interval()
            words = {"better": "Better than the default", "worse": "Worse than the default"}
            lines += [
                f"{words.get(gain.verdict, 'Not distinguishable from the default')}: the mean loss improves by "
                f"{gain.value:.3g} (95% interval of the privacy noise: {low:.3g} to {high:.3g}).",
                f"Each person's difference is cut at +-{gain.radius:.3g}. Public rows predicted {gain.predicted:.3g}.",
                f"This holds for these {self.people} people. Another {self.people} may differ.",
            ]
            if gain.surprising:
                lines.append(
                    "That is far from what public rows predicted. The populations differ, or the search has overfitted "
                    "the public rows."
                )
        elif self.default is None and self.estimate is None:
            lines.append("No default= was given, so nothing says how much better it is.")
        if self.estimate is not None:
            lines.append(f"Its mean loss: {self.estimate}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON data, for attributes of a study; the interval and verdict of the improvement with it."""
        found = {**asdict(self), "verdict": self.verdict}
        if self.improvement is not None:
            found["improvement"] = {**asdict(self.improvement), "interval": list(self.improvement.interval())}
        return found
