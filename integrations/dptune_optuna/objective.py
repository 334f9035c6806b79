"""Objectives that let only released values out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import optuna
from optuna.trial import FixedTrial, Trial

import dptune
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, Function, losses_function
from dptune.search.run import SearchRun, as_stored
from dptune.search.values import VALUES, plan_values
from dptune_optuna.distributions import refuse_other_space
from dptune_optuna.shield import evaluate
from dptune_optuna.withheld import withhold_values

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity
PROGRESS = "dptune"  # study user attribute: released facts only
_KEPT = "A run keeps its space and its plan: with another space= give the study a new name, and mu=."


class PrivateFunction:
    """A user's function behind the shield, callable as an Optuna objective; subclasses say which run pays.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        privatizer: holds the losses and pays.
        loss: the per-example loss of a fitted estimator: a name, e.g. "log_loss", or a ``NamedLoss`` of your own.
        data: (X, y) of the private examples, or a function that loads them, once in a process; with ``loss``.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: only one of ``loss`` and ``data`` is given, or ``data`` has other rows than the privatizer.
    """

    def __init__(
        self,
        function: Function,
        privatizer: dptune.LossPrivatizer,
        *,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
    ) -> None:
        if not isinstance(privatizer, dptune.LossPrivatizer):
            raise dptune.InputError(f"a LossPrivatizer must come after the function; got {type(privatizer).__name__}.")
        self._function = losses_function(function, loss, data, rows=privatizer.rows)
        functools.update_wrapper(self, function, updated=())
        withhold_values()  # should the function itself be given to study.optimize

    def run_of(self, study: optuna.Study) -> SearchRun | None:
        """Return the run that pays for the study's trials, or None if its first trial must come first.

        Raises:
            InputError: the study is not one this objective can serve.
        """
        raise NotImplementedError

    def first_run(self, trial: Trial) -> SearchRun:
        """Begin the run with the search space of its first trial."""
        raise NotImplementedError

    def compare(self, run: SearchRun, trial: Trial) -> None:
        """Compare what the function has suggested with the run's search space.

        Raises:
            InputError: the space was given, and the function did not suggest it.
        """
        if run.space is not None:
            refuse_other_space(run.space, trial.distributions, kept=_KEPT)

    def __call__(self, trial: Trial) -> float:
        """Run one trial: check the budget, train, hand the losses over, return the released value.

        Raises:
            BudgetExhausted: before the function is called; nothing is lost.
            PlanComplete: likewise, outside ``study.optimize``; inside, the trial is pruned and the study stops.
            KeyConflict: at the first suggestion that is not where the trial has its value; the study was begun again.
            InputError: the function returned something that is not per-example losses, or did not suggest the
                parameters of the run's search space, or ``data`` cannot be loaded; nothing was spent.
        """
        if not isinstance(trial, Trial):
            raise dptune.InputError(
                f"a private objective is called by study.optimize with a Trial; got {type(trial).__name__}. For one "
                "more look at chosen parameters use estimate(study, parameters)."
            )
        _mark_shielded(trial)
        run = self.run_of(trial.study)
        try:
            if run is not None:
                run.check(str(trial.number))
            losses = evaluate(self._function, _as_recorded(trial, run))
            run = run or self.first_run(trial)
            if losses is not None:
                self.compare(run, trial)
            value = run.finish(str(trial.number), trial.params, losses)
        except dptune.PlanComplete as error:
            raise _end_of(trial.study, error) from None
        trial.study.set_user_attr(PROGRESS, run.progress())
        if run.complete:
            with suppress(RuntimeError):  # outside study.optimize there is nothing to stop
                trial.study.stop()
        return value

    def estimate(self, study: optuna.Study, parameters: Mapping[str, Any]) -> dptune.Estimate:
        """Release, once per study, the mean clipped loss at ``parameters``, from the share kept for it.

        Args:
            study: the study whose run pays.
            parameters: usually those of ``recommend``.

        Raises:
            InputError: nothing was kept for it.
            BudgetExhausted: it does not fit.
            KeyConflict: it was made at other parameters; before the function is called.
        """
        run = self.run_of(study)
        if run is None:
            raise dptune.InputError("the study has no finished trial yet; there is nothing to estimate.")
        if not isinstance(parameters, Mapping):
            kind = type(parameters).__name__
            raise dptune.InputError(
                f"parameters map names to values, as recommend(study) does; got {kind}. See .params."
            )
        run.check_estimate(parameters)
        try:
            losses = evaluate(self._function, FixedTrial(dict(parameters)))
        except ValueError as error:
            if isinstance(error, dptune.InputError):
                raise
            missing = f"{error} Add what the run did not search: estimate(study, {{**recommend(study), name: value}})."
            raise dptune.InputError(missing) from None
        return run.estimate(parameters, losses)

    def try_out(self, parameters: Mapping[str, Any]) -> str:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Inside a study exceptions are swallowed, because they could depend on private data. Use this on public or
        made-up data, or where you may see the private data; nothing is released, stored or spent.
        """
        return repr(dptune.PerExampleLosses(self._function(FixedTrial(dict(parameters)))))


