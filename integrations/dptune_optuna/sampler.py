"""DP-GIBO as an Optuna sampler. Batching and accounting are in :class:`dptune.GIBOSession`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

import dptune
from dptune.defaults import OPTIONS, plan_for
from dptune.options import refuse_unknown
from dptune.space import Value
from dptune_optuna.base import PrivateSampler


class DPGIBOSampler(PrivateSampler[dptune.GIBOSession]):
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
        steps, batch: T and b, instead of ``n_trials``.
        seed: of the sampler's own randomness (not of the noise, which has none).
        independent_sampler: for parameters outside ``space``; default random.
        warn_independent_sampling: say so when one is used.
        settings: further keyword arguments of :func:`dptune.defaults.plan_gibo`.

    Raises:
        InputError: a setting is out of range.
    """

    _session_type = dptune.GIBOSession

    def __init__(
        self,
        space: Mapping[str, BaseDistribution] | None = None,
        privatizer: dptune.LossPrivatizer | None = None,
        *,
        mu: float | None = None,
        n_trials: int | None = None,
        steps: int | None = None,
        batch: int | None = None,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        **settings: Any,
    ) -> None:
        refuse_unknown(settings, OPTIONS, front_end=type(self).__name__)
        self._settings = {"trials": n_trials, "steps": steps, "batch": batch, **settings}
        super().__init__(
            space,
            privatizer,
            mu=mu,
            seed=seed,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
        )

    def _plan(self, space: dptune.Space, mu: float, seed: int) -> dptune.GIBOPlan:
        return plan_for(self._privatizer, space, mu=mu, seed=seed, **self._settings)

    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        return self.begin(study, search_space).ask()
