"""The server's half: asks every node in every round, hands messages in, releases, and sends the broadcast on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from dptune.errors import MessageRefused
from dptune.federated import FTSServer
from dptune.federated import Message as Weights

ABOUT, BROADCAST, WEIGHTS = "dptune", "broadcast", "weights"  # names of records


def run_rounds(grid: Grid, server: FTSServer, *, timeout: float) -> None:
    """Make the rounds of the plan that are not released yet, and tell every node of the last one.

    Every node is asked in every round, sampled or not. One that is late, fails or answers with something else counts as
    0, and the round is released without it. After a restart it goes on where the ledger is.

    Args:
        grid: Flower's, of a ServerApp.
        server: the trusted server.
        timeout: seconds to wait for a round's answers; longer than the slowest evaluation.
    """
    while (t := server.open_round) < server.plan.steps:
        for reply in grid.send_and_receive(_questions(grid, server), timeout=timeout):
            _hand_in(server, reply, t)
        server.release(t)
    list(grid.send_and_receive(_questions(grid, server), timeout=timeout))


def _questions(grid: Grid, server: FTSServer) -> Iterator[Message]:
    """To each node: the open round, the settings, and the broadcast of the round before."""
    t = server.open_round
    about = {
        "round": t,
        "rounds": server.plan.steps,
        "settings": json.dumps(server.settings.describe(), sort_keys=True),
    }
    broadcast = None if t == 0 else server.broadcast(t - 1)
    for node in grid.get_node_ids():
        content = RecordDict({ABOUT: ConfigRecord(dict(about))})
        if broadcast is not None:
            content[BROADCAST] = ArrayRecord([broadcast])
        yield Message(content, dst_node_id=node, message_type=MessageType.QUERY)


def _hand_in(server: FTSServer, reply: Message, t: int) -> None:
    """Give the server one agent's weights. What an agent's failure says is not read, and nothing of it is repeated."""
    if reply.has_error() or ABOUT not in reply.content or WEIGHTS not in reply.content:
        return
    (weights,) = reply.content[WEIGHTS].to_numpy_ndarrays()
    with suppress(MessageRefused):
        server.submit(Weights(reply.content[ABOUT].get("agent", -1), t, weights))
