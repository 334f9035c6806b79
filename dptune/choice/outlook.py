"""A forecast of a choice before anything is spent: its cost, what it can show, and what would help.

A dry run stores nothing and reads no private row: it plans with the people and the ledger that will be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from dptune.choice.payer import Payer, ledger_of, rows_of
from dptune.choice.planning import (
    SHARES,
    ChoicePlan,
    Shares,
    Wanted,
    estimate_radius,
    rival,
    shows,
    simulate,
    usual_share,
)  # fmt: skip
from dptune.choice.public import PublicLosses
from dptune.ledger import schema
from dptune.ledger.approximate import Limits
from dptune.ledger.budget_ledger import refuse_no_budget
from dptune.ledger.connection import Database, stored_row
from dptune.ledger.filter import Allowance, Divisions, GdpFilter, filter_of, is_pair
from dptune.ledger.gdp import Budget, Spent
from dptune.ledger.ledger import PrivacyLedger
from dptune.losses.named import NamedLoss
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Interval
from dptune.privacy.stored_losses import People
from dptune.results import NoiseLaw

FEW, HEAVY = 0.01, 0.25  # tails are heavy if 1% of the rows have so much of the loss; normal squared errors: .09

ASSUMES = "Assumes: one population. For another region, age group or year give public_weight=0.5{}."
UNCHECKED = "Not checked: whether a training can reach the private rows, as a dry run does not call data=."


@dataclass(frozen=True)
class Outlook:
    """Public facts about a choice before anything is spent.

    Attributes:
        people: number of private people; rows that of public ones.
        finalists: number of candidates among which people choose.
        best_loss: mean public loss of the candidate that cross-validation picks.
        default_loss: mean public loss of the default; None without one.
        gain: expected improvement of the mean loss over cross-validation alone, in units of the loss, by a simulation
            on split public rows. It ignores how private people differ.
        noise: noise of the estimate; None without one.
        expected: the improvement that public rows predict for their best candidate; None without an estimate.
        mu: GDP price of choice and estimate together.
        clip: range of one person's loss.
        name: name of the choice in the ledger.
        spends: the price in words, as a part of the ledger's budget.
        risk: a person's risk, in words; "" if noise is seeded.
        hopeless: why no verdict is possible, and what would help; "" if one is.
        recorded: the day on which the choice was charged, if the ledger has its answer.
        tails: what helps where few public rows have most of the loss; "" elsewhere.
        report: what a report with the share that is kept will be worth; "" if none is kept, or labels are not two.
        assumes: what the plan takes for granted of the private people, and what to set if it is not true; "" if set.
        unchecked: what a dry run could not check; "" if nothing.
    """

    people: int
    rows: int
    finalists: int
    best_loss: float
    default_loss: float | None
    gain: float
    noise: NoiseLaw | None
    expected: float | None
    mu: float
    clip: tuple[float, float]
    name: str
    spends: str
    risk: str
    hopeless: str = ""
    recorded: str = ""
    tails: str = ""
    report: str = ""
    assumes: str = ""
    unchecked: str = ""

    @property
    def shows(self) -> float | None:
        """Return an improvement over the default that the estimate shows in 95% of runs; None without an estimate."""
        return None if self.noise is None else shows(self.noise)

    def __str__(self) -> str:
        default = "" if self.default_loss is None else f", your default {self.default_loss:.4g}"
        lines = [
            f"Plan: {self.people} private people choose among {self.finalists} finalists, once. "
            f"Public loss: best {self.best_loss:.4g}{default}.",
            f"Spends: {self.spends}. Each loss is clipped to ({self.clip[0]:g}, {self.clip[1]:.4g}).",
            self._shows(),
            self._expects(),
            self.tails,
            self.report and f"Report: {self.report}.",
            self.assumes,
            self.unchecked,
            self.risk,
            f"Recorded: on {self.recorded}; the answer of {self.name!r} is returned, and nothing is charged."
            if self.recorded
            else f"Stop: now, and nothing is charged. Rerun as {self.name!r} to resume; a recorded answer is free.",
        ]
        return "\n".join(line for line in lines if line)

    def _shows(self) -> str:
        expected = f" Expected gain over cross-validation alone: {self.gain:.2g}."
        if self.gain <= 0:
            expected = "\nExpected gain over cross-validation alone: none: you pay for the verdict."
        if self.shows is None:
            return f"Shows: which finalist is chosen; without default= nothing is compared.{expected}"
        return f"Shows: an improvement over the default of {self.shows:.3g}, in 95% of runs.{expected}"

    def _expects(self) -> str:
        """Return how often the estimate would show the predicted improvement, if in less than 95% of runs."""
        if self.hopeless:
            return f"Warning: {self.hopeless}"
        if self.noise is None or self.shows is None or self.expected is None or self.expected >= self.shows:
            return ""
        if self.expected <= 0:
            return "Public rows expect no improvement over the default."
        often = self.noise.below(self.expected - self.noise.quantile(0.975))
        shown = f"which the estimate would show in {often:.0%} of runs"
        people = math.ceil(self.people * self.shows / self.expected)
        return (
            f"Public rows expect an improvement of {self.expected:.3g}, {shown}. In 95% of runs about {people} people "
            "would show it."
        )


def outlook(
    public: PublicLosses,
    plan: ChoicePlan,
    *,
    n: int,
    weight: float,
    default: int | None,
    loss: NamedLoss | None,
    **details: Any,
) -> Outlook:
    """Return the forecast before anything is spent; ``details`` are the other fields of an ``Outlook``."""
    noise, expected = None, None
    if default is not None and plan.share:
        noise, r = _noise(public, plan, weight, default)
        expected = public.difference(default, rival(public, default), r)[0]
    chosen, alone = simulate(
        public, n, plan.eta, plan.public_weight, plan.finalists, plan.near, [plan.radius], plan.law
    )
    return Outlook(
        n, public.clipped.shape[1], len(plan.finalists), public.mean(public.order[0]),
        None if default is None else public.mean(default), float(np.mean(alone - chosen[:, 0])), noise, expected,
        plan.mu, (public.low, public.high), **details,
        hopeless=hopeless(public, plan, n=n, weight=weight, default=default, loss=loss),
        assumes=ASSUMES.format("") if plan.public_weight == 1 else "",
    )  # fmt: skip


def in_front(plan: Outlook, *, average: bool, unread: bool) -> Outlook:
    """Return a front end's plan: whether candidates could be averages, and whether a dry run has a loader as data."""
    assumes = ASSUMES.format(" and averages=True" if average else "") if plan.assumes else ""
    return replace(plan, assumes=assumes, unchecked=UNCHECKED if unread else "")


