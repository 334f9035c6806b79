"""DP-FTS-DE in Optuna: one study per agent, rounds in step, late agents, restarts."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

import dptune
from dptune.accounting.plan_ledger import PlanLedger
from dptune.accounting.subsampled import SubsampledGaussianPlan
from dptune.federated import FTSServer, InProcess
from dptune.federated.settings import FTSSettings
from dptune_optuna import DPFTSSampler
from harness import stored

SPACE = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}
SETTINGS = FTSSettings(agents=3, d=2, M=20, own_features=40, candidates=64, regions=(2, 1), initial=3, refit=5)
ROUNDS = 5


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_server(folder: Path, settings: FTSSettings = SETTINGS, rounds: int = ROUNDS) -> FTSServer:
    plan = SubsampledGaussianPlan(q=0.5, z=1.0, steps=rounds)
    return FTSServer(PlanLedger(folder / "agents.db", plan, n=settings.agents), settings)


def in_step(server: FTSServer) -> InProcess:
    """The transport of agents in one thread that must never wait: waiting fails at once."""
    transport = InProcess(server, timeout=600.0)

    def wait(timeout: float) -> None:
        raise AssertionError("somebody waits for a time-out")

    transport._changed.wait = wait
    return transport


def objective(trial: optuna.Trial) -> float:
    x, y = trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True)
    return (x - 0.3) ** 2 + (np.log10(y) / 2 + 0.2) ** 2


def open_studies(transport: InProcess, storage: str | None = None, seed: int = 1, **more: Any) -> list[optuna.Study]:
    return [
        optuna.create_study(
            sampler=DPFTSSampler(SPACE, transport, SETTINGS, agent=n, seed=seed),
            storage=storage,
            study_name=f"agent {n}",
            load_if_exists=True,
            **more,
        )
        for n in range(SETTINGS.agents)
    ]


def step(studies: list[optuna.Study], trials: int, function: Callable[[optuna.Trial], float] = objective) -> None:
    for _ in range(trials):
        for study in studies:
            study.optimize(function, n_trials=1)


def test_agents_in_one_thread_go_through_the_rounds_in_step_and_then_on_alone(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(in_step(server))
    step(studies, SETTINGS.initial)
    assert server.open_round == 0
    assert server.sent == {0, 1, 2}
    for t in range(ROUNDS):
        step(studies, 1)
        assert server.open_round == t + 1
    step(studies, 3)
    assert len(server.ledger.charges()) == ROUNDS
    assert [len(study.trials) for study in studies] == [SETTINGS.initial + ROUNDS + 3] * 3
    assert server.ledger.statement(delta=0.01).releases == ROUNDS


def test_agents_in_threads(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(InProcess(server, timeout=600.0))
    threads = [threading.Thread(target=study.optimize, args=(objective, 8), daemon=True) for study in studies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert server.open_round == ROUNDS
    assert not any(thread.is_alive() for thread in threads)
    assert [len(study.trials) for study in studies] == [8, 8, 8]


def test_a_dead_agent_blocks_nobody_past_the_timeout(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(InProcess(server, timeout=0.05))
    step(studies[:2], SETTINGS.initial + 3)  # the third never starts
    assert server.open_round == 3
    step(studies[2:], SETTINGS.initial + 1)  # late: it joins at the open round
    assert server.open_round == 4


def test_sharing_that_is_lost_is_logged(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", said.append)
    server = open_server(fast_path)
    studies = open_studies(InProcess(server, timeout=0.05))
    step(studies[:2], SETTINGS.initial + 1)
    assert said == []  # the third is missing: its business and the server's
    server.release(1)
    server.release(2)
    step(studies[:1], 1)
    assert len(said) == 1
    assert "agent 0 sent nothing" in said[0]
    step(studies[:1], ROUNDS)
    DPFTSSampler(SPACE, InProcess(server, timeout=0.05), SETTINGS, agent=2)
    assert [f"agent 2 finds all {ROUNDS} rounds" in line for line in said] == [False, True]


def test_a_killed_federation_goes_on_from_ledger_and_studies(fast_path: Path) -> None:
    step(open_studies(in_step(open_server(fast_path)), stored(fast_path)), SETTINGS.initial + 2)
    before = PlanLedger(fast_path / "agents.db").charges()
    server = open_server(fast_path)  # new processes: nothing but files is left
    assert server.open_round == 2
    studies = open_studies(in_step(server), stored(fast_path))
    for study in studies:
        study.sampler.join(study)
    step(studies, 1)
    assert server.open_round == 3
    assert server.ledger.charges()[:2] == before
    assert [len(study.trials) for study in studies] == [6, 6, 6]
    knows = studies[0].sampler._participant.agent
    assert len(knows) == 6


def test_a_restarted_agent_knows_what_its_study_knows(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(in_step(server))
    step(studies, 4)
    study = studies[1]
    study.sampler = pickle.loads(pickle.dumps(DPFTSSampler(SPACE, Silent(server), SETTINGS, agent=1, seed=1)))
    study.sampler._follow(study, 4)
    agent = study.sampler._participant.agent
    assert np.allclose(agent.values, [-value for value in (t.value for t in study.trials)])
    assert np.array_equal(agent.message(1), studies[0].sampler._model and _rebuilt(study).message(1))


def _rebuilt(study: optuna.Study) -> Any:
    sampler = study.sampler
    sampler._new_participant()
    sampler._follow(study, 4)
    return sampler._participant.agent


class Silent:
    """A transport that can be pickled and knows of no open round."""

    def __init__(self, server: FTSServer | None = None) -> None:
        pass

    def settings(self) -> dict[str, object]:
        return SETTINGS.describe()

    def open_round(self) -> int:
        return 0

    def rounds(self) -> int:
        return 0

    def submit(self, message: object) -> None:
        raise AssertionError("the plan is complete")

    def fetch(self, t: int) -> Any:
        raise AssertionError("the plan is complete")


def test_failed_and_infinite_trials_teach_nothing_and_hold_nobody_up(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(in_step(server))

    def sometimes(trial: optuna.Trial) -> float:
        value = objective(trial)
        if trial.number % 3 == 1:
            raise optuna.TrialPruned
        return float("inf") if trial.number % 3 == 2 else value

    step(studies, SETTINGS.initial + ROUNDS, sometimes)
    assert server.open_round == ROUNDS
    agent = studies[0].sampler._participant.agent
    assert len(agent) == sum(t.number % 3 == 0 for t in studies[0].trials)


def test_it_maximises_and_minimises(fast_path: Path) -> None:
    for direction in ("minimize", "maximize"):
        sampler = DPFTSSampler(SPACE, Silent(), SETTINGS, agent=0, seed=1)
        study = optuna.create_study(sampler=sampler, direction=direction)
        sign = 1 if direction == "minimize" else -1
        study.optimize(lambda trial, sign=sign: sign * objective(trial), n_trials=25)
        assert sign * study.best_value < 0.02


def test_small_discrete_spaces_are_searched_without_repeats() -> None:
    space = {"k": IntDistribution(1, 8, log=True), "s": FloatDistribution(0.0, 1.0, step=0.5)}
    sampler = DPFTSSampler(space, Silent(), SETTINGS, agent=0, seed=1)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: t.suggest_int("k", 1, 8, log=True) + t.suggest_float("s", 0, 1, step=0.5), n_trials=24)
    assert len({tuple(t.params.items()) for t in study.trials}) == 24
    assert study.best_value == 1.0


@pytest.mark.parametrize(
    "space",
    [
        {"j": IntDistribution(0, 99), "k": IntDistribution(0, 99)},
        {"j": IntDistribution(1, 3), "k": IntDistribution(1, 5000, log=True)},
        {"j": FloatDistribution(0.0, 1.0, step=0.01), "k": IntDistribution(0, 990, step=10)},
    ],
)
@pytest.mark.parametrize("agent", [0, 1])
def test_large_discrete_spaces_are_searched_without_repeats(
    space: dict[str, optuna.distributions.BaseDistribution], agent: int
) -> None:
    sampler = DPFTSSampler(space, Silent(), SETTINGS, agent=agent, seed=1)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: sum((t._suggest(name, d) - 0.3) ** 2 for name, d in space.items()), n_trials=34)
    assert len({tuple(t.params.items()) for t in study.trials}) == 34
    pickle.loads(pickle.dumps(sampler))


def test_what_does_not_fit_is_refused_early() -> None:
    for space, settings in (
        ({"x": CategoricalDistribution(["a", "b"])}, SETTINGS),
        ({"x": FloatDistribution(0, 1)}, SETTINGS),
        ({**SPACE, "z": CategoricalDistribution(["a"])}, SETTINGS),
    ):
        with pytest.raises(dptune.InputError):
            DPFTSSampler(space, Silent(), settings, agent=0)
    for agent in (3, "0", 1.0, True):
        with pytest.raises(dptune.InputError, match="agents are numbered"):
            DPFTSSampler(SPACE, Silent(), SETTINGS, agent=agent)
    sampler = DPFTSSampler(SPACE, Silent(), SETTINGS, agent=0)
    optuna.create_study(sampler=sampler).optimize(objective, n_trials=1)
    with pytest.raises(dptune.InputError, match="one study"):
        optuna.create_study(sampler=sampler).optimize(objective, n_trials=1)


class TestDPFTSSampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's own conformance suite for samplers, unmodified.

    Its objectives suggest x, y, ... of every kind and range; the agents' common space has other names.
    """

    @pytest.fixture
    def sampler(self) -> Callable[[], optuna.samplers.BaseSampler]:
        space = {f"common {name}": distribution for name, distribution in SPACE.items()}
        return lambda: DPFTSSampler(space, Silent(), SETTINGS, agent=0, seed=0)
