"""A forecast of a choice before anything is spent: its cost, what it can show, and what would help."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
from dptune.ledger.filter import Allowance, is_pair
from dptune.ledger.gdp import Budget
from dptune.results.estimate import NoiseLaw


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
    public: PublicLosses, plan: ChoicePlan, *, n: int, weight: float, default: int | None, **details: Any
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
        hopeless=hopeless(public, plan, n=n, weight=weight, default=default),
    )  # fmt: skip


def _noise(public: PublicLosses, plan: ChoicePlan, weight: float, default: int) -> tuple[NoiseLaw, float]:
    """Return the noise and the radius of the estimate if the best candidate on public rows is chosen."""
    r = estimate_radius(
        public, default, rival(public, default), plan.finalists[: plan.near], plan.noise(weight).sigma,
        plan.public_weight,
    )  # fmt: skip
    return plan.noise(2 * r * weight), r


def hopeless(public: PublicLosses, plan: ChoicePlan, *, n: int, weight: float, default: int | None) -> str:
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
    named = {"method": "one private choice on public rows", "mu": Shares.of(rest, wanted, 0.0).mu, "trials": "any"}
    line = {"noise of": "the improvement", "sigma": width * drawn.sigma, "shows": width * shows(drawn), "warning": ""}
    return {**named, **line}
