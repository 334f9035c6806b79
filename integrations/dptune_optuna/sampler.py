"""Private search methods as Optuna samplers. A sampler only translates; its run (:class:`dptune.SearchRun`) decides.

Example: your own method, used as in :mod:`dptune_optuna`::

    sampler = PrivateSampler(privatizer, space, method=MY_METHOD)  # a dptune.search.Method
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Unpack, overload

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune.losses.user_function import Function
from dptune.search.answer import Recommendation
from dptune.search.objective import ObjectiveOptions, allows_unprotected
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune.space import Value
from dptune_optuna.objective import PrivateFunction
from dptune_optuna.spaces import Distributions, SpaceSampler, given_space, within
from dptune_optuna.studies import RESUME, StudyRuns

_DECORATE = (
    "Decorate the function with @sampler.objective and give study.optimize what that returns. Delete this study if "
    "what it holds depends on private data. If everything that the function shows is public, make the sampler with "
    'unprotected="allow".'
)


class UnprotectedValueWarning(UserWarning):
    """With ``unprotected="allow"``, a trial without a decorated objective stores its value without noise."""


class PrivateSampler(SpaceSampler):
    """Searches with one private run a study.

    Decorate the objective with :meth:`objective`; it returns per-example losses. Float and int parameters are searched,
    and the others are drawn at random: with categories or conditions use :func:`dptune_optuna.choose`.

    Args:
        privatizer: holds the losses and charges.
        space: name -> Optuna distribution of the parameters to search, all of them in every trial, or a
            ``dptune.Space``. It is fixed when the study begins, in the ledger, and parameters outside it are drawn at
            random. Default: the numbers of the study's first finished trial.
        method: a :class:`dptune.search.Method`; a subclass such as :class:`CentredSampler` has its own.
        mu: GDP budget of the study; default what is neither spent nor planned by other runs when the study begins.
        n_trials: wished number of trials; the number planned is :attr:`n_trials`.
        seed: of the sampler's own randomness (not of the noise, which has none).
        default: your default configuration, with every searched parameter. It is tried first, and the recommendation
            is compared with it. The final estimate releases both levels.
        unprotected: what becomes of a trial that was not run by a decorated objective. With "refuse", PrivacyError ends
            the study, and Optuna gets inf instead of the value. With "allow", for public objectives only, Optuna stores
            the value as it is, with an :class:`UnprotectedValueWarning`.
        settings: of the method's planner.
    """

    _method: ClassVar[dptune.search.Method | None] = None

    def __init__(
        self,
        privatizer: dptune.LossPrivatizer,
        space: Mapping[str, BaseDistribution] | dptune.Space | None = None,
        *,
        method: dptune.search.Method | None = None,
        mu: float | None = None,
        n_trials: int | None = None,
        seed: int | None = None,
        default: Mapping[str, Any] | None = None,
        warn_independent_sampling: bool = True,
        unprotected: Literal["refuse", "allow"] = "refuse",
        **settings: Any,
    ) -> None:
        name = type(self).__name__
        method = dptune.search.Method.chosen(self._method, method, front_end=name)
        method.refuse_unknown(settings, front_end=name)
        self._allowed = allows_unprotected(unprotected)
        settings = {"trials": n_trials, **settings}
        request = SearchRequest(method, privatizer, mu, seed, settings, default, name, given_space(space))
        super().__init__(seed=request.seed, warn_independent_sampling=warn_independent_sampling)
        self._runs = StudyRuns(request, mixed=self._allowed)
        self._shielded: set[tuple[str, int]] = set()  # study and number of trials under a private objective

    @property
    def n_trials(self) -> int:
        """Number of trials of a complete run: pass it to ``study.optimize``, or leave ``n_trials`` out there.

        Raises:
            InputError: the sampler was made without a space, and no study has fixed one yet.
        """
        for run in self._runs.known.values():
            return run.plan.trials
        request = self._runs.request
        if request.space is None:
            raise dptune.InputError(
                "the sampler has no space yet, on which n_trials depends. Call study.optimize(objective) without "
                "n_trials: the study stops when its plan is complete. Or give the sampler its space."
            )
        return request.plan(request.space).trials

    def run_of(self, study: optuna.Study) -> SearchRun | None:
        """Return the study's run, or None as long as its search space is not known."""
        return self._runs.of(study)

    def _space_of(self, study: optuna.Study) -> dptune.Space | None:
        run = self._runs.of(study)
        return None if run is None else run.space

    def _is_fixed(self, study: optuna.Study) -> bool:
        return study.study_name in self._runs.known

    def _propose(self, study: optuna.Study, number: int, suggested: Distributions) -> Mapping[str, Value]:
        return self._runs.begin(study, suggested).ask(number)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one parameter outside the search space; before that is known take the default configuration's."""
        default = self._runs.request.default or {}
        usable = param_name in default and within(param_distribution, default[param_name])
        if usable and study.study_name not in self._runs.known:
            return default[param_name]
        return super().sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """End a study whose trial was not run by a decorated objective; with ``unprotected="allow"`` warn.

        Raises:
            PrivacyError: the trial's value is not a release, or a function failed outside the shield.
        """
        here = study.study_name, trial.number
        shielded = here in self._shielded
        run = self._runs.known.get(study.study_name)
        self._shielded.discard(here)
        pruned = shielded and state == TrialState.PRUNED  # its value is the last public report
        if values is not None and not pruned and not (run and run.released(str(trial.number), values[0])):
            instead = "is stored as it is, without noise"
            if not self._allowed:
                values[:] = [math.inf] * len(values)  # Optuna stores and logs this list next, even after an error here
                instead = "was stored and logged as inf instead"
            self._unprotected(
                f"trial {trial.number} has a value that did not come from an objective decorated with "
                f"@sampler.objective. The value {instead}; what the function reported or printed is as it was"
            )
        if state == TrialState.FAIL and not shielded and _in_optimize(study):
            vector = "a vector that it returned is, too" if self._allowed else "a vector that it returned is not"
            self._unprotected(
                f"trial {trial.number} failed, and its function was not decorated with @sampler.objective. What it "
                f"raised is in Optuna's log as it was; {vector}"
            )

    def _unprotected(self, what: str) -> None:
        if not self._allowed:
            raise dptune.PrivacyError(f"{what}. {_DECORATE}")
        warnings.warn(f"{what}.", UnprotectedValueWarning, stacklevel=3)

    @overload
    def objective(self, function: Function) -> PrivateFunction: ...

    @overload
    def objective(self, **options: Unpack[ObjectiveOptions]) -> Callable[[Function], PrivateFunction]: ...

    def objective(self, function: Function | None = None, **options: Unpack[ObjectiveOptions]) -> Any:
        """Decorate a function of a trial that returns per-example losses (rows,).

        With ``loss`` and ``data=(X, y)`` it returns a fitted scikit-learn estimator instead, and what it raises is
        shown and costs nothing. Exceptions of a function that returns losses are hidden and count as the upper clip for
        everybody; use ``try_out`` to find bugs. Options: :class:`dptune.search.objective.ObjectiveOptions`.
        """
        if function is None:
            return lambda decorated: PrivateFunction(decorated, self._runs, self, **options)
        return PrivateFunction(function, self._runs, self, **options)

    def recommend(self, study: optuna.Study) -> Recommendation:
        """Return the parameters to use, never the argmin of noisy values, and what is known about them.

        Parameters that are not searched, constants and choices, are those of the nearest trial, so that the model can
        be built again.

        Raises:
            InputError: the study has no run yet.
        """
        run = self._runs.of(study)
        if run is None or run.space is None:
            raise dptune.InputError("the study has no finished trial yet; there is nothing to recommend.")
        states = TrialState.COMPLETE, TrialState.PRUNED
        self._runs.say_end(study, states)
        best = run.recommend().resumed(RESUME)
        space = run.space
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        near = [(math.dist(space.encode(t.params), space.encode(best)), t) for t in trials if space.contains(t.params)]
        if near:
            _, nearest = min(near, key=lambda one: one[0])
            best.update({name: value for name, value in nearest.params.items() if name not in space})
        return best

    def __bool__(self) -> bool:
        """Return True. Optuna calls this while it creates a study: refuse if the study's class is not Optuna's own.

        Raises:
            PrivacyError: another library creates its own study with the sampler; LightGBMTuner's replaces the sampler
                and stores raw losses.
        """
        made = sys._getframe(1).f_locals.get("self")
        if isinstance(made, optuna.Study) and not type(made).__module__.startswith("optuna."):
            raise dptune.PrivacyError(
                f"a {type(made).__name__} of {type(made).__module__} was about to replace this study's "
                f"{type(self).__name__} and to store losses without noise, as LightGBMTuner does. Nothing was trained "
                "or stored. Give the tuner a study of its own and public rows only, or decorate a function that "
                "trains LightGBM with @sampler.objective."
            )
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shielded": set()}


