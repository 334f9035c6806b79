"""What to expect of a plan before anything is trained: how large the noise is, in units of the loss.

Example::

    print(Outlook.of(CENTRED.plan(privatizer, space, mu=1.0, seed=0, trials=100), privatizer))

A function of public numbers: people, clip, budget, trials. It says nothing about the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dptune._checks import at_least
from dptune.algorithms.centred_plan import CENTRED, FEWEST_TRIALS, RUNGS
from dptune.algorithms.method import People, Plan
from dptune.privacy.query import Interval
from dptune.search.values import VALUES
from dptune.space import Categorical, Float, Space

TOLD_APART = 2 * math.sqrt(2)  # standard deviations: two values that far apart differ, at 95%
COARSE = 0.05  # of the clip's width: trials that must differ by more to be told apart leave a search little to learn
DECISION = "a decision to stop a trial, at first,"
LOUD = 0.5  # of the largest typical entry of a clipped vector: more noise than that hides most of one round


@dataclass(frozen=True)
class Noise:
    """The noise of one kind of release.

    Attributes:
        what: is released.
        sigma: standard deviation per coordinate, in units of the loss (of a gradient: per side of the cube).
        share: the same in units of the clip's width.
        hides: why a search learns little at this noise; "" if it is small enough.
    """

    what: str
    sigma: float
    share: float
    hides: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.sigma:.3g} ({100 * self.share:.2g}% of the clip's width)"


@dataclass(frozen=True)
class Outlook:
    """The noise of every kind of release of a plan.

    Attributes:
        noises: of the trials' values, the algorithm's questions, decisions and the final estimate, as far as the plan
            has them.
    """

    noises: tuple[Noise, ...]

    @classmethod
    def of(cls, plan: Plan, people: People, *, levels: int = 1) -> Outlook:
        """Return what to expect of a plan for so many people with this clip.

        Args:
            plan: of the run.
            people: their number and clip.
            levels: of loss that the final estimate releases: 2 where the user's defaults are compared with.
        """
        width = people.loss_range
        found = []
        if plan.monitor_mu > 0:
            sigma = width / (people.n * plan.monitor_mu)
            apart = TOLD_APART * sigma / width
            hides = f"trials must differ by {100 * apart:.0f}% of the clip's width to be told apart by their values"
            alone = plan.monitor_share + plan.final_share == 1  # a search that has nothing else to go by
            found.append(Noise("a trial's value", sigma, sigma / width, hides if alone and apart > COARSE else ""))
        for asked in plan.settings.statistics():
            sigma = 2 * asked.radius / (people.n * asked.mu)
            ratio = sigma * math.sqrt(asked.dimension) / asked.radius
            hides = f"the noise of {asked.name} is {ratio:.2g} of the largest signal that the clip lets through"
            found.append(Noise(asked.name, sigma, sigma / width, hides if ratio > LOUD else ""))
        if plan.rung_share > 0:
            sigma = 2 * plan.rung_radius / (people.n * plan.rung_mu)
            found.append(Noise(DECISION, sigma, sigma / width))
        if plan.final_mu > 0:
            sigma = math.sqrt(levels) * width / (people.n * plan.final_mu)
            what = "the final estimate" if levels == 1 else "each of the two losses of the final estimate"
            found.append(Noise(what, sigma, sigma / width))
        return cls(tuple(found))

    @property
    def warning(self) -> str:
        """What to change where noise leaves little to learn; "" otherwise."""
        hidden = "; ".join(noise.hides for noise in self.noises if noise.hides)
        remedy = "Plan fewer trials, a larger mu, a tighter clip, or more people."
        return f"{hidden}. {remedy}" if hidden else ""

    def __str__(self) -> str:
        return "Standard deviation of the noise: " + ", ".join(map(str, self.noises)) + "."


@dataclass(frozen=True)
class Crowd:
    """People who are planned for, before there are any losses.

    Attributes:
        n: number of people.
        clip: (low, high), the public range of one loss.

    Raises:
        InputError: n or clip is out of range.
    """

    n: int
    clip: tuple[float, float]

    def __post_init__(self) -> None:
        at_least("n", self.n, 1)
        Interval(*self.clip)

    @property
    def loss_range(self) -> float:
        """Width of the clipping interval, high - low."""
        return Interval(*self.clip).diameter


def space_of(dimensions: int, choices: Sequence[int] = ()) -> Space:
    """Return a space of so many numbers, and of a category for each number of choices.

    Raises:
        InputError: there is no parameter, or a category has fewer than two choices.
    """
    numbers = {f"x{j}": Float(0.0, 1.0) for j in range(at_least("dimensions", dimensions, 0 if choices else 1))}
    counts = [at_least("choices", count, 2) for count in choices]
    return Space({**numbers, **{f"c{j}": Categorical(range(count)) for j, count in enumerate(counts)}})


def forecast(
    people: People,
    space: Space,
    *,
    mu: float,
    trials: int,
    default: bool = False,
    rung_share: float = 0.0,
    rungs: int = RUNGS,
) -> list[dict[str, Any]]:
    """Return the outlook of these settings and of their neighbours: half and twice the budget and the trials.

    Args:
        people: whose losses will be asked about, for example ``Crowd(n=400, clip=(0.0, 3.0))``.
        space: that is searched; :func:`space_of` makes one from numbers of parameters.
        mu: GDP budget of the run.
        trials: number of trials.
        default: whether the run has ``default=``; its final estimate releases the default's loss, too.
        rung_share: share of mu^2 for decisions to stop trials.
        rungs: such decisions a trial.

    Returns:
        One row for each method, budget and number of trials: standard deviations in units of the loss, and a warning.
        With a ``rung_share`` only of the method that can stop trials, and the noise of one decision is among them.

    Raises:
        InputError: a number is out of range.
    """
    trials = at_least("trials", trials, FEWEST_TRIALS)
    counts = sorted({max(trials // 2, FEWEST_TRIALS), trials, 2 * trials})
    rows: list[dict[str, Any]] = []
    settings: dict[str, Any] = {"rung_share": rung_share, "rungs": rungs} if rung_share else {}
    for method in (CENTRED,) if rung_share else (CENTRED, VALUES):
        searched = space if method.any_space else space_of(space.d)  # the noise of values is the same in any
        for budget in (mu / 2, mu, 2 * mu):
            for count in counts:
                plan = method.plan(people, searched, mu=budget, seed=0, trials=count, **settings)
                outlook = Outlook.of(plan, people, levels=2 if default else 1)
                noise = outlook.noises[0]
                final = outlook.noises[-1].sigma
                decision = {each.what.rstrip(","): each.sigma for each in outlook.noises if each.what == DECISION}
                row = {"method": method.name, "mu": budget, "trials": plan.trials, "noise of": noise.what.rstrip(",")}
                sigmas = {"sigma": noise.sigma, "sigma / clip": noise.share, **decision, "final estimate": final}
                rows.append({**row, **sigmas, "warning": outlook.warning})
    return rows
