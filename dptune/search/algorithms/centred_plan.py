"""The budget and the defaults of a search by centred releases: public functions of (n, d, mu, trials).

Found with ``python -m benchmarks.measurements.private`` on kernel ridge (parkinsons, pumadyn32nm) and a support vector
classifier (breast cancer); docs/research/measurements.md has the figures and names the held-out data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dptune._checks import at_least, share
from dptune.errors import InputError
from dptune.search.algorithms.centred import Centred
from dptune.search.algorithms.centred_settings import CentredSettings, Tuning
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.space import Space

NAME = "CMA-ES on centred releases"
RADIUS = 0.4  # the first C, in units of the loss's range
QUANTILE = 0.5  # target share of unclipped people if noise is large
MOST_UNCLIPPED = 0.8  # the same if noise is small
PER_DOUBLING = 0.2  # increase of the share when n mu / sqrt(trials) doubles,
BEYOND = 15.0  # from this value on
CAREFUL, MOST_CAREFUL = 0.95, 0.99  # the same with few numbers, if noise is large or small
SATURATION = 2.0  # kappa
SATURATED = 0.6  # share of the generations in which losses are saturated, with many numbers
AVERAGED = 0.15  # share of CMA-ES's means near whose average the recommendation is sought
FEWEST_GENERATIONS = 4
GENERATIONS = 20  # least generations (or one per parameter) before lambda grows to CMA-ES's
EXPLORED = 2  # first points before CMA-ES moves: times its lambda
EXPLORED_SHARE = 1 / 3  # largest share of all trials
MOST_EXPLORED = 0.6  # share of all trials while the releases do not distinguish points, with
MANY = 11  # parameters; with fewer the search is careful and explores less
TRIALS_PER_COORDINATE = 20
FEWEST_TRIALS = 4  # one generation


def default_trials(d: int) -> int:
    """Return 20 (d + 1): with few parameters more trials only divide the budget."""
    return TRIALS_PER_COORDINATE * (d + 1)


def default_population(d: int, trials: int, *, generations: int = FEWEST_GENERATIONS) -> int:
    """Return lambda = 4 + floor(3 log d) like CMA-ES; less if too few generations would be left."""
    return max(min(_usual(d), trials // generations), 4)


def _usual(d: int) -> int:
    return 4 + math.floor(3 * math.log(d))


def default_quantile(n: int, mu: float, trials: int) -> float:
    """Return .5 for large noise, and .2 more for each doubling of n mu / sqrt(trials) beyond 15, at most .8.

    A smaller C reduces noise and makes the mean more like a vote.
    """
    more = PER_DOUBLING * math.log2(n * mu / math.sqrt(trials) / BEYOND)
    return round(min(max(QUANTILE + more, QUANTILE), MOST_UNCLIPPED), 3)


def careful_quantile(n: int, mu: float, points: int, generations: int) -> float:
    """Return 1 - 2 sqrt(m) / (n mu_c), between .95 and .99: there a larger C adds as much noise as it removes bias.

    Huang, Liang, Yi 2021, for m points and mu_c = mu / sqrt(generations); docs/centred.md says when it matters.
    """
    best = 1 - 2 * math.sqrt(points * generations) / (n * mu)
    return round(min(max(best, CAREFUL), MOST_CAREFUL), 3)


def cell_widths(space: Space) -> tuple[float, ...]:
    """Return each coordinate's cell width, 0 for a continuum and log-scale integers; () if all are 0."""
    widths = [0.0 if p.log or p.cells is None or p.cells < 2 else 1.0 / p.cells for p in space.values()]
    return tuple(widths) if any(widths) else ()


def plan_centred(
    facts: PublicFacts,
    *,
    trials: int | None = None,
    population: int | None = None,
    radius: float | None = None,
    final_share: float = 0.05,
    tuning: Mapping[str, Any] | None = None,
) -> RunPlan:
    """Return a plan; settings that are None are chosen from the public facts.

    Args:
        facts: d, n, mu, trials and loss range determine the defaults; a coarse grid of the space sets ``steps``.
        trials: wished number of trials; the plan's is the nearest multiple of the population below. Default 20 (d + 1).
        population: lambda; default like CMA-ES, less if too few generations would be left.
        radius: the first C; default 0.4 of the loss's range.
        final_share: share of mu^2 for the final estimate.
        tuning: constants by name, see :class:`dptune.search.algorithms.centred_settings.Tuning`; :func:`usual_tuning`
            chooses the others.
    """
    d = facts.d
    trials = default_trials(d) if trials is None else at_least("n_trials", trials, FEWEST_TRIALS)
    tuned = Tuning.checked(tuning)
    if population is None:
        population = default_population(d, trials, generations=max(min(d, GENERATIONS), FEWEST_GENERATIONS))
    population = at_least("population", population, 4)
    if trials < population:
        raise InputError(f"n_trials={trials} is less than one generation, population={population}; plan more trials.")
    generations = trials // population
    final_share = share("final_share", final_share)
    searched = facts.mu * math.sqrt(1 - final_share)
    settings = CentredSettings(
        d=d,
        generations=generations,
        population=population,
        mu=searched,
        radius=RADIUS * facts.loss_range if radius is None else radius,
        tuning=usual_tuning(facts, searched, trials, population, tuned=tuned),
        default=facts.default,
        seed=facts.seed,
    )
    return RunPlan(NAME, facts.mu, settings, generations * population, final_share=final_share)


def usual_tuning(facts: PublicFacts, mu: float, trials: int, population: int, *, tuned: Mapping[str, Any]) -> Tuning:
    """Return the constants; those not in ``tuned`` are chosen from the public facts.

    ``explored``: twice CMA-ES's lambda, at most a third of the trials. ``most_explored``: .6 of all with more than ten
    parameters, else no more than ``explored``. ``quantile``: with fewer than 11 numbers :func:`careful_quantile`, else
    :func:`default_quantile`. ``saturated``: 0 with fewer than 11 numbers, with more .6. ``steps``: those of the space.
    """
    d = facts.d
    generations = trials // population
    careful = d < MANY
    first = min(EXPLORED * _usual(d), math.floor(EXPLORED_SHARE * trials))
    explored = tuned.get("explored", first)
    points = population + tuned.get("references", Tuning.references)
    chosen: dict[str, Any] = {
        "quantile": careful_quantile(facts.n, mu, points, generations)
        if careful
        else default_quantile(facts.n, mu, trials),
        "explored": explored,
        "most_explored": math.ceil(MOST_EXPLORED * generations * population) if explored and not careful else 0,
        "average": max(round(AVERAGED * generations), 1),
        "steps": () if facts.space is None else cell_widths(facts.space),
        "saturation": SATURATION,
        "saturated": 0.0 if careful else SATURATED,
    }
    return Tuning(**{**chosen, **tuned})


CENTRED = Method(NAME, plan_centred, Centred, shared_slots=True)