class CentredSampler(PrivateSampler):
    """CMA-ES on centred joint releases. Trials are proposed in generations; each is two releases.

    **What a trial's value is.** Optuna fixes it when the trial ends, mostly before the trial's generation is released.
    It is an upper estimate of the mean loss, from everything released so far. Only differences from the centre of the
    search space are known: the centre's own loss counts as the clip's upper end. It is ``inf``, which plots leave out,
    until something is released. The answer is :meth:`recommend`, and ``objective.estimate`` releases its level of loss.

    Arguments as in :class:`PrivateSampler`; whole generations are planned, and ``settings`` are those of
    :func:`dptune.search.algorithms.centred_plan.plan_centred`.
    """

    _method = dptune.CENTRED


class DPGIBOSampler(PrivateSampler):
    """DP-GIBO: batches of trials around an iterate that moves by one released gradient a batch.

    Every trial's value is a release of its own, a noisy clipped mean loss.

    Arguments as in :class:`PrivateSampler`; ``settings`` are those of
    :func:`dptune.search.algorithms.gibo_plan.plan_gibo`: ``steps`` and ``batch`` are T and b, instead of ``n_trials``.
    """

    _method = dptune.GIBO


def _in_optimize(study: optuna.Study) -> bool:
    """Return whether a function was run: otherwise a trial fails by ``study.tell``, which logs nothing."""
    return bool(getattr(getattr(study, "_thread_local", None), "in_optimize_loop", True))
