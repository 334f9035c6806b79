"""Messages and broadcasts within a process: rounds in step, late and dead agents, one thread or many."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federated_audits import PLAN, SETTINGS, full_disk, server

from dptune import InputError, LedgerError, PlanComplete
from dptune.federated import FTSServer, InProcess, Message, Participant, Transport
from dptune.federated.agent import FTSAgent, FTSModel

GOOD = np.arange(10.0)


@pytest.fixture
def one(fast_path: Path) -> FTSServer:
    return server(fast_path, "one")


@pytest.fixture
def in_step(one: FTSServer) -> InProcess:
    """The transport of agents in one thread that must never wait: waiting fails at once."""
    transport = InProcess(one, timeout=600.0)

    def wait(timeout: float) -> None:
        raise AssertionError("somebody waits for a time-out")

    transport._changed.wait = wait
    return transport


@pytest.fixture
def hasty(one: FTSServer) -> InProcess:
    return InProcess(one, timeout=0.05)


def participants(transport: Transport) -> list[Participant]:
    model = FTSModel(SETTINGS)
    return [Participant(FTSAgent(model, n, seed=1), transport) for n in range(7)]


def listening(transport: Transport, n: int = 0) -> tuple[Participant, list[str]]:
    heard: list[str] = []
    return Participant(FTSAgent(FTSModel(SETTINGS), n, seed=1), transport, notice=heard.append), heard


def evaluate(agent: Participant, *, fails: bool = False) -> None:
    x = agent.ask()
    agent.tell(x, None if fails else float(np.sin(5 * x[0]) + x[1]))


def test_a_late_agent_counts_as_zero_after_the_timeout(one: FTSServer) -> None:
    transport = InProcess(one, timeout=0.2)
    transport.submit(Message(0, 0, GOOD))
    began = time.monotonic()
    transport.fetch(0)
    assert time.monotonic() - began > 0.1
    assert np.array_equal(transport.fetch(0), transport.fetch(0))
    transport.fetch(1)  # nobody has sent anything: pure noise, and nobody is held up
    with pytest.raises(InputError):
        transport.fetch(5)


def test_waiting_threads_are_released_together(one: FTSServer) -> None:
    transport = InProcess(one, timeout=threading.TIMEOUT_MAX)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(transport.fetch(0)), daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    for n in range(7):
        time.sleep(0.01)
        assert all(thread.is_alive() for thread in threads)
        transport.submit(Message(n, 0, GOOD))
    for thread in threads:
        thread.join(600)
    assert len(got) == 5
    assert all(np.array_equal(g, got[0]) for g in got)
    assert len(one.ledger.charges()) == 1


def test_agents_go_through_all_rounds_and_on_alone_and_hear_nothing(in_step: InProcess) -> None:
    """Also those whose evaluations fail: the set of senders must not depend on data."""
    pairs, asked = [listening(in_step, n) for n in range(7)], SETTINGS.initial + PLAN.steps + 2
    for k in range(asked):
        for n, (agent, _heard) in enumerate(pairs):
            evaluate(agent, fails=n == 3 or k == SETTINGS.initial)
        if SETTINGS.initial <= k + 1 < SETTINGS.initial + PLAN.steps:
            assert (in_step.open_round(), in_step.server.sent) == (k + 1 - SETTINGS.initial, set(range(7)))
    assert in_step.open_round() == PLAN.steps
    assert [len(one.agent) for one, _ in pairs] == [0 if n == 3 else asked - 1 for n in range(7)]
    assert not any(heard for _, heard in pairs)
    with pytest.raises(PlanComplete):
        in_step.fetch(PLAN.steps)


def test_a_restarted_agent_whose_message_is_here_waits_for_the_broadcast(in_step: InProcess) -> None:
    agents = participants(in_step)
    for _ in range(SETTINGS.initial):
        for agent in agents:
            evaluate(agent)
    again = participants(in_step)[2]
    again.restore(zip(agents[2].agent.X, agents[2].agent.values, strict=True), asked=SETTINGS.initial)
    assert np.array_equal(again.ask(), agents[2].agent.ask(0, in_step.fetch(0)))


def test_what_does_not_fit_together_is_refused_by_name(one: FTSServer, hasty: InProcess) -> None:
    other = FTSModel(replace(SETTINGS, seed=1, S=9.0))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("FTSServer", lambda: InProcess(PLAN, timeout=1.0)),
        ("InProcess", lambda: participants(one)),
        (
            r"other settings of \['S', 'features', 'seed'\].*version of NumPy",
            lambda: Participant(FTSAgent(other, 0, seed=1), hasty),
        ),
    ]
    for timeout in (0.0, math.nan, math.inf, 10**400, "60"):
        refused.append(("timeout", lambda timeout=timeout: InProcess(one, timeout=timeout)))
    for words, call in refused:
        with pytest.raises(InputError, match=words):
            call()


# ---- sharing that is lost --------------------------------------------------------------------------------


def test_an_agent_hears_once_that_the_plan_is_complete(one: FTSServer, hasty: InProcess) -> None:
    early, heard = listening(hasty)
    for t in range(PLAN.steps):
        one.release(t)
    assert heard == []
    _, heard_late = listening(hasty)
    assert len(heard_late) == 1
    for _ in range(SETTINGS.initial + 2):
        evaluate(early)
    assert heard == heard_late
    assert f"all {PLAN.steps} rounds" in heard[0]


def test_an_agent_hears_which_of_its_own_rounds_went_without_it(one: FTSServer, hasty: InProcess) -> None:
    slow, heard = listening(hasty)
    for _ in range(SETTINGS.initial + 1):
        evaluate(slow)  # rounds 0 and 1: six others are missing, which is not this agent's business
    assert heard == []
    x = slow.ask()
    for t in (2, 3):
        one.release(t)  # while it is evaluating
    slow.tell(x, 0.0)
    assert len(heard) == 1
    assert "agent 0" in heard[0]
    assert "rounds 2 to 3" in heard[0]
    assert one.sent == {0}  # it joins the open round
    one.release(4)
    one.submit(Message(0, 5, GOOD))  # by another process of this agent
    evaluate(slow)
    evaluate(slow)
    assert len(heard) == 1


class TwiceTooLate(InProcess):
    """While a message travels its round is released, twice."""

    def submit(self, message: Message) -> None:
        if self.server.open_round < 2:
            self.server.release(self.server.open_round)
        super().submit(message)


def test_a_message_that_comes_just_too_late_is_heard_of(one: FTSServer) -> None:
    late, heard = listening(TwiceTooLate(one, timeout=0.05))
    late.send()
    assert (one.sent, one.open_round) == ({0}, 2)
    assert ["round 0," in heard[0], "round 1," in heard[1]] == [True, True]


def test_an_agent_whose_round_is_drawn_and_not_recorded_has_it_recorded(one: FTSServer, hasty: InProcess) -> None:
    with full_disk():
        with pytest.raises(LedgerError):
            one.release(0)
        late, heard = listening(hasty)
        with pytest.raises(LedgerError):  # not an endless loop
            late.send()
    late.send()
    assert (one.open_round, one.sent) == (1, {0})
    assert len(heard) == 1
    assert len(one.ledger.charges()) == 1
