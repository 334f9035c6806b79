"""CMA-ES on centred releases as an Optuna sampler. Everything it decides is in :class:`dptune.SearchRun`."""

from __future__ import annotations

import dptune
from dptune_optuna.base import PrivateSampler


class CentredCMASampler(PrivateSampler):
    """Differentially private CMA-ES on centred joint releases, for Optuna studies.

    Decorate the objective with :meth:`objective`; it returns per-example losses. Trials are proposed in generations;
    each generation is two releases, so no trial has a release of its own. Float and int parameters, with log or
    step, are searched; categorical and conditional ones are sampled independently.

    **What a trial's value is.** Optuna fixes it when the trial ends, mostly before the trial's generation is released.
    So it is a careful estimate, from everything released by then, of how much worse the mean loss at the trial's
    point is than at the centre of the search space: the surrogate's mean plus its standard deviation, and the first
    clipping radius as long as nothing is released. It is post-processing, and says nothing about the trial's own
    losses until their generation is out. So ``best_trial`` and plots show what the run believed and when; the
    answer is :meth:`recommend`, and ``objective.estimate`` releases its level of loss. The released centred values
    stand in the ledger, with their points.

    Args:
        space: name -> Optuna distribution of the parameters to search; default: those of the study's first
            finished trial. It is fixed when the study begins, in the ledger.
        privatizer: holds the losses and pays.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        n_trials: wished number of trials; the number planned, whole generations, is :attr:`n_trials`.
        seed: of the sampler's own randomness (not of the noise, which has none).
        independent_sampler: for parameters outside ``space``; default random.
        warn_independent_sampling: say so when one is used.
        settings: of :func:`dptune.algorithms.centred_plan.plan_centred_cma`: population, radius, quantile, rate, floor,
            share, references, sigma, spread, candidates, reach, average, steps, final_share.

    Raises:
        InputError: a setting is out of range.
    """

    method = dptune.CENTRED_CMA