class PrivateObjective(PrivateFunction):
    """Makes any Optuna sampler private: every trial's value is a noisy clipped mean loss.

    Whatever the sampler, the pruner or a plot does with the values is post-processing.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        privatizer: holds the losses and pays.
        n_trials: number of trials the budget is divided among.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        final_share: share of mu^2 kept for :meth:`estimate`.
        loss, data: see :class:`PrivateFunction`.

    Example::

        objective = PrivateObjective(losses, privatizer, n_trials=50)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler())
        study.optimize(objective, n_trials=50)
    """

    def __init__(
        self,
        function: Function,
        privatizer: dptune.LossPrivatizer,
        *,
        n_trials: int,
        mu: float | None = None,
        final_share: float = 0.05,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
    ) -> None:
        super().__init__(function, privatizer, loss=loss, data=data)
        plan = plan_values(
            mu=1.0 if mu is None else mu, seed=0, trials=n_trials, final_share=final_share
        )  # refuse early
        self._privatizer, self._n_trials = privatizer, plan.trials
        self._mu, self._final_share = None if mu is None else plan.mu, plan.final_share
        self._runs: dict[str, SearchRun] = {}

    def run_of(self, study: optuna.Study) -> SearchRun:
        """Return the run that pays for the study's trials."""
        refuse_maximize(study)
        name = study.study_name
        if name not in self._runs:
            if not self._privatizer.private:
                _logger.warning(f"The study {name!r} is NOT PRIVATE: {self._privatizer!r}.")
            settings = {"trials": self._n_trials, "final_share": self._final_share}
            self._runs[name] = SearchRun(
                VALUES, self._privatizer, scope=name, space=None, mu=self._mu, seed=0, **settings
            )
        return self._runs[name]

    def recommend(self, study: optuna.Study) -> dict[str, Any]:
        """Return the parameters with the smallest released value; that value itself is optimistic."""
        return dict(study.best_trial.params)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}


def _mark_shielded(trial: Trial) -> None:
    """Tell the study's sampler, also one that is wrapped, that a private objective runs the trial."""
    sampler: Any = trial.study.sampler
    while sampler is not None:
        shielded: set[tuple[str, int]] = getattr(sampler, "_shielded", set())
        shielded.add((trial.study.study_name, trial.number))
        sampler = getattr(sampler, "_base_sampler", None)


class _RecordedTrial:
    """A trial that has its value already: a suggestion that is not the recorded one is refused.

    Args:
        trial: passes on everything else.
        recorded: its parameters, as the ledger has them.
        refusal: what is raised.
    """

    def __init__(self, trial: Trial, recorded: Mapping[str, object], refusal: dptune.KeyConflict) -> None:
        self._trial, self._recorded, self._refusal = trial, recorded, refusal

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return found

        def suggest(parameter: str, *args: Any, **options: Any) -> Any:
            value = found(parameter, *args, **options)
            if {**self._recorded, **as_stored({parameter: value})} != self._recorded:
                raise self._refusal
            return value

        return suggest


def _as_recorded(trial: Trial, run: SearchRun | None) -> Trial:
    recorded = None if run is None else run.recorded_parameters(str(trial.number))
    if run is None or recorded is None:
        return trial
    refusal = run.other_parameters(str(trial.number))
    return cast(Trial, _RecordedTrial(trial, recorded, refusal))  # what a shield asks of a trial


def _end_of(study: optuna.Study, error: dptune.PlanComplete) -> Exception:
    """End ``study.optimize`` quietly, in every thread and process, when the run is complete."""
    try:
        study.stop()
    except RuntimeError:  # not inside study.optimize: nobody to stop
        return error
    _logger.warning(f"The study ends here: {error}")
    return optuna.TrialPruned("the run is complete.")


def refuse_maximize(study: optuna.Study) -> None:
    """Refuse a study that does not minimise one value.

    Raises:
        InputError: the study maximises, or has several directions.
    """
    if study.directions != [optuna.study.StudyDirection.MINIMIZE]:
        raise dptune.InputError(
            'a private objective is a loss: create the study with direction="minimize" and one objective '
            "(for accuracy, minimise the zero-one loss)."
        )
