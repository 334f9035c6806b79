"""Settings of a search by centred releases, public facts; :mod:`dptune.search.algorithms.centred_plan` chooses them.

The symbols are those of :mod:`dptune.search.algorithms.centred`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from dptune._checks import Checked, at_least, between, check, check_fields, plain, positive, share, shown
from dptune.errors import InputError
from dptune.privacy.query import LARGEST, SMALLEST, smallest_price
from dptune.search.algorithms.rounds import Statistic


def _radius(name: str, value: object) -> float:
    if not SMALLEST <= (radius := positive(name, value)) <= LARGEST:
        raise InputError(
            f"{name} must lie in [{SMALLEST:g}, {LARGEST:g}]; got {shown(radius)}. It is 0.4 of the clip's width "
            "unless given: scale the loss."
        )
    return radius


def _widths(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, tuple | list):
        raise InputError(
            f"{name} must be cell widths in [0, 1], or (); got {shown(value)}. To plan trials use n_trials."
        )
    return tuple(between(f"a width in {name}", width, 0.0, 1.0) for width in value)


@dataclass(frozen=True)
class Tuning(Checked):
    """Constants of the search that users need not know; ``tuning={"candidates": 1}`` sets one of them.

    Attributes:
        quantile: the share of people that C aims to leave unclipped.
        rate: how fast C follows.
        floor: the smallest C, in units of the first, 1e-12 to 1. Where most people's losses are the same at all points,
            their norms are 0 and C would follow. The released mean would become a vote, with another minimiser.
        radius_share: share of mu^2 for the releases that C follows; 0 keeps C as it is.
        references: r.
        sigma: initial step size of CMA-ES, in sides of the cube.
        explored: at least so many points are drawn from CMA-ES's first distribution, before it begins to move; 0: none.
        most_explored: up to so many, as long as what was released does not tell points apart; asked after each
            generation. No effect below ``explored``.
        spread: scale of the random part of the functions drawn from the surrogate: 1 is Thompson sampling, 0 its mean.
        candidates: drawn for each place of a generation; with CMA-ES 1 switches the surrogate's choice off.
        average, reach: the recommendation is the surrogate's minimiser, sought at most ``reach`` in each coordinate
            from the mean of CMA-ES's last ``average`` means.
        steps: cell width of each coordinate, 0 for a continuum, which cells below 1e-4 are, too: (d,); () for none.
        saturation: kappa; None: losses are centred as they are.
        saturated: share of the generations, the first ones, in which losses are saturated. Later points lie near each
            other, and where losses have long tails the cut mean has another minimiser.
    """

    quantile: float = field(default=0.5, metadata=check(share))
    rate: float = field(default=1.0, metadata=check(positive))
    floor: float = field(default=0.01, metadata=check(between, 1e-12, 1.0))
    radius_share: float = field(default=0.05, metadata=check(share))
    references: int = field(default=2, metadata=check(at_least, 0))
    sigma: float = field(default=0.2, metadata=check(positive))
    explored: int = field(default=0, metadata=check(at_least, 0))
    most_explored: int = field(default=0, metadata=check(at_least, 0))
    spread: float = field(default=0.5, metadata=check(between, 0.0, 1e300))
    candidates: int = field(default=40, metadata=check(at_least, 1))
    average: int = field(default=1, metadata=check(at_least, 1))
    reach: float = field(default=0.2, metadata=check(positive))
    steps: tuple[float, ...] = field(default=(), metadata=check(_widths))
    saturation: float | None = field(default=None, metadata=check(between, 0.0, 1e300))
    saturated: float = field(default=1.0, metadata=check(between, 0.0, 1.0))

    @classmethod
    def checked(cls, tuning: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what a user has set, each in its range.

        Raises:
            InputError: there is no such constant, or it is out of range.
        """
        names = [each.name for each in fields(cls)]
        if tuning is not None and (not isinstance(tuning, Mapping) or not set(tuning) <= set(names)):
            raise InputError(f"tuning must be a dict of {', '.join(names)}; got {shown(tuning)}.")
        chosen = cls(**(tuning or {}))
        return {name: getattr(chosen, name) for name in tuning or {}}


@dataclass(frozen=True)
class CentredSettings:
    """All of the algorithm's settings.

    Attributes:
        d: number of coordinates of the space.
        generations: G.
        population: lambda, at least 4: with fewer CMA-ES has no covariance to learn.
        mu: GDP budget of all generations together.
        radius: the first C, in units of the loss times sqrt(lambda).
        tuning: everything else that can be set.
        default: the user's default configuration (d,), in the cube: the first point, and a reference as long as this
            process holds its losses; None without a default.
    """

    d: int = field(metadata=check(at_least, 1))
    generations: int = field(metadata=check(at_least, 1))
    population: int = field(metadata=check(at_least, 4))
    mu: float = field(metadata=check(positive))
    radius: float = field(metadata=check(_radius))
    tuning: Tuning = field(default_factory=Tuning)
    default: tuple[float, ...] | None = None
    seed: int = field(default=0, kw_only=True, metadata=check(at_least, 0))

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "default", plain(self.default))
        steps, radius_share = self.tuning.steps, self.tuning.radius_share
        if len(steps) not in (0, self.d):
            raise InputError(f"steps must be {self.d} cell widths, or (); got {shown(steps)}.")
        remedy = f"too small for {self.generations} generations; plan fewer trials or a larger mu"
        if self.mean_mu < smallest_price(self.population + self.tuning.references):
            raise InputError(f"mu={shown(self.mu)} is {remedy}.")
        if radius_share and self.radius_mu < smallest_price(1):
            raise InputError(
                f"radius_share={shown(radius_share)} of mu={shown(self.mu)} is {remedy}, or radius_share=0."
            )

    @property
    def mean_mu(self) -> float:
        """Return mu_c, the price of one generation's centred mean."""
        return self.mu * math.sqrt((1 - self.tuning.radius_share) / self.generations)

    @property
    def radius_mu(self) -> float:
        """Return mu_q, the price of one generation's share of unclipped people, or 0."""
        return self.mu * math.sqrt(self.tuning.radius_share / self.generations)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return a generation's centred vector, at the first C: C shrinks as the search converges."""
        m = self.population + self.tuning.references
        return (Statistic("a mean loss within a generation, at first,", self.radius, m, self.mean_mu),)

    def describe(self) -> dict[str, object]:
        """Return the settings as plain JSON data."""
        described = asdict(self)
        return {**described.pop("tuning"), **described}
