"""Local privacy in Optuna: three samplers for the curator, and an objective for a process that is a user's device.

On the *device* a value is measured, clamped, made noisy and sent; the *curator* sees the reply. A trial is one reply.
With devices of its own protocol a curator needs no objective::

    sampler = LDPTGPSampler(space, LDPSettings(LaplaceReplies(epsilon=1.0, B=0.8, R=0.2)))
    study = optuna.create_study(sampler=sampler, direction="maximize")
    trial = study.ask(space)                              # send trial.params to a device
    study.tell(trial, reply)                              # store what comes back

:class:`LocalObjective` is for a process that is the device (a phone that tunes its own setting, a worker at each
hospital on a shared study) or that simulates many. That process is trusted with the value; the storage, the sampler,
the logs and every other process are not.

Guarantee: each reply is epsilon-LDP for any two values of its user (clamped, then discrete Laplace noise); a user's
replies add up, and a :class:`dptune.local.UserLedger` refuses those past the user's cap.

The samplers see what the storage holds and nothing else: the number, the parameters and the value of every completed
trial. They store nothing. A restart, a second process or a copy reads the same trials and is in the same state.
A trial that failed, was pruned or never ends is a reply that was lost.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, SupportsFloat
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FixedTrial, FrozenTrial, Trial, TrialState

import dptune
from dptune._checks import at_least
from dptune._locks import ForkSafeLock
from dptune._numbers import plain
from dptune.bandits.bandit import LocalBandit
from dptune.bandits.curator import Refinement
from dptune.bandits.replies import agreed_centre, refuse_winning_failure
from dptune.local.randomizer import Randomizer
from dptune.losses.user_function import Function
from dptune.privacy.private import bare
from dptune.space import Value
from dptune_optuna.distributions import given_space, refuse_other_space, to_distributions, to_space
from dptune_optuna.sampler import NumericalSampler
from dptune_optuna.shield import samplers_of, shielded

RANDOMIZER = "dptune:local:"  # begins the names of the study user attributes that say what protects the users
_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity


class LDPSampler(NumericalSampler):
    """Common to the three samplers; use one of them.

    ``trial.value`` must be a privatised reply: told by a user's device (``study.ask``, ``study.tell``), or made by a
    :class:`LocalObjective`. Float and int parameters, with log or step, are searched on a finite set of candidates;
    categorical and conditional ones are drawn independently.

    Args:
        space: name -> Optuna distribution of the parameters to search; default: those of the completed trial with
            the smallest number.
        settings: of the algorithm, above all what is known about the replies.
        candidates: parameters users may be asked to try; default a design on the space.
        count: number of points of that design.
        refinements: when to add candidates around the best one.
        centre: middle of the randomiser's interval; default what the study says of its :class:`LocalObjective`, else 0.
        patience: a running trial counts as a user who is trying its point until so many later trials have begun. A
            reply that comes later still counts.
        seed: of the independent sampler.
        independent_sampler: for parameters outside ``space``; default random.
        warn_independent_sampling: say so when one is used.

    Raises:
        InputError: a setting is out of range; later, ``centre`` or ``settings.replies`` do not go with the randomiser
            that the study states.
    """

    _algorithm: ClassVar[type[LocalBandit]]

    def __init__(
        self,
        space: Mapping[str, BaseDistribution] | None = None,
        settings: dptune.bandits.LDPSettings | None = None,
        *,
        candidates: Sequence[Mapping[str, Value]] | None = None,
        count: int = 128,
        refinements: Sequence[Refinement] = (),
        centre: float | None = None,
        patience: int = 1000,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        super().__init__(
            seed=None if seed is None else at_least("seed", seed, 0),
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
        )
        if not isinstance(settings, dptune.bandits.LDPSettings):
            name = type(self).__name__
            raise dptune.InputError(f"{name} needs settings: {name}(space, LDPSettings(LaplaceReplies(...))).")
        self._space = given_space(space)
        if space is None and candidates is not None:
            raise dptune.InputError("candidates are points of a search space: give space= with them.")
        self._settings, self._centre = settings, plain(centre)
        self._patience = at_least("patience", patience, 0)
        self._options = {"candidates": candidates, "count": count, "refinements": refinements}
        self._begin(self._space or dptune.Space({"x": dptune.Float(0, 1)}), True, self._centre or 0.0)  # refuse early
        self._lock = ForkSafeLock()
        self._followers: WeakKeyDictionary[BaseStorage, dict[int, _Follower]] = WeakKeyDictionary()

    def _begin(self, space: dptune.Space, maximize: bool, centre: float) -> dptune.bandits.LDPRun:
        options: dict[str, Any] = self._options
        return dptune.bandits.LDPRun(
            self._algorithm, space, self._settings, maximize=maximize, centre=centre, **options
        )

    # ---- the run -------------------------------------------------------------------------------------

    def run_of(self, study: optuna.Study) -> dptune.bandits.LDPRun | None:
        """Return the study's run with all replies in storage, or None as long as its search space is not known."""
        with self._lock:
            return self._follow(study).run

    def _follow(self, study: optuna.Study) -> _Follower:
        """Bring the run up to date with the storage."""
        trials = study._storage.get_all_trials(study._study_id, deepcopy=False)  # a pruner must not hide replies
        public = study.direction == StudyDirection.MAXIMIZE, self._centre_of(study)
        followers = self._followers.setdefault(study._storage, {})
        found = followers.get(study._study_id)
        if found is None or found.public != public or not found.goes_on_in(trials):
            found = _Follower(lambda space: self._begin(space, *public), self._space, public)
            followers[study._study_id] = found
        found.read(trials)
        return found

    def _centre_of(self, study: optuna.Study) -> float:
        """Return the middle of the interval in which values lie: the study's, or where it does not say the setting."""
        centres = {self.agree(stated) for stated in randomizers_of(study)}
        if len(centres) > 1:
            raise _another_randomizer(study)
        return centres.pop() if centres else self._centre or 0.0

    def agree(self, stated: Mapping[str, Any]) -> float:
        """Return the middle of a randomiser's interval.

        Raises:
            InputError: its replies are others than the settings are for: another epsilon, half-width or middle.
        """
        return agreed_centre(self._settings.replies, self._centre, stated)

    # ---- Optuna's interface --------------------------------------------------------------------------

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the run's search space; empty until it is known."""
        self._raise_error_if_multi_objective(study)
        run = None if self._space else self.run_of(study)
        space = self._space or (run and run.space)
        return to_distributions(space) if space else {}

    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        with self._lock:
            found = self._follow(study)
            return found.run.ask(found.pending(self._patience)) if found.run else {}

    def _has_space(self, study: optuna.Study) -> bool:
        found = self._followers.get(study._storage, {}).get(study._study_id)
        return found is not None and found.run is not None

    # ---- the user's interface --------------------------------------------------------------------------

    def recommend(self, study: optuna.Study) -> dict[str, Any]:
        """Return the parameters to use: the tried candidate with the best posterior mean, never the best reply.

        Raises:
            InputError: the study has no completed trial yet.
        """
        run = self.run_of(study)
        if run is None:
            raise dptune.InputError("the study has no completed trial yet; there is nothing to recommend.")
        return dict(run.recommend())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_followers": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._followers = WeakKeyDictionary()


