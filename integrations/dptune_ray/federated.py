"""DP-FTS-DE in Ray: a Tuner per agent, or many agents on a few actors. Rounds are in :mod:`dptune.federated`.

A host drives its agents in one thread, round by round, and stores nothing. Ray restarts a lost host, on another node if
necessary. The new host repeats its agents' initial points and released rounds, whose broadcasts the server replays.
Choices depend only on (seed, agent, round) and observations, so with a deterministic objective the agents are the same
as before. No message is sent for a released round, and nothing is charged again.

Guarantee: the server's ledger protects against zeroing out one agent, for a trusted server. An agent's own trials are
    not protected.
"""

from __future__ import annotations

import copy
import logging
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

import dptune
from dptune._checks import at_least, shown, whole
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import Participant, Transport, larger_is_better
from dptune_ray.actors import answer_of, start
from dptune_ray.base import RunSearch, check_mode
from dptune_ray.log import TrialLog
from dptune_ray.spaces import Domains, domains_of, flat, nested, resolve, to_space
from dptune_ray.worker import PickledFunction, called_in_worker, prepare_this_process

METRIC = "value"
CONFIG = "config/"
Vector = npt.NDArray[np.float64]
RESTARTS = 10  # restarts of one host: an objective may kill its process every time
Objective = Callable[[int, dict[str, Any]], float]
Best = tuple[dict[str, Any], float]
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentSpace:
    """A Tune search space for a federation, all of whose parameters are searched."""

    param_space: Mapping[str, Any]
    settings: FTSSettings
    domains: Domains  # the parameters to choose, by path
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
        return cls(param_space, settings, domains, space)

    def participants(self, agents: Iterable[int], transport: Transport, seed: int | None) -> list[Participant]:
        """Return agents that have no observations yet; the server must have the same settings."""
        model = FTSModel(self.settings, domain_of(self.space, self.settings))
        return [Participant(FTSAgent(model, agent, seed=seed), transport) for agent in agents]

    def config(self, x: Vector) -> dict[str, Any]:
        """Return the configuration, constants left out, at a point x (d,) of the cube."""
        return resolve(self.domains, self.space.decode(x), self.param_space, np.random.default_rng(0))

    def point(self, config: Mapping[str, Any]) -> Vector | None:
        """Return the point (d,) of a configuration, or None if it is outside the space."""
        parameters = {path: value for path, value in flat(config).items() if path in self.space}
        return self.space.encode(parameters) if self.space.contains(parameters) else None


class DPFTSSearch(RunSearch):
    """One agent of a federation that tunes together through noisy joint vectors.

    Every agent has a Tuner and a searcher of its own, and tunes an ordinary trainable on its own data. After a trial
    the searcher sends one message to the trusted server; before the next it waits for the round's broadcast, no longer
    than the transport's time-out. The server's ledger bounds what the broadcasts reveal about an agent.
    **Its trials, values and parameters, are not protected**: keep Tune's files, and the file ``trials``, with the
    agent.

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
        transport: Transport,
        settings: FTSSettings,
        param_space: Mapping[str, Any] | None = None,
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
        if not isinstance(settings, FTSSettings):
            raise dptune.InputError(f"settings must be FTSSettings; got {type(settings).__name__}.")
        agent = at_least("agent", agent, 0)
        if agent >= settings.agents:
            raise dptune.InputError(f"agents are numbered 0 to {settings.agents - 1}; got {shown(agent)}.")
        if self._domains:
            AgentSpace.of(self._param_space, settings)  # refuse early
        self._transport, self._settings, self._agent = transport, settings, agent
        self._log = TrialLog.at("trials", trials, name)
        self._forget()

    def _forget(self) -> None:
        self._told: set[str] = set()  # finished trials that the agent knows
        self._living: tuple[AgentSpace, Participant] | None = None

    # ---- the agent -----------------------------------------------------------------------------------

    def _stored_mode(self) -> str | None:
        return self._log.mode

    def _begin(self) -> None:
        self._log.agree_on_mode(self.mode)
        self._forget()
        self.alive()

    def alive(self) -> tuple[AgentSpace, Participant]:
        """Return the agent, with all its observations."""
        if self._living is None:
            space = AgentSpace.of(self._param_space, self._settings)
            (participant,) = space.participants([self._agent], self._transport, self._seed)
            logged = self._log.since(-1)
            larger = self.mode == "max"
            pairs = [
                (space.point(nested(one.parameters)), larger_is_better(one.value, maximize=larger)) for one in logged
            ]
            participant.restore([(x, y) for x, y in pairs if x is not None and y is not None], asked=len(logged))
            self._told |= {one.trial for one in logged}
            self._living = space, participant
        return self._living

    # ---- Tune's interface --------------------------------------------------------------------------

    def _propose(self, trial: str) -> Mapping[str, Any]:
        space, participant = self.alive()
        return space.space.decode(participant.ask())

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell the agent once, and send its message of the open round; a failed trial sends one, too."""
        try:
            self._learn(trial_id, result or {})
        except Exception as failure:  # noqa: BLE001 - an exception here would mark a good trial failed
            _logger.warning(f"agent {self._agent} could not send its message: {type(failure).__name__}")

    def _learn(self, trial: str, result: Mapping[str, Any]) -> None:
        if trial in self._told:
            return
        self._told.add(trial)
        space, participant = self.alive()
        flattened = {key.removeprefix(CONFIG): value for key, value in result.items() if key.startswith(CONFIG)}
        config = nested(flattened)  # the trial's configuration
        x = space.point(config)
        y = larger_is_better(result.get(self.metric), maximize=self.mode == "max")
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


