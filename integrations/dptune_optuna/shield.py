"""The shield between the user's code, which sees private data, and Optuna, which must not.

The user's function gets a :class:`ShieldedTrial`, which can suggest but not report, or a :class:`PublicTrial`, which
can report declared public values. :mod:`dptune.losses.user_function` documents the handling of errors and the limits of
any shield. Public mistakes still raise: a refused method, a bad search space, losses of the wrong shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FixedTrial, Trial

import dptune
from dptune._checks import kind
from dptune.losses.user_function import Function, Outcome, call_guarded, tried
from dptune.privacy.seal.private import PerExampleLosses, without_traceback
from dptune.privacy.seal.uninitialised import write_memory_of_cmaes
from dptune.search.final_estimate import as_stored
from dptune.search.replay import other_parameters
from dptune.search.run import SearchRun
from dptune_optuna.spaces import logger

T = TypeVar("T")
write_memory_of_cmaes()  # here: a process that unpickles an objective imports this module before it runs a trial


class ShieldedTrial:
    """An Optuna trial that suggests parameters and accepts no values.

    In addition to ``suggest_...`` it has ``number``, ``params`` and ``datetime_start``. ``report``, ``should_prune``
    and ``set_user_attr`` are refused: Optuna stores their arguments at once. If ``run`` already has the trial's value,
    another point is refused at its first suggestion.
    """

    def __init__(self, trial: Trial | FixedTrial, run: SearchRun | None = None) -> None:
        self._trial, self._run = trial, run
        self._public_error: Exception | None = None  # kept, as the user's function may swallow it
        self._pruned = False  # whether the function was asked to stop

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return float(self._checked(name, lambda: self._trial.suggest_float(name, low, high, step=step, log=log)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return int(self._checked(name, lambda: self._trial.suggest_int(name, low, high, step=step, log=log)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest one of the choices, like Optuna's trial.

        Raises:
            InputError: the study is stored, and its storage would change a choice.
        """
        self._passed(lambda: _refuse_unstorable(self._trial, name, choices))
        return self._checked(name, lambda: self._trial.suggest_categorical(name, choices))

    def _checked(self, parameter: str, suggest: Callable[[], Any]) -> Any:
        def suggested() -> Any:
            value, run, trial = suggest(), self._run, str(self.number)
            if run is not None and (charge := run.charge_of(trial)) is not None:
                recorded = charge.note["parameters"]
                if {**recorded, **as_stored({parameter: value})} != recorded:
                    raise other_parameters(run.scope, trial)
            return value

        return self._passed(suggested)

    def _passed(self, call: Callable[[], T]) -> T:
        """Call Optuna, whose errors are public."""
        try:
            return call()
        except Exception as error:
            self._public_error = error
            raise

    def __getattr__(self, name: str) -> Any:
        if name in ("number", "params", "datetime_start"):
            return getattr(self._trial, name)
        if name.startswith("__"):
            raise AttributeError(name)
        self._public_error = dptune.PrivacyError(
            f"trial.{name} is refused inside a private objective: Optuna would store what it is given. Return what you "
            "measured; only a noisy answer is reported. To prune by a quantity of public rows say what it is, "
            'public="...", where the objective is made, and call trial.report_public(value, step).'
        )
        raise self._public_error

    def __reduce__(self) -> tuple[type[FixedTrial], tuple[dict[str, Any], int]]:
        """Return parameters only, for pickles and copies, such as of a model that holds its callbacks."""
        return FixedTrial, (dict(self.params), self.number)


class Directions(NamedTuple):
    """The directions of a private study, and nothing else."""

    direction: StudyDirection = StudyDirection.MINIMIZE
    directions: tuple[StudyDirection, ...] = (StudyDirection.MINIMIZE,)


class PublicTrial(ShieldedTrial):
    """A trial that also reports a quantity, which the user declared public, to Optuna's pruner."""

    def report_public(self, value: float, step: int) -> None:
        """Report the quantity declared with ``public=``, from public rows only; smaller must be better.

        Optuna stores and logs it at once, without noise.
        """
        self._passed(lambda: self._trial.report(value, step))

    def report(self, value: float, step: int) -> None:
        """Call :meth:`report_public`, for the pruning callbacks of LightGBM, XGBoost and others, on public rows."""
        self.report_public(value, step)

    @property
    def study(self) -> Directions:
        """Return the part of a study that such a callback needs."""
        return Directions()

    def should_prune(self) -> bool:
        self._pruned = self._passed(self._trial.should_prune)
        return self._pruned


def _refuse_unstorable(trial: Trial | FixedTrial, name: str, choices: Sequence[Any]) -> None:
    if not isinstance(trial, Trial) or isinstance(trial.study._storage, InMemoryStorage):
        return
    if other := [choice for choice in choices if not isinstance(choice, str | int | float | bool | NoneType)]:
        raise dptune.InputError(
            f"the choices of {name!r} have {kind(other[0])}: a stored study gives it back as "
            "something else and could not be resumed. Choose among names, such as "
            f'sizes[trial.suggest_categorical({name!r}, ["small", "large"])], or create the study without storage=.'
        )


def wrapped(losses: Any) -> PerExampleLosses:
    """Return losses that only the privatizer reads."""
    return losses if isinstance(losses, PerExampleLosses) else PerExampleLosses(losses)


def shielded(function: Function, shield: ShieldedTrial, take: Callable[[Any], T]) -> T | None:
    """Return ``take`` of the user's result, or None if the function raised.

    Raises:
        Exception: an error of Optuna, of the shield, or of ``take``.
        TrialPruned: the function raised it after it was asked to stop; otherwise it is a failure.
    """
    outcome = call_guarded(function, shield, take, optuna.TrialPruned)
    if shield._public_error is not None:  # the outcome is replaced: the error's frames must not hold the result
        outcome = Outcome(error=without_traceback(shield._public_error))
    elif outcome.stopped and shield._pruned:
        outcome = Outcome(error=optuna.TrialPruned("the trial was told to stop before its end."))
    return outcome.or_raise()


def try_out(function: Function, parameters: Mapping[str, Any], privatizer: dptune.LossPrivatizer, shield: Any) -> str:
    """Call the function once outside any study; its errors are raised, and nothing is stored or charged."""
    losses = privatizer.checked(function(shield(FixedTrial(dict(parameters)))))
    logger.info(tried(losses))
    return repr(losses)


def samplers_of(study: Study) -> Iterator[BaseSampler]:
    """Yield the study's sampler and the samplers that it wraps, such as PartialFixedSampler's."""
    sampler: Any = study.sampler
    while isinstance(sampler, BaseSampler):
        yield sampler
        sampler = getattr(sampler, "_base_sampler", None)
