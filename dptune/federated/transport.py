"""How messages reach the server and broadcasts the agents: a small protocol, and the one within a process.

Another transport (an actor, HTTP, files) implements :class:`Transport` and leaves the server as it is. It must keep
two promises: every agent sends in every round whoever is sampled, and nobody but the server reads a message.
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

    A round is released when all agents have sent, or ``timeout`` seconds after its first message: a late or dead agent
    counts as 0 and holds nobody up longer than that. That a time-out happened can be seen from outside.

    Args:
        server: the trusted server.
        timeout: seconds to wait for late agents, counted from the round's first message. Longer than the slowest
            agent's evaluation: whoever comes later has counted as 0.

    Raises:
        InputError: no server, or timeout is not a positive number that a clock can wait for.
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
            PlanComplete: the plan has no such round.
            InputError: a round before ``t`` is not released.
        """
        with self._changed:
            while (released := self.poll(t)) is None:
                self._changed.wait(self._left(t))
        return released

    def poll(self, t: int) -> Matrix | None:
        """Return the broadcast (P, M) of round ``t``, releasing it if it is due, or None; waits for nobody.

        Raises:
            PlanComplete: the plan has no such round.
            InputError: a round before ``t`` is not released.
        """
        with self._changed:
            released = self.server.broadcast(t)
            if released is None and self._left(t) <= 0:
                released = self.server.release(t)
                self._changed.notify_all()
            return released

    def _left(self, t: int) -> float:
        """Seconds until round ``t`` is released whoever has sent; 0 when all have."""
        now = self.server.open_round
        if t != now or t >= self.rounds() or len(self.server.sent) == self.server.settings.agents:
            return 0.0
        if self._began[0] != t:
            self._began = (t, time.monotonic())
        return self._began[1] + self.timeout - time.monotonic()
