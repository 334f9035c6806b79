"""DP-FTS-DE in Optuna: one study per agent, rounds in step, late agents, restarts."""

import pickle

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

import dptune
from dptune.federated import FTSServer, InProcess
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from dptune_optuna import DPFTSSampler
from harness import SPACE, create, point, stored

SETTINGS = FTSSettings(agents=3, d=2, M=20, own_features=40, candidates=64, regions=(2, 1), initial=3, refit=5)
ROUNDS = 5


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def open_server(folder):
    plan = SubsampledGaussian(q=0.5, z=1.0, steps=ROUNDS)
    return FTSServer(PlanLedger(folder / "agents.db", plan, n=SETTINGS.agents), SETTINGS)


class InStep(InProcess):
    """The transport of agents in one thread that must never wait."""

    def fetch(self, t):
        released = self.poll(t)
        assert released is not None, "somebody waits for a time-out"
        return released


class Silent:
    """A transport that can be pickled and knows of no open round."""

    def settings(self):
        return SETTINGS.describe()

    def open_round(self):
        return 0

    rounds = open_round

    def submit(self, message):
        raise AssertionError("the plan is complete")

    fetch = submit


def made(transport=None, settings=SETTINGS, space=SPACE, agent=0):
    return DPFTSSampler(transport or Silent(), settings, space, agent=agent, seed=1)


def alone():
    """The study of an agent that hears of nobody."""
    return create(None, made(), direction="minimize")


def objective(trial):
    x, y = point(trial)
    return (x - 0.3) ** 2 + (np.log10(y) / 2 + 0.2) ** 2


def open_studies(transport, storage=None):
    return [create(storage, made(transport, agent=n), f"agent {n}") for n in range(SETTINGS.agents)]


def step(studies, trials, function=objective):
    for _ in range(trials):
        for study in studies:
            study.optimize(function, n_trials=1)


def sometimes(trial):
    """Some trials are pruned, infinite or huge: they teach nothing, and hold nobody up."""
    value = objective(trial)
    if trial.number % 3 == 1:
        raise optuna.TrialPruned
    return (float("inf") if trial.number % 2 else 1e308) if trial.number % 3 == 2 else value


@pytest.mark.parametrize("function", [objective, sometimes])
def test_agents_in_one_thread_share_rounds_and_then_continue_alone(fast_path, function):
    server = open_server(fast_path)
    studies = open_studies(InStep(server, timeout=600.0))
    step(studies, SETTINGS.initial, function)
    assert (server.open_round, server.sent) == (0, {0, 1, 2})
    for t in range(ROUNDS):
        step(studies, 1, function)
        assert server.open_round == t + 1
    step(studies, 1, function)
    assert len(server.ledger.charges()) == server.ledger.statement(delta=0.01).releases == ROUNDS
    assert [len(study.trials) for study in studies] == [SETTINGS.initial + ROUNDS + 1] * 3


def test_sharing_that_is_lost_is_logged(fast_path, caplog):
    server = open_server(fast_path)
    studies = open_studies(InProcess(server, timeout=0.05))
    step(studies[:2], SETTINGS.initial + 1)
    assert "sent nothing" not in caplog.text  # the third is missing: its business and the server's
    server.release(1)
    server.release(2)
    step(studies[:1], 1)
    assert caplog.text.count("sent nothing") == caplog.text.count("agent 0 sent nothing") == 1


def test_a_killed_federation_goes_on_from_ledger_and_studies(fast_path):
    step(open_studies(InStep(open_server(fast_path), timeout=600.0), stored(fast_path)), SETTINGS.initial + 2)
    before = PlanLedger(fast_path / "agents.db").charges()
    server = open_server(fast_path)  # new processes: nothing but files is left
    assert server.open_round == 2
    studies = open_studies(InStep(server, timeout=600.0), stored(fast_path))
    for study in studies:
        study.sampler.join(study)
    step(studies, 1)
    assert server.open_round == 3
    assert server.ledger.charges()[:2] == before
    assert [len(study.trials) for study in studies] == [6, 6, 6]


def test_a_restarted_agent_knows_what_its_study_knows():
    whole, study = alone(), alone()
    whole.optimize(objective, n_trials=10)
    study.optimize(objective, n_trials=9)
    study.sampler = pickle.loads(pickle.dumps(made()))
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params == pytest.approx(whole.trials[-1].params, rel=1e-3)  # it fits its model anew


def test_what_does_not_fit_is_refused_early():
    study = alone()
    study.optimize(objective, n_trials=1)
    for use, says in (
        (lambda: made(space={"x": FloatDistribution(0, 1)}), "for d=2"),
        (lambda: made(space={**SPACE, "z": CategoricalDistribution(["a"])}), "float and int"),
        (lambda: made(settings=None), "DPFTSSampler needs settings"),
        (lambda: made(agent=3), "agents are numbered"),
        (lambda: create(None, study.sampler, "another").optimize(objective, n_trials=1), "one study"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            use()
