"""An objective for a process that is a user's device (a phone, a worker at a hospital), or that simulates many.

That process is trusted with the value; the storage, the sampler, the logs and every other process are not. A study
records its randomisers: each has its own attribute, which is never overwritten. So a study that once was NOT PRIVATE
stays marked. If two processes begin a study with different randomisers, at least one is refused before any measurement.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FixedTrial, FrozenTrial, Trial

import dptune
from dptune._checks import kind, users_function
from dptune.local.bandits.replies import refuse_winning_failure
from dptune.local.randomizer import Randomizer
from dptune.losses.user_function import Function
from dptune.privacy.seal.private import without_traceback
from dptune_optuna.ending import Ending
from dptune_optuna.local import RANDOMIZER, LDPSampler, another_randomizer, randomizers_of
from dptune_optuna.shield import ShieldedTrial, samplers_of, shielded
from dptune_optuna.spaces import logger, refuse_other_space


class LocalObjective:
    """Measures one user's value and returns the reply; works with every sampler.

    The function may suggest parameters and returns a number. Whatever it raises, and whatever is not a number, becomes
    the randomiser's public ``invalid`` value before the noise: the trial completes, and nothing of it is logged. To
    minimise, give the randomiser ``invalid=`` the upper end of its interval, or what fails would win.

    Args:
        function: trial -> the user's private value.
        randomizer: of the reply.
        ledger: charges the user before the function is called, and refuses past the user's cap. Without one nobody
            counts: every trial must then be another user.
        user: whose device this is, or a function of the trial that says whom it asks. Needed with a ledger.

    Raises:
        InputError: the function cannot be called, ``user`` is neither, or only one of ledger and user is given.

    Example::

        objective = LocalObjective(satisfaction, HybridRandomizer(1.0, 1.0), ledger=UserLedger(path, cap=2.0), user="i")
        study.optimize(objective, n_trials=2)
    """

    def __init__(
        self,
        function: Function,
        randomizer: Randomizer,
        *,
        ledger: dptune.local.UserLedger | None = None,
        user: str | Callable[[Trial], str] | None = None,
    ) -> None:
        function = users_function("the objective", function, " of a trial")
        if (ledger is None) != (user is None):
            raise dptune.InputError("give ledger= and user= together: a ledger charges a user.")
        if not (user is None or isinstance(user, str) or callable(user)):
            raise dptune.InputError(f"user= must be a text or a function of a trial; got {kind(user)}.")
        self._function, self._randomizer, self._ledger, self._user = function, randomizer, ledger, user
        self._warned: set[str] = set()
        self._ending = Ending(passes=(dptune.errors.CapReached,) if callable(user) else ())  # others have caps, too
        functools.update_wrapper(self, function, updated=())

    def __call__(self, trial: Trial) -> float:
        """Charge the user, measure, and return the reply. A retry of the same trial gets the same reply, unpaid.

        Raises:
            CapReached: before the function is called. ``study.optimize(..., catch=CapReached)`` continues with others.
            PrivacyError: the function used ``trial.report`` or the like.
            InputError: before the function is called: the study was started with another randomiser, or its direction
                makes the randomiser's ``invalid`` the best value. After it, with the user charged: it did not suggest
                the parameters that its sampler searches; no reply is sent.
        """
        with self._ending.watch(trial.study):
            return self._reply(trial)

    def _reply(self, trial: Trial) -> float:
        samplers = [sampler for sampler in samplers_of(trial.study) if isinstance(sampler, LDPSampler)]
        self._state(trial.study, samplers)
        measure = functools.partial(self._measured, trial, samplers)
        if self._ledger is None or self._user is None:
            return self._randomizer.randomize(measure())
        user = self._user if isinstance(self._user, str) else self._user(trial)
        held: list[Exception] = []

        def measured() -> Any:
            try:
                return measure()
            except Exception as error:  # noqa: BLE001 - public, and raised below: the user has paid by now
                return held.append(error)

        reply = self._ledger.reply(self._randomizer, measured, user=user, key=_key(trial))
        if held:
            raise without_traceback(held[0])
        return reply

    def _state(self, study: optuna.Study, samplers: list[LDPSampler]) -> None:
        if len(study.directions) != 1:
            raise dptune.InputError("a reply is one value: create the study with one direction.")
        settings = self._randomizer.describe()
        refuse_winning_failure(settings, maximize=study.direction == StudyDirection.MAXIMIZE)
        stated = _is_stated(study, settings)
        for sampler in samplers:
            sampler.agree(settings)
        if not stated:
            text = json.dumps(settings, sort_keys=True)
            study.set_user_attr(RANDOMIZER + hashlib.sha256(text.encode()).hexdigest()[:16], dict(settings))
            _is_stated(study, settings)  # two processes may have started together
        if not self._randomizer.private and study.study_name not in self._warned:
            logger.warning(f"The study {study.study_name!r} is NOT PRIVATE: {self._randomizer!r}.")
            self._warned.add(study.study_name)

    def _measured(self, trial: Trial, samplers: list[LDPSampler]) -> Any:
        """Return the user's value, or None if the function raised; refuse a trial from which samplers cannot learn."""
        value: Any = shielded(self._function, ShieldedTrial(trial), lambda value: value)
        if value is not None and samplers and samplers[0].space is not None:  # None: the first trial decides
            refuse_other_space(samplers[0].space, trial.distributions)
        return value

    def try_out(self, parameters: Mapping[str, Any]) -> None:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Use this on made-up data: inside a study exceptions are swallowed, because they could depend on private data.

        Raises:
            TypeError: the function did not return a number.
        """
        float(self._function(FixedTrial(dict(parameters))))


def _is_stated(study: optuna.Study, settings: Mapping[str, Any]) -> bool:
    """Return whether the study records these settings; refuse a study that records others."""
    stated = randomizers_of(study)
    if any(others != settings for others in stated):
        raise another_randomizer(study)
    return bool(stated)


def _key(trial: Trial) -> str:
    """Return a key unique to the trial and its study; a retried trial has its original's key."""
    frozen: FrozenTrial = trial.study._storage.get_trial(trial._trial_id)
    first = frozen.system_attrs.get("failed_trial")  # set by Optuna's retry callbacks
    if first is not None:
        frozen = trial.study.get_trials(deepcopy=False)[first]
    began = frozen.datetime_start and frozen.datetime_start.isoformat()
    return json.dumps([trial.study.study_name, frozen.number, began])
