"""Objectives that return only released values, and the runs that charge for them.

Example::

    objective = PrivateObjective(losses, privatizer, n_trials=50)  # losses: trial -> per-example losses (rows,)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler())
    study.optimize(objective, n_trials=50)

Guarantee: everything that a study stores and logs about such trials is a function of charged releases.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import optuna
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FixedTrial, Trial, TrialState

import dptune
from dptune._checks import boolean
from dptune.losses.user_function import Function
from dptune.search import VALUES
from dptune.search.answer import Recommendation
from dptune.search.objective import Objective, ObjectiveOptions
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune_optuna.ending import Ending, stop
from dptune_optuna.shield import PublicTrial, ShieldedTrial, samplers_of, shielded, try_out, wrapped
from dptune_optuna.spaces import logger
from dptune_optuna.studies import RESUME, StudyRuns, show


class PrivateFunction:
    """A user's function behind the shield, callable as an Optuna objective; with ``sampler`` None, for any sampler."""

    def __init__(
        self,
        function: Function,
        runs: StudyRuns,
        sampler: BaseSampler | None = None,
        **options: Unpack[ObjectiveOptions],
    ) -> None:
        self._runs = runs
        self._sampler = sampler
        self._privatizer = runs.request.privatizer
        self._asked = Objective(function, runs.request, logger.warning, **options)
        self._agreed, self._declared = set[str](), set[str]()  # studies whose loss and declarations are stored
        self._shield: Callable[..., ShieldedTrial] = ShieldedTrial if self._asked.public is None else PublicTrial
        self._ending = Ending()
        functools.update_wrapper(self, function, updated=())

    def run_of(self, study: optuna.Study) -> SearchRun | None:
        """Return the run of the study's trials; None before the first trial if no space was given.

        Raises:
            InputError: the study maximises, or uses another sampler, such as after a resume without ``sampler=``.
            BudgetMismatch: its trials used another loss.
        """
        if study.directions != [StudyDirection.MINIMIZE]:
            raise dptune.InputError(
                'a private objective is a loss: create the study with direction="minimize" and one objective '
                "(for accuracy, minimise the zero-one loss). A study that is stored keeps its direction: give the new "
                "one another study_name, or delete the old one first with optuna.delete_study."
            )
        if self._sampler is not None and not any(sampler is self._sampler for sampler in samplers_of(study)):
            raise dptune.InputError(
                f"the study's sampler, a {type(study.sampler).__name__}, is not the {type(self._sampler).__name__} "
                "that decorated this objective. Load the study with sampler=sampler, without making the sampler "
                "again, or use PrivateObjective with other samplers."
            )
        name = study.study_name
        ledger = self._privatizer.ledger
        if name not in self._agreed:
            self._asked.loss.refuse_other(ledger, name)
        return self._runs.of(study)

    def __call__(self, trial: Trial) -> float:
        """Run one trial: check the budget, train, submit the losses, return the released value.

        Raises:
            BudgetExhausted: before the function is called; nothing is lost.
            PlanComplete: likewise, outside ``study.optimize``; inside, the trial is pruned and the study stops.
            LedgerError: before the function is called: the study belongs to another ledger.
            KeyConflict: at the first suggestion that differs from the recorded one: the study was restarted without its
                storage.
            InputError: the function did not return per-example losses or suggest the run's parameters, or ``data``
                cannot be loaded; nothing was charged.
        """
        if not isinstance(trial, Trial):
            raise dptune.InputError(
                f"a private objective is called by study.optimize with a Trial; got {type(trial).__name__}. For one "
                "more look at chosen parameters use estimate(study, parameters)."
            )
        with self._ending.watch(trial.study):
            return self._run(trial.study, trial)

    def _run(self, study: optuna.Study, trial: Trial) -> float:
        name = str(trial.number)
        for sampler in samplers_of(study):  # informs a private sampler that the trial is shielded
            shielded_trials: set[tuple[str, int]] = getattr(sampler, "_shielded", set())
            shielded_trials.add((study.study_name, trial.number))
        run = self.run_of(study)
        if run is None:
            self._runs.check_start(study)
        if study.study_name not in self._declared:
            self._asked.declare(self._privatizer.ledger, study.study_name)
            self._declared.add(study.study_name)
        try:
            if run is not None:
                run.check(name)
            try:
                losses = shielded(self._asked.losses, self._shield(trial, run), wrapped)
                run = run or self._runs.begin(study, trial.distributions)
                if losses is not None:
                    self._runs.compare(run, trial)
            except optuna.TrialPruned:
                self._stopped(study, trial, run)
                raise
            value = run.finish(name, trial.params, losses)
            if study.study_name not in self._agreed:  # a loss without releases may be replaced
                self._asked.loss.keep(self._privatizer.ledger, study.study_name)
                self._agreed.add(study.study_name)
        except dptune.PlanComplete as error:
            if not stop(study):  # outside study.optimize
                raise
            logger.warning(f"The study ends here: {error}")
            raise optuna.TrialPruned("the run is complete.") from None
        except dptune.errors.AllTrialsFailed:
            raise  # ends study.optimize
        except dptune.errors.TrialFailed as error:
            raise optuna.TrialPruned(str(error)) from None
        show(study, run, self._asked.loss.name, trial)
        self._end_if_due(study, run)
        return value

    def _stopped(self, study: optuna.Study, trial: Trial, run: SearchRun | None) -> None:
        """Count a trial that a public quantity stopped as one of the plan's."""
        if run is not None:
            run.stopped(str(trial.number), trial.params)
            self._end_if_due(study, run)

    def _end_if_due(self, study: optuna.Study, run: SearchRun) -> None:
        self._runs.expect_end(study, self._counted)
        if run.complete or self._used_up(study, run, beside=1):
            stop(study)

    @property
    def _counted(self) -> tuple[TrialState, ...]:
        """Return the states of trials that count towards the plan."""
        stops = self._asked.public is not None
        return (TrialState.COMPLETE, TrialState.PRUNED) if stops else (TrialState.COMPLETE,)

    def _used_up(self, study: optuna.Study, run: SearchRun, beside: int = 0) -> bool:
        """Return whether as many trials have ended as planned, including stopped ones."""
        if TrialState.PRUNED not in self._counted or run.plan.monitor_mu == 0:
            return False
        return beside + len(study.get_trials(deepcopy=False, states=self._counted)) >= run.plan.trials

    def _begun(self, study: optuna.Study, instead: str) -> SearchRun:
        if (run := self.run_of(study)) is None:
            raise dptune.InputError(f"the study has no finished trial yet; {instead}.")
        return run

    def estimate(
        self, study: optuna.Study, parameters: Mapping[str, Any], *, early: bool = False
    ) -> dptune.results.Estimate:
        """Release, once per study, the mean clipped loss at ``parameters``, from its reserved share.

        They usually come from ``recommend``. ``early`` ends the study here, although its run is not complete.

        Raises:
            InputError: no share was reserved, or the run is not complete.
            BudgetExhausted: the estimate does not fit.
            KeyConflict: the estimate was made at other parameters; raised before the function is called.
        """
        run = self._begun(study, "there is nothing to estimate")
        if not isinstance(parameters, Mapping):
            raise dptune.InputError(
                "parameters map names to values, as recommend(study) does; got "
                f"{type(parameters).__name__}. See .params."
            )
        early = boolean("early", early) or self._used_up(study, run)
        run.check_estimate(parameters, early=early)
        if (released := run.estimated(parameters)) is not None:
            return released
        losses = self._losses_at(parameters)
        default = None if run.default is None else self._losses_at({**parameters, **run.default})
        estimate = run.estimate(parameters, losses, default=default, early=early)
        show(study, run, self._asked.loss.name)
        self._runs.cancel_end(study)
        return estimate

    def _losses_at(self, parameters: Mapping[str, Any]) -> dptune.privacy.PerExampleLosses | None:
        try:
            return shielded(self._asked.losses, self._shield(FixedTrial(dict(parameters))), wrapped)
        except ValueError as error:
            if "of the FixedTrial object" not in str(error):  # the function's own error: it is public, and shown
                raise
            raise dptune.InputError(
                f"{error} Add what the run did not search: estimate(study, {{**recommend(study), name: value}}); in "
                "default= name every parameter that the function suggests."
            ) from None

    def try_out(self, parameters: Mapping[str, Any]) -> str:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Inside a study exceptions are swallowed, because they could depend on private data. Use this on public or
        made-up data, or where you may see the private data; nothing is released, stored or spent.
        """
        return try_out(self._asked.losses, parameters, self._privatizer, self._shield)


class PrivateObjective(PrivateFunction):
    """Makes any Optuna sampler private: every trial's value is a noisy clipped mean loss.

    Whatever the sampler, the pruner or a plot does with the values is post-processing.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        privatizer: holds the losses and charges.
        n_trials: that the budget is divided among; default as many as n and mu allow for values that can be
            distinguished.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        final_share: share of mu^2 kept for :meth:`estimate`.
        default: your default configuration: the recommendation is compared with it, and the final estimate releases
            both levels.
        options: ``loss``, ``data``, ``training``, ``public``: see :class:`dptune.search.objective.ObjectiveOptions`.

    Raises:
        UnsupportedMetric, InputError: as in :class:`dptune.search.objective.Objective`.
    """

    def __init__(
        self,
        function: Function,
        privatizer: dptune.LossPrivatizer,
        *,
        n_trials: int | None = None,
        mu: float | None = None,
        final_share: float = 0.05,
        default: Mapping[str, Any] | None = None,
        **options: Unpack[ObjectiveOptions],
    ) -> None:
        settings = {"trials": n_trials, "final_share": final_share}
        request = SearchRequest(VALUES, privatizer, mu, 0, settings, default, type(self).__name__)
        super().__init__(function, StudyRuns(request), **options)

    @property
    def n_trials(self) -> int:
        """Return the number of trials of a complete run: pass it to ``study.optimize``."""
        for run in self._runs.known.values():
            return run.plan.trials
        return self._runs.request.plan(None).trials

    def recommend(self, study: optuna.Study) -> Recommendation:
        """Return the trial's parameters that a model of all released values expects to be best.

        The smallest of many noisy values is small mostly by its noise.

        Raises:
            InputError: no value was released yet.
        """
        run = self._begun(study, "there is nothing to recommend")
        self._runs.say_end(study, self._counted)
        return run.recommend().resumed(RESUME)
