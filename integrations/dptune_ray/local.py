"""The three LDP algorithms as Tune searchers: a trial is one user's locally private reply.

The run is :class:`dptune.local.LDPRun`. The searcher reads only the replies from their file and does not need Tune's
notifications, which may be repeated, late or missing. A failed trial is a lost reply.

Guarantee: a reply is epsilon-LDP for any two values of a user; the trial's process is the user's device.
"""

from __future__ import annotations

import copy
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import dptune
from dptune._checks import at_least, real, shown, users_function
from dptune.local.bandits.bandit import LocalBandit
from dptune.local.bandits.replies import agreed_centre, check_randomizer, refuse_winning_failure
from dptune.local.randomizer import Randomizer
from dptune.losses.user_function import Function
from dptune.space import Value
from dptune_ray.actors import ActorClient
from dptune_ray.base import RunSearch
from dptune_ray.collector import DEVICE, Collector, ReplyRequest
from dptune_ray.log import TrialLog
from dptune_ray.spaces import flat, nested, rounded, to_space
from dptune_ray.worker import PickledFunction, WorkerTrial, called_in_worker, made_trainable

METRIC = "reply"
User = str | Callable[[Mapping[str, Any]], str]
_logger = logging.getLogger(__name__)


class LocalTrainable(WorkerTrial):
    """A trial that makes one user's reply; :meth:`LDPSearch.trainable` makes a subclass."""

    collector: ClassVar[ActorClient]
    randomizer: ClassVar[Randomizer]
    user: ClassVar[str | PickledFunction | None]

    def step(self) -> dict[str, Any]:
        """Charge the user, measure, randomise here, and report the reply. A repetition gets the recorded reply.

        Raises:
            CapReached: before the function is called, or before a second reply of the trial is sent.
        """
        kind = type(self)
        mine = partial(copy.deepcopy, dict(self.config))  # a copy, as Tune writes the original to every result
        who = kind.user(mine()) if isinstance(kind.user, PickledFunction) else kind.user
        ask = ReplyRequest.of(self.trial_id, flat(self.config), who, kind.randomizer)
        reply = self.collector.call(Collector.charge, ask)
        if reply is None:
            value = called_in_worker(lambda config: float(kind.function(config)), mine(), float)
            made = kind.randomizer.randomize(value)
            draw = secrets.token_hex(16)
            entry = self.collector.call(Collector.announce, ask, draw)
            reply = self.collector.call(Collector.record, ask, draw, made) if entry is None else entry
        return {self.metric: reply, "done": True}

    @classmethod
    def try_out(cls, config: Mapping[str, Any]) -> None:
        """Call the function once in this process and let its exceptions through, to find bugs.

        Use this on made-up data: in a trial exceptions are swallowed, because they could depend on private data.
        """
        float(cls.function(copy.deepcopy(dict(config))))