class LDPTGPSampler(LDPSampler):
    """LDP-TGP-UCB: each reply cut once, exact Gaussian process. See :class:`LDPSampler`."""

    _algorithm = dptune.bandits.LDPTGP


class LDPATASampler(LDPSampler):
    """LDP-ATA-GP-UCB: Nystroem features, truncation adapted in every round. See :class:`LDPSampler`."""

    _algorithm = dptune.bandits.LDPATA


class LDPMoMASampler(LDPSampler):
    """LDP-MoMA-GP-UCB: every point is proposed ``settings.plays`` times. See :class:`LDPSampler`."""

    _algorithm = dptune.bandits.LDPMoMA


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
        InputError: the function cannot be called, or only one of ledger and user is given.

    Example::

        objective = LocalObjective(satisfaction, LocalRandomizer(1.0, 1.0), ledger=UserLedger(path, cap=2.0), user="me")
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
        if not callable(function):
            raise dptune.InputError(f"the objective must be a function of a trial; got {type(function).__name__}.")
        if (ledger is None) != (user is None):
            raise dptune.InputError("give ledger= and user= together: a ledger charges a user.")
        self._function, self._randomizer, self._ledger, self._user = function, randomizer, ledger, user
        self._warned: set[str] = set()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, trial: Trial) -> float:
        """Charge the user, measure, and return the reply. A retry of the same trial gets the same reply, unpaid.

        Raises:
            CapReached: before the function is called. ``study.optimize(..., catch=CapReached)`` goes on with others.
            PrivacyError: the function used ``trial.report`` or the like.
            InputError: the function did not suggest the parameters that its sampler searches. Without a ledger no reply
                is made; with one its user has been charged before the function was called.
            InputError: before the function is called: the study was begun with another randomiser, or its direction
                makes the randomiser's ``invalid`` the best value.
        """
        self._begin(trial.study)
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
        value = shielded(self._function, trial, _as_it_is)
        spaces = [sampler._space for sampler in samplers_of(trial.study) if isinstance(sampler, LDPSampler)]
        if value is not None and spaces and spaces[0] is not None:  # None: the first trial decides
            refuse_other_space(spaces[0], trial.distributions, trial.params)
        return value

    def try_out(self, parameters: Mapping[str, Any]) -> None:
        """Call the function once outside any study and let its exceptions through, to find bugs.

        Use this on made-up data: inside a study exceptions are swallowed, because they could depend on private data.

        Raises:
            TypeError: the function did not return a number.
        """
        float(self._function(FixedTrial(dict(parameters))))

    def _begin(self, study: optuna.Study) -> None:
        """Write the public settings to the study, so that its reader knows what protects the users."""
        _state_randomizer(study, self._randomizer.describe())
        if not self._randomizer.private and study.study_name not in self._warned:
            _logger.warning(f"The study {study.study_name!r} is NOT PRIVATE: {self._randomizer!r}.")
            self._warned.add(study.study_name)


