"""The server's half: it queries every node in every round, submits messages, releases, and sends the broadcast."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from dptune.errors import MessageRefused
from dptune.federated import FTSServer
from dptune.federated.messages import Message as Weights

ABOUT, BROADCAST, WEIGHTS = "dptune", "broadcast", "weights"  # names of records
_LOOK = 0.5  # seconds between two checks of connected nodes


def run_rounds(grid: Grid, server: FTSServer, *, timeout: float) -> None:
    """Make the rounds of the plan that are not released yet, and tell every node of the last one.

    It begins when as many nodes are connected as the federation has agents, or after ``timeout``. Every node is asked
    in every round, sampled or not. One that is late, fails or answers with something else counts as 0, and the round is
    released without it. After a restart it resumes where the ledger is.

    Args:
        grid: Flower's, of a ServerApp.
        server: the trusted server.
        timeout: seconds to wait for the nodes, and for a round's answers; longer than the slowest evaluation.
    """
    if server.open_round < server.plan.steps:
        _gather(grid, server.settings.agents, timeout)
    while (t := server.open_round) < server.plan.steps:
        for reply in grid.send_and_receive(_questions(grid, server), timeout=timeout):
            _hand_in(server, reply, t)
        server.release(t)
    list(grid.send_and_receive(_questions(grid, server), timeout=timeout))


def _gather(grid: Grid, nodes: int, timeout: float) -> None:
    """Wait until this number of nodes is connected, at most ``timeout`` seconds: an app may start before its nodes."""
    until = time.monotonic() + timeout
    while len(list(grid.get_node_ids())) < nodes and time.monotonic() < until:
        time.sleep(_LOOK)


def _questions(grid: Grid, server: FTSServer) -> list[Message]:
    """Return a query for each node: the open round, the settings, and the broadcast of the round before."""
    t = server.open_round
    configs = {
        "round": t,
        "rounds": server.plan.steps,
        "settings": json.dumps(server.settings.describe(), sort_keys=True),
    }
    broadcast = None if t == 0 else server.broadcast(t - 1)
    records = {ABOUT: ConfigRecord(configs)} | ({} if broadcast is None else {BROADCAST: ArrayRecord([broadcast])})
    return [Message(RecordDict(records), node, MessageType.QUERY) for node in grid.get_node_ids()]


def _hand_in(server: FTSServer, reply: Message, t: int) -> None:
    """Submit one agent's weights to the server; refuse all else, without quoting it."""
    if reply.has_error():
        return
    config = reply.content.config_records.get(ABOUT, {})
    weights = _only_array(reply.content.array_records.get(WEIGHTS, {}))
    with suppress(MessageRefused):
        server.submit(Weights(config.get("agent"), t, weights))


def _only_array(record: ArrayRecord) -> Any:
    """Return the only array of a record, or None."""
    try:
        (array,) = record.values()
        return array.numpy()
    except Exception:  # noqa: BLE001 - the node chose the bytes, and NumPy's message may quote them
        return None
