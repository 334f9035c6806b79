"""Many agents on a few actors: a federation whose agents' data are reached from the cluster's nodes.

A host drives its agents in one thread, round by round. It stores nothing. Ray starts a lost host again, on another
node if its node is lost, and it repeats what its agents did: initial points and released rounds, whose broadcasts the
server replays. Choices depend on (seed, agent, round) and observations alone, so with a deterministic objective the
agents are the same as before. No message is sent for a released round, and nothing is charged again.
"""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import ray

import dptune
from dptune.federated import Participant, Transport
from dptune.federated.agent import FTSAgent
from dptune.federated.settings import FTSSettings
from dptune_ray.actors import answer_of, start
from dptune_ray.base import check_mode
from dptune_ray.federated import AgentSpace, Vector, larger_is_better
from dptune_ray.worker import Carried, called_in_worker, prepare_this_process

RESTARTS = 10  # of one host: an objective that kills its process would do so for ever
Objective = Callable[[int, dict[str, Any]], float]
Best = tuple[dict[str, Any], float]


class Host:
    """A group of agents; knows nothing of Ray. Arguments as of :class:`Federation`; ``silent=None``: in-process."""

    def __init__(
        self,
        objective: Carried,
        space: AgentSpace,
        transport: Transport,
        settings: FTSSettings,
        agents: tuple[int, ...],
        *,
        seed: int,
        mode: str,
        silent: bool | None = None,
    ) -> None:
        if silent is not None:
            prepare_this_process(silent=silent)
        self._objective, self._space, self._settings, self._mode = objective, space, settings, mode
        self._transport, self._numbers, self._seed = transport, agents, seed
        self.agents: list[Participant] = []
        self._done = self._settled = 0  # points; those whose rounds were released before this life of the host
        self._best: dict[int, tuple[float, Best]] = {}  # agent -> y, and where

    def advance(self, points: int) -> int:
        """Let every agent evaluate points until it has ``points`` of them; return that number.

        May be called again after the host was lost.
        """
        objective = self._objective.load()
        if not self.agents:
            model = self._space.model(self._settings)
            agents = [FTSAgent(model, n, seed=self._seed) for n in self._numbers]
            self.agents = [Participant(agent, self._transport) for agent in agents]
            self._settled = self._settings.initial + self._transport.open_round()
        for k in range(self._done, points):
            for one in self.agents:
                self._evaluate(objective, one, k)
            self._done += 1
            if self._done == self._settled:
                self._join()
        return self._done

    def _join(self) -> None:
        """Nothing was sent for what is settled; from here on every agent sends."""
        for one in self.agents:
            one.restore((), asked=self._done)
            one.send()

    def _point(self, one: Participant, k: int) -> Vector:
        initial = self._settings.initial
        if k >= self._settled:
            return one.ask()
        if k < initial:
            return one.agent.initial_point(k)
        return one.agent.ask(k - initial, self._transport.fetch(k - initial))

    def _evaluate(self, objective: Objective, one: Participant, k: int) -> None:
        agent, config = one.agent.agent, self._space.config(self._point(one, k))
        value = called_in_worker(lambda given: float(objective(agent, given)), copy.deepcopy(config), float)
        y, x = larger_is_better(self._mode, value), self._space.point(config)
        if value is not None and y is not None and y > self._best.get(agent, (-math.inf,))[0]:
            self._best[agent] = y, (config, value)
        known = () if x is None or y is None else x
        if k >= self._settled:
            one.tell(known, y if len(known) else None)
        elif len(known) and y is not None:
            one.agent.tell(known, y)

    def best(self, points: int) -> dict[int, Best]:
        """Return each agent's best configuration of ``points`` and its value. They are the agents': not protected."""
        self.advance(points)  # a host that was lost meanwhile knows nothing
        return {agent: found for agent, (_, found) in self._best.items()}


class Federation:
    """The agents of a federation, grouped on a few actors.

    A host that is lost, or whose node is, is started elsewhere and repeats its agents' points; if that takes less than
    the transport's time-out, its agents' messages are in every round. It costs no privacy in any case. A host that dies
    more than ten times is given up, unless ``options`` say otherwise.

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
        if not 1 <= hosts <= settings.agents:
            raise dptune.InputError(f"hosts must be a whole number from 1 to {settings.agents}; got {hosts!r}.")
        check_mode(mode)
        space = AgentSpace.of(param_space, settings)
        seed = secrets.randbits(63) if seed is None else seed
        Participant(FTSAgent(space.model(settings), 0, seed=seed), transport)  # refuses a server with other settings
        self._transport, self._points = transport, 0  # a server lives as long as its first transport is held
        usual = {"num_cpus": 1, "max_restarts": RESTARTS, "max_task_retries": -1, **(options or {})}
        about = Carried(objective), space, transport, settings
        groups = [tuple(range(first, settings.agents, hosts)) for first in range(hosts)]
        self.hosts = [start(usual, Host, *about, group, seed=seed, mode=mode, silent=silent) for group in groups]

    def advance(self, points: int) -> None:
        """Let every agent evaluate until it has ``points`` points: the initial ones, then one a round, then its own.

        Raises:
            DptuneError: a host died too often.
        """
        self._points = max(points, self._points)
        self._of_all("advance")

    def best(self) -> dict[int, Best]:
        """Return each agent's best configuration and its value. **They are the agents' own: not protected.**"""
        return dict(sorted(pair for found in self._of_all("best") for pair in found.items()))

    def stop(self) -> None:
        """End the hosts."""
        for host in self.hosts:
            ray.kill(host)

    def _of_all(self, method: str) -> list[Any]:
        """Call a method of every host, at the same time."""
        try:
            return [answer_of(one) for one in [host.call.remote(method, self._points) for host in self.hosts]]
        except ray.exceptions.RayActorError:
            raise dptune.DptuneError(
                f"a host died more often than it may be started again ({RESTARTS} times, or max_restarts= of "
                "options=). Does the objective kill its process, or need more memory than there is?"
            ) from None
