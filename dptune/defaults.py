"""The defaults of DP-GIBO, in one place: public functions of (n, d, mu, trials) and the loss's range.

Found by ``make bench-defaults`` (benchmarks/defaults.py); docs/benchmarks.md shows its table.
"""

from __future__ import annotations

import math

from dptune.algorithms.gibo import GIBOSettings
from dptune.algorithms.steps import AdaGradNorm, StepRule
from dptune.gp.kernels import RBF, Kernel
from dptune.plan import GIBOPlan

LENGTHSCALE = 0.5
NOISE_VARIANCE = 1e-3
CLIP = 0.5  # B, in units of the loss's range per unit of the cube
START_CLIP = 0.3  # in units of the loss's range times sqrt(starts)
ETA = 0.12
MEMORY = 1


def plan_gibo(
    *,
    d: int,
    n: int,
    loss_range: float,
    mu: float,
    seed: int,
    trials: int | None = None,
    steps: int | None = None,
    batch: int | None = None,
    starts: int | None = None,
    clip: float | None = None,
    start_clip: float | None = None,
    lengthscale: float | None = None,
    noise_variance: float | None = None,
    kernel: Kernel | None = None,
    rule: StepRule | None = None,
    theta0: tuple[float, ...] | None = None,
    constant_mean: bool = True,
    memory: int | None = MEMORY,
    optimised: bool = False,
    average: int = 1,
    monitor_share: float = 0.1,
    start_share: float = 0.1,
    final_share: float = 0.05,
) -> GIBOPlan:
    """Return a plan; what is None is chosen from the public (d, mu, trials, loss range).

    Args:
        d: number of parameters.
        n: number of people.
        loss_range: high - low of the clipped loss.
        mu: GDP budget of the run.
        seed: of the algorithm's own randomness.
        trials: wished number of trials; T and b follow. Default 20 (d + 1).

    Everything else is as in :class:`dptune.algorithms.gibo.GIBOSettings` and :class:`GIBOPlan`.
    """
    batch = batch if batch is not None else d + 1
    trials = trials if trials is not None else 20 * (d + 1)
    starts = starts if starts is not None else (min(2 * (d + 1), max(trials // 5, 2)) if theta0 is None else 0)
    steps = steps if steps is not None else max((trials - starts) // max(batch, 1), 1)
    settings = GIBOSettings(
        d=d,
        steps=steps,
        batch=batch,
        mu=mu,
        clip=clip if clip is not None else CLIP * loss_range,
        kernel=kernel or RBF(lengthscale or LENGTHSCALE),
        noise_variance=noise_variance or NOISE_VARIANCE,
        rule=rule or AdaGradNorm(ETA),
        theta0=theta0,
        starts=starts,
        start_mu=mu,
        start_clip=start_clip if start_clip is not None else START_CLIP * loss_range * math.sqrt(max(starts, 1)),
        optimised=optimised,
        constant_mean=constant_mean,
        memory=memory,
        average=min(average, steps),
        seed=seed,
    )
    return GIBOPlan.split(
        mu=mu,
        settings=settings,
        monitor_share=monitor_share,
        start_share=start_share,
        final_share=final_share,
    )
