"""Private people at several places over Flower's messages pass the contract of places: `make test-flower`."""

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr")
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

import dptune
import places_contract as contract
from dptune_flower import answer_at, places_of
from dptune_flower import places as over_flower
from dptune_flower.places import _said
from noises import NoNoise


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)  # as Flower does in the process of an app
    monkeypatch.setattr(over_flower, "_LOOK", 0.0)


class Nodes:
    """Stands for Flower's grid: a ClientApp for each place in this process, with the messages that Flower makes.

    Each reply is first late by one look, then comes twice, the second time with something else.
    """

    def __init__(self, parts: contract.Parts) -> None:
        self.parts, self.sent, self.replies = [*parts.items()], {}, []

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.parts) + 1))

    def push_messages(self, messages: Iterable[Message]) -> Iterator[str]:
        for message in messages:
            self.sent[str(len(self.sent))] = [message_from_proto(message_to_proto(message)), False]
            yield str(len(self.sent) - 1)

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        (one,) = ids
        message, looked = self.sent[one]
        self.sent[one][1] = True
        return [self.reply(message), Message(RecordDict({}), reply_to=message)] if looked else []

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        return [self.reply(message_from_proto(message_to_proto(one))) for one in messages]

    def reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        name, (data, groups) = self.parts[node - 1]
        app = ClientApp()

        @app.query()
        def query(message: Message, context: Context) -> Message:
            return answer_at(message, lambda: dptune.Place(name, data, groups=groups))

        try:
            reply = message_to_proto(app(message, Context(1, node, {}, RecordDict(), {})))
        except dptune.InputError as error:
            return Message(Error(0, str(error)), reply_to=message)
        self.replies.append(reply.ByteSize())
        return message_from_proto(reply)


def made(parts: contract.Parts) -> dptune.Places:
    return places_of(Nodes(parts), list(parts), timeout=600.0)


def test_places_of_flower_release_what_one_does(tmp_path: Path) -> None:
    contract.same_release_as_one_place(made, tmp_path)


def test_a_node_that_breaks_at_any_call_is_refused_or_waited_for(tmp_path: Path) -> None:
    contract.waits_and_resumes(made, tmp_path)


def test_a_mistake_is_shown_and_errors_of_private_rows_stay_at_the_node(tmp_path: Path) -> None:
    parts = dict(contract.PARTS)
    (X, y), _ = parts["place 3"]
    parts["place 3"] = (X[:, :2].copy(), y), None
    places = made(parts)
    p = contract.privatizer(tmp_path, places)
    with pytest.raises(dptune.InputError, match="at the place 'place 3'"):
        contract.choice(p, places)
    assert p.ledger.count() == 0


@pytest.mark.parametrize("error", [dptune.InputError, ValueError])
def test_only_a_public_mistake_before_the_charge_leaves_a_node(error: type[Exception]) -> None:
    def fails(*_: Any) -> Any:
        raise error("words")

    place: Any = SimpleNamespace(ready=fails, answer=fails)
    assert _said("ready", pickle.dumps((None, ())), lambda: place) == (
        {"mistake": "words"} if error is dptune.InputError else {}
    )
    assert _said("answer", pickle.dumps(None), lambda: place) == {}


@pytest.mark.parametrize(
    "said", [{}, {"n": "7"}, {"digest": "0", "n": 73, "sums": [1.5]}, {"digest": "0", "n": 73, "sums": [1]}]
)
def test_a_node_that_answers_something_else_is_not_added(tmp_path: Path, said: dict[str, Any]) -> None:
    nodes = Nodes(contract.PARTS)
    places = places_of(nodes, list(contract.PARTS), timeout=600.0)
    true, noise = nodes.reply, NoNoise()

    def spoiled(message: Message) -> Message:
        spoils = message.metadata.dst_node_id == 3 and message.content["dptune"]["act"] == "answer"
        return Message(RecordDict({"dptune": ConfigRecord(said)}), reply_to=message) if spoils else true(message)

    nodes.reply = spoiled
    p = contract.privatizer(tmp_path, places, noise)
    with pytest.raises(dptune.errors.PlaceUnavailable, match="charged and waits"):
        contract.choice(p, places)
    assert noise.seen == []
    nodes.reply = true
    contract.choice(p, places)
    assert len(noise.seen) == 2


def test_errors_of_loading_rows_stay_at_the_node() -> None:
    def fails() -> dptune.Place:
        raise ValueError("SECRET 41.5")

    for act in ("who", "ready", "answer"):
        assert over_flower._said(act, pickle.dumps(None), fails) == {}
    X, y = contract.WHOLE
    with pytest.raises(dptune.InputError, match=r"at a node: .* (must|number)"):
        made({"place 0": (lambda: (X, y), None)})


def test_a_place_that_is_not_connected_is_named() -> None:
    with pytest.raises(dptune.errors.PlaceUnavailable, match="nowhere"):
        places_of(Nodes(contract.PARTS), ["place 0", "nowhere"], timeout=0.0)


def test_a_message_that_leaves_a_place_is_small(tmp_path: Path) -> None:
    nodes = Nodes(contract.PARTS)
    places = places_of(nodes, list(contract.PARTS), timeout=600.0)
    contract.choice(contract.privatizer(tmp_path, places), places)
    assert max(nodes.replies) < 1000  # bytes: five sums, a digest and a number of people
