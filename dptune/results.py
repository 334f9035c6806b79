"""Releases in words: an estimate and its verdict, a budget and its rest, a risk; and what a new plan may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtr, ndtri

from dptune._checks import shown
from dptune._numbers import rounded_up
from dptune.errors import BudgetExhausted, BudgetPlanned, InputError
from dptune.ledger.approximate import Limits
from dptune.ledger.filter import Allowance, Divisions
from dptune.ledger.gdp import Budget, Spent
from dptune.ledger.ledger import PLAN, PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Interval

SEEDED = "NOT PRIVATE: the noise was seeded."
AT_THE_CLIP = (
    ", which reaches the upper clip: it is too tight for most losses, or they are no numbers, as a NaN or the loss of "
    "a label that the model has not seen ('1' for 1)"
)


@dataclass(frozen=True)
class NoiseLaw:
    """The law of a released number's privacy noise: Gaussian or Laplace.

    Attributes:
        sigma: standard deviation, in units of the number.
        laplace: whether it is a Laplace law.
    """

    sigma: float
    laplace: bool = False

    def quantile(self, p: float) -> float:
        """Return the number that the noise is below with probability ``p``."""
        if not self.laplace:
            return float(ndtri(p)) * self.sigma
        size = -math.log(2 * min(p, 1 - p)) * self.sigma / math.sqrt(2)
        return size if p > 0.5 else -size

    def below(self, x: float) -> float:
        """Return the probability that the noise is below ``x``."""
        if not self.laplace:
            return float(ndtr(x / self.sigma))
        tail = math.exp(-math.sqrt(2) * abs(x) / self.sigma) / 2
        return tail if x < 0 else 1 - tail


@dataclass(frozen=True)
class Estimate:
    """A released mean clipped loss and its privacy noise.

    Attributes:
        value: released mean clipped loss, in units of the loss.
        sigma: standard deviation of the privacy noise, same units.
        private: False if the noise was seeded.
        improvement: the user's defaults' loss less this one, released together with it, which no model has a part in;
            None without defaults.
        at_clip: whether the 95% interval reaches the upper clip, and not the lower half of its range.
        cut: of an improvement, the upper clip: each person's larger loss counts as this much.
        within: of a loss, the clip, in which the mean lies whatever the noise: what is printed is cut to it.
        laplace: whether the noise has a Laplace law; else it is Gaussian.
    """

    value: float
    sigma: float
    private: bool
    improvement: Estimate | None = None
    at_clip: bool = False
    cut: float | None = None
    within: tuple[float, float] | None = None
    laplace: bool = False

    @classmethod
    def of_loss(
        cls, value: float, sigma: float, clip: Interval, *, private: bool, improvement: Estimate | None = None
    ) -> Estimate:
        """Return the estimate of a mean loss clipped to ``clip``."""
        estimate = cls(value, sigma, private, improvement, within=(clip.low, clip.high))
        low, high = estimate.interval()
        return replace(estimate, at_clip=high >= clip.high and low > (clip.low + clip.high) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only, not how far these people are from a population.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {shown(confidence)}.")
        half = -NoiseLaw(self.sigma, self.laplace).quantile((1 - confidence) / 2)
        return self.value - half, self.value + half

    @property
    def verdict(self) -> str:
        """Return the verdict of an improvement's 95% interval: "better", "worse" or "not distinguishable"."""
        low, high = self.interval()
        return "better" if low > 0 else "worse" if high < 0 else "not distinguishable"

    def compared(self, defaults: str) -> str:
        """Return in words what an improvement over ``defaults`` says; these words stand wherever one is shown."""
        low, high = self.interval()
        than = f"{self.verdict} {'from' if self.verdict.startswith('not') else 'than'} {defaults}"
        seeded = "" if self.private else " NOT PRIVATE"
        cut = "" if self.cut is None else f" of mean losses that are cut at {self.cut:.4g}"
        return (
            f"{than}: improvement {self.value:.4g} (95%: {low:.4g} to {high:.4g}){cut}, by one release and no "
            f"model{seeded}"
        )

    def shown(self) -> tuple[float, float, float]:
        """Return value and ends of the 95% interval for people to read: of a loss, cut to its clip."""
        least, most = (-math.inf, math.inf) if self.within is None else self.within
        low, high = (min(max(end, least), most) for end in self.interval())
        return min(max(self.value, least), most), low, high

    def __str__(self) -> str:
        value, low, high = self.shown()
        seeded = "" if self.private else " NOT PRIVATE"
        at_clip = AT_THE_CLIP if self.at_clip else ""
        text = f"{value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}{at_clip}){seeded}"
        return text if self.improvement is None else f"{text}, {self.improvement.compared('the defaults')}"


