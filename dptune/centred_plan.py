"""How a run of CMA-ES on centred releases spends its budget, and its defaults: public functions of (n, d, mu, trials).

Found with ``python -m benchmarks.bench_private`` on kernel ridge (parkinsons, pumadyn32nm) and a support vector
classifier (breast cancer); docs/centred.md says what was kept aside.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from dptune.algorithms.centred_cma import CentredCMASettings
from dptune.errors import InputError
from dptune.options import options_of
from dptune.scalars import at_least, positive, share
from dptune.space import Space

RADIUS = 0.4  # the first C, in units of the loss's range
QUANTILE = 0.5  # share of people that C aims to leave unclipped
RATE = 1.0  # of C's logarithm, per unit of the share
FLOOR = 0.01  # the smallest C, in units of the first
SHARE = 0.05  # of mu^2, for the releases that C follows
REFERENCES = 2
SIGMA = 0.2  # CMA-ES's initial step size, in sides of the cube
SPREAD = 0.5  # of the functions drawn; 1 would be Thompson sampling
CANDIDATES = 40
REACH = 0.2  # of the surrogate's minimiser from CMA-ES's mean, in sides of the cube
AVERAGED = 0.15  # share of CMA-ES's means near whose average the recommendation is sought
FEWEST_GENERATIONS = 4
FEWEST_TRIALS = 4  # one generation


def default_population(d: int, trials: int) -> int:
    """lambda = 4 + floor(3 log d), as CMA-ES; less if that leaves fewer than four generations."""
    return max(min(4 + math.floor(3 * math.log(d)), trials // FEWEST_GENERATIONS), 4)


def default_average(generations: int) -> int:
    """The last 15% of CMA-ES's means."""
    return max(round(AVERAGED * generations), 1)


def cell_widths(space: Space) -> tuple[float, ...]:
    """Width of each coordinate's cells, 0 for a continuum and for whole numbers on a log scale; () if all are 0."""
    widths = [0.0 if p.log or p.cells is None or p.cells < 2 else 1.0 / p.cells for p in space.values()]
    return tuple(widths) if any(widths) else ()


@dataclass(frozen=True)
class CentredCMAPlan:
    """The settings of a run and the split of its budget: 1 - final_share of mu^2 in G generations, equally.

    Attributes:
        mu: GDP budget of the whole run.
        settings: the algorithm's; ``settings.mu`` is the generations' part.
        final_share: share of mu^2 kept for one estimate of the recommended point's loss; 0 makes none.
    """

    mu: float
    settings: CentredCMASettings
    final_share: float
    spare: int = 0

    @classmethod
    def split(cls, *, mu: float, settings: CentredCMASettings, final_share: float) -> CentredCMAPlan:
        """Return the plan that divides ``mu``; the price inside ``settings`` is set by it.

        Raises:
            InputError: a share is out of range.
        """
        mu, final_share = positive("mu", mu), share("final_share", final_share)
        return cls(mu, replace(settings, mu=mu * math.sqrt(1 - final_share)), final_share)

    @property
    def trials(self) -> int:
        """Number of trials of a complete run."""
        return self.settings.generations * self.settings.population

    @property
    def monitor_mu(self) -> float:
        """0: no trial has a release of its own."""
        return 0.0

    @property
    def generation_mu(self) -> float:
        """GDP price of one generation's two releases."""
        return math.hypot(self.settings.mean_mu, self.settings.share_mu)

    @property
    def final_mu(self) -> float:
        """GDP price of the final estimate; 0 if there is none."""
        return self.mu * math.sqrt(self.final_share)

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which a second process recognises the plan."""
        return {
            "algorithm": "CMA-ES on centred releases",
            "mu": self.mu,
            "seed": self.settings.seed,
            "settings": asdict(self.settings),
            "final_share": self.final_share,
        }


def plan_centred_cma(
    *,
    d: int,
    loss_range: float,
    mu: float,
    seed: int,
    trials: int | None = None,
    population: int | None = None,
    radius: float | None = None,
    quantile: float = QUANTILE,
    rate: float = RATE,
    floor: float = FLOOR,
    share: float = SHARE,
    references: int = REFERENCES,
    sigma: float = SIGMA,
    spread: float = SPREAD,
    candidates: int = CANDIDATES,
    reach: float = REACH,
    average: int | None = None,
    steps: tuple[float, ...] = (),
    final_share: float = 0.05,
) -> CentredCMAPlan:
    """Return a plan; what is None is chosen from the public (d, trials, loss range).

    Args:
        d: number of parameters.
        loss_range: high - low of the clipped loss.
        mu: GDP budget of the run.
        seed: of the algorithm's own randomness.
        trials: wished number of trials; the plan's is the nearest multiple of the population below. Default 20 (d + 1).
        radius: the first C; default 0.4 of the loss's range.
        steps: cell widths of the coordinates, 0 for a continuum.

    Everything else is as in :class:`dptune.algorithms.centred_cma.CentredCMASettings` and :class:`CentredCMAPlan`.
    """
    trials = at_least("n_trials", trials, FEWEST_TRIALS) if trials is not None else 20 * (d + 1)
    population = at_least("population", population, 4) if population is not None else default_population(d, trials)
    if trials < population:
        raise InputError(f"n_trials={trials} is less than one generation, population={population}; plan more trials.")
    generations = trials // population
    settings = CentredCMASettings(
        d=d,
        generations=generations,
        population=population,
        mu=mu,
        radius=radius if radius is not None else RADIUS * loss_range,
        quantile=quantile,
        rate=rate,
        floor=floor,
        share=share,
        references=references,
        sigma=sigma,
        spread=spread,
        candidates=candidates,
        reach=reach,
        average=average if average is not None else default_average(generations),
        steps=steps,
        seed=seed,
    )
    return CentredCMAPlan.split(mu=mu, settings=settings, final_share=final_share)


OPTIONS = options_of(plan_centred_cma, without=("d", "loss_range"))
