"""A forecast of a run before training: the noise in units of the loss.

It depends only on public numbers (people, clip, budget and trials), not on the data. ::

    plan = CENTRED.plan(privatizer, space, mu=1.0, seed=0, trials=100)
    print(in_words(noises(plan, privatizer)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dptune._checks import at_least
from dptune.privacy.query import Interval
from dptune.search.algorithms.centred_plan import CENTRED, FEWEST_TRIALS, default_trials
from dptune.search.algorithms.method import PeopleFacts, PublicFacts, RunPlan
from dptune.search.algorithms.values import VALUES
from dptune.space import Float, Space

Z_95 = 1.96  # standard deviations: a larger released difference is not 0, at 95%
SHOWS = Z_95 + 1.645  # standard deviations: a true difference this large is detected in 95% of runs
TWO_VALUES_DIFFER = 2 * math.sqrt(2)  # standard deviations: two values that far apart differ, at 95%
RESOLUTION_WARNING = 0.05  # share of the clip's width: with a coarser resolution a search learns little
NOISE_WARNING = 0.5  # share of a clipped vector's largest typical entry: more noise hides most of a round


class Noise(NamedTuple):
    """Standard deviation of the noise of one kind of release, per coordinate.

    In units of the loss (of a gradient: per side of the cube). ``hides`` says why a search learns little at this noise;
    "" if it is small enough.
    """

    what: str
    sigma: float
    hides: str = ""


def noises(plan: RunPlan, people: PeopleFacts, *, levels: int = 1) -> list[Noise]:
    """Return the noise of every kind of release of a plan: values, questions, the final estimate.

    ``levels`` of loss are in the final estimate: 2 where the user's defaults are compared with.
    """
    width = people.loss_range
    lines = []
    if plan.monitor_mu > 0:
        sigma = width / (people.n * plan.monitor_mu)
        apart = TWO_VALUES_DIFFER * sigma / width
        hides = f"trials must differ by {100 * apart:.0f}% of the clip's width to be told apart by their values"
        alone = plan.monitor_share + plan.final_share == 1  # a search that learns only from these
        lines.append(Noise("a trial's value", sigma, hides if alone and apart > RESOLUTION_WARNING else ""))
    for asked in plan.statistics():
        sigma = 2 * asked.radius / (people.n * asked.mu)
        ratio = sigma * math.sqrt(asked.dimension) / asked.radius
        hides = f"the noise of {asked.name} is {ratio:.2g} of the largest signal that the clip lets through"
        lines.append(Noise(asked.name, sigma, hides if ratio > NOISE_WARNING else ""))
    if plan.final_mu > 0:
        what = "the final estimate" if levels == 1 else "each of the two losses of the final estimate"
        lines.append(Noise(what, math.sqrt(levels) * width / (people.n * plan.final_mu)))
    return lines


def in_words(noises: Sequence[Noise]) -> str:
    """Return a sentence that says how large the noise is: its standard deviation, in units of the loss."""
    return "Noise: " + "; ".join(f"{noise.what} {noise.sigma:.3g}" for noise in noises) + "."


def warning(noises: Sequence[Noise]) -> str:
    """Return what to change if noise leaves little to learn; "" otherwise."""
    hidden = "; ".join(noise.hides for noise in noises if noise.hides)
    remedy = "Plan fewer trials, a larger mu, a tighter clip, or more people."
    return f"{hidden}. {remedy}" if hidden else ""


def forecast(
    n: int,
    clip: tuple[float, float],
    dimensions: int,
    *,
    mu: float,
    trials: int | None,
    default: bool = False,
) -> list[dict[str, Any]]:
    """Return the noise with these settings and with their neighbours: half and twice the budget and the trials.

    ``default``: whether the final estimate releases the default's loss, too.

    Returns:
        One row for each method, budget and number of trials: standard deviations in units of the loss, and a warning.
    """
    people = PublicFacts(at_least("n", n, 1), Interval.of(clip).diameter, mu)
    space = Space({f"x{j}": Float(0.0, 1.0) for j in range(at_least("dimensions", dimensions, 1))})
    trials = default_trials(space.d) if trials is None else at_least("trials", trials, FEWEST_TRIALS)
    counts = sorted({max(trials // 2, FEWEST_TRIALS), trials, 2 * trials})
    rows: list[dict[str, Any]] = []
    for method in (CENTRED, VALUES):
        for budget in (mu / 2, mu, 2 * mu):
            for count in counts:
                plan = method.plan(people, space, mu=budget, seed=0, trials=count)
                planned = noises(plan, people, levels=2 if default else 1)
                row = {"method": method.name, "mu": budget, "trials": plan.trials}
                first = planned[0]
                row |= {
                    "noise of": first.what.rstrip(","),
                    "sigma": first.sigma,
                    "sigma / clip": first.sigma / people.loss_range,
                }
                shows = SHOWS * math.sqrt(2) * planned[-1].sigma if default and plan.final_mu > 0 else None
                row |= {"final estimate": planned[-1].sigma, "shows": shows, "warning": warning(planned)}
                if row not in rows:  # generations of 4 make one plan of 4 and of 6 trials
                    rows.append(row)
    return rows
