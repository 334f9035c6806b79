"""The transport of messages and broadcasts: a protocol, a transport in one process, and its user.

Another transport (an actor, HTTP, files) implements :class:`Transport` and uses the same server. It must keep two
promises: every agent sends in every round, whether or not it is sampled, and only the server reads messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy.typing as npt

from dptune._checks import between, positive, real
from dptune.errors import AlreadySent, InputError, PlanComplete, RoundClosed
from dptune.federated.agent import LARGEST_VALUE, FTSAgent
from dptune.federated.messages import Message
from dptune.federated.server import FTSServer
from dptune.search.gp.points import FloatArray


@runtime_checkable
class Transport(Protocol):
    """The requests that an agent may send to the server, wherever the server runs."""

    def open_round(self) -> int:
        """Return the round that accepts messages now; the number of rounds when the plan is complete."""

    def rounds(self) -> int:
        """Return the number of rounds of the plan."""

    def settings(self) -> dict[str, object]:
        """Return the server's settings as plain data; an agent with others is refused."""

    def submit(self, message: Message) -> None:
        """Send a message; raises what :meth:`FTSServer.submit` raises."""

    def fetch(self, t: int) -> FloatArray:
        """Wait for the broadcast (P, M) of round ``t``; never longer than the transport's time-out."""


class InProcess(Transport):
    """Server and agents in one process, in one thread or many.

    A round is released when all agents have sent, or ``timeout`` seconds after its first message. An agent that is late
    or dead counts as 0 and delays the others no longer than that. An observer can see that a time-out happened.

    ``timeout`` is in seconds, positive, and should exceed the slowest agent's evaluation, because an agent that sends
    later has counted as 0.
    """

    def __init__(self, server: FTSServer, *, timeout: float) -> None:
        self.timeout = between("timeout", positive("timeout", timeout), 0.0, threading.TIMEOUT_MAX)
        if not isinstance(server, FTSServer):
            raise InputError(f"InProcess needs an FTSServer; got {type(server).__name__}.")
        self.server = server
        self._changed = threading.Condition()
        self._began: tuple[int, float] = (-1, 0.0)  # round, time of its first message

    def open_round(self) -> int:
        return self.server.open_round

    def rounds(self) -> int:
        return self.server.plan.steps

    def settings(self) -> dict[str, object]:
        return self.server.settings.describe()

    def submit(self, message: Message) -> None:
        with self._changed:
            t = self.server.open_round
            self.server.submit(message)
            if self._began[0] != t:
                self._began = (t, time.monotonic())
            self._changed.notify_all()

    def fetch(self, t: int) -> FloatArray:
        """Wait for the broadcast (P, M) of round ``t``, and release it when it is due; raises as `poll` does."""
        with self._changed:
            while (released := self.poll(t)) is None:
                self._changed.wait(self._left(t))
        return released

    def poll(self, t: int) -> FloatArray | None:
        """Return the broadcast (P, M) of round ``t``, releasing it if it is due, or None; does not wait.

        Raises:
            PlanComplete: ``t`` is beyond the plan.
            InputError: a round before ``t`` is not released yet.
        """
        with self._changed:
            released = self.server.broadcast(t)
            if released is None and self._left(t) <= 0:
                released = self.server.release(t)
                self._changed.notify_all()
            return released

    def _left(self, t: int) -> float:
        """Return seconds until round ``t`` is released without the missing messages; 0 when all agents have sent."""
        now = self.server.open_round
        if t != now or t >= self.rounds() or len(self.server.sent) == self.server.settings.agents:
            return 0.0
        if self._began[0] != t:
            self._began = (t, time.monotonic())
        return self._began[1] + self.timeout - time.monotonic()


def larger_is_better(value: object, *, maximize: bool) -> float | None:
    """Return an agent's y for a framework's value, or None if the value is not a finite number below 1e100."""
    number = real(value)
    if number is None or abs(number) >= LARGEST_VALUE:
        return None
    return number if maximize else -number