def heavy_tails(public: PublicLosses, j: int, loss: NamedLoss | None) -> str:
    """Return what helps a regression if FEW of the public rows have HEAVY of candidate j's loss; "" elsewhere."""
    losses = np.sort(public.clipped[j])
    few = math.ceil(FEW * len(losses))
    part = float(losses[-few:].sum()) / (float(losses.sum()) or 1.0)
    if loss is None or loss.uses_labels or loss.known_clip or part < HEAVY:
        return ""
    return (
        f"Heavy tails: {few} of {len(losses)} public rows have {part:.0%} of the {loss.name}, and noise grows with the "
        'largest. What helps: train on the logarithm of the answers, loss="absolute_error" or "huber", or '
        f"clip=(0, {losses[-few - 1]:.3g})."
    )


def _noise(public: PublicLosses, plan: ChoicePlan, weight: float, default: int) -> tuple[NoiseLaw, float]:
    """Return the noise and the radius of the estimate if the best candidate on public rows is chosen."""
    r = estimate_radius(
        public, default, rival(public, default), plan.finalists[: plan.near], plan.noise(weight).sigma,
        plan.public_weight,
    )  # fmt: skip
    return plan.noise(2 * r * weight), r


def hopeless(
    public: PublicLosses, plan: ChoicePlan, *, n: int, weight: float, default: int | None, loss: NamedLoss | None
) -> str:
    """Return in words why no verdict is possible, and what would help; "" if one is."""
    if default is None or not plan.share:
        return ""

    def shown(plan: ChoicePlan) -> tuple[float, float, bool]:
        """Return the detectable improvement, the largest possible one, and whether a verdict is possible."""
        noise, r = _noise(public, plan, weight, default)
        most = min(r, public.mean(default) - public.low)
        return shows(noise), most, shows(noise) <= public.mean(default) - public.low and noise.quantile(0.975) < r

    needed, most, can = shown(plan)
    if can:
        return ""
    helps = "a larger budget"
    if most > 0:
        helps = f"about {math.ceil(n * needed / most)} people or {helps}"
    if plan.share < SHARES[-1] and shown(replace(plan, share=SHARES[-1]))[2]:
        helps = f"estimate_share={SHARES[-1]}, {helps}"
    if loss is not None and loss.name == "log_loss":  # a few confident mistakes make its noise
        helps = f'loss="brier", which is bounded, {helps}'
    return (
        f"the estimate shows an improvement over the default of {needed:.3g} in 95% of runs, and the largest that can "
        f"be is {most:.3g}, so expect no verdict. What helps: {helps}."
    )


