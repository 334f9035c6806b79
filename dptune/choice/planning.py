"""How a choice that public rows have prepared spends its budget: decided, and simulated, on public rows alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from dptune.choice.public import BY_RANK, Matrix, PublicLosses, Vector, centred, law, prior
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import bounded_range_from_mu

FEWEST, MOST = 20, 100  # finalists by default
PER_FINALIST = 4.0  # n eta for each finalist, where ranks decide
RADII = tuple(2.0**-k for k in range(6, -1, -1))  # candidates for r, in units of the largest that cuts public rows
USUAL, WIDER = 0.99, 1.3  # r is at least so many times this quantile of what public rows differ
SHARES, USUAL_SHARE = (0.1, 0.2, 0.3, 0.4), 0.2  # of mu^2, for the estimate; the usual one if none will show
SMALL_SHARES, ENOUGH = (0.1, 0.05), 550.0  # instead, where (eps, delta) is divided and n eta would be below ENOUGH
BIAS, RADIUS_STEPS = 0.3, 40  # of the estimate: bias by cutting, in standard deviations of the noise; radii tried
SPLITS = 25  # of the public rows in a simulation
SEED = 0  # of these splits: public rows only, and a restart plans the same
Z_95 = 1.959964  # standard normal quantiles
SHOWN = Z_95 + 1.644854  # an improvement of so many sigma has a 95% interval above 0 in 95% of runs

Unit = Callable[[float], float]  # mu -> standard deviation of the noise of a mean that one person moves by 1 / n


@dataclass(frozen=True)
class Wanted:
    """What the user fixed; None: it is read off the public rows."""

    mu: float | None
    public_weight: float
    estimate_share: float | None
    finalists: int | None
    report_share: float = 0.0


@dataclass(frozen=True)
class ChoicePlan:
    """How the budget is spent; public, and fixed in the ledger.

    Attributes:
        mu: GDP price of choice and estimate together.
        share: of mu^2, for the estimate.
        finalists: places of the candidates among which people choose, the best on public rows first.
        radius: r of the choice; estimate_radius that of the estimate; in units of the loss.
        public_weight: as how many rows a public row counts in the prior.
        divides: whether the choice has a limit of its own in a budget in (epsilon, delta).
    """

    mu: float
    share: float
    finalists: tuple[int, ...]
    radius: float
    estimate_radius: float
    public_weight: float
    divides: bool

    @property
    def choice_mu(self) -> float:
        """GDP price of the choice."""
        return self.mu * math.sqrt(1 - self.share)

    @property
    def estimate_mu(self) -> float:
        """GDP price of the estimate."""
        return self.mu * math.sqrt(self.share)

    def describe(self, asked: Mapping[str, object]) -> dict[str, object]:
        """Return JSON data for the ledger; ``asked`` says of what choice, and ``shares`` is what divides its budget."""
        known = {**asdict(self), "asked": dict(asked)}
        return {**known, "shares": {"choice": 1 - self.share}} if self.divides else known

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the plan of :meth:`describe`."""
        known = {name: stored[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "finalists": tuple(stored["finalists"])})


def plan(
    public: PublicLosses, rest: Allowance, wanted: Wanted, *, n: int, default: int | None, unit: Unit
) -> ChoicePlan:
    """Return how the budget is spent: the number of finalists, both radii, and the share of the estimate.

    Args:
        rest: what the ledger has left.
        n: number of private people.
        unit: noise of a mean that one person moves by 1 / n, for a price.
    """

    def whole(share: float) -> float:
        kept = 1 - wanted.report_share
        return rest.whole(kept * (1 - share)) * math.sqrt(kept) if wanted.mu is None else wanted.mu

    def eta(share: float) -> float:
        price = whole(share) * math.sqrt(1 - share)
        return bounded_range_from_mu(price) if price > 0 else 0.0

    share = wanted.estimate_share
    if default is None:
        share = 0.0
    elif share is None:
        share = _share(public, default, lambda each: unit(whole(each) * math.sqrt(each)) if whole(each) > 0 else 1.0)
        share = share or usual_share(lambda each: n * eta(each), divides=rest.divides and wanted.mu is None)
    mu = whole(share)
    if mu <= 0:
        return ChoicePlan(0.0, share, (), 1.0, 1.0, wanted.public_weight, divides=False)
    finalists = public.finalists(wanted.finalists or _most(n * eta(share)))
    r = simulated_radius(public, n, eta(share), wanted.public_weight, finalists)
    apart = r
    if default is not None and share:
        apart = estimate_radius(public, default, finalists, unit(mu * math.sqrt(share)))
    return ChoicePlan(mu, share, finalists, r, apart, wanted.public_weight, divides=rest.divides)


