"""The three LDP algorithms as Tune searchers: a trial is one user's reply. The run is :class:`dptune.LDPRun`.

The searcher reads the run's replies from their file and nothing else; what Tune tells it, twice, late or never, is not
needed. A trial that failed is a reply that was lost.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import dptune
from dptune._checks import at_least, place
from dptune._numbers import plain
from dptune.bandits.bandit import LocalBandit
from dptune.bandits.curator import Refinement
from dptune.bandits.replies import check_randomizer, middle_of
from dptune.local.randomizer import Randomizer
from dptune.losses.user_function import Function
from dptune.space import Value
from dptune_ray.base import RunSearch
from dptune_ray.carried import Carried
from dptune_ray.desk import PROMISE, DeskClient
from dptune_ray.local_trainable import LocalTrainable, User, check_device, check_failure
from dptune_ray.log import TrialLog
from dptune_ray.spaces import nested, rounded, to_space
from dptune_ray.trainable import made_trainable

METRIC = "reply"
_logger = logging.getLogger(__name__)


class LDPSearch(RunSearch):
    """Common to the three searchers; use one of them.

    Uniform and log-uniform floats and integers, quantised or not, are searched on a finite set of candidates;
    ``choice`` and ``sample_from`` are drawn. Tune, its files and this searcher see replies only.

    Args:
        param_space: Tune search space; default that of the Tuner. :meth:`recommend` needs it.
        settings: of the algorithm, above all what is known about the replies.
        replies: path of the file that keeps the replies, on the driver's node.
        name: the run's name in that file. The same name continues the run.
        candidates: parameters by path users may be asked to try; default a design on the space.
        count: number of points of that design.
        refinements: when to add candidates around the best one.
        centre: middle of the randomiser's interval; default that of the run's own, else 0.
        patience: a trial without a reply counts as a user who is trying its point until so many later ones have begun.
        seed: of what is drawn independently.
        metric: the name under which trials report.
        mode: whether small ("min") or large ("max") replies are good; default the Tuner's.

    Raises:
        InputError: a setting is out of range.

    Example::

        search = LDPTGPSearch(space, LDPSettings(LaplaceReplies(1.0, B=0.8, R=0.2)), replies="replies.db")
        trainable = search.trainable(satisfaction, randomizer=LocalRandomizer(1.0, 1.0), ledger=ledger, user="me")
        tuning = tune.TuneConfig(search_alg=search, metric="reply", mode="max", num_samples=2)
        tune.Tuner(trainable, tune_config=tuning, param_space=space).fit()
    """

    _algorithm: ClassVar[type[LocalBandit]]

    def __init__(
        self,
        param_space: Mapping[str, Any] | None = None,
        settings: dptune.LDPSettings | None = None,
        *,
        replies: str | Path,
        name: str = "tune",
        candidates: Sequence[Mapping[str, Value]] | None = None,
        count: int = 128,
        refinements: Sequence[Refinement] = (),
        centre: float | None = None,
        patience: int = 1000,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
    ) -> None:
        super().__init__(name=name, param_space=param_space, metric=metric, mode=mode, seed=seed)
        if not isinstance(settings, dptune.LDPSettings):
            kind = type(self).__name__
            raise dptune.InputError(f"{kind} needs settings: {kind}(space, LDPSettings(LaplaceReplies(...)), ...).")
        patience, centre = at_least("patience", patience, 0), plain(centre)
        if candidates is not None and not self._domains:
            raise dptune.InputError("candidates are points of a search space: give param_space= with them.")
        self._settings, self._patience, self._centre = settings, patience, centre
        self._options = {"candidates": candidates, "count": count, "refinements": refinements}
        self._log = TrialLog(str(Path(place("replies", replies)).resolve()), name)
        self._ledger: dptune.UserLedger | None = None
        self._device: Mapping[str, Any] | None = None  # public settings of the randomiser
        self._client = DeskClient.of(self._log)
        self._handle: Any = None  # the desk lives as long as this is held
        self._trying: dict[str, Mapping[str, Value]] = {}  # trials without a reply, the youngest last
        self._forget_replies()
        self._new_session(to_space(self._domains) or dptune.Space({"x": dptune.Float(0, 1)}))  # refuse early

    # ---- the run -----------------------------------------------------------------------------------

    def _new_session(self, space: dptune.Space) -> dptune.LDPRun:
        options: dict[str, Any] = {**self._options, "centre": self._known_centre()}
        return dptune.LDPRun(self._algorithm, space, self._settings, maximize=self.mode == "max", **options)

    def _known_centre(self) -> float:
        device: Mapping[str, Any] = self._device or self._log.fact(PROMISE) or {}
        check_randomizer(self._settings.replies, device)
        stated = middle_of(device)
        if stated is None or self._centre is None:
            return stated or self._centre or 0.0
        if not math.isclose(stated, self._centre, rel_tol=1e-9, abs_tol=1e-9 * self._settings.replies.B):
            raise dptune.InputError(
                f"centre={self._centre!r}, but the randomiser's interval has the middle {stated!r}. Leave centre= out."
            )
        return stated

    def _forget_replies(self) -> None:
        self._current: dptune.LDPRun | None = None
        self._last = -1  # number of the newest reply the session knows

    def session(self) -> dptune.LDPRun:
        """Return the run with all recorded replies.

        Raises:
            InputError: there is nothing to search.
        """
        if self._current is None:
            space = to_space(self._domains)
            if space is None:
                raise dptune.InputError("the search space has no numerical parameter with more than one value.")
            self._current = self._new_session(space)
        for reply in self._log.since(self._last):
            self._current.tell(reply.number, reply.parameters, reply.value)
            self._trying.pop(reply.trial, None)
            self._last = reply.number
        return self._current

    def _stored_mode(self) -> str | None:
        return self._log.mode()

    def _begin(self) -> None:
        check_failure(self._device or {}, self.mode)
        self._log.agree_on_mode(self.mode)
        self._forget_replies()
        self.session()
        if self._handle is None or not self._client.runs():
            self._handle = self._client.start(self._log, self._ledger)

    def _propose(self, trial: str) -> Mapping[str, Any]:
        session = self.session()
        self._trying = dict(list(self._trying.items())[-self._patience :]) if self._patience else {}
        self._trying[trial] = session.ask(self._trying.values())
        return self._trying[trial]

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial without a reply is a user who does not try any more."""
        self._trying.pop(trial_id, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_current": None, "_last": -1, "_trying": {}}

    # ---- the user's interface --------------------------------------------------------------------------

    def trainable(
        self,
        function: Function,
        *,
        randomizer: Randomizer,
        ledger: dptune.UserLedger | None = None,
        user: User | None = None,
    ) -> type[LocalTrainable]:
        """Make a trainable of a function of a configuration that returns one user's private value.

        The trial's process measures, clamps and makes noisy; only the reply leaves it. Whatever the function raises,
        and what is no number, becomes the randomiser's public ``invalid`` value before the noise.

        Args:
            function: configuration -> the user's value.
            randomizer: of the reply.
            ledger: on the driver's node; charges the user before the function is called, and refuses past the cap.
                Without one nobody counts: every trial must then be another user.
            user: whose device this is, or a function of the configuration that says whom it asks. Needed with a ledger.

        Raises:
            InputError: the function is none, only one of ledger and user is given, or the settings are for replies that
                the randomiser does not make. Later, when mode and run are known: a failure would be the best value, or
                the run was begun with another randomiser.
        """
        if not callable(function):
            raise dptune.InputError(f"the objective must be a function; got {type(function).__name__}.")
        check_device(randomizer, ledger, user)
        check_randomizer(self._settings.replies, randomizer.describe())
        if not randomizer.private:
            _logger.warning(f"The run {self._name!r} is NOT PRIVATE: {randomizer!r}.")
        self._ledger, self._device = ledger, randomizer.describe()
        members = {"desk": self._client, "metric": self.metric, "randomizer": randomizer}
        whose = Carried(user) if callable(user) else user
        return made_trainable(LocalTrainable, function, function=function, run=self._client, user=whose, **members)

    def recommend(self) -> dict[str, Any]:
        """Return the parameters to use: the tried candidate with the best posterior mean, never the best reply.

        Raises:
            InputError: there is no reply yet.
        """
        self._mode = self._stored_mode() or self.mode
        session = self.session()
        if self._last < 0:
            raise dptune.InputError("the run has no reply yet; there is nothing to recommend.")
        return nested({path: rounded(self._domains[path], v) for path, v in session.recommend().items()})


class LDPTGPSearch(LDPSearch):
    """LDP-TGP-UCB: each reply cut once, exact Gaussian process. See :class:`LDPSearch`."""

    _algorithm = dptune.LDPTGP


class LDPATASearch(LDPSearch):
    """LDP-ATA-GP-UCB: Nystroem features, truncation adapted in every round. See :class:`LDPSearch`."""

    _algorithm = dptune.LDPATA


class LDPMoMASearch(LDPSearch):
    """LDP-MoMA-GP-UCB: every point is proposed ``settings.plays`` times. See :class:`LDPSearch`."""

    _algorithm = dptune.LDPMoMA