@dataclass
class Host:
    """A group of agents with the attributes of :class:`Federation`; it does not use Ray."""

    objective: PickledFunction
    space: AgentSpace
    transport: Transport
    numbers: tuple[int, ...]  # numbers of its agents
    seed: int
    mode: str
    silent: bool  # whether to discard this process's output

    def __post_init__(self) -> None:
        prepare_this_process(silent=self.silent)
        self.agents: list[Participant] = []
        self._done = self._settled = 0  # points so far; points of rounds released before the last start
        self._best: dict[int, tuple[float, Best]] = {}  # agent -> y, and where

    def advance(self, points: int) -> int:
        """Let every agent evaluate until it has ``points`` points; return that number. Repeated calls are safe."""
        objective = self.objective.load()
        if not self.agents:
            self.agents = self.space.participants(self.numbers, self.transport, self.seed)
            self._settled = self.space.settings.initial + self.transport.open_round()
        for k in range(self._done, points):
            for one in self.agents:
                self._evaluate(objective, one, k)
            self._done += 1
            if self._done == self._settled:  # nothing was sent so far; from now on every agent sends
                for one in self.agents:
                    one.restore((), asked=self._done)
                    one.send()
        return self._done

    def _point(self, one: Participant, k: int) -> Vector:
        initial = self.space.settings.initial
        if k >= self._settled:
            return one.ask()
        if k < initial:
            return one.agent.initial_point(k)
        return one.agent.ask(k - initial, self.transport.fetch(k - initial))

    def _evaluate(self, objective: Objective, one: Participant, k: int) -> None:
        agent = one.agent.agent
        config = self.space.config(self._point(one, k))
        value = called_in_worker(lambda inputs: float(objective(agent, inputs)), copy.deepcopy(config), float)
        y = larger_is_better(value, maximize=self.mode == "max")
        x = self.space.point(config)
        if value is not None and y is not None and y > self._best.get(agent, (-math.inf,))[0]:
            self._best[agent] = y, (config, value)
        score = None if x is None else y
        if k >= self._settled:
            one.tell(() if x is None else x, score)
        elif x is not None and score is not None:
            one.agent.tell(x, score)

    def best(self, points: int) -> dict[int, Best]:
        """Return each agent's best configuration of ``points`` and its value, which are not protected."""
        self.advance(points)  # a host that was lost meanwhile has no state
        return {agent: best for agent, (_, best) in self._best.items()}


class Federation:
    """The agents of a federation, grouped on a few actors.

    A host that is lost, or whose node is, is started elsewhere and repeats its agents' points. If that takes less than
    the transport's time-out, its agents' messages are in every round. It costs no privacy in any case. A host that
    dies more than ten times is given up, unless ``options`` say otherwise.

    Args:
        objective: (agent, configuration) -> the agent's value; loads the agent's data where it runs. Deterministic, if
            a lost host is to have the same agents as before. An evaluation that raises counts as failed.
        param_space: Tune search space, numerical parameters only.
        transport: the way to the server, e.g. :class:`RayTransport`.
        settings: the same for all agents and the server.
        hosts: number of actors.
        mode: whether small ("min") or large ("max") values are good.
        seed: of the agents' choices; default drawn once for the life of this object.
        options: of the actors, e.g. ``{"num_cpus": 0.5}``; default one CPU each.
        silent: swallow what the hosts print. False: you say that whatever the objective prints is public.

    Raises:
        InputError: space and settings do not fit together, or there are no hosts.
    """

    def __init__(
        self,
        objective: Objective,
        param_space: Mapping[str, Any],
        transport: Transport,
        settings: FTSSettings,
        *,
        hosts: int,
        mode: str,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        silent: bool = True,
    ) -> None:
        if not 1 <= (whole(hosts) or 0) <= settings.agents:
            raise dptune.InputError(f"hosts must be a whole number from 1 to {settings.agents}; got {shown(hosts)}.")
        check_mode(mode, known=True)
        space = AgentSpace.of(param_space, settings)
        seed = secrets.randbits(63) if seed is None else at_least("seed", seed, 0, 2**128)
        space.participants([0], transport, seed)  # refuses a server with other settings
        self._transport = transport  # the first transport keeps a server alive
        self._points = 0
        usual = {"num_cpus": 1, "max_restarts": RESTARTS, "max_task_retries": -1, **(options or {})}
        groups = [tuple(range(first, settings.agents, hosts)) for first in range(hosts)]
        arguments = PickledFunction(objective), space, transport
        self.hosts = [start(usual, Host, *arguments, group, seed, mode, silent) for group in groups]  # handles

    def advance(self, points: int) -> None:
        """Let every agent evaluate until it has ``points`` points: the initial ones, then one a round, then its own.

        Raises:
            DptuneError: a host died too often.
        """
        self._points = max(at_least("points", points, 0), self._points)
        self._of_all("advance")

    def best(self) -> dict[int, Best]:
        """Return each agent's best configuration and its value. **They are the agents' own: not protected.**"""
        return dict(sorted(pair for pairs in self._of_all("best") for pair in pairs.items()))

    def stop(self) -> None:
        """End the hosts."""
        for host in self.hosts:
            ray.kill(host)

    def _of_all(self, method: str) -> list[Any]:
        try:
            return [answer_of(one) for one in [host.call.remote(method, self._points) for host in self.hosts]]
        except ray.exceptions.RayActorError:
            raise dptune.DptuneError(
                f"a host died more often than it may be started again ({RESTARTS} times, or max_restarts= of "
                "options=). Does the objective kill its process, or need more memory than there is?"
            ) from None