def improvement_in_words(gain: Estimate, than: str) -> str:
    """Return the verdict of a released improvement over ``than``, with its 95% interval."""
    grows = gain.value < 0
    low, high = gain.interval()
    value, low, high = (-gain.value, -high, -low) if grows else (gain.value, low, high)
    verdict = f"{gain.verdict.capitalize()} {'from' if gain.verdict.startswith('not') else 'than'} {than}"
    cut = "" if gain.cut is None else f" Larger losses count as {gain.cut:.3g}."
    return (
        f"{verdict}: the mean loss {'rises' if grows else 'improves'} by {value:.3g} (95% interval of the noise: "
        f"{low:.3g} to {high:.3g}).{cut}"
    )


def next_step(verdict: str, people: int | None) -> str:
    """Return advice on the next step after a verdict about this many people."""
    these = "" if people is None else f" It holds for these {people} people; another {people} may differ."
    steps = {"better": "take the model, and publish the statement.", "worse": "keep the default, and report on it."}
    return f"Next: {steps.get(verdict, 'keep the default and report on it, or ask more people.')}{these}"


def parameters_in_words(parameters: Mapping[str, Any], quote: str = "") -> str:
    """Return parameters for people to read, numbers in four digits."""
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in parameters.items()}
    return ", ".join(f"{name} = {quote}{value}{quote}" for name, value in shown.items())


def share_in_words(budget: Budget, limits: Limits, mu: float) -> str:
    """Return in words how much of a ledger's budget a run takes; ``limits`` are those after its charge."""
    whole = f"mu={rounded_up(budget.mu)}"
    most = budget.mu
    if limits.eta > 0 or mu > budget.mu:  # the budget is divided, or will be
        whole = f"epsilon={rounded_up(budget.stated_epsilon or math.inf)} at delta={budget.stated_delta:.4g}"
        most = limits.gdp
    part = "all" if mu >= most * (1 - 1e-6) else f"mu={rounded_up(mu)}"
    return f"{part} of the ledger's {whole}"


def left_in_words(ledger: PrivacyLedger, spent: Spent | None = None, *, planned: bool = False) -> str:
    """Return a line on the rest of a ledger's budget; ``planned`` means that runs have planned some of it."""
    if spent is None:
        left = ledger.remaining()
        whole = ledger.mu
        budget = ledger.budget
    else:  # a run has read the ledger just now
        left = ledger.filter.left(spent)
        whole = ledger.filter.exposure.gdp
        budget = ledger.filter.budget
    left = math.floor(1e4 * left) / 1e4
    some = ", some of it planned by this run" if planned else ""
    if budget.stated_epsilon is None or budget.stated_delta is None:
        return f"Budget left: mu={left:g} of {rounded_up(whole)}{some}."
    stated = f"epsilon = {budget.stated_epsilon:g} (delta = {budget.stated_delta:g})"
    return f"Budget left: {f'mu={left:g}' if left else '0'} of {stated}{some}."


def risk_in_words(privatizer: LossPrivatizer, limits: Limits | Divisions) -> str:
    """Return a line on a person's risk from all releases within these limits of the ledger; "" if noise is seeded.

    The attacker knows every other record, and guesses which of two records is the person's (`dptune.ledger.Risk`).
    """
    if not (privatizer.private and privatizer.ledger.private):
        return ""
    right = math.ceil(50 * (1 + limits.delta(0.0)))
    return (
        f"Risk: an attacker who sees every release picks the right one of two records at most {right} times in 100 "
        f"(50 by chance)."
    )


def check_start(ledger: PrivacyLedger, scope: str, mu: float | None, *, choice_share: float = 1.0) -> None:
    """Refuse a run that could not begin with ``mu``, or with the budget that is neither spent nor planned."""
    try:
        rest = ledger.allowance()
        if mu is not None and not (rest.divides and mu <= rest.whole(choice_share)):
            ledger.check(mu)
        share_of(rest, mu, ledger.budget.mu, choice_share)
    except BudgetExhausted:
        if ledger.fact(scope, PLAN) is None:  # looked up last: another thread or process may have started the run
            raise


def usual_share(ledger: PrivacyLedger, mu: float | None, *, choice_share: float = 0.0) -> float:
    """Return the budget with which a new run would begin; the whole budget if none is left."""
    return mu if mu is not None else ledger.allowance().whole(choice_share) or ledger.budget.mu


def share_of(rest: Allowance, mu: float | None, budget: float, choice_share: float) -> float:
    """Return the GDP budget of a release that begins now; raise if nothing is left for it."""
    share = rest.whole(choice_share) if mu is None else mu
    if share > 0:
        return share
    if rest.left > 0:
        raise BudgetPlanned(rest.left, budget, rest.holders)
    raise BudgetExhausted(budget, 0.0, budget)