def choice_forecast(n: int, width: float, budget: Budget) -> dict[str, object]:
    """Return what a choice on public rows can show, before any row is seen: a row of ``dptune plan``.

    Args:
        n: number of private people.
        width: width of the clip. Each person's difference is assumed to be cut at half of it, which is typical.
        budget: budget of choice and estimate together.
    """
    pair = budget if is_pair(budget) else None
    rest = Allowance(budget.mu, budget.mu, (), pair)
    wanted = Wanted(None, 1.0, None, None)
    drawn = Shares.of(rest, wanted, usual_share(rest, wanted, n)).noise(1 / n)
    least = drawn.quantile(0.975)  # the least that shows half of the time; the largest difference is 1/2
    hidden = "" if least < 0.5 else "no improvement shows. Plan more people, or a larger budget."
    named = {"method": "one private choice on public rows", "mu": Shares.of(rest, wanted, 0.0).mu, "trials": "any"}
    noise = {"noise of": "the improvement", "sigma": width * drawn.sigma, "shows": width * shows(drawn)}
    return {**named, **noise, "warning": hidden}


class FutureLedger:
    """A plan's view of a ledger that does not exist yet: nothing is spent."""

    private = True

    def __init__(self, budget: Budget) -> None:
        refuse_no_budget(budget)
        self.budget = budget
        self._filter = filter_of(budget, pair=is_pair(budget), stored=None)

    def check_people(self, n: int) -> None: ...

    def fact(self, scope: str, name: str) -> None: ...

    def find(self, scope: str, key: str) -> None: ...

    def count(self, scope: str | None = None) -> int:
        return 0

    def facts(self, name: str) -> dict[str, object]:
        return {}

    def runs(self) -> list[tuple[str, str]]:
        return []

    def allowance(self) -> Allowance:
        return self._filter.allowance(Spent(), {}, {})

    def filter_for(self, scope: str, *, plan: object = None) -> GdpFilter:
        return self._filter.after(scope, lambda: plan)

    def exposure(self) -> Limits | Divisions:
        return self._filter.exposure

    def remaining(self) -> float:
        return self._filter.left(Spent())

    def check(self, mu: float) -> None:
        self._filter.price("", mu, Spent())


class FuturePeople:
    """A plan's view of private people: their number, and the range of a loss if it is known."""

    private = True

    def __init__(self, ledger: Any, n: int, clip: tuple[float, float] | None) -> None:
        self.ledger, self.n, self._clip, self.clip_given = ledger, n, clip, clip is not None
        self.largest_weight = self.squared_weights = 1 / n
        ledger.check_people(n)

    @classmethod
    def of(cls, people: LossPrivatizer) -> Self:
        """Return the people of a privatizer, which a plan leaves as it is."""
        clip = (people.interval.low, people.interval.high) if people.clip_given else None
        future = cls(people.ledger, people.n, clip)
        future.largest_weight, future.squared_weights = people.largest_weight, people.squared_weights
        return future

    @property
    def knows_clip(self) -> bool:
        return self._clip is not None

    @property
    def interval(self) -> Interval:
        return Interval.of(self._clip or (0.0, 0.0))

    def use_clip(self, clip: tuple[float, float]) -> None:
        self._clip = self._clip or clip


def future_people(
    payer: Payer | FuturePeople,
    data: Any,
    *,
    groups: Any = None,
    n: int | None = None,
    budget: Budget | None = None,
    clip: Any = None,
) -> Any:
    """Return the people of a privatizer or a ledger, as a plan needs them.

    Args:
        payer: a privatizer, a ledger, or its path or URL; ``budget`` is for a ledger that does not exist yet.
        data, groups, n: see :func:`dptune.choice.payer.privatizer_of`; nothing is read.
        clip: (low, high), if it is known.

    Raises:
        InputError: what a privatizer or a ledger would refuse, too.
    """
    if isinstance(payer, LossPrivatizer | FuturePeople):
        return FuturePeople.of(payer) if isinstance(payer, LossPrivatizer) else payer
    rows = None if groups is not None else rows_of(data) if n is None else n
    people, interval = People.of(rows, groups, None).n, None if clip is None else Interval.of(clip)
    ledger: Any = payer
    if isinstance(payer, str | Path):
        exists = stored_row(Database(schema.normalise_url(payer))) is not None
        ledger = FutureLedger(budget) if budget is not None and not exists else PrivacyLedger(payer, budget)
    else:
        ledger = ledger_of(payer, budget)
    return FuturePeople(ledger, people, None if interval is None else (interval.low, interval.high))
