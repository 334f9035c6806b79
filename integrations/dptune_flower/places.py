"""Private people at several places over Flower: a ServerApp sends models and questions, ClientApps send sums back.

Server::

    @server.main()
    def main(grid, context):
        places = places_of(grid, ["north", "south"], timeout=600.0)
        choice = dptune.select(models, ledger, data=places, loss="log_loss", ...)

Client, in the node that has the rows of a place::

    @client.query()
    def query(message, context):
        return answer_at(message, dptune.Place("north", load_rows()))

Guarantee: that of :mod:`dptune.privacy.places`. Models travel as pickles, so a place runs what its server sends: it
trusts the server's code, as it does with every Flower app. What a place sends are sums over its people, without noise.
Flower's SuperLink reads them and is a part of the trusted server.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

import dptune
from dptune.errors import InputError, PlaceUnavailable
from dptune.privacy.places import Answer, PlaceQuestion
from dptune.privacy.seal.silence import silence
from dptune_flower.server import ABOUT

_LOOK = 0.2  # seconds between two looks for a reply or for nodes
WHO, READY, ANSWER = "who", "ready", "answer"


def places_of(grid: Grid, names: Sequence[str], *, timeout: float) -> dptune.Places:
    """Return the places of these names, in this order, when all of them are connected.

    Args:
        grid: Flower's, of a ServerApp.
        names: of the places.
        timeout: seconds to wait for the nodes, and for each answer: longer than asking all finalists takes.

    Raises:
        PlaceUnavailable: a place is not connected in time. Nothing was charged.
    """
    until, nodes = time.monotonic() + timeout, dict[str, int]()
    while missing := [name for name in names if name not in nodes]:
        new = [node for node in grid.get_node_ids() if node not in nodes.values()]
        asked = [_message(node, WHO, None) for node in new]
        for reply in grid.send_and_receive(asked, timeout=timeout) if asked else ():
            if not reply.has_error() and (name := reply.content[ABOUT].get("name")) in names:
                nodes.setdefault(str(name), reply.metadata.src_node_id)
        if time.monotonic() > until:
            raise PlaceUnavailable(f"the places {missing} are not connected. Nothing was charged.")
        time.sleep(0.0 if len(nodes) == len(names) else _LOOK)
    return dptune.Places([FlowerPlace(grid, name, nodes[name], timeout) for name in names])


class FlowerPlace:
    """A place whose rows are at a node of Flower; made by :func:`places_of`."""

    def __init__(self, grid: Grid, name: str, node: int, timeout: float) -> None:
        self.name, self._grid, self._node, self._timeout = name, grid, node, timeout

    def ready(self, recipe: Any, models: Sequence[Any]) -> Callable[[], int]:
        """Send models to try out; the result waits for the number of people."""
        wait = self._send(READY, (recipe, tuple(models)))
        return lambda: int(wait()["n"])

    def answer(self, asked: PlaceQuestion) -> Callable[[], Answer]:
        """Send a charged question; the result waits for the sums."""
        wait = self._send(ANSWER, asked)

        def answer() -> Answer:
            said = wait()
            return Answer(str(said["digest"]), said["n"], tuple(said["sums"]))

        return answer

    def _send(self, act: str, sent: Any) -> Callable[[], Any]:
        (identifier,) = self._grid.push_messages([_message(self._node, act, sent)])
        return partial(self._reply, identifier)

    def _reply(self, identifier: str) -> Any:
        """Return the content of the first reply."""
        until = time.monotonic() + self._timeout
        while not (replies := list(self._grid.pull_messages([identifier]))):
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(_LOOK)
        said = replies[0].content[ABOUT]
        if "mistake" in said:
            raise InputError(str(said["mistake"]))
        return said


def answer_at(message: Message, place: dptune.Place) -> Message:
    """Return a place's reply to a server's message; errors of the private rows stay at the node."""
    config = message.content[ABOUT]
    with silence():
        said = _said(str(config["act"]), pickle.loads(config["sent"]), place)
    return Message(RecordDict({ABOUT: ConfigRecord(said)}), reply_to=message)


def _said(act: str, sent: Any, place: dptune.Place) -> dict[str, Any]:
    if act == WHO:
        return {"name": place.name}
    try:
        if act == READY:
            return {"n": place.ready(*sent)()}
        answer = place.answer(sent)()
    except InputError as error:
        return {"mistake": str(error)} if act == READY else {}
    except Exception:  # noqa: BLE001 - its text could quote a private value
        return {}
    return {"digest": answer.digest, "n": answer.n, "sums": list(answer.sums)}


def _message(node: int, act: str, sent: Any) -> Message:
    config = ConfigRecord({"act": act, "sent": pickle.dumps(sent)})
    return Message(RecordDict({ABOUT: config}), node, MessageType.QUERY)
