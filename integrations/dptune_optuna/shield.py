"""What stands between the user's code, which sees private data, and Optuna, which must not.

The user's function gets a :class:`ShieldedTrial`, which can suggest but not report, or a :class:`PublicTrial`, which
can report what the user has declared public. What becomes of what the function raises, and what no shield can do, is in
:mod:`dptune.losses.user_function`. Public mistakes still raise: a refused method, a bad search space, losses of the
wrong shape.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import optuna
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FixedTrial, Trial

import dptune
from dptune.losses.user_function import Function, call_guarded
from dptune.privacy.private import PerExampleLosses, bare
from dptune.search.run import SearchRun

T = TypeVar("T")
Check = Callable[[str, Any], None]  # parameter, value; raises what refuses it


class ShieldedTrial:
    """An Optuna trial that suggests parameters and takes nothing back.

    ``report``, ``should_prune`` and ``set_user_attr`` are refused: Optuna stores what they are given at once.

    Args:
        trial: suggests.
        check: is shown every suggestion, and raises to refuse it.
    """

    def __init__(self, trial: Trial | FixedTrial, check: Check | None = None) -> None:
        self._trial, self._check = trial, check
        self._public_error: Exception | None = None  # kept: the user's function may swallow it
        self._pruned = False  # whether the function was told to stop

    @property
    def number(self) -> int:
        """The trial's number."""
        return self._trial.number

    @property
    def params(self) -> dict[str, Any]:
        """The parameters suggested so far."""
        return self._trial.params

    @property
    def datetime_start(self) -> datetime.datetime | None:
        """When the trial began."""
        return self._trial.datetime_start

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Suggest a real parameter; as Optuna's."""
        return self._checked(name, lambda: float(self._trial.suggest_float(name, low, high, step=step, log=log)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Suggest a whole number; as Optuna's."""
        return self._checked(name, lambda: int(self._trial.suggest_int(name, low, high, step=step, log=log)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest one of the choices; as Optuna's."""
        return self._checked(name, lambda: self._trial.suggest_categorical(name, choices))

    def _checked(self, name: str, suggest: Callable[[], T]) -> T:
        value = self._passed(suggest)
        if self._check is not None:
            self._passed(functools.partial(self._check, name, value))
        return value

    def _passed(self, call: Callable[[], T]) -> T:
        """Call Optuna; what it raises is public."""
        try:
            return call()
        except Exception as error:
            self._public_error = error
            raise

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._public_error = dptune.PrivacyError(
            f"trial.{name} is refused inside a private objective: Optuna would store what it is given. Return what you "
            "measured; only a noisy answer is reported. To prune by a quantity of public rows say what it is, "
            'public="...", where the objective is made, and call trial.report_public(value, step).'
        )
        raise self._public_error


class PublicTrial(ShieldedTrial):
    """A trial that also hands a public quantity to Optuna's pruner; that it is public is the user's word."""

    def report_public(self, value: float, step: int) -> None:
        """Report the quantity that the objective was made with (``public=``), for the pruner; as Optuna's ``report``.

        It is stored and logged at once, without noise, and smaller must be better.

        Args:
            value: computed from public rows only.
            step: at which, as 1, 2, ... epochs.
        """
        self._passed(lambda: self._trial.report(value, step))

    def should_prune(self) -> bool:
        """Return what the study's pruner makes of the values reported; as Optuna's."""
        self._pruned = self._passed(self._trial.should_prune)
        return self._pruned


class RungTrial(ShieldedTrial):
    """A trial that reports private losses of a half-trained model, and is told whether to go on.

    Args:
        trial, check: see :class:`ShieldedTrial`.
        losses_of: makes losses of what the user's function would return.
        run: takes them and pays; None: outside a study, or before the search space is known.
    """

    def __init__(
        self, trial: Trial | FixedTrial, check: Check | None, losses_of: Function, run: SearchRun | None
    ) -> None:
        super().__init__(trial, check)
        self._losses_of, self._run = losses_of, run

    def report_private(self, result: Any, step: int) -> None:
        """Hand in the losses of the half-trained model; nothing is stored by Optuna, and nothing is paid yet.

        Args:
            result: what the function would return now: losses (rows,), or with ``loss=`` the fitted model, which must
                keep nothing of the rows that it is asked about.
            step: at which, as 1, 2, ... epochs; trials are compared at equal steps.
        """
        self._pruned = False  # who reports again has gone on
        losses = self._passed(call_guarded(self._losses_of, result, wrapped).or_raise)
        if self._run is not None:
            self._passed(functools.partial(self._run.rungs.report, str(self.number), self.params, losses, step))

    def should_prune(self) -> bool:
        """Ask, as one release that the plan has paid for, whether the trial is worth going on."""
        self._pruned = self._run is not None and self._passed(
            functools.partial(self._run.rungs.stops, str(self.number))
        )
        return self._pruned


def wrapped(losses: Any) -> PerExampleLosses:
    """Return losses in the wrapper that nothing reads but the privatizer."""
    return losses if isinstance(losses, PerExampleLosses) else PerExampleLosses(losses)


def shielded(function: Function, shield: ShieldedTrial, take: Callable[[Any], T]) -> T | None:
    """Return ``take`` of what the user's function returned, or None if the function raised.

    Raises:
        Exception: what Optuna or the shield's check raised for a suggestion, or PrivacyError for a refused method.
        TrialPruned: the function raised it, and was told to stop; to raise it unasked is a failure.
        InputError: ``take`` refused what came back.
    """
    outcome = call_guarded(function, shield, take, optuna.TrialPruned)
    if shield._public_error is not None:
        raise bare(shield._public_error)
    if outcome.stopped and shield._pruned:
        raise optuna.TrialPruned("the trial was told to stop before its end.")
    return outcome.or_raise()


def samplers_of(study: Study) -> Iterator[BaseSampler]:
    """Yield the study's sampler and those that it wraps, as PartialFixedSampler does."""
    sampler: Any = study.sampler
    while isinstance(sampler, BaseSampler):
        yield sampler
        sampler = getattr(sampler, "_base_sampler", None)
