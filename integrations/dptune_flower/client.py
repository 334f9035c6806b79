"""An agent's half. Observations stay in the state of its node; weights leave it, for the trusted server only."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from dptune.errors import InputError
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import larger_is_better
from dptune.space import Space, Value
from dptune_flower.server import ABOUT, BROADCAST, WEIGHTS

_logger = logging.getLogger(__name__)  # logs on the agent's own machine


def answer(
    message: Message,
    context: Context,
    *,
    settings: FTSSettings,
    space: Space,
    objective: Callable[[Mapping[str, Value]], float],
) -> Message:
    """Evaluate where the last broadcast leads, and return the agent's message of the open round.

    An evaluation that raises counts as one that was not made, and is logged here, on the agent's machine. The agent
    still sends its message, because the set of senders must not depend on data.

    Args:
        message: the server's question.
        context: of the node: its configuration has the number of its ``agent``, its state keeps the observations.
        settings: the same for all agents and the server.
        space: search space of numbers, the same for all agents.
        objective: parameters -> value on this agent's own data, larger is better.

    Raises:
        InputError: the node has no agent's number, or the server has other settings.
    """
    config = message.content[ABOUT]
    agent = _Agent(context, settings, space, objective)
    if json.loads(str(config["settings"])) != json.loads(json.dumps(settings.describe())):
        raise InputError("the server has other settings; server and agents must agree.")
    t = int(config["round"])
    agent.catch_up(t, message.content.get(BROADCAST))
    content = {ABOUT: ConfigRecord({"agent": agent.one.agent})}
    if t < int(config["rounds"]):
        content[WEIGHTS] = ArrayRecord([agent.one.message(t)])
    return Message(RecordDict(content), reply_to=message)


def best(context: Context, space: Space) -> dict[str, Value]:
    """Return the parameters of this agent's best observation; its own, and not protected.

    Raises:
        InputError: it has none.
    """
    kept = _kept(context)
    if not kept["y"]:
        raise InputError("this agent has observed nothing yet.")
    return space.decode(np.array(kept["X"]).reshape(-1, space.d)[int(np.argmax(kept["y"]))])


class _Agent:
    """An agent, rebuilt from its node's state."""

    def __init__(self, context: Context, settings: FTSSettings, space: Space, objective: Callable[..., float]) -> None:
        if "agent" not in context.node_config:
            raise InputError('the node needs the number of its agent: flower-supernode --node-config "agent=7".')
        self.kept = _kept(context)
        self._space = space
        self._objective = objective
        model = FTSModel(settings, domain_of(space, settings))
        self.one = FTSAgent(model, context.node_config["agent"], seed=self.kept["seed"])
        for x, y in zip(np.array(self.kept["X"]).reshape(-1, space.d), self.kept["y"], strict=True):
            self.one.tell(x, y)

    def catch_up(self, t: int, broadcast: ArrayRecord | None) -> None:
        """Make once the initial observations, and the one after the broadcast of round t - 1."""
        while self.kept["asked"] < self.one.settings.initial:
            self._evaluate(self.one.initial_point(self.kept["asked"]))
        if t > self.kept["round"] and broadcast is not None:
            (sums,) = broadcast.to_numpy_ndarrays()
            self._evaluate(self.one.ask(t - 1, sums))
        self.kept["round"] = t

    def _evaluate(self, point: npt.NDArray[np.float64]) -> None:
        parameters = self._space.decode(point)
        self.kept["asked"] += 1
        try:
            y = larger_is_better(float(self._objective(parameters)), maximize=True)
        except Exception:  # the agent's objective may raise anything, and the log is private to the agent
            _logger.warning("an evaluation failed; the agent continues without it", exc_info=True)
            return
        if y is not None:
            x = self._space.encode(parameters)
            self.one.tell(x, y)
            self.kept["X"] = [*self.kept["X"], *x.tolist()]
            self.kept["y"] = [*self.kept["y"], y]


def _kept(context: Context) -> Any:
    if ABOUT not in context.state:
        empty: list[float] = []
        new = {"seed": secrets.randbits(31), "asked": 0, "round": 0, "X": empty, "y": empty}
        context.state[ABOUT] = ConfigRecord(new)
    return context.state[ABOUT]
