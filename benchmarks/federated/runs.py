"""One run of a federation: every agent, every round, in one thread; the noise is seeded so that a run can be repeated.

The broadcasts of private methods come from the real `FTSServer` with its ledger. What a run reports per round:
the best noiseless value an agent has evaluated, and the value at the point a broadcast recommends, both as means over
agents, both between the problem's mean and its best value of each agent. The second is the information in a broadcast:
a vector of pure noise recommends a point about as good as a random one.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.federated.problems import FederatedProblem
from dptune.federated import FTSServer
from dptune.federated.agent import Domain, FTSAgent, FTSModel
from dptune.federated.messages import Message
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from dptune.privacy.noise import SeededNoise, SeededSample

Array = npt.NDArray[np.float64]
Broadcaster = Callable[[int, list[FTSAgent]], Array | None]


@dataclass(frozen=True)
class Method:
    """`plan` None: not private, messages summed as they are. A silent agent sends 0; a lost one asks at random."""

    name: str
    plan: SubsampledGaussian | None = None
    silent: bool = False
    random_query: bool = False
    change: dict[str, Any] = field(default_factory=dict)


class RandomQuery(FTSAgent):
    """Evaluates a random new point whenever it would follow the broadcast."""

    def joint_point(self, broadcast: Array, t: int) -> Array:
        points = self.model.domain.points
        return self._not_yet(points[self._rng(9, t).permutation(len(points))])


def run(problem: FederatedProblem, settings: FTSSettings, method: Method, *, seed: int, rounds: int) -> dict[str, Any]:
    """Curves over the rounds, (rounds + 1,) from the end of the initial points on."""
    settings = replace(settings, **method.change)
    model = FTSModel(settings, Domain(problem.points))
    kind = RandomQuery if method.random_query else FTSAgent
    agents = [kind(model, n, seed=seed) for n in range(problem.N)]
    rng = np.random.default_rng([seed, 5])
    best = np.full(problem.N, -np.inf)
    for k in range(settings.initial):
        observe(problem, agents, [agent.initial_point(k) for agent in agents], best, rng)
    curve, informed = [score(problem, best)], []
    with tempfile.TemporaryDirectory() as folder:
        broadcaster = _broadcaster(Path(folder), settings, method, seed)
        for t in range(rounds):
            broadcast = broadcaster(t, agents)
            if broadcast is not None:
                informed.append(recommended(problem, model, broadcast))
            observe(problem, agents, [agent.ask(t, broadcast) for agent in agents], best, rng)
            curve.append(score(problem, best))
    return {"problem": problem.name, "method": method.name, "seed": seed, "curve": curve, "informed": informed}


def observe(
    problem: FederatedProblem, agents: list[FTSAgent], asked: list[Array], best: Array, rng: np.random.Generator
) -> None:
    for n, (agent, x) in enumerate(zip(agents, asked, strict=True)):
        value = float(problem.values[n, np.abs(problem.points - x).sum(axis=1).argmin()])
        agent.tell(x, value + problem.noise * rng.standard_normal())
        best[n] = max(best[n], value)


def score(problem: FederatedProblem, values: Array) -> float:
    """The mean over agents of their values (N,)."""
    return float(values.mean())


def recommended(problem: FederatedProblem, model: FTSModel, broadcast: Array) -> float:
    """The mean over agents of the value at the broadcast's argmax."""
    values = np.einsum("mk,mk->m", model.Phi, broadcast[model.regions])
    return score(problem, problem.values[:, values.argmax()])


def _broadcaster(folder: Path, settings: FTSSettings, method: Method, seed: int) -> Broadcaster:
    if settings.joint == 0:
        return lambda t, agents: None
    if method.plan is None:
        return lambda t, agents: settings.weights(t).T @ np.array([agent.message(t) for agent in agents])
    logging.getLogger("dptune").setLevel(logging.ERROR)
    ledger = PlanLedger(folder / "ledger.db", method.plan, n=settings.agents)
    server = FTSServer(ledger, settings, noise=SeededNoise(seed), samples=SeededSample(seed))

    def private(t: int, agents: list[FTSAgent]) -> Array | None:
        if t >= server.plan.steps:  # the plan is complete: everybody goes on by itself
            return None
        for agent in [] if method.silent else agents:
            server.submit(Message(agent.agent, t, agent.message(t)))
        return server.release(t)

    return private


def timed(N: int, *, observations: int, rounds: int, settings: FTSSettings, folder: Path) -> dict[str, Any]:
    """Seconds of a round of N agents around `observations` each, by part; secret samples and OpenDP noise."""
    model = FTSModel(settings)
    agents = [FTSAgent(model, n, seed=0) for n in range(N)]
    f = np.random.default_rng(0).standard_normal((N, 4))
    began = observations - rounds // 2
    for agent, w in zip(agents, f, strict=True):
        for x in np.random.default_rng(agent.agent).random((began, settings.d)):
            agent.tell(x, _smooth(x, w))
        agent._own, agent._fitted = agent.hyperparameters(), began - agent.agent % settings.refit  # fits spread out
    server = FTSServer(PlanLedger(folder / f"{N}.db", SubsampledGaussian(0.35, 1.0, rounds), n=N), settings)
    parts = {name: [0.0] * rounds for name in ("fits", "messages", "server", "choices", "tell")}
    cpu = -time.process_time()
    for t in range(rounds):
        with _Watch(parts["fits"], t):
            for agent in agents:
                agent.hyperparameters()
        with _Watch(parts["messages"], t):
            messages = [Message(agent.agent, t, agent.message(t)) for agent in agents]
        with _Watch(parts["server"], t):
            for message in messages:
                server.submit(message)
            broadcast = server.release(t)
        with _Watch(parts["choices"], t):
            asked = [agent.ask(20 + t, broadcast) for agent in agents]
        with _Watch(parts["tell"], t):
            for agent, x, w in zip(agents, asked, f, strict=True):
                agent.tell(x, _smooth(x, w))
    cpu = (cpu + time.process_time()) / rounds  # what other processes on the machine took is not in it
    total = np.sum(list(parts.values()), axis=0)
    means = {name: float(np.mean(seconds)) for name, seconds in parts.items()}
    return {
        "N": N,
        "rounds": rounds,
        "total": float(total.mean()),
        "median": float(np.median(total)),
        "cpu": cpu,
        **means,
    }


def _smooth(x: Array, w: Array) -> float:
    return float(np.sin(3 * x[0] + w[0]) * np.cos(3 * x[-1] + w[1]) + 0.1 * w[2])


class _Watch:
    def __init__(self, seconds: list[float], t: int) -> None:
        self._seconds, self._t = seconds, t

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._t] = time.perf_counter() - self._began
