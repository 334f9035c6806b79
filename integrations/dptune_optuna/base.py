"""What the private samplers share: one run a study, its search space, the decorated objective.

A sampler only translates; its run (:class:`dptune.SearchRun`) decides.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, overload

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, Trial, TrialState

import dptune
from dptune._checks import at_least, positive
from dptune._locks import ForkSafeLock
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, Function
from dptune.search.agreement import check_start, stored_space, usual_share
from dptune.search.run import SearchRun
from dptune.space import Value
from dptune_optuna.distributions import to_distributions, to_space
from dptune_optuna.numerical import LARGEST_SEED, NumericalSampler
from dptune_optuna.objective import PrivateFunction, refuse_maximize

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity


class UnprotectedValueWarning(UserWarning):
    """A trial's value did not come from a private objective, or a trial failed outside one."""


_STORED = (
    "a trial's value did not come from an objective decorated with @sampler.objective: it was stored as it is, without "
    "noise. If it depends on private data, delete the study."
)
_FAILED = (
    "a trial failed that no objective decorated with @sampler.objective has run: what its function raised was logged "
    "as it is (a vector that it returned was withheld). Give study.optimize the decorated objective."
)


class PrivateSampler(NumericalSampler):
    """A sampler that searches float and int parameters with one private run a study; subclasses say which.

    Args:
        space: name -> Optuna distribution of the parameters to search; default: those of the study's first
            finished trial. It is fixed when the study begins, in the ledger.
        privatizer: holds the losses and pays.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        seed: of the sampler's own randomness (not of the noise, which has none).
        independent_sampler: for parameters outside ``space``; default random.
        warn_independent_sampling: say so when one is used.

    Raises:
        InputError: a setting is out of range.
    """

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
        self.method.refuse_unknown(settings, front_end=type(self).__name__)
        self._settings = {"trials": n_trials, **settings}
        if not isinstance(privatizer, dptune.LossPrivatizer):
            name = type(self).__name__
            raise dptune.InputError(f"{name} needs a LossPrivatizer: {name}(space, privatizer, ...).")
        self._space = None if space is None else to_space(space)
        if space is not None and self._space is None:
            raise dptune.InputError("space has no float or int parameter with more than one value to search.")
        self._privatizer = privatizer
        self._mu = None if mu is None else positive("mu", mu)
        self._seed = seed = None if seed is None else at_least("seed", seed, 0, LARGEST_SEED)
        budget = usual_share(privatizer.ledger, self._mu)
        self._plan(self._space or dptune.Space({"x": dptune.Float(0, 1)}), budget, 0)  # refuse early
        super().__init__(
            seed=seed,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
        )
        self._sessions: dict[str, SearchRun] = {}
        self._search_spaces: dict[str, IntersectionSearchSpace] = {}  # of each study
        self._shielded: set[tuple[str, int]] = set()  # study and number of the trials that a private objective runs
        self._beginning = ForkSafeLock()

    # ---- what subclasses say -------------------------------------------------------------------------

    method: ClassVar[dptune.Method]

    def _plan(self, space: dptune.Space, mu: float, seed: int) -> dptune.Plan:
        return self.method.plan(self._privatizer, space, mu=mu, seed=seed, **self._settings)

    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        return self.begin(study, search_space).ask(trial.number)

    # ---- the run -------------------------------------------------------------------------------------

    @property
    def n_trials(self) -> int:
        """Number of trials of a complete run: pass it to ``study.optimize``.

        Raises:
            InputError: the sampler was made without a space, and no study has fixed one yet.
        """
        if self._sessions:
            return next(iter(self._sessions.values())).plan.trials
        if self._space is None:
            raise dptune.InputError("n_trials depends on the number of parameters; give the sampler its space.")
        return int(self._plan(self._space, usual_share(self._privatizer.ledger, self._mu), 0).trials)

    def session(self, study: optuna.Study) -> SearchRun | None:
        """Return the study's run, or None as long as its search space is not known."""
        name = study.study_name
        if name not in self._sessions:
            space = (
                self._space
                or stored_space(self._privatizer.ledger, name)
                or to_space(self._search_spaces.setdefault(name, IntersectionSearchSpace()).calculate(study))
            )
            if space is None:
                return None
            self._begin(name, space)
        return self._sessions[name]

    def check_budget(self, study: optuna.Study) -> None:
        """Refuse, before a model is trained, a study that could not begin.

        Raises:
            BudgetExhausted: the ledger has not ``mu`` left, or nothing at all.
        """
        check_start(self._privatizer.ledger, study.study_name, self._mu)

    def begin(self, study: optuna.Study, distributions: Mapping[str, BaseDistribution]) -> SearchRun:
        """Begin the study's run with the numerical parameters of ``distributions``, unless it has begun.

        Raises:
            InputError: there is none to search.
        """
        with self._beginning:  # of two first trials with different parameters, one begins
            session, space = self.session(study), to_space(distributions)
            if session is not None:
                return session
            if space is None:
                raise dptune.InputError(
                    "the first trial had no float or int parameter with more than one value to search."
                )
            try:
                return self._begin(study.study_name, space)
            except dptune.BudgetMismatch:
                stored = stored_space(self._privatizer.ledger, study.study_name)
                if stored is None or self._space is not None or stored == space:
                    raise
                return self._begin(study.study_name, stored)  # another process was first

    def _begin(self, name: str, space: dptune.Space) -> SearchRun:
        session = SearchRun(
            self.method, self._privatizer, scope=name, space=space, mu=self._mu, seed=self._seed, **self._settings
        )
        budget, plan = self._privatizer.ledger.budget.mu, session.plan
        spends = f"The study {name!r} spends mu={plan.mu:.4g} of the ledger's {budget:.4g} in {plan.trials} trials"
        if self._privatizer.private:
            _logger.info(f"{spends}.")
        else:
            _logger.warning(f"{spends}, and is NOT PRIVATE: {self._privatizer!r}.")
        return self._sessions.setdefault(name, session)  # of two threads, the first

    # ---- Optuna's interface --------------------------------------------------------------------------

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the run's search space; empty until it is known."""
        session = self.session(study)
        return {} if session is None or session.space is None else to_distributions(session.space)

    def _has_space(self, study: optuna.Study) -> bool:
        return study.study_name in self._sessions

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Warn about a value that no release paid for, which cannot be held back here, and an unshielded failure."""
        session = self._sessions.get(study.study_name)
        released = session is not None and values is not None and session.released(str(trial.number), values[0])
        if state == TrialState.COMPLETE and not released:
            warnings.warn(_STORED, UnprotectedValueWarning, stacklevel=2)
        shielded = (study.study_name, trial.number) in self._shielded
        self._shielded.discard((study.study_name, trial.number))
        if state == TrialState.FAIL and _in_optimize(study) and not shielded:
            warnings.warn(_FAILED, UnprotectedValueWarning, stacklevel=2)
        if session is not None and session.plan.monitor_mu == 0 and trial.number + 1 >= session.plan.trials:
            others = (t for t in study.get_trials(deepcopy=False) if t.number != trial.number)
            session.warn_if_behind(1 + sum(t.state.is_finished() for t in others))

    # ---- the user's interface --------------------------------------------------------------------------

    @overload
    def objective(self, function: Function) -> SamplerObjective: ...

    @overload
    def objective(
        self, *, loss: str | NamedLoss | None = None, data: Data | Callable[[], Data] | None = None
    ) -> Callable[[Function], SamplerObjective]: ...

    def objective(
        self,
        function: Function | None = None,
        *,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
    ) -> Any:
        """Decorate a function of a trial that returns per-example losses (rows,).

        With ``loss`` and ``data=(X, y)`` the function returns a fitted scikit-learn estimator instead.
        Exceptions of the function become the upper clip for everybody; use ``try_out`` to find bugs.
        """
        if function is None:
            return lambda decorated: SamplerObjective(self, decorated, loss=loss, data=data)
        return SamplerObjective(self, function, loss=loss, data=data)

    def recommend(self, study: optuna.Study) -> dict[str, Any]:
        """Return the parameters to use: the run's recommendation, never the argmin of noisy values.

        Raises:
            InputError: the study has no run yet.
        """
        session = self.session(study)
        if session is None:
            raise dptune.InputError("the study has no finished trial yet; there is nothing to recommend.")
        return dict(session.recommend())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sessions": {}, "_search_spaces": {}, "_shielded": set()}


class SamplerObjective(PrivateFunction):
    """A function decorated with :meth:`PrivateSampler.objective`."""

    def __init__(self, sampler: PrivateSampler, function: Function, **options: Any) -> None:
        super().__init__(function, sampler._privatizer, **options)
        self._sampler, self._warned = sampler, False

    def run_of(self, study: optuna.Study) -> SearchRun | None:
        """Return the run that pays for the study's trials; None before the first trial if no space was given.

        Raises:
            InputError: the study maximises, or uses another sampler, as after a resume without ``sampler=``.
        """
        refuse_maximize(study)
        if not _uses(study.sampler, self._sampler):
            raise dptune.InputError(
                f"the study's sampler, a {type(study.sampler).__name__}, is not the {type(self._sampler).__name__} "
                "that decorated this objective (made again, a sampler is another one); load the study with "
                "sampler=sampler, or use PrivateObjective with other samplers."
            )
        session = self._sampler.session(study)
        if session is None:
            self._sampler.check_budget(study)
        return session

    def compare(self, run: SearchRun, trial: Trial) -> None:
        """Without ``space=`` the first trial decided what is searched: another one is ignored, with a warning.

        Raises:
            InputError: ``space=`` was given, and the function did not suggest it.
        """
        if self._sampler._space is not None:
            super().compare(run, trial)
        elif not self._warned and run.space is not None and not run.space.contains(trial.params):
            self._warned = True
            searched = ", ".join(map(repr, run.space))
            warnings.warn(
                f"trial {trial.number} did not suggest all that the trial did that began the search: {searched}. "
                "Such trials cost what they cost and have no part in the search. Begin a new study with space=, the "
                "parameters that are suggested in every trial, or use PrivateObjective.",
                stacklevel=3,
            )

    def first_run(self, trial: Trial) -> SearchRun:
        """Begin the run with the search space of its first trial."""
        return self._sampler.begin(trial.study, trial.distributions)


def _in_optimize(study: optuna.Study) -> bool:
    """Tell whether a function was run: elsewhere a trial fails by ``study.tell``, which logs nothing."""
    return bool(getattr(getattr(study, "_thread_local", None), "in_optimize_loop", True))


def _uses(sampler: BaseSampler, wanted: BaseSampler) -> bool:
    """Tell whether ``sampler`` is ``wanted`` or wraps it, as PartialFixedSampler does."""
    inner = getattr(sampler, "_base_sampler", None)
    return sampler is wanted or (isinstance(inner, BaseSampler) and _uses(inner, wanted))