class Participant:
    """Drives one :class:`FTSAgent` through the rounds: sends after every evaluation, receives before every choice.

    The agent chooses its first ``initial`` points itself, in its region; then each point uses one round. When the plan
    is complete, the agent continues alone. If several agents share a thread, let every agent ``tell`` before any of
    them asks again: then all messages are sent, and no agent waits for another.

    ``notice`` gets a sentence for the agent's own log when a round was released without its message. It is also called
    when the plan is complete before the agent has sent anything. The sentence is about rounds, never about data or
    other agents.

    A server with other settings is refused with an `InputError`: its sums would mean nothing here.
    """

    def __init__(self, agent: FTSAgent, transport: Transport, notice: Callable[[str], object] | None = None) -> None:
        if not isinstance(transport, Transport):
            raise InputError(
                f"an agent needs a transport, e.g. InProcess(server, timeout=...); got {type(transport).__name__}."
            )
        mine = agent.settings.describe()
        its = transport.settings()
        differing = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
        if differing:
            raise InputError(
                f"agent {agent.agent} and the server have other settings of {differing}; they must agree. Other "
                "'features' alone: another version of NumPy draws them; install the same."
            )
        self.agent, self.transport = agent, transport
        self._asked = 0
        self._sent: int | None = None  # the round of the message that waits for its broadcast
        self._due: int | None = None  # the round after the last sent message
        self._notice = notice or (lambda sentence: None)
        if transport.open_round() >= transport.rounds():
            self._alone()

    def restore(self, observations: Iterable[tuple[npt.ArrayLike, float]], *, asked: int) -> None:
        """Give the agent an earlier process's observations, pairs (x, y), and its number of proposed points."""
        for x, y in observations:
            self.agent.tell(x, y)
        self._asked = asked

    def ask(self) -> FloatArray:
        """Return the next point (d,); after the initial ones it waits for the round's broadcast."""
        k = self._asked
        self._asked += 1
        if k < self.agent.settings.initial:
            return self.agent.initial_point(k)
        self.send()
        if self._sent is None:  # the plan is complete; only this agent's round number still grows
            return self.agent.ask(max(k - self.agent.settings.initial, self.transport.rounds()), None)
        t = self._sent
        self._sent = None
        return self.agent.ask(t, self.transport.fetch(t))

    def tell(self, x: npt.ArrayLike, y: float | None) -> None:
        """Add an observation, larger is better, or None for an evaluation that failed; send the next message."""
        if y is not None:
            self.agent.tell(x, y)
        if self._asked >= self.agent.settings.initial:
            self.send()

    def send(self) -> None:
        """Send the message of the open round, unless it was sent before; every agent must send in every round."""
        while self._sent is None:
            t = self.transport.open_round()
            self._missed_until(t)
            if t >= self.transport.rounds():
                return
            try:
                self.transport.submit(Message(self.agent.agent, t, self.agent.message(t)))
            except RoundClosed:  # its noise is drawn now: wait for the release, then send in the next round
                self.transport.fetch(t)
                continue
            except PlanComplete:
                return
            except AlreadySent:  # an earlier process of this agent sent it
                pass
            self._sent = t
            self._due = t + 1

    def _missed_until(self, t: int) -> None:
        """Report the rounds before ``t`` that were released without a message of this agent since its last one."""
        if self._due is None and t >= self.transport.rounds():
            self._alone()
        elif self._due is not None and t > self._due:
            rounds = f"round {self._due}" if t == self._due + 1 else f"rounds {self._due} to {t - 1}"
            self._notice(
                f"agent {self.agent.agent} sent nothing from here in {rounds}, released without it: unless another "
                "process of its own did, it counted as 0. The time-out should exceed an agent's slowest evaluation."
            )
        self._due = t

    def _alone(self) -> None:
        self._due = self.transport.rounds()
        self._notice(
            f"agent {self.agent.agent} gets no more broadcasts: all {self._due} planned rounds are released. "
            "It continues without the federation."
        )
