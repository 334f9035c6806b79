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
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

import dptune
from dptune.federated import FTSServer, InProcess
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussianPlan
from dptune_optuna import DPFTSSampler
from harness import SPACE, create, point, stored

SETTINGS = FTSSettings(agents=3, d=2, M=20, own_features=40, candidates=64, regions=(2, 1), initial=3, refit=5)
ROUNDS = 5


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_server(folder: Path) -> FTSServer:
    plan = SubsampledGaussianPlan(q=0.5, z=1.0, steps=ROUNDS)
    return FTSServer(PlanLedger(folder / "agents.db", plan, n=SETTINGS.agents), SETTINGS)


class InStep(InProcess):
    """The transport of agents in one thread that must never wait."""

    def fetch(self, t: int) -> Any:
        released = self.poll(t)
        assert released is not None, "somebody waits for a time-out"
        return released


def in_step(server: FTSServer) -> InProcess:
    return InStep(server, timeout=600.0)


class Silent:
    """A transport that can be pickled and knows of no open round."""

    def settings(self) -> dict[str, object]:
        return SETTINGS.describe()

    def open_round(self) -> int:
        return 0

    rounds = open_round

    def submit(self, message: object) -> None:
        raise AssertionError("the plan is complete")

    fetch: Any = submit


def alone(space: Any = SPACE, direction: str = "minimize", agent: int = 0) -> optuna.Study:
    """The study of an agent that hears of nobody."""
    return create(None, DPFTSSampler(Silent(), SETTINGS, space, agent=agent, seed=1), direction=direction)


def objective(trial: optuna.Trial) -> float:
    x, y = point(trial)
    return (x - 0.3) ** 2 + (np.log10(y) / 2 + 0.2) ** 2


def open_studies(transport: InProcess, storage: Any = None) -> list[optuna.Study]:
    samplers = [DPFTSSampler(transport, SETTINGS, SPACE, agent=n, seed=1) for n in range(SETTINGS.agents)]
    return [create(storage, sampler, f"agent {n}") for n, sampler in enumerate(samplers)]


def step(studies: list[optuna.Study], trials: int, function: Callable[[optuna.Trial], float] = objective) -> None:
    for _ in range(trials):
        for study in studies:
            study.optimize(function, n_trials=1)


def test_agents_in_one_thread_go_through_the_rounds_in_step_and_then_on_alone(fast_path: Path) -> None:
    server = open_server(fast_path)
    studies = open_studies(in_step(server))
    step(studies, SETTINGS.initial)
    assert (server.open_round, server.sent) == (0, {0, 1, 2})
    for t in range(ROUNDS):
        step(studies, 1)
        assert server.open_round == t + 1
    step(studies, 3)
    assert len(server.ledger.charges()) == server.ledger.statement(delta=0.01).releases == ROUNDS
    assert [len(study.trials) for study in studies] == [SETTINGS.initial + ROUNDS + 3] * 3


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
    DPFTSSampler(InProcess(server, timeout=0.05), SETTINGS, SPACE, agent=2)
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


def test_a_restarted_agent_knows_what_its_study_knows() -> None:
    whole, study = alone(), alone()
    whole.optimize(objective, n_trials=10)
    study.optimize(objective, n_trials=9)
    study.sampler = pickle.loads(pickle.dumps(DPFTSSampler(Silent(), SETTINGS, SPACE, agent=0, seed=1)))
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params == pytest.approx(whole.trials[-1].params, rel=1e-3)  # it fits its model anew


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


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
def test_it_maximises_and_minimises(direction: str, sign: int) -> None:
    study = alone(direction=direction)
    study.optimize(lambda trial: sign * objective(trial), n_trials=25)
    assert sign * study.best_value < 0.02


@pytest.mark.parametrize(
    ("space", "trials"),
    [
        ({"k": IntDistribution(1, 8, log=True), "s": FloatDistribution(0.0, 1.0, step=0.5)}, 24),  # all of them
        ({"j": IntDistribution(0, 99), "k": IntDistribution(0, 99)}, 34),
        ({"j": IntDistribution(1, 3), "k": IntDistribution(1, 5000, log=True)}, 34),
        ({"j": FloatDistribution(0.0, 1.0, step=0.01), "k": IntDistribution(0, 990, step=10)}, 34),
    ],
)
@pytest.mark.parametrize("agent", [0, 1])
def test_discrete_spaces_are_searched_without_repeats(space: dict[str, BaseDistribution], trials: int, agent: int):
    study = alone(space, agent=agent)
    for _ in range(trials):
        trial = study.ask(space)
        study.tell(trial, sum((value - 0.3) ** 2 for value in trial.params.values()))
    assert len({tuple(t.params.items()) for t in study.trials}) == trials


def test_what_does_not_fit_is_refused_early() -> None:
    for space, settings, says in (
        ({"x": CategoricalDistribution(["a", "b"])}, SETTINGS, "float and int"),
        ({"x": FloatDistribution(0, 1)}, SETTINGS, "for d=2"),
        ({**SPACE, "z": CategoricalDistribution(["a"])}, SETTINGS, "float and int"),
        (SPACE, None, "DPFTSSampler needs settings"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            DPFTSSampler(Silent(), settings, space, agent=0)
    for agent in (3, "0", 1.0, True):
        with pytest.raises(dptune.InputError, match="agents are numbered"):
            DPFTSSampler(Silent(), SETTINGS, SPACE, agent=agent)
    study = alone()
    study.optimize(objective, n_trials=1)
    with pytest.raises(dptune.InputError, match="one study"):
        create(None, study.sampler, "another").optimize(objective, n_trials=1)
