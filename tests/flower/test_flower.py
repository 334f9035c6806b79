"""DP-FTS-DE runs over Flower's messages in a separate environment: `make test-flower`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from dptune import Float, InputError, Space
from dptune.federated import FTSServer, FTSSettings
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune_flower import answer, best, run_rounds

SETTINGS = FTSSettings(agents=3, d=2, M=20, own_features=20, candidates=64, initial=2)
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
ROUNDS = 3


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)  # as Flower does in the process of an app


def near_the_middle(parameters: Any) -> float:
    return -float((parameters["a"] - 0.5) ** 2 + (parameters["b"] - 0.5) ** 2)


class Nodes:
    """Stands for Flower's grid: ClientApps in this process, with the messages that Flower makes."""

    def __init__(self, objectives: list[Callable[[Any], float]], silent: frozenset[int] = frozenset()) -> None:
        self.silent, self.asked, self.replies = silent, [], []
        self.contexts = [Context(1, node, {"agent": node}, RecordDict(), {}) for node in range(len(objectives))]
        self.apps = [self.app(objective) for objective in objectives]

    def app(self, objective: Callable[[Any], float], settings: FTSSettings = SETTINGS) -> ClientApp:
        app = ClientApp()

        @app.query()
        def query(message: Message, context: Context) -> Message:
            return answer(message, context, settings=settings, space=SPACE, objective=objective)

        return app

    def get_node_ids(self) -> list[int]:
        return list(range(len(self.apps)))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None) -> list[Message]:
        replies = []
        assert [
            message.has_content() for message in messages
        ]  # Flower's grid reads them twice, too, and sends none but a full list
        for sent in messages:
            message = message_from_proto(message_to_proto(sent))  # as it travels
            node = message.metadata.dst_node_id
            self.asked.append((int(message.content["dptune"]["round"]), node))
            if node not in self.silent:
                replies.append(self.reply(node, message))
        self.replies += replies
        return replies

    def reply(self, node: int, message: Message) -> Message:
        try:
            return message_from_proto(message_to_proto(self.apps[node](message, self.contexts[node])))
        except InputError as error:  # as Flower does: the node's error travels in place of its answer
            return Message(Error(0, str(error)), reply_to=message)


def open_server(folder: Path) -> FTSServer:
    plan = SubsampledGaussian(q=1.0, z=1.0, steps=ROUNDS)
    return FTSServer(PlanLedger(folder / "agents.db", plan, n=3), SETTINGS)


def test_every_node_is_asked_in_every_round_and_learns_the_last_broadcast(tmp_path: Path) -> None:
    nodes, server = Nodes([near_the_middle] * 3), open_server(tmp_path)
    run_rounds(nodes, server, timeout=600.0)
    assert server.open_round == ROUNDS
    assert nodes.asked == [(t, node) for t in range(ROUNDS + 1) for node in range(3)]
    for context in nodes.contexts:
        assert len(context.state["dptune"]["y"]) == SETTINGS.initial + ROUNDS
        assert SPACE.contains(best(context, SPACE))
    weights = ["weights" in reply.content for reply in nodes.replies]
    assert weights == [True] * 3 * ROUNDS + [False] * 3  # the last question needs no answer
    assert all(set(reply.content) <= {"dptune", "weights"} for reply in nodes.replies)


def test_silent_and_failing_nodes_count_as_zero(tmp_path: Path) -> None:
    """A node whose evaluation fails still sends a message."""

    def fails(parameters: Any) -> float:
        raise ValueError("a secret of this node")

    nodes, server = Nodes([near_the_middle, fails, near_the_middle], silent=frozenset({2})), open_server(tmp_path)
    sent: list[frozenset[int]] = []
    release = server.release
    server.release = lambda t: (sent.append(frozenset(server.sent)), release(t))[1]
    run_rounds(nodes, server, timeout=600.0)
    assert sent == [frozenset({0, 1})] * ROUNDS
    assert "secret" not in str([reply.content for reply in nodes.replies])
    with pytest.raises(InputError, match="observed nothing"):
        best(nodes.contexts[1], SPACE)


def test_a_restarted_server_and_a_question_that_comes_twice_change_nothing(tmp_path: Path) -> None:
    nodes, server = Nodes([near_the_middle] * 3), open_server(tmp_path)
    server.release(0)  # without anybody: then the process died
    run_rounds(nodes, open_server(tmp_path), timeout=600.0)
    kept = [len(context.state["dptune"]["y"]) for context in nodes.contexts]
    again = Nodes([near_the_middle] * 3)
    again.contexts = nodes.contexts
    run_rounds(again, open_server(tmp_path), timeout=600.0)  # only the last broadcast, which they know
    assert kept == [len(context.state["dptune"]["y"]) for context in again.contexts]
    assert PlanLedger(tmp_path / "agents.db").count() == ROUNDS


def test_other_settings_and_a_node_without_a_number_are_refused(tmp_path: Path) -> None:
    nodes = Nodes([near_the_middle] * 3)
    nodes.apps[0] = nodes.app(near_the_middle, FTSSettings(agents=3, d=2, M=20, initial=3))
    nodes.contexts[1].node_config.clear()
    run_rounds(nodes, open_server(tmp_path), timeout=600.0)
    refused = {reply.metadata.src_node_id for reply in nodes.replies if reply.has_error()}
    said = " ".join(reply.error.reason for reply in nodes.replies if reply.has_error())
    assert len(refused) >= 1
    assert "other settings" in said
    assert "--node-config" in said


ABOUT_0 = ConfigRecord({"agent": 0})
ODD: dict[str, dict[str, Any]] = {
    "weights that are not numbers": {"dptune": ABOUT_0, "weights": ArrayRecord([np.full(20, np.nan)])},
    "weights of another length": {"dptune": ABOUT_0, "weights": ArrayRecord([np.zeros(3)])},
    "two arrays": {"dptune": ABOUT_0, "weights": ArrayRecord([np.zeros(20), np.zeros(20)])},
    "bytes": {"dptune": ABOUT_0, "weights": ArrayRecord({"0": Array("float64", (20,), "numpy.ndarray", b"secret")})},
    "metrics as weights": {"dptune": ABOUT_0, "weights": MetricRecord({"0": 1.0})},
    "another agent's number": {"dptune": ConfigRecord({"agent": 3}), "weights": ArrayRecord([np.zeros(20)])},
    "no number": {"dptune": ConfigRecord(), "weights": ArrayRecord([np.zeros(20)])},
    "nothing": {},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_a_node_that_answers_with_something_else_counts_as_zero(tmp_path: Path, odd: dict[str, Any]) -> None:
    nodes, server = Nodes([near_the_middle] * 3, silent=frozenset({2})), open_server(tmp_path)
    true, release, sent = nodes.reply, server.release, []

    def spoiled(node: int, message: Message) -> Message:
        if node:
            return true(node, message)
        return message_from_proto(message_to_proto(Message(RecordDict(odd), reply_to=message)))

    nodes.reply = spoiled
    server.release = lambda t: (sent.append(set(server.sent)), release(t))[1]
    run_rounds(nodes, server, timeout=600.0)
    assert sent == [{1}] * ROUNDS
