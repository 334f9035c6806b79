"""Private people at several places over Flower: a ServerApp sends models and questions, ClientApps send sums back.

Server::

    @server.main()
    def main(grid, context):
        places = places_of(grid, ["north", "south"], timeout=600.0)
        choice = dptune.select(models, ledger, data=places, loss="log_loss", ...)

Client, in the node that has the rows of a place::

    @client.query()
    def query(message, context):
        return answer_at(message, lambda: dptune.Place("north", load_rows()))

Guarantee: that of :mod:`dptune.privacy.places`. Errors of loading rows stay at the node. Models travel as pickles, so a
place runs what its server sends: it trusts the server's code, as it does with every Flower app. What a place sends are
sums over its people, without noise. Flower's SuperLink reads them and is a part of the trusted server.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

import dptune
from dptune.errors import InputError, PlaceUnavailable
from dptune.privacy.places import Answer, Load, PlaceQuestion
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
        InputError: a node cannot make its place.
    """
    until, found = time.monotonic() + timeout, dict[str, FlowerPlace]()
    while missing := [name for name in names if name not in found]:
        if time.monotonic() > until:
            raise PlaceUnavailable(f"the places {missing} are not connected. Nothing was charged.")
        known = {place.node for place in found.values()}
        asked = [_message(node, WHO, None) for node in grid.get_node_ids() if node not in known]
        for reply in grid.send_and_receive(asked, timeout=timeout) if asked else ():
            said = {} if reply.has_error() else reply.content[ABOUT]
            if "mistake" in said:
                raise InputError(f"at a node: {said['mistake']}")
            if (name := said.get("name")) in missing:
                found.setdefault(name, FlowerPlace(grid, name, reply.metadata.src_node_id, said.get("n"), timeout))
        time.sleep(0.0 if len(found) == len(names) else _LOOK)
    return dptune.Places([found[name] for name in names])


class FlowerPlace:
    """A place whose rows are at a node of Flower; made by :func:`places_of`."""

    def __init__(self, grid: Grid, name: str, node: int, n: Any, timeout: float) -> None:
        self.name, self.node, self._grid, self._n, self._timeout = name, node, grid, n, timeout

    def ready(self, recipe: Any, models: Sequence[Load]) -> Callable[[], int]:
        """Send models to try out; the result waits for the number of people."""
        if recipe is None:
            return lambda: self._n
        wait = self._send(READY, (recipe, [_in_bytes(load) for load in models]))
        return lambda: int(wait()["n"])

    def answer(self, asked: PlaceQuestion) -> Callable[[], Answer]:
        """Send a charged question; the result waits for the sums."""
        models = tuple(load and _in_bytes(load) for load in asked.models)
        wait = self._send(ANSWER, replace(asked, models=models))

        def answer() -> Answer:
            said = wait()
            return Answer(str(said["digest"]), said["n"], tuple(said["sums"]))

        return answer

    def _send(self, act: str, sent: Any) -> Callable[[], Any]:
        (identifier,) = self._grid.push_messages([_message(self.node, act, sent)])
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


def _in_bytes(load: Load) -> Load:
    """Return what loads a model from its bytes: a place has one model at a time."""
    return partial(pickle.loads, pickle.dumps(load()))


def answer_at(message: Message, make: Callable[[], dptune.Place]) -> Message:
    """Return a place's reply to a server's message; errors of the private rows stay at the node.

    Args:
        message: the server's.
        make: returns the place, and loads its rows. What it prints or raises is not shown.
    """
    config = message.content[ABOUT]
    with silence():
        said = _said(str(config["act"]), config["sent"], make)
    return Message(RecordDict({ABOUT: ConfigRecord(said)}), reply_to=message)


def _said(act: str, pickled: Any, make: Callable[[], dptune.Place]) -> dict[str, Any]:
    try:
        place, sent = make(), pickle.loads(pickled)
        if act == WHO:
            return {"name": place.name, "n": place.ready(None, ())()}
        if act == READY:
            return {"n": place.ready(*sent)()}
        answer = place.answer(sent)()
    except InputError as error:
        return {} if act == ANSWER else {"mistake": str(error)}
    except Exception:  # noqa: BLE001 - its text could quote a private value
        return {}
    return {"digest": answer.digest, "n": answer.n, "sums": list(answer.sums)}


def _message(node: int, act: str, sent: Any) -> Message:
    config = ConfigRecord({"act": act, "sent": pickle.dumps(sent)})
    return Message(RecordDict({ABOUT: config}), node, MessageType.QUERY)
