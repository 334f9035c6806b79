"""The budget and the defaults of a DP-GIBO run: public functions of (n, d, mu, trials) and the loss's range.

Found by ``benchmarks/measurements/defaults.py``; docs/research/what-did-not-work.md shows its table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dptune._checks import at_least, positive, share
from dptune.errors import InputError
from dptune.search.algorithms.gibo import DPGIBO, AdaGradNorm, GIBOSettings, StepRule
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.search.gp.design import step_length
from dptune.search.gp.kernels import RBF, Kernel

NAME = "DP-GIBO"
LENGTHSCALE = 0.5  # length-scale of the surrogate, in sides of the cube
NOISE_VARIANCE = 1e-3  # places the simplex's vertices about .1 from theta
CLIP = 0.2  # B, in units of the loss's range per side of the cube: a small B reduces noise and keeps the direction
START_CLIP = 0.3  # in units of the loss's range times sqrt(starts)
START_SHARE = 0.1  # share of mu^2
START_NOISE = 0.1  # in units of the loss's range
PATH = 0.5  # eta sqrt(T): AdaGradNorm's path, eta sqrt(d) (1 + ... + 1/sqrt(T)) at most, does not grow with T
FEWEST_STEPS = 5
AVERAGED = 0.25  # share of the iterates whose mean is returned
FEW_PARAMETERS = 5  # up to this number random starting points are worth their trials


def default_starts(d: int, trials: int, n: int, mu: float) -> int:
    """Return a tenth of the trials for up to five parameters, else 0: random points are then hardly ever better.

    The number is also 0 if the noise of their comparison, in units of the loss's range, would dominate.
    """
    starts = max(trials // 10, 2)
    told_apart = 2 * START_CLIP * math.sqrt(starts) <= START_NOISE * n * mu * math.sqrt(START_SHARE)
    return starts if d <= FEW_PARAMETERS and told_apart else 0


def default_lengthscale(cells: Sequence[float], noise_variance: float) -> float | tuple[float, ...]:
    """Return 0.5, and more along a coarse grid, so that a design's points lie half a cell from theta or farther.

    A design inside one cell would be rounded to a single point, and measure no gradient at all. ``cells`` (d,) are the
    cells' widths, 0 for a continuum; the noise variance decides how far a design reaches.
    """
    d = len(cells)
    reach = step_length(RBF(1.0), noise_variance, d) / math.sqrt(d)  # per coordinate, root mean square
    scales = tuple(max(LENGTHSCALE, 0.5 * float(cell) / reach) for cell in cells)
    return scales if max(scales) > LENGTHSCALE else LENGTHSCALE


def plan_gibo(
    facts: PublicFacts,
    *,
    trials: int | None = None,
    steps: int | None = None,
    batch: int | None = None,
    starts: int | None = None,
    clip: float | None = None,
    start_clip: float | None = None,
    lengthscale: float | tuple[float, ...] | None = None,
    noise_variance: float | None = None,
    kernel: Kernel | None = None,
    rule: StepRule | None = None,
    theta0: tuple[float, ...] | None = None,
    constant_mean: bool = True,
    memory: int | None = None,
    average: int | None = None,
    monitor_share: float = 0.1,
    start_share: float = START_SHARE,
    final_share: float = 0.05,
) -> RunPlan:
    """Return a plan; settings that are None are chosen from the public (d, mu, trials, loss range).

    The squared budget is divided into T equal gradients and three shares. ``start_share`` compares the starting points,
    ``monitor_share`` releases each trial's value for the framework, and ``final_share`` estimates the recommended
    point's loss.

    Args:
        facts: n and mu decide whether starting points are distinguishable. The user's default configuration is the
            start, unless ``theta0`` is given. On a coarse grid of the space the surrogate's length-scales grow.
        trials: wished number of trials; T and b follow. Default 20 (d + 1).
        memory: earlier batches kept in D_t; any number from T on keeps all, as the paper does.

    Everything else is as in :class:`dptune.search.algorithms.gibo.GIBOSettings`.
    """
    d = facts.d
    theta0 = facts.default if theta0 is None else theta0
    trials = at_least("n_trials", trials, 1) if trials is not None else 20 * (d + 1)
    if batch is None:  # each step measures every direction if at least five steps are left
        batch = min(d + 1, max(trials // FEWEST_STEPS, 2))
    batch = at_least("batch", batch, 1)
    if starts is None:
        starts = default_starts(d, trials, facts.n, facts.mu) if theta0 is None else 0
    starts = at_least("starts", starts, 0)
    steps = at_least("steps", steps, 1) if steps is not None else max((trials - starts) // batch, 1)
    average = at_least("average", average, 1) if average is not None else max(int(AVERAGED * steps), 1)
    noise_variance = positive("noise_variance", noise_variance) if noise_variance is not None else NOISE_VARIANCE
    if kernel is None:
        cells = (0.0,) * d if facts.space is None else facts.space.resolution.tolist()
        kernel = RBF(default_lengthscale(cells, noise_variance) if lengthscale is None else lengthscale)

    monitor_share, final_share = share("monitor_share", monitor_share), share("final_share", final_share)
    start_share = share("start_share", start_share) if starts else 0.0
    if starts and start_share == 0:
        raise InputError("starts needs start_share > 0: comparing the starting points is a release too.")
    gradients = 1 - monitor_share - start_share - final_share
    if gradients <= 0:
        raise InputError("the shares leave nothing for the gradients; make monitor_share or final_share smaller.")
    settings = GIBOSettings(
        d=d,
        steps=steps,
        batch=batch,
        mu=facts.mu * math.sqrt(gradients),
        clip=clip if clip is not None else CLIP * facts.loss_range,
        kernel=kernel,
        noise_variance=noise_variance,
        rule=rule or AdaGradNorm(PATH / math.sqrt(steps)),
        theta0=theta0,
        starts=starts,
        start_mu=facts.mu * math.sqrt(start_share),
        start_clip=START_CLIP * facts.loss_range * math.sqrt(max(starts, 1)) if start_clip is None else start_clip,
        constant_mean=constant_mean,
        memory=memory if memory is not None else math.ceil((d + 1) / batch),  # they measure every direction once
        average=min(average, steps),
        seed=facts.seed,
    )
    return RunPlan(NAME, facts.mu, settings, settings.evaluations, monitor_share, final_share, spare=2 * batch)


GIBO = Method(NAME, plan_gibo, DPGIBO)