# ---- what a study says of its randomiser ---------------------------------------------------------------------
# Each randomiser has an attribute of its own, which nobody overwrites: a study that once was NOT PRIVATE says so for
# good, whatever ran at the same time. Where two processes begin a study with different randomisers, at least one of
# them is refused before anything is measured.


def randomizers_of(study: optuna.Study) -> list[Mapping[str, Any]]:
    """Return the settings of the randomisers of the study's replies: none, one, or several of refused attempts."""
    attributes = study._storage.get_study_user_attrs(study._study_id)
    return [value for name, value in sorted(attributes.items()) if name.startswith(RANDOMIZER)]


def _state_randomizer(study: optuna.Study, settings: Mapping[str, Any]) -> None:
    """Write a randomiser's settings to the study.

    Raises:
        InputError: a failed measurement would count as the best value, the study has another randomiser, or its sampler
            has settings for other replies.
    """
    if len(study.directions) != 1:
        raise dptune.InputError("a reply is one value: create the study with one direction.")
    refuse_winning_failure(settings, maximize=study.direction == StudyDirection.MAXIMIZE)
    known = _is_stated(study, settings)
    for sampler in samplers_of(study):
        if isinstance(sampler, LDPSampler):
            sampler.agree(settings)
    if not known:
        text = json.dumps(settings, sort_keys=True)
        study.set_user_attr(RANDOMIZER + hashlib.sha256(text.encode()).hexdigest()[:16], dict(settings))
        _is_stated(study, settings)  # two processes may have begun together


def _is_stated(study: optuna.Study, settings: Mapping[str, Any]) -> bool:
    """Tell whether the study states these settings.

    Raises:
        InputError: it states others.
    """
    stated = randomizers_of(study)
    if any(others != settings for others in stated):
        raise _another_randomizer(study)
    return bool(stated)


def _another_randomizer(study: optuna.Study) -> dptune.InputError:
    return dptune.InputError(
        f"the study {study.study_name!r} was begun with another randomiser; its attributes {RANDOMIZER}... have the "
        "settings. A study has one randomiser: give the same epsilon, bound and invalid, or begin a new study."
    )


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


class _Follower:
    """What a sampler has read of one study: a look costs O(new and unfinished trials).

    Args:
        begin: space -> an empty run.
        space: of the search, or None to take that of a trial.
        public: direction and centre of the run.
    """

    def __init__(
        self,
        begin: Callable[[dptune.Space], dptune.bandits.LDPRun],
        space: dptune.Space | None,
        public: tuple[bool, float],
    ) -> None:
        self._begin, self._first = begin, -1 if space else None  # number of the trial that fixed the space
        self.run, self.public = begin(space) if space else None, public
        self._last_read: FrozenTrial | None = None  # of the finished ones
        self._start_over()

    def _start_over(self) -> None:
        self._next = 0
        self._unfinished: dict[int, FrozenTrial | None] = {}

    def goes_on_in(self, trials: Sequence[FrozenTrial]) -> bool:
        """Tell whether these are trials of the same study: storages give the number of a deleted one to the next."""
        if not trials or trials[-1].number + 1 < self._next:
            return self._next == 0
        if self._last_read is None:
            return True
        number = self._last_read.number
        at = trials[number : number + 1]
        found = at[0] if at and at[0].number == number else next((t for t in trials if t.number == number), None)
        return found is not None and _origin(found) == _origin(self._last_read)

    def read(self, trials: Sequence[FrozenTrial]) -> None:
        """Tell the run what is new."""
        self._find_space(trials)
        if not trials or self.run is None:
            return
        last = trials[-1].number
        self._unfinished.update(dict.fromkeys(range(self._next, last + 1)))
        self._next = max(self._next, last + 1)
        gaps = last != len(trials) - 1  # threads on one database may see a trial later than its successor
        by_number = {t.number: t for t in trials} if gaps else {}
        for number in list(self._unfinished):
            trial = self._unfinished[number] = by_number.get(number) if gaps else trials[number]
            if trial is not None and trial.state.is_finished():
                if trial.state == TrialState.COMPLETE:
                    self.run.tell(number, trial.params, trial.values[0])
                self._last_read = trial
                del self._unfinished[number]  # last: after an interrupt it is told again, which changes nothing

    def pending(self, patience: int) -> list[dict[str, Any]]:
        """Return the parameters that users are trying at the moment."""
        running = (t for t in self._unfinished.values() if t is not None and t.state == TrialState.RUNNING)
        return [t.params for t in running if t.number >= self._next - patience]

    def _find_space(self, trials: Sequence[FrozenTrial]) -> None:
        """The completed trial with the smallest number fixes the space; one that was late changes it."""
        if self._first == -1:
            return
        for trial in trials[: self._first]:
            space = to_space(trial.distributions) if trial.state == TrialState.COMPLETE else None
            if space is not None:
                self._start_over()  # first: after an interrupt all is read again
                self._first, self.run = trial.number, self._begin(space)
                return


def _origin(trial: FrozenTrial) -> tuple[object, ...]:
    """What no two finished trials have in common."""
    return trial._trial_id, trial.datetime_start, trial.datetime_complete
