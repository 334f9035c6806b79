"""The budget of a choice that public rows have prepared: decided and simulated on public rows alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune.choice.public import BY_RANK, Law, PublicLosses, centred, flip_law, law, prior
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_pure
from dptune.privacy.noise import laplace_scale, noise_scale
from dptune.results import NoiseLaw

FEWEST, MOST = 20, 100  # finalists by default
PER_FINALIST = 4.0  # n eta for each finalist, if ranks decide
RADII = tuple(2.0**-k for k in range(6, -1, -1))  # candidates for r, in units of the largest that cuts public rows
USUAL, WIDER = 0.99, 1.3  # r is at least the second times this quantile of public rows' differences
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4)  # candidate shares of the estimate, of mu^2, or of epsilon if both are pure
USUAL_SHARE = 0.2  # if no share shows the predicted improvement
USUAL_OF_PURE = (0.25, 0.1)  # the same of epsilon: the first that leaves the choice n epsilon of ENOUGH
ENOUGH = 1000.0
TYPICAL = 0.9  # share of near finalists whose radii the estimate's radius covers
BIAS, RADIUS_STEPS = 0.4, 40  # bias of the estimate by cutting, in standard deviations of the noise; radii tried
FAR_FROM, FAR_PART = 600.0, 0.2  # n eta from which a part of the finalists are far ones, and this part
SPLITS = 25  # splits of the public rows in a simulation
SEED = 0  # seed of the splits: public rows only, and a restart plans the same


def shows(noise: NoiseLaw) -> float:
    """Return the improvement whose 95% interval lies above 0 in 95% of runs."""
    return noise.quantile(0.975) + noise.quantile(0.95)


@dataclass(frozen=True)
class Wanted:
    """The settings that the user fixed; None for those that public rows determine."""

    mu: float | None
    public_weight: float
    estimate_share: float | None
    finalists: int | None
    report_share: float = 0.0


@dataclass(frozen=True)
class Shares:
    """The division of the budget between choice and estimate.

    Attributes:
        mu: GDP price of choice and estimate together.
        share: for the estimate, of mu^2; of epsilon where ``pure``.
        epsilon: of both, if both are pure releases, which take all of a budget in (epsilon, delta): the choice by
            permute-and-flip, the estimate with Laplace noise. Else 0.
    """

    mu: float
    share: float
    epsilon: float

    @property
    def pure(self) -> bool:
        return self.epsilon > 0

    @classmethod
    def of(cls, rest: Allowance, wanted: Wanted, share: float) -> Shares:
        """Divide the ledger's rest; both are pure if they have all of a small epsilon.

        Then permute-and-flip and Laplace noise err less. With a report, or for a ``mu``, they err more.
        """
        if wanted.mu is not None:
            return Shares(wanted.mu, share, 0.0)
        kept = 1 - wanted.report_share
        if rest.pure > 0 and kept == 1:
            return Shares(mu_from_pure(rest.pure), share, rest.pure)
        return Shares(rest.whole(kept * (1 - share)) * math.sqrt(kept), share, 0.0)

    @property
    def choice_mu(self) -> float:
        """Return the GDP price of the choice by itself."""
        if self.pure:
            return mu_from_pure((1 - self.share) * self.epsilon)
        return self.mu * math.sqrt(1 - self.share)

    @property
    def eta(self) -> float:
        """Return the scale of the choice's losses: its epsilon if ``pure``, else its bounded range."""
        return (1 - self.share) * self.epsilon if self.pure else bounded_range_from_mu(self.choice_mu)

    @property
    def law(self) -> Law:
        return flip_law if self.pure else law

    @property
    def estimate_mu(self) -> float:
        """Return the GDP price of the estimate by itself."""
        if self.pure:
            return mu_from_pure(self.share * self.epsilon) if self.share else 0.0
        return self.mu * math.sqrt(self.share)

    def noise(self, moves: float) -> NoiseLaw:
        """Return the noise of the estimate, whose mean one person moves by at most ``moves``, in its units."""
        if self.pure:
            scale = laplace_scale(sensitivity=moves, epsilon=self.share * self.epsilon)
            return NoiseLaw(math.sqrt(2) * scale, laplace=True)
        return NoiseLaw(noise_scale(sensitivity=moves, mu=self.estimate_mu, dimension=1))