class LDPSearch(RunSearch):
    """Common to the three searchers; use one of them.

    Uniform and log-uniform floats and integers, quantised or not, are searched on a finite set of candidates;
    ``choice`` and ``sample_from`` are drawn. Tune, its files and this searcher see replies only.

    Args:
        settings: of the algorithm, above all what is known about the replies.
        param_space: Tune search space; default that of the Tuner. :meth:`recommend` needs it.
        replies: path of the file that keeps the replies, on the driver's node.
        name: the run's name in that file. The same name continues the run.
        candidates: parameters by path users may be asked to try; default a design on the space.
        count: number of points of that design.
        centre: middle of the randomiser's interval; default that of the run's own, else 0.
        patience: a trial without a reply counts as a user who is trying its point until so many later ones have begun.
        seed: of what is drawn independently.
        metric: the name under which trials report.
        mode: whether small ("min") or large ("max") replies are good; default the Tuner's.
    """

    _algorithm: ClassVar[type[LocalBandit]]

    def __init__(
        self,
        settings: dptune.local.LDPSettings,
        param_space: Mapping[str, Any] | None = None,
        *,
        replies: str | Path,
        name: str = "tune",
        candidates: Sequence[Mapping[str, Value]] | None = None,
        count: int = 128,
        centre: float | None = None,
        patience: int = 1000,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
    ) -> None:
        super().__init__(name=name, param_space=param_space, metric=metric, mode=mode, seed=seed)
        if not isinstance(settings, dptune.local.LDPSettings):
            kind = type(self).__name__
            raise dptune.InputError(f"{kind} needs settings: {kind}(LDPSettings(HybridReplies(...)), space, ...).")
        if centre is not None and real(centre) is None:
            raise dptune.InputError(f"centre must be a number, finite; got {shown(centre)}.")
        if candidates is not None and not self._domains:
            raise dptune.InputError("candidates are points of a search space: give param_space= with them.")
        self._settings = settings
        self._centre = centre
        self._patience = at_least("patience", patience, 0)
        self._options: dict[str, Any] = {"candidates": candidates, "count": count}
        self._log = TrialLog.at("replies", replies, name)
        self._ledger: dptune.local.UserLedger | None = None
        self._device: Mapping[str, Any] | None = None  # public settings of the randomiser
        self._client = ActorClient.of("collector", self._log)
        self._forget()
        self._new_run(to_space(self._domains) or dptune.Space({"x": dptune.Float(0, 1)}))  # refuse early

    # ---- the run -----------------------------------------------------------------------------------

    def _new_run(self, space: dptune.Space) -> dptune.local.LDPRun:
        centre = agreed_centre(self._settings.replies, self._centre, self._device or self._log.fact(DEVICE) or {})
        maximize = self.mode == "max"
        return dptune.local.LDPRun(
            self._algorithm, space, self._settings, maximize=maximize, centre=centre, **self._options
        )

    def _forget(self) -> None:
        self._current: dptune.local.LDPRun | None = None
        self._last = -1  # number of the newest reply that the run knows
        self._trying: dict[str, Mapping[str, Value]] = {}  # trials without a reply, the youngest last

    def run(self) -> dptune.local.LDPRun:
        """Return the run with all recorded replies."""
        if self._current is None:
            space = to_space(self._domains)
            if space is None:
                raise dptune.InputError("the search space has no numerical parameter with more than one value.")
            self._current = self._new_run(space)
        for reply in self._log.since(self._last):
            self._current.tell(reply.number, reply.parameters, reply.value)
            self._trying.pop(reply.trial, None)
            self._last = reply.number
        return self._current

    def _stored_mode(self) -> str | None:
        return self._log.mode

    def _begin(self) -> None:
        refuse_winning_failure(self._device or {}, maximize=self.mode == "max")
        self._log.agree_on_mode(self.mode)
        self._forget()
        self.run()
        self._serve(Collector, self._log, self._ledger)
        self._client.call(Collector.begin, self._log, repr(self._ledger))

    def _propose(self, trial: str) -> Mapping[str, Any]:
        run = self.run()
        self._trying = dict(list(self._trying.items())[-self._patience :]) if self._patience else {}
        self._trying[trial] = run.ask(self._trying.values())
        return self._trying[trial]

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """End the experiment if the value is not the trial's reply."""
        entry = self._log.find(trial_id)
        self._refuse_unpaid(trial_id, result, None if entry is None else entry.value)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """End the experiment likewise. A trial without a reply is a user who no longer tries."""
        self._trying.pop(trial_id, None)
        if result:
            self.on_trial_result(trial_id, result)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_current": None, "_last": -1, "_trying": {}}

    # ---- the user's interface --------------------------------------------------------------------------

    def trainable(
        self,
        function: Function,
        *,
        randomizer: Randomizer,
        ledger: dptune.local.UserLedger | None = None,
        user: User | None = None,
        silent: bool = True,
    ) -> type[LocalTrainable]:
        """Make a trainable of a function: configuration -> one user's private value.

        The trial's process measures, clamps and makes noisy; only the reply leaves it. Whatever the function raises,
        and what is not a number, becomes the randomiser's public ``invalid`` value before the noise.

        Args:
            function: measures.
            randomizer: of the reply.
            ledger: on the driver's node; charges the user before the function is called, and refuses past the cap.
                Without one nobody counts: every trial must then be another user.
            user: whose device this is, or a function of the configuration that says whom it asks. Needed with a ledger.
            silent: swallow what the worker prints. False: you say that whatever the function prints is public.

        Raises:
            InputError: ``function`` is not one, only one of ledger and user is given, or the settings are for replies
                that the randomiser does not make. Later, when mode and run are known: a failure would be the best
                value, or the run was started with another randomiser.
        """
        function = users_function("the objective", function)
        if not (hasattr(randomizer, "randomize") and hasattr(randomizer, "describe")):
            raise dptune.InputError("give randomizer=HybridRandomizer(...), which makes the reply private there.")
        if (ledger is None) != (user is None):
            raise dptune.InputError("give ledger= and user= together: a ledger charges a user.")
        check_randomizer(self._settings.replies, randomizer.describe())
        if not randomizer.private:
            _logger.warning(f"The run {self._name!r} is NOT PRIVATE: {randomizer!r}.")
        self._ledger = ledger
        self._device = randomizer.describe()
        whose = PickledFunction(user) if callable(user) else user
        members = {"collector": self._client, "metric": self.metric, "randomizer": randomizer, "user": whose}
        return made_trainable(LocalTrainable, function, function, self._client, silent=silent, **members)

    def recommend(self) -> dict[str, Any]:
        """Return the parameters to use: the tried candidate with the best posterior mean, never the best reply.

        Raises:
            InputError: there is no reply yet.
        """
        self._mode = self._stored_mode() or self.mode
        run = self.run()
        if self._last < 0:
            raise dptune.InputError("the run has no reply yet; there is nothing to recommend.")
        return nested({path: rounded(self._domains[path], v) for path, v in run.recommend().items()})


class LDPTGPSearch(LDPSearch):
    """LDP-TGP-UCB: each reply cut once, exact Gaussian process. See :class:`LDPSearch`."""

    _algorithm = dptune.local.LDPTGP


class LDPATASearch(LDPSearch):
    """LDP-ATA-GP-UCB: Nystroem features, truncation adapted in every round. See :class:`LDPSearch`."""

    _algorithm = dptune.local.LDPATA


class LDPMoMASearch(LDPSearch):
    """LDP-MoMA-GP-UCB: every point is proposed ``settings.plays`` times. See :class:`LDPSearch`."""

    _algorithm = dptune.local.LDPMoMA
