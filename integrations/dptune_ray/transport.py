"""The federation's server as a named Ray actor, and the transport that reaches it from anywhere in the cluster.

A message is an argument of at most 64 KiB, inside the call. The agent's process keeps it until the round is released. A
restarted server reads the released rounds from its ledger, and gets the open round's messages again. So a lost server
costs neither a round nor a charge.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

import dptune
from dptune.errors import AlreadySent, RoundClosed
from dptune.federated import FTSServer, InProcess
from dptune.federated.messages import Message
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import Transport
from dptune_ray.actors import ActorClient

Matrix = npt.NDArray[np.float64]
MOST = 8192  # largest count of numbers in a message: 64 KiB
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5  # seconds between two checks


class Server(InProcess):
    """The trusted server in its actor, with the arguments of :meth:`RayTransport.serve`; it does not use Ray."""

    def __init__(self, ledger: dptune.ledger.PlanLedger, settings: FTSSettings, timeout: float) -> None:
        super().__init__(FTSServer(ledger, settings), timeout=timeout)
        self._about = repr(ledger), settings, timeout
        self._life = secrets.token_hex(8)  # changes at a restart

    def begin(self, ledger: str, settings: FTSSettings, timeout: float) -> None:
        if (ledger, settings, timeout) != self._about:
            raise dptune.errors.BudgetMismatch(
                "a federation of this name with another ledger, settings or timeout is running; use another name."
            )

    def take(self, message: Message) -> str:
        """Accept a message; return the identifier of the server's present life."""
        self.submit(message)
        return self._life

    def look(self, t: int) -> tuple[str, Matrix | None]:
        """Return the server's life, and the broadcast of round ``t``, released if due, or None."""
        return self._life, self.poll(t)


class RayTransport(Transport):
    """The way to a federation's server in the cluster.

    The process that calls :meth:`serve` owns the server, which runs on that process's node as long as that lives.
    Other processes of the same Ray namespace reach it by ``RayTransport(name)``. **Every job of the cluster can reach
    it, too**: see docs/ray.md.
    """

    def __init__(self, name: str = "federation") -> None:
        self.name = name
        self._client = ActorClient.of("server", name, starts="RayTransport.serve(...)")
        self._handle: Any = None
        self._waiting: dict[int, tuple[str, Message]] = {}  # agent -> life of the server that has it, message
        self._latest: tuple[int, Matrix] | None = None

    @classmethod
    def serve(
        cls, ledger: dptune.ledger.PlanLedger, settings: FTSSettings, *, timeout: float, name: str = "federation"
    ) -> RayTransport:
        """Start the server on this node, or continue it from its ledger, which has every broadcast.

        ``timeout`` are seconds to wait for late agents, counted from the round's first message. A lost agent's node
        must be replaced within it, or the agent counts as 0 in that round.

        Raises:
            InputError: the messages are too long, or timeout is not positive.
            BudgetMismatch: the ledger was used with other settings.
        """
        if settings.M > MOST:
            raise dptune.InputError(f"a message travels in one call: M must be at most {MOST}; got {settings.M}.")
        transport = cls(name)
        transport._handle = transport._client.launch(Server, ledger, settings, timeout)
        transport._client.call(Server.begin, repr(ledger), settings, timeout)
        return transport

    def stop(self) -> None:
        """End the server; its ledger has all there is to know."""
        self._client.stop()

    def open_round(self) -> int:
        return self._client.call(Server.open_round)

    def rounds(self) -> int:
        return self._client.call(Server.rounds)

    def settings(self) -> dict[str, object]:
        return self._client.call(Server.settings)

    def submit(self, message: Message) -> None:
        """Send a message, and keep it until its round is released; raises what :meth:`FTSServer.submit` raises."""
        self._waiting[message.agent] = "", message
        try:
            self._waiting[message.agent] = self._client.call(Server.take, message), message
        except AlreadySent:
            raise  # sent by an earlier process or call: kept in case the server restarts
        except dptune.DptuneError:
            del self._waiting[message.agent]
            raise

    def fetch(self, t: int) -> Matrix:
        """Wait for the broadcast (P, M) of round ``t``, no longer than the server's time-out.

        Raises:
            PlanComplete: the plan has no such round.
            InputError: a round before ``t`` is not released.
        """
        if self._latest is not None and self._latest[0] == t:
            return self._latest[1]
        pause = _FIRST_PAUSE
        while True:
            life, released = self._client.call(Server.look, t)
            if released is not None:
                self._latest = t, released
                return self._latest[1]
            self._send_again(t, life)
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _send_again(self, t: int, life: str) -> None:
        """Send the messages again that a dead server has lost."""
        for agent, (had, message) in self._waiting.items():
            if message.round == t and had != life:
                with suppress(AlreadySent, RoundClosed, dptune.PlanComplete):
                    self._client.call(Server.take, message)
                self._waiting[agent] = life, message

    def __reduce__(self) -> tuple[object, ...]:
        return RayTransport, (self.name,)