@dataclass(frozen=True)
class ChoicePlan(Shares):
    """The public plan of the budget, fixed in the ledger.

    Attributes:
        finalists: places of the candidates among which people choose: the near ones, the best on public rows first, and
            then the far ones.
        near: how many are near ones, over which each person's median is taken.
        radius: r of the choice, in units of the loss.
        public_weight: as how many rows a public row counts: in the prior, in who is a finalist, and in both radii.
        divides: whether the choice has a limit of its own in a budget in (epsilon, delta).
    """

    finalists: tuple[int, ...]
    near: int
    radius: float
    public_weight: float
    divides: bool

    def describe(self, asked: Mapping[str, object], told: Mapping[str, object] | None = None) -> dict[str, object]:
        """Return JSON data for the ledger; ``asked`` and ``told`` describe the choice.

        ``epsilon`` (:data:`dptune.ledger.filter.PURE`), or else ``shares``, divides its budget.
        """
        plan = {**asdict(self), "asked": dict(asked), "told": dict(told or {})}
        return {**plan, "shares": {"choice": 1 - self.share}} if self.divides and not self.pure else plan

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the plan of :meth:`describe`."""
        settings = {name: stored[name] for name in cls.__dataclass_fields__}
        return cls(**{**settings, "finalists": tuple(stored["finalists"])})


def usual_share(rest: Allowance, wanted: Wanted, n: int) -> float:
    """Return the estimate's share, for n people, if public rows predict that it shows nothing."""
    large, small = USUAL_OF_PURE
    divided = Shares.of(rest, wanted, large)
    if not divided.pure:
        return USUAL_SHARE
    return large if n * divided.eta >= ENOUGH else small


def plan(
    public: PublicLosses, rest: Allowance, wanted: Wanted, *, n: int, weight: float, default: int | None
) -> ChoicePlan:
    """Return the plan: the finalists, the radius of the choice, and the share of the estimate.

    Args:
        rest: the rest of the ledger's budget.
        n: number of private people.
        weight: the most that replacing one person moves a mean of numbers in [0, 1]: 1 / n for equal weights.
        default: place of the user's own candidate. Without it nothing is estimated.
    """
    share = wanted.estimate_share
    some = 0.0 if default is None else USUAL_SHARE if share is None else share
    if Shares.of(rest, wanted, some).mu <= 0:  # then it is 0 for every other positive share, too
        return ChoicePlan(0.0, some, 0.0, (), 0, 1.0, wanted.public_weight, False)
    if default is None:
        share = 0.0
    elif share is None:
        share = _share(public, default, wanted, lambda share: Shares.of(rest, wanted, share).noise(weight))
        share = share or usual_share(rest, wanted, n)
    divided = Shares.of(rest, wanted, share)
    near, far = _finalists(public, n * divided.eta, wanted)
    r = simulated_radius(public, n, divided.eta, wanted.public_weight, near, divided.law)
    finalists = (*near, *far)
    return ChoicePlan(divided.mu, share, divided.epsilon, finalists, len(near), r, wanted.public_weight, rest.divides)


