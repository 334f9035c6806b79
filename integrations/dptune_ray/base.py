"""The base of all searchers: metric, mode, search space, and a state that is stored elsewhere.

Tune pickles a searcher into ``tuner.pkl`` and restores a state that may be stale or missing. So a searcher holds only
settings and names; it reads its run's state from the run's storage at every call.
"""

from __future__ import annotations

import abc
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import ray
from ray import cloudpickle
from ray.tune.search import Repeater, Searcher
from ray.tune.utils import merge_dicts

import dptune
from dptune._checks import at_least, shown
from dptune_ray.actors import ActorClient
from dptune_ray.spaces import constants, differing, domains_of, leaves, merged, resolve, without


class RunSearch(Searcher, abc.ABC):  # type: ignore[misc]  # Tune has no types
    """A Tune searcher that continues the run of its name."""

    _client: ActorClient  # client of the run's actor, for searchers that start one

    def __init__(
        self, *, name: str, param_space: Mapping[str, Any] | None, metric: str, mode: str | None, seed: int | None
    ) -> None:
        check_mode(mode)
        super().__init__(metric=metric, mode=mode or "min")
        self._name, self._given_mode = name, mode
        self._seed = None if seed is None else at_least("seed", seed, 0)
        self._know(dict(param_space or {}))
        self._tuners: Mapping[str, Any] = {}  # search space, with Tune's placeholders
        self._begun = False
        self._unpaid: str | None = None  # why the experiment ends
        self._handle: Any = None  # keeps the run's actor alive

    def _know(self, param_space: Mapping[str, Any]) -> None:
        self._param_space = param_space
        self._domains = domains_of(param_space)

    # ---- the run -----------------------------------------------------------------------------------

    @abc.abstractmethod
    def _begin(self) -> None:
        """Begin or resume the run; metric, mode and search space are known."""

    @abc.abstractmethod
    def _propose(self, trial: str) -> Mapping[str, Any] | None:
        """Return a trial's searched parameters by path, or None if the run is over; the others are drawn."""

    @abc.abstractmethod
    def _stored_mode(self) -> str | None:
        """Return the run's mode, or None if it has not begun."""

    def _serve(self, kind: type, *args: Any) -> None:
        if self._handle is None or not self._client.runs():
            self._handle = self._client.launch(kind, *args)

    def _refuse_unpaid(self, trial: str, result: Mapping[str, Any], released: float | None) -> None:
        """End the experiment if a trial reports a value without a charge; the next suggestion ends it, too."""
        value = result.get(self.metric)
        if value is None or value != value or value == released:  # NaN: the run had nothing left for the trial
            return
        self._unpaid = (
            f"the trial {trial!r} reported under {self.metric!r} a value that no release paid for: give the Tuner what "
            "search.trainable(...) returns. The experiment ends; the value was not handed on."
        )
        raise dptune.PrivacyError(self._unpaid)

    # ---- Tune's interface --------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take the Tuner's metric, mode and search space, and begin the run.

        Raises:
            InputError: they do not fit the searcher or are not supported; the message names the parameter.
            BudgetExhausted: the run cannot be charged; raised before a trial begins.
        """
        if metric is not None and metric != self.metric:
            raise dptune.InputError(
                f"the trials report {self.metric!r}, not {metric!r}: set TuneConfig(metric={self.metric!r}), or give "
                "the searcher metric=."
            )
        check_mode(mode)
        if mode is not None and mode != (self._given_mode or mode):
            raise dptune.InputError(
                f"the searcher was made with mode={shown(self._given_mode)}, the Tuner with {shown(mode)}."
            )
        self._mode = mode or self._given_mode or "min"
        domains_of(config)
        if names := ", ".join(map(repr, differing(self._param_space, config))):
            raise dptune.InputError(
                f"the search spaces of the searcher and of the Tuner differ in {names}. Give the space to one of them, "
                "or the same to both."
            )
        self._know(merged(self._param_space, config))
        self._tuners = config
        self._unpaid = None
        self._begin()
        self._begun = True
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next configuration, with every key of the search space, or Tune's signal that the run is over.

        Raises:
            InputError: a ``Repeater`` calls, whose copies of a trial would be charged unseen.
        """
        _refuse_repeater(self)
        if self._unpaid is not None:
            raise dptune.PrivacyError(self._unpaid)
        if not self._begun:
            self.set_search_properties(None, self._mode_without_tuner(), {})
        proposed = self._propose(trial_id)
        return str(Searcher.FINISHED) if proposed is None else self._config(trial_id, proposed)

    def _mode_without_tuner(self) -> str:
        """Set the mode if the Tuner has no search space: Tune then does not pass the mode on."""
        if self._given_mode is None:
            raise dptune.InputError(
                "a searcher learns its mode from Tune only if the Tuner has a param_space. Give the searcher "
                'mode="min" or mode="max", or give the search space to the Tuner.'
            )
        return self._given_mode

    def _config(self, trial: str, proposed: Mapping[str, Any]) -> dict[str, Any] | str | None:
        """Return a trial's configuration for Tune, with constants and all keys that the Tuner's space lacks."""
        chosen = resolve(self._domains, proposed, self._param_space, self._generator(trial), self._tuners)
        config: dict[str, Any] = merge_dicts(without(constants(self._param_space), dict(leaves(self._tuners))), chosen)
        return config

    def _generator(self, trial: str) -> np.random.Generator:
        """Return the generator of a trial's drawn values; with a seed it depends only on seed and trial."""
        if self._seed is None:
            return np.random.default_rng()
        return np.random.default_rng([self._seed, *hashlib.sha256(trial.encode()).digest()])

    # ---- saving: the state itself is stored elsewhere----------------------------------------------

    def get_state(self) -> dict[str, Any]:
        return {"name": self._name, "mode": self.mode, "param_space": self._param_space}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume a run of another process; trials may start before the next suggestion."""
        if state["name"] != self._name:
            raise dptune.InputError(f"the saved state is of the run {state['name']!r}, not of {self._name!r}.")
        if not self._domains:  # Tune does not pass the search space again
            self._know(state["param_space"])
        self._mode = self._stored_mode() or state["mode"]
        self._begun = True
        if ray.is_initialized():
            self._begin()

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        self.set_state(cloudpickle.loads(Path(checkpoint_path).read_bytes()))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None}


def _refuse_repeater(search: RunSearch) -> None:
    """Refuse a ``Repeater`` around the searcher: the searcher never sees the identifiers of its copies."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), Repeater):
            raise dptune.InputError(
                f"Repeater({type(search).__name__}(...), ...) would charge every repetition and learn from one in each "
                "group. Nothing was trained or charged. Remove Repeater, or repeat the training inside the function. "
                "With another searcher use PrivateSearcher(Repeater(OptunaSearch(), repeat=3), privatizer, ...)."
            )
        frame = frame.f_back


def check_mode(mode: object, *, known: bool = False) -> None:
    """Refuse an invalid direction; None only if it need not be ``known`` yet."""
    if mode not in ("min", "max") and (known or mode is not None):
        raise dptune.InputError(f'mode must be "min" or "max", for one metric; got {shown(mode)}.')
