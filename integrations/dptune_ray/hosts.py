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
from dptune_ray.actors import answer_of, answered, in_parts, taking_parts
from dptune_ray.base import check_mode
from dptune_ray.federated import AgentSpace, Vector, larger_is_better
from dptune_ray.worker import Carried, called_in_worker, prepare_this_process

RESTARTS = 10  # of one host: an objective that kills its process would do so for ever
Objective = Callable[[int, dict[str, Any]], float]
Best = tuple[dict[str, Any], float]


class Host:
    """A group of agents; knows nothing of Ray. Arguments as of :class:`Federation`."""

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
    ) -> None:
        self._objective, self._space, self._settings, self._mode = objective, space, settings, mode
        self._transport, self._numbers, self._seed = transport, agents, seed
        self._agents: list[Participant] = []
        self._done = 0
        self._best: dict[int, Best] = {}
        self._largest: dict[int, float] = {}  # y of the best

    @answered
    def advance(self, points: int) -> int:
        """Let every agent evaluate points until it has ``points`` of them; return that number.

        May be called again after the host was lost.
        """
        return self._advance(points)

    def _advance(self, points: int) -> int:
        objective = self._objective.load()
        if not self._agents:
            model = self._space.model(self._settings)
            agents = [FTSAgent(model, n, seed=self._seed) for n in self._numbers]
            self._agents = [Participant(agent, self._transport) for agent in agents]
            self._repeat(objective, points)
        for _ in range(self._done, points):
            for one in self._agents:
                self._evaluate(objective, one, one.ask())
            self._done += 1
        return self._done

    def _repeat(self, objective: Objective, points: int) -> None:
        """What is settled: the initial points, and the points of the rounds that are released."""
        initial, released = self._settings.initial, self._transport.open_round()
        self._done = min(points, initial + released)
        for k in range(self._done):
            broadcast = self._transport.fetch(k - initial) if k >= initial else None
            for one in self._agents:
                agent = one.agent
                x = agent.initial_point(k) if k < initial else agent.ask(k - initial, broadcast)
                self._evaluate(objective, one, x, send=False)
        for one in self._agents:
            one.restore((), asked=self._done)
            if self._done >= initial:
                one.send()

    def _evaluate(self, objective: Objective, one: Participant, x: Vector, *, send: bool = True) -> None:
        agent, config = one.agent.agent, self._space.config(x)
        value = called_in_worker(lambda given: float(objective(agent, given)), copy.deepcopy(config), float)
        y, where = larger_is_better(self._mode, value), self._space.point(config)
        if value is not None and y is not None and y > self._largest.get(agent, -math.inf):
            self._largest[agent], self._best[agent] = y, (config, value)
        usable = None if where is None else y
        if send:
            one.tell(x if where is None else where, usable)
        elif where is not None and usable is not None:
            one.agent.tell(where, usable)

    @answered
    def best(self, points: int) -> dict[int, Best]:
        """Return each agent's best configuration of ``points`` and its value. They are the agents': not protected."""
        self._advance(points)  # a host that was lost meanwhile knows nothing
        return dict(self._best)


class HostProcess(Host):
    """A host in an actor of its own; ``silent`` swallows what the process prints."""

    def __init__(self, *about: Any, silent: bool, **settings: Any) -> None:
        prepare_this_process(silent=silent)
        super().__init__(*about, **settings)


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
        usual = {"num_cpus": 1, "max_restarts": RESTARTS, "max_task_retries": -1, **(options or {})}
        start = ray.remote(taking_parts(HostProcess)).options(**usual).remote
        seed = secrets.randbits(63) if seed is None else seed
        Participant(FTSAgent(space.model(settings), 0, seed=seed), transport)  # refuses a server with other settings
        self._transport, self._points = transport, 0  # a server lives as long as its first transport is held
        carried = Carried(objective)
        groups = [tuple(range(first, settings.agents, hosts)) for first in range(hosts)]
        about: dict[str, Any] = {"seed": seed, "mode": mode, "silent": silent}
        self._hosts = [start(*in_parts(carried, space, transport, settings, group, **about)) for group in groups]

    def advance(self, points: int) -> None:
        """Let every agent evaluate until it has ``points`` points: the initial ones, then one a round, then its own.

        Raises:
            DptuneError: a host died too often.
        """
        self._points = max(points, self._points)
        for reference in [host.advance.remote(self._points) for host in self._hosts]:
            _answer_of_host(reference)

    def best(self) -> dict[int, Best]:
        """Return each agent's best configuration and its value. **They are the agents' own: not protected.**"""
        found: dict[int, Best] = {}
        for reference in [host.best.remote(self._points) for host in self._hosts]:
            found |= _answer_of_host(reference)
        return dict(sorted(found.items()))

    def stop(self) -> None:
        """End the hosts."""
        for host in self._hosts:
            ray.kill(host)


def _answer_of_host(reference: Any) -> Any:
    try:
        return answer_of(reference)
    except ray.exceptions.RayActorError:
        raise dptune.DptuneError(
            f"a host died more often than it may be started again ({RESTARTS} times, or max_restarts= of options=). "
            "Does the objective kill its process, or need more memory than there is?"
        ) from None
