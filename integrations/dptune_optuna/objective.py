"""Objectives that let only released values out, and the runs that pay for them.

Example::

    objective = PrivateObjective(losses, privatizer, n_trials=50)  # losses: trial -> per-example losses (rows,)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler())
    study.optimize(objective, n_trials=50)

Guarantee: what a study stores and logs of such trials is a function of releases that the ledger has paid for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FixedTrial, Trial

import dptune
from dptune._checks import boolean
from dptune.algorithms import VALUES
from dptune.losses.named import NamedLoss, as_loss, too_wide
from dptune.losses.user_function import (
    Data,
    Function,
    Training,
    declared_public,
    losses_function,
    losses_of_result,
    tried,
)
from dptune.search.answer import Recommendation
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune_optuna.shield import PublicTrial, RungTrial, ShieldedTrial, mark_shielded, shielded, wrapped
from dptune_optuna.spaces import refuse_other_space
from dptune_optuna.studies import StudyRuns, show, show_sigma

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity
_KEPT = "A run keeps its space and its plan: with another space= give the study a new name, and mu=."


class PrivateFunction:
    """A user's function behind the shield, callable as an Optuna objective; subclasses say which run pays.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        runs: hold the losses and pay.
        loss: the per-example loss of a fitted estimator: a name, e.g. "log_loss", or a ``NamedLoss`` of your own.
        data: (X, y) or ``dptune.Rows`` of the private examples, or a function that loads them, once in a process;
            with ``loss``.
        training: with ``loss``: "public": the function trains on public rows, so what it raises is an ordinary failure
            of the trial, shown by Optuna, and costs nothing. "private": it is hidden, counts as a failure, and the
            ledger's statement names the run, also of a function that returns losses.
        public: what ``trial.report_public(value, step)`` reports, in words for the ledger's statement, as "log loss on
            300 public rows": you say that it depends on no private row. Optuna's pruners then work as usual. A
            trial that they stop hands in no losses: it costs nothing, and another takes its place in the run.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: only one of ``loss`` and ``data`` is given, or ``data`` has other rows than the privatizer, or the
            function can reach it; or it trains on private people, so that nothing of it is public.
    """

    def __init__(
        self,
        function: Function,
        runs: StudyRuns,
        *,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
        training: Training = "public",
        public: str | None = None,
    ) -> None:
        self._runs = runs
        self._public, self._declared = declared_public(public, training), set[str]()
        runs.request.check_public(public)
        self._trains_in_private = training == "private"
        self._loss = "loss" if loss is None else as_loss(loss).name
        self._function = losses_function(function, loss, data, rows=runs.request.privatizer.rows, training=training)
        self._shield: Callable[..., ShieldedTrial] = ShieldedTrial if public is None else PublicTrial
        if runs.request.settings.get("rung_share"):
            self._shield = functools.partial(RungTrial, losses_of=losses_of_result(self._function))
        if why := too_wide(loss, runs.request.privatizer.loss_range):
            _logger.warning(why)
        functools.update_wrapper(self, function, updated=())

    def run_of(self, study: optuna.Study) -> SearchRun | None:
        """Return the run that pays for the study's trials, or None if its first trial must come first.

        Raises:
            InputError: this objective cannot serve the study.
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
            refuse_other_space(run.space, trial.distributions, trial.params, kept=_KEPT)

    def __call__(self, trial: Trial) -> float:
        """Run one trial: check the budget, train, hand the losses over, return the released value.

        Raises:
            BudgetExhausted: before the function is called; nothing is lost.
            PlanComplete: likewise, outside ``study.optimize``; inside, the trial is pruned and the study stops.
            LedgerError: before the function is called: another ledger paid for the study.
            KeyConflict: at the first suggestion that differs from where the trial has its value: the study was begun
                again without its storage.
            InputError: the function returned something that is not per-example losses, or did not suggest the
                parameters of the run's search space, or ``data`` cannot be loaded; nothing was spent.
        """
        if not isinstance(trial, Trial):
            raise dptune.InputError(
                f"a private objective is called by study.optimize with a Trial; got {type(trial).__name__}. For one "
                "more look at chosen parameters use estimate(study, parameters)."
            )
        study, name = trial.study, str(trial.number)
        mark_shielded(trial)
        run = self.run_of(study)
        try:
            if run is not None:
                run.check(name)
            self._declare(study.study_name)
            try:
                losses = shielded(self._function, self._shield(trial, run), wrapped)
                run = run or self.first_run(trial)
                if losses is not None:
                    self.compare(run, trial)
            except optuna.TrialPruned:
                if run is not None:
                    run.withdrawn(name)
                raise
            except BaseException:
                if run is not None:
                    run.rungs.withdraw(name)
                raise
            value = run.finish(name, trial.params, losses)
        except dptune.PlanComplete as error:
            raise _end_of(study, error) from None
        except dptune.errors.AllTrialsFailed:
            raise  # ends study.optimize
        except dptune.errors.TrialFailed as error:
            raise optuna.TrialPruned(str(error)) from None
        show_sigma(trial, run)
        show(study, run, self._loss)
        if run.complete:
            with suppress(RuntimeError):  # outside study.optimize there is nothing to stop
                study.stop()
        return value

    def _declare(self, study: str) -> None:
        """Keep for the ledger's statement what the user says about the function, before it may report anything."""
        if study in self._declared:
            return
        ledger = self._runs.request.ledger
        if self._public is not None:
            ledger.declare_public(study, self._public)
        if self._trains_in_private:
            ledger.declare_private_training(study)
        self._declared.add(study)

    def extend(self, study: optuna.Study, *, n_trials: int, mu: float | None = None) -> None:
        """Give a study whose run is complete more trials and more budget; ``study.optimize`` goes on with them.

        Nothing is paid twice: the search goes on from all it has learned. Asked for again, as when a script is run
        again, it changes nothing.

        Args:
            study: the study, with all the trials that were planned.
            n_trials: wished number of trials in all.
            mu: GDP budget in all; default the study's and what is neither spent nor planned by others.

        Raises:
            InputError: the run is not complete, or has as much.
            BudgetExhausted: the ledger has not that much; ``ledger.raise_budget`` raises it.
        """
        run = self.run_of(study)
        if run is None:
            raise dptune.InputError("the study has no finished trial yet; give n_trials= and mu= where it is planned.")
        self._runs.extend(study, run, n_trials, mu)

    def estimate(
        self, study: optuna.Study, parameters: Mapping[str, Any], *, early: bool = False
    ) -> dptune.search.Estimate:
        """Release, once per study, the mean clipped loss at ``parameters``, from the share kept for it.

        Args:
            study: the study whose run pays.
            parameters: usually those of ``recommend``.
            early: the study is to end here, though its run is not complete.

        Raises:
            InputError: nothing was kept for it, or the run is not complete.
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
        run.check_estimate(parameters, early=boolean("early", early))
        if (known := run.estimated(parameters)) is not None:
            return known
        losses = self._losses_at(parameters)
        default = None if run.default is None else self._losses_at({**parameters, **run.default})
        estimate = run.estimate(parameters, losses, default=default, early=early)
        show(study, run, self._loss)
        return estimate

    def _losses_at(self, parameters: Mapping[str, Any]) -> dptune.privacy.PerExampleLosses | None:
        try:
            return shielded(self._function, self._shield(FixedTrial(dict(parameters))), wrapped)
        except ValueError as error:
            if isinstance(error, dptune.InputError):
                raise
            missing = f"{error} Add what the run did not search: estimate(study, {{**recommend(study), name: value}})."
            raise dptune.InputError(missing) from None

    def try_out(self, parameters: Mapping[str, Any]) -> str:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Inside a study exceptions are swallowed, because they could depend on private data. Use this on public or
        made-up data, or where you may see the private data; nothing is released, stored or spent.
        """
        found = self._function(self._shield(FixedTrial(dict(parameters))))
        losses = self._runs.request.privatizer.checked(found)
        _logger.info(tried(losses))
        return repr(losses)


