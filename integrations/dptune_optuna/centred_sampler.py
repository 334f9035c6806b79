"""CMA-ES on centred releases as an Optuna sampler. Everything it decides is in :class:`dptune.CentredCMASession`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune import centred
from dptune.centred_plan import OPTIONS
from dptune.options import refuse_unknown
from dptune.space import Value
from dptune_optuna.base import PrivateSampler


class CentredCMASampler(PrivateSampler[dptune.CentredCMASession]):
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
        settings: of :func:`dptune.centred_plan.plan_centred_cma`: population, radius, quantile, rate, floor,
            share, references, sigma, spread, candidates, reach, average, steps, final_share.

    Raises:
        InputError: a setting is out of range.
    """

    _session_type = dptune.CentredCMASession

    def __init__(
        self,
        space: Mapping[str, BaseDistribution] | None = None,
        privatizer: dptune.LossPrivatizer | None = None,
        *,
        mu: float | None = None,
        n_trials: int | None = None,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        **settings: Any,
    ) -> None:
        refuse_unknown(settings, OPTIONS, front_end=type(self).__name__)
        self._settings = {"trials": n_trials, **settings}
        super().__init__(
            space,
            privatizer,
            mu=mu,
            seed=seed,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
        )

    def _plan(self, space: dptune.Space, mu: float, seed: int) -> dptune.CentredCMAPlan:
        return centred.plan_for(self._privatizer, space, mu=mu, seed=seed, **self._settings)

    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        return self.begin(study, search_space).ask(trial.number)

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Warn about a value that no release paid for, and about a run that has ended too early."""
        super().after_trial(study, trial, state, values)
        session = self._sessions.get(study.study_name)
        if session is not None and trial.number + 1 >= session.plan.trials:
            others = (t for t in study.get_trials(deepcopy=False) if t.number != trial.number)
            session.warn_if_behind(1 + sum(t.state.is_finished() for t in others))
