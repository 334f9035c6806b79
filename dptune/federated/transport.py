"""How messages reach the server, and broadcasts the agents: a small protocol, and a transport within one process.

Another transport (an actor, HTTP, files) implements :class:`Transport` and uses the same server. It must keep two
promises: every agent sends in every round, whether or not it is sampled, and only the server reads messages.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dptune._numbers import real
from dptune.errors import InputError
from dptune.federated.messages import Message
from dptune.federated.server import FTSServer

Matrix = npt.NDArray[np.float64]


@runtime_checkable
class Transport(Protocol):
    """What an agent may ask of the server, wherever that runs."""

    def open_round(self) -> int:
        """Return the round whose messages are taken now; the number of rounds when the plan is complete."""
        ...

    def rounds(self) -> int:
        """Return the number of rounds of the plan."""
        ...

    def settings(self) -> dict[str, object]:
        """Return the server's settings as plain data; an agent with others is refused."""
        ...

    def submit(self, message: Message) -> None:
        """Send a message; raises what :meth:`FTSServer.submit` raises."""
        ...

    def fetch(self, t: int) -> Matrix:
        """Wait for the broadcast (P, M) of round ``t``; never longer than the transport's time-out."""
        ...


class InProcess:
    """Server and agents in one process, in one thread or many.

    A round is released when all agents have sent, or ``timeout`` seconds after its first message. An agent that is late
    or dead counts as 0 and delays the others no longer than that. An observer can see that a time-out happened.

    Args:
        server: the trusted server.
        timeout: seconds to wait for late agents, from the round's first message. It should exceed the slowest
            agent's evaluation, because an agent that sends later has counted as 0.

    Raises:
        InputError: ``server`` is not an FTSServer, or ``timeout`` is not a positive number that a clock can wait for.
    """

    def __init__(self, server: FTSServer, *, timeout: float) -> None:
        seconds = real(timeout)
        if seconds is None or not 0 < seconds <= threading.TIMEOUT_MAX:
            raise InputError(f"timeout must be a positive and finite number of seconds; got {timeout!r}.")
        if not isinstance(server, FTSServer):
            raise InputError(f"InProcess needs an FTSServer; got {type(server).__name__}.")
        self.server, self.timeout = server, seconds
        self._changed = threading.Condition()
        self._began: tuple[int, float] = (-1, 0.0)  # round, time of its first message

    def open_round(self) -> int:
        """Return the round whose messages are taken now."""
        return self.server.open_round

    def rounds(self) -> int:
        """Return the number of rounds of the plan."""
        return self.server.plan.steps

    def settings(self) -> dict[str, object]:
        """Return the server's settings as plain data."""
        return self.server.settings.describe()

    def submit(self, message: Message) -> None:
        """Give the message to the server; raises what :meth:`FTSServer.submit` raises."""
        with self._changed:
            t = self.server.open_round
            self.server.submit(message)
            if self._began[0] != t:
                self._began = (t, time.monotonic())
            self._changed.notify_all()

    def fetch(self, t: int) -> Matrix:
        """Wait for the broadcast (P, M) of round ``t``, and release it when it is due.

        Raises:
            PlanComplete: ``t`` is beyond the plan.
            InputError: a round before ``t`` is not released yet.
        """
        with self._changed:
            while (released := self.poll(t)) is None:
                self._changed.wait(self._left(t))
        return released

    def poll(self, t: int) -> Matrix | None:
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
        """Seconds until round ``t`` is released without the missing messages; 0 when all agents have sent."""
        now = self.server.open_round
        if t != now or t >= self.rounds() or len(self.server.sent) == self.server.settings.agents:
            return 0.0
        if self._began[0] != t:
            self._began = (t, time.monotonic())
        return self._began[1] + self.timeout - time.monotonic()
