"""An agent at its transport: sends after every evaluation, receives before every choice, rounds in step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dptune.algorithms.fts import FTSAgent
from dptune.errors import AlreadySent, InputError, PlanComplete, RoundClosed
from dptune.federated.messages import Message
from dptune.federated.transport import Transport

Vector = npt.NDArray[np.float64]


class Participant:
    """Drives one :class:`FTSAgent` through the rounds.

    The first ``initial`` points are the agent's own, in its region; then each point uses one round. When the plan is
    complete the agent goes on by itself. In one thread, let every agent ``tell`` before any of them asks again: all
    messages are sent by then, and nobody waits.

    Args:
        agent: whose data and choices these are.
        transport: the way to the server.

    Raises:
        InputError: the server has other settings; its sums would mean nothing to this agent.
    """

    def __init__(self, agent: FTSAgent, transport: Transport) -> None:
        if not isinstance(transport, Transport):
            raise InputError(
                f"an agent needs a transport, e.g. InProcess(server, timeout=...); got {type(transport).__name__}."
            )
        mine, its = agent.settings.describe(), transport.settings()
        differing = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
        if differing:
            raise InputError(
                f"agent {agent.agent} and the server have other settings of {differing}; they must agree. Other "
                "'features' alone: another version of NumPy draws them; install the same."
            )
        self.agent, self.transport = agent, transport
        self._asked = 0
        self._sent: int | None = None  # the round of the message that waits for its broadcast

    def restore(self, observations: Iterable[tuple[npt.ArrayLike, float]], asked: int | None = None) -> None:
        """Tell the agent what an earlier process observed, without sending anything.

        Args:
            observations: pairs (x, y), larger y is better.
            asked: number of points asked for so far; default the number of observations.
        """
        for x, y in observations:
            self.agent.tell(x, y)
        self._asked = len(self.agent) if asked is None else asked

    def ask(self) -> Vector:
        """Return the next point (d,); after the initial ones it waits for the round's broadcast."""
        k = self._asked
        self._asked += 1
        if k < self.agent.settings.initial:
            return self.agent.initial_point(k)
        self.send()
        if self._sent is None:  # the plan is complete; rounds go on counting for this agent alone
            return self.agent.ask(max(k - self.agent.settings.initial, self.transport.rounds()), None)
        t, self._sent = self._sent, None
        return self.agent.ask(t, self.transport.fetch(t))

    def tell(self, x: npt.ArrayLike, y: float | None) -> None:
        """Add an observation, larger is better, or None for an evaluation that failed; send the next message."""
        if y is not None:
            self.agent.tell(x, y)
        if self._asked >= self.agent.settings.initial:
            self.send()

    def send(self) -> None:
        """Send the message of the open round, unless it was sent; every agent must send in every round."""
        while self._sent is None:
            t = self.transport.open_round()
            if t >= self.transport.rounds():
                return
            try:
                self.transport.submit(Message(self.agent.agent, t, self.agent.message(t)))
            except RoundClosed:  # it was released just now: the next one
                continue
            except PlanComplete:
                return
            except AlreadySent:  # by an earlier life of this agent
                pass
            self._sent = t