def _finalists(public: PublicLosses, said: float, wanted: Wanted) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the near finalists and the far ones; ``said`` is n eta."""
    few = max(FEWEST, int(said / PER_FINALIST))
    most = wanted.finalists or (few if few < BY_RANK else MOST)
    far = round(FAR_PART * most) if said >= FAR_FROM and most >= 2 * BY_RANK else 0
    near = public.finalists(most - far, wanted.public_weight)
    return near, public.far(near, min(far, len(near)))


def _share(public: PublicLosses, default: int, wanted: Wanted, noise: Callable[[float], NoiseLaw]) -> float:
    """Return the least share with which the improvement that public rows predict shows in 95% of runs; 0 if none."""
    best, near = rival(public, default), public.finalists(FEWEST, wanted.public_weight)
    laws = [noise(share) for share in SHARES]
    radii = estimate_radii(public, default, best, near, [drawn.sigma for drawn in laws], wanted.public_weight)
    for share, drawn, r in zip(SHARES, laws, radii, strict=True):
        if public.difference(default, best, r)[0] >= 2 * r * shows(drawn):
            return share
    return 0.0


# ---- radii -----------------------------------------------------------------------------------------------------------


def simulated_radius(public: PublicLosses, n: int, eta: float, weight: float, near: tuple[int, ...], law: Law) -> float:
    """Return the largest r whose simulated loss is within two standard errors of the smallest, for near finalists.

    It is at least WIDER times the quantile USUAL of what public rows differ: private people may differ more.
    """
    apart = np.abs(centred(public.clipped[list(near)], len(near)))
    largest = float(apart.max()) or public.largest
    grid = [largest * part for part in RADII]
    losses = simulate(public, n, eta, weight, near, len(near), grid, law)[0]  # (splits, radii)
    worse = losses - losses[:, [int(np.argmin(losses.mean(axis=0)))]]
    level = worse.mean(axis=0) <= 2 * worse.std(axis=0) / math.sqrt(len(worse))
    return max(grid[int(np.flatnonzero(level).max())], WIDER * float(np.quantile(apart, USUAL)))


@np.errstate(under="ignore")
def simulate(
    public: PublicLosses,
    n: int,
    eta: float,
    weight: float,
    finalists: tuple[int, ...],
    near: int,
    radii: list[float],
    law: Law,
) -> tuple[Matrix, Vector]:
    """Return mean losses (splits, radii) after a choice, and (splits,) by cross-validation alone.

    Public rows are split in halves. One half votes. The other half is the population that judges both, from which n
    "private" people are drawn. The law of a choice is exact: no noise is drawn.
    """
    rng = np.random.default_rng(SEED)
    V = public.clipped[list(finalists)]
    outcomes: list[list[float]] = []
    alone: list[float] = []
    for _ in range(SPLITS):
        rows = rng.permutation(V.shape[1])
        voting, people = np.split(V[:, rows], [V.shape[1] // 2], axis=1)
        people, judged = centred(people, near), people.mean(axis=1)
        times = np.bincount(rng.integers(0, people.shape[1], size=n), minlength=people.shape[1])  # each row is drawn
        alone.append(float(judged[np.argmin(voting.mean(axis=1))]))
        outcomes.append([])
        odds = np.log(prior(voting, weight))
        for r in radii:
            exponents = np.clip(people, -r, r) @ times * eta / (4 * r) - odds
            outcomes[-1].append(float(law(exponents) @ judged))
    return np.array(outcomes), np.array(alone)


def rival(public: PublicLosses, default: int) -> int:
    """Return the best candidate on public rows that is not the default."""
    return next(j for j in public.order if j != default)


def estimate_radius(
    public: PublicLosses, default: int, chosen: int, near: tuple[int, ...], sigma: float, weight: float
) -> float:
    """Return r of the estimate: the chosen candidate's, or the radius of TYPICAL of the near finalists if larger.

    Who is chosen is the one whose rare large losses few rows have shown; a few wild finalists do not count.
    """
    return estimate_radii(public, default, chosen, near, [sigma], weight)[0]


def estimate_radii(
    public: PublicLosses, default: int, chosen: int, near: tuple[int, ...], sigmas: list[float], weight: float
) -> list[float]:
    """Return r of the estimate for each noise."""
    others = [j for j in (chosen, *near) if j != default]
    return [typical(radii) for radii in radii_of(public, default, others, sigmas, weight)]


def typical(radii: Vector) -> float:
    """Return the first radius, or that of TYPICAL of all if larger."""
    return max(float(radii[0]), float(np.quantile(radii, TYPICAL, method="lower")))


def radii_of(public: PublicLosses, default: int, others: list[int], sigmas: list[float], weight: float) -> Matrix:
    """Return for each noise and candidate the smallest r (s, k) whose bias on public rows the noise hides.

    ``sigmas`` are the noise's standard deviations for differences in an interval of width 1, ``weight`` is the public
    weight.

    The bias of the mean difference, plus two standard errors, is at most BIAS of the noise: a tail that few public rows
    show counts, too. If no r is small enough, or public rows are too few, no public row is cut.
    """
    D = public.clipped[default] - public.clipped[others]  # (k, N)
    largest = np.abs(D).max(axis=1)
    largest = np.where(largest > 0, largest, public.largest)
    found, noise = np.tile(largest, (len(sigmas), 1)), np.array(sigmas)[:, None]
    rows = D.shape[1] * min(weight, 1.0)
    for step in range(RADIUS_STEPS - 1, 0, -1) if rows else ():
        r = largest * step / RADIUS_STEPS
        over = D - np.clip(D, -r[:, None], r[:, None])
        fits = np.abs(over.mean(axis=1)) + 2 * over.std(axis=1) / math.sqrt(rows) <= BIAS * 2 * r * noise
        found = np.where(fits, r, found)
    return found
