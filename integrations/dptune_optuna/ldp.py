"""The three LDP algorithms as Optuna samplers: a trial is one user's reply. The run is :class:`dptune.LDPRun`.

The samplers see what the storage holds and nothing else: the number, the parameters and the value of every completed
trial. They store nothing. A restart, a second process or a copy reads the same trials and is in the same state.
A trial that failed, was pruned or never ends is a reply that was lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune._checks import at_least
from dptune._locks import ForkSafeLock
from dptune._numbers import plain
from dptune.bandits.bandit import LocalBandit
from dptune.bandits.curator import Refinement
from dptune.bandits.replies import check_randomizer, middle_of
from dptune.space import Value
from dptune_optuna.distributions import to_distributions, to_space
from dptune_optuna.numerical import NumericalSampler
from dptune_optuna.promise import promises, stated_centre


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
        settings: dptune.LDPSettings | None = None,
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
        if not isinstance(settings, dptune.LDPSettings):
            name = type(self).__name__
            raise dptune.InputError(f"{name} needs settings: {name}(space, LDPSettings(LaplaceReplies(...))).")
        self._space = None if space is None else to_space(space)
        if space is not None and self._space is None:
            raise dptune.InputError("space has no float or int parameter with more than one value to search.")
        if space is None and candidates is not None:
            raise dptune.InputError("candidates are points of a search space: give space= with them.")
        patience, centre = at_least("patience", patience, 0), plain(centre)
        self._settings, self._patience, self._centre = settings, patience, centre
        self._options = {"candidates": candidates, "count": count, "refinements": refinements}
        self._begin(self._space or dptune.Space({"x": dptune.Float(0, 1)}), True, centre or 0.0)  # refuse early
        self._lock = ForkSafeLock()
        self._runs: WeakKeyDictionary[BaseStorage, dict[int, _Run]] = WeakKeyDictionary()

    def _begin(self, space: dptune.Space, maximize: bool, centre: float) -> dptune.LDPRun:
        options: dict[str, Any] = self._options
        return dptune.LDPRun(self._algorithm, space, self._settings, maximize=maximize, centre=centre, **options)

    # ---- the run -------------------------------------------------------------------------------------

    def session(self, study: optuna.Study) -> dptune.LDPRun | None:
        """Return the study's run with all replies in storage, or None as long as its search space is not known."""
        with self._lock:
            return self._follow(study).session

    def _follow(self, study: optuna.Study) -> _Run:
        """Bring the run up to date with the storage."""
        trials = study._storage.get_all_trials(study._study_id, deepcopy=False)  # a pruner must not hide replies
        public = study.direction == StudyDirection.MAXIMIZE, self._centre_of(study)
        runs = self._runs.setdefault(study._storage, {})
        run = runs.get(study._study_id)
        if run is None or run.public != public or not run.goes_on_in(trials):
            run = runs[study._study_id] = _Run(lambda space: self._begin(space, *public), self._space, public)
        run.read(trials)
        return run

    def _centre_of(self, study: optuna.Study) -> float:
        """Return the middle of the interval in which values lie: the study's, or where it does not say the setting."""
        stated = promises(study)
        middle = stated_centre(study, stated)
        for settings in stated:
            self.check_randomizer(settings)
        return middle or self._centre or 0.0

    def check_randomizer(self, settings: Mapping[str, Any]) -> None:
        """Refuse a randomiser that makes other replies than the settings say.

        Raises:
            InputError: it has another epsilon, half-width or middle; says which.
        """
        check_randomizer(self._settings.replies, settings)
        middle = middle_of(settings)
        if middle is None or self._centre is None:
            return
        if not math.isclose(middle, self._centre, rel_tol=1e-9, abs_tol=1e-9 * self._settings.replies.B):
            raise dptune.InputError(
                f"centre={self._centre!r}, but the study's randomiser has an interval with the middle {middle!r}. "
                "Leave centre= out, and it is read from the study."
            )

    # ---- Optuna's interface --------------------------------------------------------------------------

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the run's search space; empty until it is known."""
        self._raise_error_if_multi_objective(study)
        session = None if self._space else self.session(study)
        space = self._space or (session and session.space)
        return to_distributions(space) if space else {}

    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        with self._lock:
            run = self._follow(study)
            return run.session.ask(run.pending(self._patience)) if run.session else {}

    def _has_space(self, study: optuna.Study) -> bool:
        runs = self._runs.get(study._storage, {})
        return study._study_id in runs and runs[study._study_id].session is not None

    # ---- the user's interface --------------------------------------------------------------------------

    def recommend(self, study: optuna.Study) -> dict[str, Any]:
        """Return the parameters to use: the tried candidate with the best posterior mean, never the best reply.

        Raises:
            InputError: the study has no completed trial yet.
        """
        session = self.session(study)
        if session is None:
            raise dptune.InputError("the study has no completed trial yet; there is nothing to recommend.")
        return dict(session.recommend())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._runs = WeakKeyDictionary()


class LDPTGPSampler(LDPSampler):
    """LDP-TGP-UCB: each reply cut once, exact Gaussian process. See :class:`LDPSampler`."""

    _algorithm = dptune.LDPTGP


class LDPATASampler(LDPSampler):
    """LDP-ATA-GP-UCB: Nystroem features, truncation adapted in every round. See :class:`LDPSampler`."""

    _algorithm = dptune.LDPATA


class LDPMoMASampler(LDPSampler):
    """LDP-MoMA-GP-UCB: every point is proposed ``settings.plays`` times. See :class:`LDPSampler`."""

    _algorithm = dptune.LDPMoMA


class _Run:
    """What a sampler has read of one study: a look costs O(new and unfinished trials).

    Args:
        begin: space -> an empty session.
        space: of the search, or None to take that of a trial.
        public: direction and centre of the session.
    """

    def __init__(
        self,
        begin: Callable[[dptune.Space], dptune.LDPRun],
        space: dptune.Space | None,
        public: tuple[bool, float],
    ) -> None:
        self._begin, self._first = begin, -1 if space else None  # number of the trial that fixed the space
        self.session, self.public = begin(space) if space else None, public
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
        """Tell the session what is new."""
        self._find_space(trials)
        if not trials or self.session is None:
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
                    self.session.tell(number, trial.params, trial.values[0])
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
                self._first, self.session = trial.number, self._begin(space)
                return


def _origin(trial: FrozenTrial) -> tuple[object, ...]:
    """What no two finished trials have in common."""
    return trial._trial_id, trial.datetime_start, trial.datetime_complete
