"""DP-FTS-DE in Ray Tune: one Tuner per agent. Rounds, messages and accounting are in :mod:`dptune.federated`.

Guarantee: of the server's ledger, zeroing out one agent, for a trusted server; an agent's own trials are not protected.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dptune
from dptune._checks import at_least
from dptune.federated import Participant, Transport
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune_ray.base import RunSearch
from dptune_ray.log import TrialLog
from dptune_ray.spaces import Domains, domains_of, flat, nested, resolve, to_space

METRIC = "value"
CONFIG = "config/"
Vector = npt.NDArray[np.float64]
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentSpace:
    """A Tune search space all of whose parameters are searched."""

    param_space: Mapping[str, Any]
    domains: Domains  # what is to be chosen in it, by path
    space: dptune.Space  # the same as parameters of the unit cube

    @classmethod
    def of(cls, param_space: Mapping[str, Any], settings: FTSSettings) -> AgentSpace:
        """Return the space, if the settings are for it and each of its parameters is searched."""
        domains = domains_of(param_space)
        space = to_space(domains)
        if space is None or set(space) != set(domains):
            raise dptune.InputError(
                "the agents' search space must hold numerical parameters with more than one value, and no others."
            )
        if len(space) != settings.d:
            raise dptune.InputError(f"the settings are for d={settings.d} parameters; the space has {len(space)}.")
        return cls(param_space, domains, space)

    def model(self, settings: FTSSettings) -> FTSModel:
        """Return what all agents on this space share."""
        return FTSModel(settings, domain_of(self.space, settings))

    def config(self, x: Vector) -> dict[str, Any]:
        """Return the configuration, constants left out, at a point x (d,) of the cube."""
        return resolve(self.domains, self.space.decode(x), self.param_space, np.random.default_rng(0))

    def point(self, config: Mapping[str, Any]) -> Vector | None:
        """Return the point (d,) of a configuration, or None if it is outside the space."""
        parameters = {path: value for path, value in flat(config).items() if path in self.space}
        return self.space.encode(parameters) if self.space.contains(parameters) else None


def larger_is_better(mode: str, value: object) -> float | None:
    """Return an agent's y of a reported value, or None if it is not a finite number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if mode == "max" else -float(value)


class DPFTSSearch(RunSearch):
    """One agent of a federation that tunes together through noisy joint vectors.

    Every agent has a Tuner and a searcher of its own, and tunes an ordinary trainable on its own data. After a trial
    the searcher sends one message to the trusted server; before the next it waits for the round's broadcast, no longer
    than the transport's time-out. What the broadcasts reveal about an agent is bounded by the server's ledger; **its
    trials, values and parameters, are not protected**: keep Tune's files, and the file ``trials``, with the agent.

    Args:
        param_space: Tune search space, numerical parameters only; the same for all agents. Default that of the Tuner.
        transport: the way to the server, e.g. :class:`RayTransport`.
        settings: the same for all agents and the server; ``d`` is the number of parameters.
        agent: this agent's number, from 0.
        trials: path of the file that keeps this agent's observations, on its driver's node.
        name: the run's name in that file. The same name continues the run.
        seed: of this agent's own choices; without it an agent that restarts may choose other points.
        metric: the name under which trials report.
        mode: "min" or "max"; default the Tuner's.

    Raises:
        InputError: space, settings and agent do not fit together.
    """

    def __init__(
        self,
        param_space: Mapping[str, Any] | None = None,
        transport: Transport | None = None,
        settings: FTSSettings | None = None,
        *,
        agent: int,
        trials: str | Path,
        name: str | None = None,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
    ) -> None:
        name = f"agent {agent}" if name is None else name
        super().__init__(name=name, param_space=param_space, metric=metric, mode=mode, seed=seed)
        if transport is None or not isinstance(settings, FTSSettings):
            raise dptune.InputError("DPFTSSearch needs the federation's transport= and settings=FTSSettings(...).")
        agent = at_least("agent", agent, 0)
        if agent >= settings.agents:
            raise dptune.InputError(f"agents are numbered 0 to {settings.agents - 1}; got {agent!r}.")
        if self._domains:
            AgentSpace.of(self._param_space, settings)  # refuse early
        self._transport, self._settings, self._agent = transport, settings, agent
        self._log = TrialLog.at("trials", trials, name)
        self._forget()

    def _forget(self) -> None:
        self._told: set[str] = set()  # trials whose end the agent knows
        self._living: tuple[AgentSpace, Participant] | None = None

    # ---- the agent -----------------------------------------------------------------------------------

    def _stored_mode(self) -> str | None:
        mode: str | None = self._log.fact("mode")
        return mode

    def _begin(self) -> None:
        self._log.agree_on_mode(self.mode)
        self._forget()
        self.alive()

    def alive(self) -> tuple[AgentSpace, Participant]:
        """Return the agent, with all its observations."""
        if self._living is None:
            space = AgentSpace.of(self._param_space, self._settings)
            agent = FTSAgent(space.model(self._settings), self._agent, seed=self._seed)
            participant = Participant(agent, self._transport)
            logged = self._log.since(-1)
            pairs = [(space.point(nested(one.parameters)), larger_is_better(self.mode, one.value)) for one in logged]
            participant.restore([(x, y) for x, y in pairs if x is not None and y is not None], asked=len(logged))
            self._told |= {one.trial for one in logged}
            self._living = space, participant
        return self._living

    def join(self) -> None:
        """Send the message of the open round now, as after a restart; waits for nobody.

        Only needed where one thread drives several agents: let all of them join, then go on with their trials.
        """
        _, participant = self.alive()
        if len(self._log.since(-1)) >= self._settings.initial:
            participant.send()

    # ---- Tune's interface --------------------------------------------------------------------------

    def _propose(self, trial: str) -> Mapping[str, Any]:
        space, participant = self.alive()
        return space.space.decode(participant.ask())

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell the agent once, and send its message of the open round; a failed trial sends one, too."""
        try:
            self._learn(trial_id, result or {})
        except Exception as failure:  # noqa: BLE001 - an exception here would mark a good trial failed
            _logger.warning(f"agent {self._agent} could not send its message: {failure!r}")

    def _learn(self, trial: str, result: Mapping[str, Any]) -> None:
        if trial in self._told:
            return
        self._told.add(trial)
        space, participant = self.alive()
        flattened = {key.removeprefix(CONFIG): value for key, value in result.items() if key.startswith(CONFIG)}
        config = nested(flattened)  # as the trial got it
        x, y = space.point(config), larger_is_better(self.mode, result.get(self.metric))
        if x is None or y is None:
            participant.tell((), None)
            return
        self._log.record(trial, flat(config), float(result[self.metric]))
        participant.tell(x, y)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_told": set(), "_living": None}

    # ---- the user's interface --------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        """Return the parameters of this agent's best trial. They depend on its data: they are the agent's.

        Raises:
            InputError: it has no trial with a value yet.
        """
        self._mode = self._stored_mode() or self.mode
        logged = self._log.since(-1)  # finite values
        if not logged:
            raise dptune.InputError("the agent has no trial with a value yet; there is nothing to recommend.")
        best = max(logged, key=lambda one: one.value if self.mode == "max" else -one.value).parameters
        return nested({path: value for path, value in best.items() if path in self._domains})