def _most(said: float) -> int:
    """Return how many finalists there may be; ``said`` is n eta."""
    few = max(FEWEST, int(said / PER_FINALIST))
    return few if few < BY_RANK else MOST


def _share(public: PublicLosses, default: int, sigma: Unit) -> float:
    """Return the least share with which the improvement that public rows predict shows in 95% of runs; 0 if none."""
    best, near = public.order[0], public.finalists(FEWEST)
    for share in SHARES:
        r = estimate_radius(public, default, near, sigma(share))
        if public.difference(default, best, r)[0] >= SHOWN * r * 2 * sigma(share):
            return share
    return 0.0


def usual_share(said: Callable[[float], float], *, divides: bool) -> float:
    """Return the share of an estimate that public rows do not expect to show.

    Args:
        said: n eta of the choice, for a share.
        divides: whether choice and estimate divide a budget in (epsilon, delta), where an estimate takes much from eta.
    """
    shares = (USUAL_SHARE, *SMALL_SHARES) if divides else (USUAL_SHARE,)
    return next((share for share in shares if said(share) >= ENOUGH), shares[-1])


# ---- radii -----------------------------------------------------------------------------------------------------------


def simulated_radius(public: PublicLosses, n: int, eta: float, weight: float, finalists: tuple[int, ...]) -> float:
    """Return the largest r whose simulated loss is within two standard errors of the smallest.

    It is at least WIDER times the quantile USUAL of what public rows differ: private people may differ more.
    """
    apart = np.abs(centred(public.clipped[list(finalists)]))
    largest = float(apart.max()) or public.largest
    grid = [largest * part for part in RADII]
    losses = simulate(public, n, eta, weight, finalists, grid)[0]  # (splits, radii)
    worse = losses - losses[:, [int(np.argmin(losses.mean(axis=0)))]]
    level = worse.mean(axis=0) <= 2 * worse.std(axis=0) / math.sqrt(len(worse))
    return max(grid[int(np.flatnonzero(level).max())], WIDER * float(np.quantile(apart, USUAL)))


