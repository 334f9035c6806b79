"""How a search by centred releases spends its budget, and its defaults: public functions of (n, d, mu, trials).

Found with ``python -m benchmarks.bench_private`` on kernel ridge (parkinsons, pumadyn32nm) and a support vector
classifier (breast cancer); docs/centred.md says what was kept aside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dptune._checks import at_least, positive
from dptune._checks import share as share_of
from dptune._numbers import tupled
from dptune.algorithms.centred import CentredSettings
from dptune.algorithms.centred_thompson import CentredThompson, joined
from dptune.algorithms.method import Method, Plan, RungPlan
from dptune.errors import InputError
from dptune.space import Space

NAME = "Thompson sampling on centred releases"  # as ledgers store it
RADIUS = 0.1  # the first C, in units of the loss's range times sqrt(lambda)
QUANTILES = 0.5, 0.8  # share of people that C aims to leave unclipped, where noise rules and where it does not
RULES = 15.0  # n mu / sqrt(trials) below which it does
PER_DOUBLING = 0.2  # of that number, of the share
RATE = 3.0  # of C's logarithm, per unit of the share
FLOOR = 0.01  # the smallest C, in units of the first
SHARE = 0.05  # of mu^2, for the releases that C follows
REFERENCES = 2
SIGMA = 0.2  # of the first points, in sides of the cube
SPREAD = 0.5  # of the functions drawn; 1 would be Thompson sampling as in the books
CHOICE = 0.3  # share of mu^2 for the choice among all trials at the end, with categories or conditions
SATURATION = 2.0  # kappa
SATURATED = 0.6  # share of the generations
REACH = 0.3  # of a proposal from the point it was found from, in sides of the cube
RUNGS = 3  # decisions a trial, where there are any
RUNG_RADIUS = 0.1  # their first C, in units of the loss's range
TRIALS_PER_COORDINATE = 20
FEWEST_TRIALS = 4  # one generation


def default_trials(d: int) -> int:
    """20 (d + 1): with few parameters more trials only divide the budget; docs/private.md has the figures."""
    return TRIALS_PER_COORDINATE * (d + 1)


def default_population(trials: int) -> int:
    """lambda = sqrt(trials) / 2, at least 4: small generations learn soon, and each is one share of the budget."""
    return max(round(math.sqrt(trials) / 2), FEWEST_TRIALS)


def default_first(d: int, trials: int) -> int:
    """8 + 6 log d random points, at most a third of the trials: with fewer a search may never leave a plateau."""
    return min(8 + math.floor(6 * math.log(d)), max(trials // 3, FEWEST_TRIALS))


def default_quantile(n: int, mu: float, trials: int) -> float:
    """Half of the people where noise rules; more where it does not, as clipping has a bias of its own."""
    low, high = QUANTILES
    return min(max(low + PER_DOUBLING * math.log2(n * mu / math.sqrt(trials) / RULES), low), high)


def plan_centred(
    *,
    d: int,
    n: int,
    loss_range: float,
    mu: float,
    seed: int,
    trials: int | None = None,
    population: int | None = None,
    radius: float | None = None,
    quantile: float | None = None,
    rate: float = RATE,
    floor: float = FLOOR,
    share: float = SHARE,
    references: int = REFERENCES,
    sigma: float = SIGMA,
    spread: float = SPREAD,
    first: int | None = None,
    reach: float = REACH,
    space: Space | None = None,
    default: tuple[float, ...] | None = None,
    saturation: float | None = SATURATION,
    saturated: float = SATURATED,
    choice_share: float | None = None,
    rung_share: float = 0.0,
    rungs: int = RUNGS,
    rung_radius: float | None = None,
    final_share: float = 0.05,
) -> Plan:
    """Return a plan; what is None is chosen from the public (d, n, mu, trials, loss range).

    Args:
        d: number of coordinates.
        n: number of people.
        loss_range: high - low of the clipped loss.
        mu: GDP budget of the run.
        seed: of the algorithm's own randomness.
        trials: wished number of trials; the plan's is the nearest multiple of the population below. Default 20 (d + 1).
        radius: the first C; default 0.1 of the loss's range times the root of lambda.
        default: the user's default configuration, a point of the cube.
        space: the search space; None: the unit cube.
        choice_share: share of mu^2 for a choice among all trials at the end, by the exponential mechanism; default .3
            with categories or conditions, else 0.
        rung_share: share of mu^2 for decisions to stop trials by private losses; 0: none are made.
        rungs: decisions that are paid for, a trial.
        rung_radius: to which each person's difference of two losses is clipped for them at first; it follows C from
            then on. Default .1 of the range.

    Everything else is as in :class:`dptune.algorithms.centred.CentredSettings`.
    """
    trials = at_least("n_trials", trials, FEWEST_TRIALS) if trials is not None else default_trials(d)
    population = at_least("population", population, 4) if population is not None else default_population(trials)
    if trials < population:
        raise InputError(f"n_trials={trials} is less than one generation, population={population}; plan more trials.")
    generations, mixed = trials // population, space is not None and not space.plain
    if choice_share is None:
        choice_share = CHOICE if mixed else 0.0
    asked = share_of("rung_share", rung_share)
    kept = share_of("final_share", final_share) + share_of("choice_share", choice_share) + asked
    settings = CentredSettings(
        d=d,
        generations=generations,
        population=population,
        mu=positive("mu", mu) * math.sqrt(1 - share_of("final_share + choice_share + rung_share", kept)),
        radius=radius if radius is not None else RADIUS * loss_range * math.sqrt(population),
        quantile=quantile if quantile is not None else default_quantile(n, positive("mu", mu), trials),
        rate=rate,
        floor=floor,
        share=share,
        references=references,
        sigma=sigma,
        spread=spread,
        first=first if first is not None else default_first(d, trials),
        reach=reach,
        default=default,
        saturation=saturation,
        saturated=saturated,
        space=space,
        seed=seed,
    )
    radius = rung_radius if rung_radius is not None else RUNG_RADIUS * loss_range
    stops = RungPlan(asked, rungs, radius) if asked else None
    trials = generations * population
    return Plan(NAME, mu, settings, trials, rungs=stops, final_share=final_share, choice_share=choice_share)


def _restored(described: Mapping[str, Any], space: Space | None) -> CentredSettings:
    """The settings that a ledger describes."""
    return CentredSettings(**{name: tupled(value) for name, value in described.items()}, space=space)


CENTRED = Method(
    NAME, plan_centred, CentredThompson, shared_slots=True, any_space=True, joined=joined, restored=_restored
)
