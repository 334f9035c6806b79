"""Messages and broadcasts work within a process: rounds in step, late and dead agents, one thread or many."""

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dptune import InputError, LedgerError, PlanComplete
from dptune.federated import FTSServer, InProcess
from dptune.federated import transport as transport_module
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.messages import Message
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import Participant, Transport
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from dptune.privacy.noise import SeededNoise, SeededSample
from federated_audits import PLAN, SETTINGS, full_disk, server
from refusals import refused

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


def test_a_late_agent_counts_as_zero_after_the_timeout(one: FTSServer, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, clock, waited = InProcess(one, timeout=30.0), [100.0], []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(transport_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(transport._changed, "wait", wait)
    transport.submit(Message(0, 0, GOOD))
    clock[0] += 10.0
    transport.fetch(0)
    assert waited == [20.0]
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
    refused(InputError, "InProcess", lambda: participants(one))
    refused(InputError, "timeout", lambda: InProcess(one, timeout=0.0))
    differs = r"other settings of \['S', 'features', 'seed'\].*version of NumPy"
    refused(InputError, differs, lambda: Participant(FTSAgent(other, 0, seed=1), hasty))


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
    assert f"all {PLAN.steps} planned rounds" in heard[0]


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


# ---- whole federations: a message that helps, and a golden trajectory -------------------------------------

OF_SIX = FTSSettings(agents=6, d=2, M=30, own_features=40, regions=(2, 1), S=4.0, initial=3, candidates=64, seed=2)


def value(x: np.ndarray, n: int = 0) -> float:
    return float(np.sin(4 * x[0] + 0.1 * n) * np.cos(3 * x[1]))


def test_many_agents_teach_a_newcomer_through_the_noise(fast_path: Path) -> None:
    """With 400 agents, one broadcast at epsilon = 1 recommends a point near the common top."""
    settings = FTSSettings(agents=400, d=2, M=30, initial=8)
    plan = SubsampledGaussian(q=1.0, z=4.0, steps=1)
    one = FTSServer(PlanLedger(fast_path / "many.db", plan, n=400), settings, noise=SeededNoise(0))
    assert one.ledger.statement(delta=1e-4).epsilon < 1.0
    transport, model = InProcess(one, timeout=600.0), FTSModel(settings)
    for n in range(400):
        participant = Participant(FTSAgent(model, n, seed=1), transport)
        for _ in range(8):
            x = participant.ask()
            participant.tell(x, value(x, n % 3))
    newcomer = FTSAgent(model, 0, seed=9)
    assert value(newcomer.ask(0, transport.fetch(0)), 1) > 0.8


GOLDEN = [
    [[0.5, 0.35413], [0.40614, 0.0]],
    [[0.5, 0.35413], [0.35066, 0.0]],
    [[0.5, 0.35413], [1.0, 0.06759]],
    [[0.5, 0.35413], [0.12011, 0.09736]],
    [[0.5, 0.35413], [0.465, 0.0]],
    [[0.5, 0.35413], [0.95727, 0.0]],
]


def test_golden_trajectory(fast_path: Path) -> None:
    """Seeded, so NOT PRIVATE: the points of six agents in four rounds, as first computed."""
    ledger = PlanLedger(fast_path / "golden.db", SubsampledGaussian(q=0.5, z=1.0, steps=4), n=6)
    transport, model = (
        InProcess(FTSServer(ledger, OF_SIX, noise=SeededNoise(5), samples=SeededSample(5)), timeout=600.0),
        FTSModel(OF_SIX),
    )
    agents = [Participant(FTSAgent(model, n, seed=4), transport) for n in range(6)]
    for _ in range(OF_SIX.initial + 4):
        for n, one in enumerate(agents):
            x = one.ask()
            one.tell(x, value(x, n))
    points = np.array([one.agent.X[OF_SIX.initial :] for one in agents])  # (6, 4, 2)
    assert np.allclose(points[:, [0, 3]], GOLDEN, atol=1e-3), points[:, [0, 3]].round(5).tolist()
