"""Local privacy in Optuna: three samplers for the curator, and an objective for a process that is a user's device.

A trial is one reply of a user's device. With devices of its own protocol a curator needs no objective::

    sampler = LDPTGPSampler(LDPSettings(HybridReplies(epsilon=1.0, B=0.8, R=0.2)), space)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    trial = study.ask(space)                              # send trial.params to a device
    study.tell(trial, reply)                              # store what comes back

Guarantee: each reply is epsilon-LDP for any two values of its user, which the randomiser clamps. A user's replies add
    up, and a :class:`dptune.local.UserLedger` refuses those past the user's cap.

The samplers see number, parameters and value of every completed trial and store nothing. So a restart, a second process
or a copy has the same state. A trial that failed, was pruned or never ends is a lost reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune._checks import at_least, plain
from dptune._store import ForkSafeLock
from dptune.local.bandits.bandit import LocalBandit
from dptune.local.bandits.replies import agreed_centre
from dptune.space import Value
from dptune_optuna.spaces import Distributions, SpaceSampler, given_space, to_space

_OTHERS = "A local search takes numbers only. Leave all else out of space=: it is drawn at random, with a warning."
RANDOMIZER = "dptune:local:"  # prefix of the study's user attributes about the users' protection


class LDPSampler(SpaceSampler):
    """Common to the three samplers; use one of them.

    ``trial.value`` must be a privatised reply: sent by a user's device (``study.ask``, ``study.tell``), or made by a
    :class:`LocalObjective`. Float and int parameters, with log or step, are searched on a finite set of candidates;
    categorical and conditional ones are drawn independently.

    Args:
        space: name -> Optuna distribution; default: those of the completed trial with the smallest number.
        settings: of the algorithm, above all what is known about the replies.
        candidates, count: see :class:`dptune.local.LDPRun`.
        centre: middle of the randomiser's interval; default what the study says of its :class:`LocalObjective`, else 0.
        patience: a running trial counts as a user who is trying its point until so many later trials have begun. A
            reply that comes later still counts.
        seed: of the independent sampler.

    Raises:
        InputError: a setting is out of range; later, ``centre`` or ``settings.replies`` do not go with the randomiser
            that the study states.
    """

    _algorithm: ClassVar[type[LocalBandit]]
    _categories = ""

    def __init__(
        self,
        settings: dptune.local.LDPSettings,
        space: Mapping[str, BaseDistribution] | None = None,
        *,
        candidates: Sequence[Mapping[str, Value]] | None = None,
        count: int = 128,
        centre: float | None = None,
        patience: int = 1000,
        seed: int | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        super().__init__(seed=seed, warn_independent_sampling=warn_independent_sampling)
        if not isinstance(settings, dptune.local.LDPSettings):
            name = type(self).__name__
            raise dptune.InputError(f"{name} needs settings: {name}(LDPSettings(HybridReplies(...)), space).")
        self.space = given_space(space, remedy=_OTHERS)
        if space is None and candidates is not None:
            raise dptune.InputError("candidates are points of a search space: give space= with them.")
        self._settings = settings
        self._centre = plain(centre)
        self._patience = at_least("patience", patience, 0)
        self._options: dict[str, Any] = {"candidates": candidates, "count": count}
        self._begin(self.space or dptune.Space({"x": dptune.Float(0, 1)}), True, self._centre or 0.0)  # refuse early
        self._lock = ForkSafeLock()
        self._replies: WeakKeyDictionary[BaseStorage, dict[int, _Replies]] = WeakKeyDictionary()

    def _begin(self, space: dptune.Space, maximize: bool, centre: float) -> dptune.local.LDPRun:
        settings = {"maximize": maximize, "centre": centre, **self._options}
        return dptune.local.LDPRun(self._algorithm, space, self._settings, **settings)

    def run_of(self, study: optuna.Study) -> dptune.local.LDPRun | None:
        """Return the study's run with all replies in storage, or None as long as its search space is not known."""
        with self._lock:
            return self._follow(study).run

    def _follow(self, study: optuna.Study) -> _Replies:
        trials = study._storage.get_all_trials(study._study_id, deepcopy=False)  # a pruner must not hide replies
        maximize = study.direction == StudyDirection.MAXIMIZE
        centre = self._centre_of(study)
        began = [(first._trial_id, first.datetime_start) for first in trials[:1]]
        followers = self._replies.setdefault(study._storage, {})
        of = (maximize, centre, began)
        replies = followers.get(study._study_id)
        if replies is None or replies.of != of:  # storages reuse the number of a deleted study
            replies = _Replies(lambda space: self._begin(space, maximize, centre), self.space, of)
            followers[study._study_id] = replies
        replies.read(trials)
        return replies

    def _centre_of(self, study: optuna.Study) -> float:
        """Return the middle of the values' interval: the study's, or else the setting."""
        centres = {self.agree(stated) for stated in randomizers_of(study)}
        if len(centres) > 1:
            raise another_randomizer(study)
        return centres.pop() if centres else self._centre or 0.0

    def agree(self, stated: Mapping[str, Any]) -> float:
        """Return the middle of a randomiser's interval; refuse a randomiser that contradicts the settings."""
        return agreed_centre(self._settings.replies, self._centre, stated)

    def _space_of(self, study: optuna.Study) -> dptune.Space | None:
        if self.space is not None:
            return self.space
        run = self.run_of(study)
        return None if run is None else run.space

    def _propose(self, study: optuna.Study, number: int, suggested: Distributions) -> Mapping[str, Value]:
        with self._lock:
            replies = self._follow(study)
            return replies.run.ask(replies.pending(self._patience)) if replies.run else {}

    def _is_fixed(self, study: optuna.Study) -> bool:
        replies = self._replies.get(study._storage, {}).get(study._study_id)
        return replies is not None and replies.run is not None

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
        return {**self.__dict__, "_replies": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._replies = WeakKeyDictionary()


class LDPTGPSampler(LDPSampler):
    """LDP-TGP-UCB: each reply cut once, exact Gaussian process. See :class:`LDPSampler`."""

    _algorithm = dptune.local.LDPTGP


class LDPATASampler(LDPSampler):
    """LDP-ATA-GP-UCB: Nystroem features, truncation adapted in every round. See :class:`LDPSampler`."""

    _algorithm = dptune.local.LDPATA


class LDPMoMASampler(LDPSampler):
    """LDP-MoMA-GP-UCB: every point is proposed ``settings.plays`` times. See :class:`LDPSampler`."""

    _algorithm = dptune.local.LDPMoMA


class _Replies:
    """A sampler's replies from the study ``of``; reading costs O(new and unfinished trials)."""

    def __init__(
        self, begin: Callable[[dptune.Space], dptune.local.LDPRun], space: dptune.Space | None, of: tuple[Any, ...]
    ) -> None:
        self._begin = begin
        self._first = -1 if space else None  # number of the trial that fixed the space
        self.run = begin(space) if space else None
        self.of = of
        self._start_over()

    def _start_over(self) -> None:
        self._next = 0
        self._unfinished: dict[int, FrozenTrial | None] = {}

    def read(self, trials: Sequence[FrozenTrial]) -> None:
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
                del self._unfinished[number]  # last: after an interrupt the reply is added again, which changes nothing

    def pending(self, patience: int) -> list[dict[str, Any]]:
        running = (t for t in self._unfinished.values() if t is not None and t.state == TrialState.RUNNING)
        return [t.params for t in running if t.number >= self._next - patience]

    def _find_space(self, trials: Sequence[FrozenTrial]) -> None:
        """Read the space from the completed trial with the smallest number; a late one changes it."""
        if self._first == -1:
            return
        for trial in trials[: self._first]:
            space = to_space(trial.distributions) if trial.state == TrialState.COMPLETE else None
            if space is not None:
                self._start_over()  # first: after an interrupt everything is read again
                self._first = trial.number
                self.run = self._begin(space)
                return


def randomizers_of(study: optuna.Study) -> list[Mapping[str, Any]]:
    """Return the settings of the study's randomisers: none, one, or several after refused attempts."""
    attributes = study._storage.get_study_user_attrs(study._study_id)
    return [value for name, value in sorted(attributes.items()) if name.startswith(RANDOMIZER)]


def another_randomizer(study: optuna.Study) -> dptune.InputError:
    """Return the error for a second randomiser."""
    return dptune.InputError(
        f"the study {study.study_name!r} was started with another randomiser; its attributes {RANDOMIZER}... have the "
        "settings. A study has one randomiser: give the same epsilon, bound and invalid, or begin a new study."
    )
