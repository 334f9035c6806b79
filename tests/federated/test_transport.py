"""Messages and broadcasts within a process: rounds in step, late and dead agents, one thread or many."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federated_audits import PLAN, SETTINGS, full_disk, server

from dptune import InputError, LedgerError, PlanComplete
from dptune.federated import InProcess, Message, Participant, Transport
from dptune.federated.agent import FTSAgent, FTSModel

GOOD = np.arange(10.0)


def participants(transport: Transport, count: int = 7) -> list[Participant]:
    model = FTSModel(SETTINGS)
    return [Participant(FTSAgent(model, n, seed=1), transport) for n in range(count)]


def listening(transport: Transport, n: int = 0) -> tuple[Participant, list[str]]:
    heard: list[str] = []
    return Participant(FTSAgent(FTSModel(SETTINGS), n, seed=1), transport, notice=heard.append), heard


def evaluate(one: Participant, y: float | None = 0.0) -> None:
    x = one.ask()
    one.tell(x, float(np.sin(5 * x[0]) + x[1]) if y is not None else None)


def in_step(transport: InProcess) -> InProcess:
    """The transport of agents in one thread that must never wait: waiting fails at once."""

    def wait(timeout: float) -> None:
        raise AssertionError("somebody waits for a time-out")

    transport._changed.wait = wait
    return transport


def test_a_late_agent_counts_as_zero_after_the_timeout(fast_path: Path) -> None:
    transport = InProcess(server(fast_path, "one"), timeout=0.2)
    transport.submit(Message(0, 0, GOOD))
    began = time.monotonic()
    transport.fetch(0)
    assert time.monotonic() - began > 0.1
    assert np.array_equal(transport.fetch(0), transport.fetch(0))
    transport.fetch(1)  # nobody has sent anything: pure noise, and nobody is held up
    with pytest.raises(InputError, match="in order"):
        transport.fetch(5)


def test_a_timeout_is_a_time_that_can_be_waited_for(fast_path: Path) -> None:
    one = server(fast_path, "one")
    for timeout in (0.0, math.nan, math.inf, 10**400, "60"):
        with pytest.raises(InputError, match="timeout"):
            InProcess(one, timeout=timeout)


def test_waiting_threads_are_released_together(fast_path: Path) -> None:
    transport = InProcess(server(fast_path, "one"), timeout=threading.TIMEOUT_MAX)
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
    assert len(transport.server.ledger.charges()) == 1


def test_agents_go_through_all_rounds_and_on_alone_and_hear_nothing(fast_path: Path) -> None:
    transport = in_step(InProcess(server(fast_path, "one"), timeout=600.0))
    pairs = [listening(transport, n) for n in range(7)]
    for _ in range(SETTINGS.initial + PLAN.steps + 2):
        for one, _heard in pairs:
            evaluate(one)
    assert transport.open_round() == PLAN.steps
    assert all(len(one.agent) == SETTINGS.initial + PLAN.steps + 2 for one, _ in pairs)
    assert not any(heard for _, heard in pairs)
    with pytest.raises(PlanComplete):
        transport.fetch(PLAN.steps)


def test_failed_evaluations_send_messages_all_the_same(fast_path: Path) -> None:
    transport = in_step(InProcess(server(fast_path, "one"), timeout=600.0))
    agents = participants(transport)
    for k in range(SETTINGS.initial + 2):
        for n, one in enumerate(agents):
            evaluate(one, None if n == 3 or k == 4 else 0.0)
    assert transport.open_round() == 2
    assert len(agents[3].agent) == 0
    assert transport.server.sent == set(range(7))


def test_a_restarted_agent_whose_message_is_here_waits_for_the_broadcast(fast_path: Path) -> None:
    transport = in_step(InProcess(server(fast_path, "one"), timeout=600.0))
    agents = participants(transport)
    for _ in range(SETTINGS.initial):
        for one in agents:
            evaluate(one)
    again = participants(transport)[2]
    again.restore(zip(agents[2].agent.X, agents[2].agent.values, strict=True))
    assert np.array_equal(again.ask(), agents[2].agent.ask(0, transport.fetch(0)))


def test_an_agent_with_other_settings_than_the_server_is_refused_and_told_why(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = InProcess(server(fast_path, "one"), timeout=600.0)
    model = FTSModel(replace(SETTINGS, seed=1, S=9.0))
    with pytest.raises(InputError, match=r"other settings of \['S', 'features', 'seed'\]"):
        Participant(FTSAgent(model, 0, seed=1), transport)
    its = transport.settings()
    monkeypatch.setattr(transport, "settings", lambda: {**its, "features": "drawn by another NumPy"})
    with pytest.raises(InputError, match=r"\['features'\].*version of NumPy"):
        participants(transport)


def test_an_agent_is_given_a_transport_and_not_the_server(fast_path: Path) -> None:
    with pytest.raises(InputError, match="InProcess"):
        participants(server(fast_path, "one"))
    with pytest.raises(InputError, match="FTSServer"):
        InProcess(PLAN, timeout=1.0)


# ---- sharing that is lost --------------------------------------------------------------------------------


def test_an_agent_hears_once_that_the_plan_is_complete(fast_path: Path) -> None:
    one = server(fast_path, "one")
    early, heard = listening(InProcess(one, timeout=0.05))
    for t in range(PLAN.steps):
        one.release(t)
    assert heard == []
    _, heard_late = listening(InProcess(one, timeout=0.05))
    assert len(heard_late) == 1
    for _ in range(SETTINGS.initial + 2):
        evaluate(early)
    assert heard == heard_late
    assert f"all {PLAN.steps} rounds" in heard[0]


def test_an_agent_hears_which_of_its_own_rounds_went_without_it(fast_path: Path) -> None:
    one = server(fast_path, "one")
    transport = InProcess(one, timeout=0.05)
    slow, heard = listening(transport)
    for _ in range(SETTINGS.initial):
        evaluate(slow)
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


def test_a_message_that_comes_just_too_late_is_heard_of(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = server(fast_path, "one")
    transport = InProcess(one, timeout=0.05)
    late, heard = listening(transport)
    true, rounds = transport.submit, iter(range(2))

    def slowly(message: Message) -> None:
        for t in rounds:
            one.release(t)
            break
        true(message)

    monkeypatch.setattr(transport, "submit", slowly)
    late.send()
    assert one.sent == {0}
    assert one.open_round == 2
    assert ["round 0," in heard[0], "round 1," in heard[1]] == [True, True]


def test_an_agent_whose_round_is_drawn_and_not_recorded_has_it_recorded(fast_path: Path) -> None:
    one = server(fast_path, "one")
    transport = InProcess(one, timeout=0.05)
    with full_disk():
        with pytest.raises(LedgerError):
            one.release(0)
        late, heard = listening(transport)
        with pytest.raises(LedgerError, match="disk"):  # not an endless loop
            late.send()
    late.send()
    assert (one.open_round, one.sent) == (1, {0})
    assert len(heard) == 1
    assert len(one.ledger.charges()) == 1
