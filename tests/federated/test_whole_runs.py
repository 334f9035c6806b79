"""Whole federations: variants that must agree, a message that helps, and a golden trajectory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from federated_audits import send, server
from noises import NoNoise

from dptune.federated import FTSServer, InProcess, Participant
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussianPlan
from dptune.privacy.noise import SeededNoise, SeededSample

SETTINGS = FTSSettings(agents=6, d=2, M=30, own_features=40, regions=(2, 1), S=4.0, initial=3, candidates=64, seed=2)
EVERYBODY = SubsampledGaussianPlan(q=1.0, z=1.0, steps=4)


def value(x: np.ndarray, n: int = 0) -> float:
    return float(np.sin(4 * x[0] + 0.1 * n) * np.cos(3 * x[1]))


def test_without_clipping_sampling_and_noise_the_server_is_fts_de(fast_path: Path) -> None:
    settings = replace(SETTINGS, S=1e6)
    one = server(fast_path, "one", settings, EVERYBODY, noise=NoNoise())
    for t in range(3):
        messages = np.random.default_rng(t).standard_normal((6, 30))
        send(one, t, messages)
        assert np.allclose(one.release(t), settings.weights(t).T @ messages, rtol=1e-12)


def test_many_agents_teach_a_newcomer_through_the_noise(fast_path: Path) -> None:
    """With 400 agents, one broadcast at epsilon = 1 recommends a point near the common top."""
    settings = FTSSettings(agents=400, d=2, M=30, initial=8)
    plan = SubsampledGaussianPlan(q=1.0, z=4.0, steps=1)
    one = FTSServer(PlanLedger(fast_path / "many.db", plan, n=400), settings)
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
    ledger = PlanLedger(fast_path / "golden.db", SubsampledGaussianPlan(q=0.5, z=1.0, steps=4), n=6)
    transport, model = (
        InProcess(FTSServer(ledger, SETTINGS, noise=SeededNoise(5), samples=SeededSample(5)), timeout=600.0),
        FTSModel(SETTINGS),
    )
    agents = [Participant(FTSAgent(model, n, seed=4), transport) for n in range(6)]
    for _ in range(SETTINGS.initial + 4):
        for n, one in enumerate(agents):
            x = one.ask()
            one.tell(x, value(x, n))
    points = np.array([one.agent.X[SETTINGS.initial :] for one in agents])  # (6, 4, 2)
    assert np.allclose(points[:, [0, 3]], GOLDEN, atol=1e-3), points[:, [0, 3]].round(5).tolist()