class PrivateObjective(PrivateFunction):
    """Makes any Optuna sampler private: every trial's value is a noisy clipped mean loss.

    Whatever the sampler, the pruner or a plot does with the values is post-processing.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        privatizer: holds the losses and pays.
        n_trials: number of trials that the budget is divided among.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        final_share: share of mu^2 kept for :meth:`estimate`.
        default: your default configuration: the recommendation is compared with it, and the final estimate releases
            both levels.
        loss, data, training, public: see :class:`PrivateFunction`.

    Raises:
        UnsupportedMetric, InputError: see :class:`PrivateFunction`; or a setting is out of range.
    """

    def __init__(
        self,
        function: Function,
        privatizer: dptune.LossPrivatizer,
        *,
        n_trials: int,
        mu: float | None = None,
        final_share: float = 0.05,
        default: Mapping[str, Any] | None = None,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
        training: Training = "public",
        public: str | None = None,
    ) -> None:
        settings = {"trials": n_trials, "final_share": final_share}
        request = SearchRequest(VALUES, privatizer, mu, 0, settings, default, type(self).__name__)
        super().__init__(function, StudyRuns(request), loss=loss, data=data, training=training, public=public)

    def run_of(self, study: optuna.Study) -> SearchRun:
        """Return the run that pays for the study's trials."""
        refuse_maximize(study)
        return self._runs.of(study) or self._runs.begin(study, None)

    def recommend(self, study: optuna.Study) -> Recommendation:
        """Return the trial's parameters that a model of all released values expects to be best.

        The smallest of many noisy values is small mostly by its noise.

        Raises:
            InputError: no value was released yet.
        """
        return self.run_of(study).recommend()


def refuse_maximize(study: optuna.Study) -> None:
    """Refuse a study that does not minimise one value.

    Raises:
        InputError: the study maximises, or has several directions.
    """
    if study.directions != [StudyDirection.MINIMIZE]:
        raise dptune.InputError(
            'a private objective is a loss: create the study with direction="minimize" and one objective '
            "(for accuracy, minimise the zero-one loss). A study that is stored keeps its direction: give the new one "
            "another study_name, or delete the old one first with optuna.delete_study."
        )


def _end_of(study: optuna.Study, error: dptune.PlanComplete) -> Exception:
    """End ``study.optimize`` quietly, in every thread and process, when the run is complete."""
    try:
        study.stop()
    except RuntimeError:  # not inside study.optimize: there is nothing to stop
        return error
    _logger.warning(f"The study ends here: {error}")
    return optuna.TrialPruned("the run is complete.")
