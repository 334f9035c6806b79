"""An objective whose value is one user's locally private reply.

Local privacy has two sides. On the *device* a value is measured, clamped, made noisy and sent; the *curator* sees the
reply. With devices of its own protocol a curator writes ``trial = study.ask()``, sends ``trial.params``, and
``study.tell(trial, reply)`` what comes back: no objective is needed. :class:`LocalObjective` is for a process that is
the device (a phone that tunes its own setting, a worker at each hospital on a shared study) or that simulates many.
That process is trusted with the value; the storage, the sampler, the logs and every other process are not.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import optuna
from optuna.trial import FixedTrial, FrozenTrial, Trial

import dptune
from dptune.local.randomizer import Randomizer
from dptune.losses.user_function import Function
from dptune.privacy.private import bare
from dptune_optuna.distributions import refuse_other_space
from dptune_optuna.ldp import LDPSampler
from dptune_optuna.promise import promise
from dptune_optuna.shield import shielded
from dptune_optuna.withheld import withhold_values

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity


class LocalObjective:
    """Measures one user's value and returns the reply; works with every sampler.

    The function may suggest parameters and returns a number. Whatever it raises, and whatever is no number, becomes
    the randomiser's public ``invalid`` value before the noise: the trial completes, and nothing of it is logged. To
    minimise, give the randomiser ``invalid=`` the upper end of its interval, or what fails would win.

    Args:
        function: trial -> the user's private value.
        randomizer: of the reply.
        ledger: charges the user before the function is called, and refuses past the user's cap. Without one nobody
            counts: every trial must then be another user.
        user: whose device this is, or a function of the trial that says whom it asks. Needed with a ledger.

    Raises:
        InputError: the function is none, or only one of ledger and user is given.

    Example::

        objective = LocalObjective(satisfaction, LocalRandomizer(1.0, 1.0), ledger=UserLedger(path, cap=2.0), user="me")
        study.optimize(objective, n_trials=2)
    """

    def __init__(
        self,
        function: Function,
        randomizer: Randomizer,
        *,
        ledger: dptune.UserLedger | None = None,
        user: str | Callable[[Trial], str] | None = None,
    ) -> None:
        if not callable(function):
            raise dptune.InputError(f"the objective must be a function of a trial; got {type(function).__name__}.")
        if (ledger is None) != (user is None):
            raise dptune.InputError("give ledger= and user= together: a ledger charges a user.")
        self._function, self._randomizer, self._ledger, self._user = function, randomizer, ledger, user
        self._warned: set[str] = set()
        functools.update_wrapper(self, function, updated=())
        withhold_values()  # should the function itself be given to study.optimize

    def __call__(self, trial: Trial) -> float:
        """Charge the user, measure, and return the reply. A retry of the same trial gets the same reply, unpaid.

        Raises:
            CapReached: before the function is called. ``study.optimize(..., catch=CapReached)`` goes on with others.
            PrivacyError: the function used ``trial.report`` or the like.
            InputError: the function did not suggest the parameters that its sampler searches. Without a ledger no reply
                is made; with one its user has been charged before the function was called.
            InputError: before the function is called: the study was begun with another randomiser, or has the
                direction in which the randomiser's ``invalid`` is the best value.
        """
        self._promise(trial.study)
        measure = functools.partial(self._measured, trial)
        if self._ledger is None or self._user is None:
            return self._randomizer.randomize(measure())
        user = self._user if isinstance(self._user, str) else self._user(trial)
        held: list[Exception] = []
        reply = self._ledger.reply(self._randomizer, lambda: _held(measure, held), user=user, key=_key(trial))
        if held:
            raise bare(held[0])
        return reply

    def _measured(self, trial: Trial) -> Any:
        """Return the user's value, None if the function raised; refuse a trial that no sampler could learn from."""
        value, space = shielded(self._function, trial, _as_it_is), _searched(trial.study)
        if value is not None and space is not None:
            refuse_other_space(space, trial.distributions)
        return value

    def try_out(self, parameters: Mapping[str, Any]) -> None:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Use this on made-up data: inside a study exceptions are swallowed, because they could depend on private data.

        Raises:
            TypeError: the function returned no number.
        """
        float(self._function(FixedTrial(dict(parameters))))

    def _promise(self, study: optuna.Study) -> None:
        """Write the public settings to the study, so that its reader knows what protects the users."""
        promise(study, self._randomizer.describe())
        if not self._randomizer.private and study.study_name not in self._warned:
            _logger.warning(f"The study {study.study_name!r} is NOT PRIVATE: {self._randomizer!r}.")
            self._warned.add(study.study_name)


def _searched(study: optuna.Study) -> dptune.Space | None:
    """The space that the study's sampler was given, if it is one of ours; without one the first trial decides."""
    sampler = study.sampler
    while (inner := getattr(sampler, "_base_sampler", None)) is not None:  # as in PartialFixedSampler
        sampler = inner
    return sampler._space if isinstance(sampler, LDPSampler) else None


def _held(measure: Callable[[], Any], held: list[Exception]) -> SupportsFloat | None:
    """Return the value; keep a public error for later, as the user has paid by now."""
    try:
        value: SupportsFloat | None = measure()
    except Exception as error:  # noqa: BLE001  raised again by the caller
        held.append(error)
        return None
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _key(trial: Trial) -> str:
    """Name the trial in its study, and in no other of the same name; a retried trial has its original's name."""
    frozen: FrozenTrial = trial.study._storage.get_trial(trial._trial_id)
    first = frozen.system_attrs.get("failed_trial")  # where Optuna's retry callbacks name the original
    if first is not None:
        frozen = trial.study.get_trials(deepcopy=False)[first]
    began = frozen.datetime_start
    return json.dumps([trial.study.study_name, frozen.number, None if began is None else began.isoformat()])