def simulate(
    public: PublicLosses, n: int, eta: float, weight: float, finalists: tuple[int, ...], radii: list[float]
) -> tuple[Matrix, Vector]:
    """Return mean losses (splits, radii) after a choice, and (splits,) by cross-validation alone.

    Public rows are split in halves. One half votes; from the other, n "private" people are drawn, and it is the
    population by which both are judged. The law of a choice is exact: no noise is drawn.
    """
    rng, V = np.random.default_rng(SEED), public.clipped[list(finalists)]
    found: list[list[float]] = []
    alone: list[float] = []
    for _ in range(SPLITS):
        rows = rng.permutation(V.shape[1])
        voting, people = np.split(V[:, rows], [V.shape[1] // 2], axis=1)
        people, judged = centred(people), people.mean(axis=1)
        times = np.bincount(rng.integers(0, people.shape[1], size=n), minlength=people.shape[1])  # each row is drawn
        alone.append(float(judged[np.argmin(voting.mean(axis=1))]))
        found.append([])
        odds = np.log(prior(voting, weight))
        for r in radii:
            exponents = np.clip(people, -r, r) @ times * eta / (4 * r) - odds
            found[-1].append(float(law(exponents) @ judged))
    return np.array(found), np.array(alone)


def estimate_radius(public: PublicLosses, default: int, finalists: tuple[int, ...], unit: float) -> float:
    """Return r of the estimate: the smallest whose cutting hardly shows beside the noise, on public rows.

    The bias of the finalists' differences, plus two standard errors, is at most BIAS of the noise where it is
    largest: a tail that few public rows show counts, too. If no r is small enough, nothing is cut on public rows.
    """
    V = public.clipped
    D = np.array([V[default] - V[j] for j in finalists if j != default])  # (s, N)
    largest = float(np.abs(D).max()) or public.largest
    for part in np.linspace(1, RADIUS_STEPS, RADIUS_STEPS) / RADIUS_STEPS:
        r = largest * float(part)
        over = D - np.clip(D, -r, r)
        bias = np.abs(over.mean(axis=1)) + 2 * over.std(axis=1) / math.sqrt(D.shape[1])  # (s,)
        if bias.max() <= BIAS * 2 * r * unit:
            break
    return r


# ---- what can be said before anything is spent ---------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook:
    """What is known about a choice before anything is spent; public.

    Attributes:
        people: number of private people; rows that of public ones.
        finalists: among how many candidates people choose.
        best_loss: mean public loss of the candidate that cross-validation picks.
        default_loss: that of the default; None without one.
        gain: by how much the choice's mean loss is expected to lie below that of cross-validation alone, in units of
            the loss, by a simulation on split public rows; what private people differ in is not in it.
        shows: an improvement over the default that the estimate shows in 95% of runs; None without an estimate.
        expected: the improvement that public rows expect of their best candidate; None without an estimate.
        mu: GDP price of choice and estimate together.
        clip: range of one person's loss.
        name: of the choice in the ledger.
        spends: the price in words, as a part of the ledger's budget.
        risk: what a person risks, in words; "" where noise is seeded.
    """

    people: int
    rows: int
    finalists: int
    best_loss: float
    default_loss: float | None
    gain: float
    shows: float | None
    expected: float | None
    mu: float
    clip: tuple[float, float]
    name: str
    spends: str
    risk: str

    def __str__(self) -> str:
        default = "" if self.default_loss is None else f", your default {self.default_loss:.4g}"
        lines = [
            f"Plan: {self.people} private people choose among {self.finalists} finalists, once. "
            f"Public loss: best {self.best_loss:.4g}{default}.",
            f"Spends: {self.spends}. Each loss is clipped to ({self.clip[0]:g}, {self.clip[1]:.4g}).",
            self._shows(),
            self._expects(),
            self.risk,
            f"Stop: now, and nothing is charged. Rerun as {self.name!r} to resume; a recorded answer is free.",
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
        """How often the estimate would show what public rows expect, where that is in less than 95% of runs."""
        if self.shows is None or self.expected is None or self.expected >= self.shows:
            return ""
        if self.expected <= 0:
            return "Public rows expect no improvement over the default."
        often = NormalDist().cdf(SHOWN * self.expected / self.shows - Z_95)
        shown = f"which the estimate would show in {often:.0%} of runs"
        return f"Public rows expect an improvement of {self.expected:.3g}, {shown}."


def outlook(
    public: PublicLosses, plan: ChoicePlan, *, n: int, default: int | None, unit: Unit, **known: Any
) -> Outlook:
    """Return what can be said before anything is spent; ``known`` are the other fields of an ``Outlook``."""
    eta = bounded_range_from_mu(plan.choice_mu)
    chosen, alone = simulate(public, n, eta, plan.public_weight, plan.finalists, [plan.radius])
    shows = SHOWN * 2 * plan.estimate_radius * unit(plan.estimate_mu) if plan.share else None
    expected = None
    if default is not None and plan.share:
        expected = public.difference(default, public.order[0], plan.estimate_radius)[0]
    return Outlook(
        n, public.clipped.shape[1], len(plan.finalists), public.mean(public.order[0]),
        None if default is None else public.mean(default), float(np.mean(alone - chosen[:, 0])), shows, expected,
        plan.mu, (public.low, public.high), **known,
    )  # fmt: skip


def choice_forecast(n: int, width: float, mu: float, share: float) -> dict[str, object]:
    """Return what a choice on public rows can show, before any row is seen: a row of ``dptune plan``.

    Args:
        n: number of private people.
        width: of the clip. Each person's difference is assumed to be cut at half of it, which is typical.
        mu: what choice and estimate cost together, in GDP.
        share: of mu^2, for the estimate.
    """
    sigma = width / (n * mu * math.sqrt(share))
    named = {"method": "one private choice on public rows", "mu": mu, "trials": "any", "noise of": "the improvement"}
    return {**named, "sigma": sigma, "shows": SHOWN * sigma, "warning": ""}
