"""DP-GIBO as an Optuna sampler. Batching and accounting are in :class:`dptune.SearchRun`."""

from __future__ import annotations

import dptune
from dptune_optuna.base import PrivateSampler


class DPGIBOSampler(PrivateSampler):
    """Differentially private, gradient-informative Bayesian optimisation for Optuna studies.

    Decorate the objective with :meth:`objective`; it returns per-example losses. Trials are proposed in
    batches around an iterate that moves by one released gradient a batch. Float and int parameters, with
    log or step, are searched; categorical and conditional ones are sampled independently.

    Args:
        space: name -> Optuna distribution of the parameters to search; default: those of the study's first
            finished trial. It is fixed when the study begins, in the ledger.
        privatizer: holds the losses and pays.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        n_trials: wished number of trials; the number planned is :attr:`n_trials`.
        seed: of the sampler's own randomness (not of the noise, which has none).
        independent_sampler: for parameters outside ``space``; default random.
        warn_independent_sampling: say so when one is used.
        settings: of :func:`dptune.algorithms.gibo_plan.plan_gibo`; ``steps`` and ``batch`` are T and b, instead of
            ``n_trials``.

    Raises:
        InputError: a setting is out of range.
    """

    method = dptune.GIBO
