"""The modeler in Optuna: row numbers as a parameter, state from the study alone."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase
from outsourced_tools import released

from dptune import InputError
from dptune.outsourced import OutsourcedModeler
from dptune.search.gp import RBF
from dptune_optuna import POGPUCBSampler

Z = np.random.default_rng(0).uniform(-5, 5, (60, 2))
Y = np.exp(-0.5 * ((Z - [1, 2]) ** 2).sum(axis=1) / 4)


def sampler(*, maximise: bool = True) -> POGPUCBSampler:
    return POGPUCBSampler(released(Z, 0.2, maximise=maximise), RBF(2.0), noise_variance=1e-3)


def objective(trial: optuna.Trial) -> float:
    return float(Y[trial.suggest_int("row", 0, 59)])


def test_a_study_asks_what_the_modeler_asks() -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    study.optimize(objective, n_trials=12)
    modeler = OutsourcedModeler(released(Z, 0.2), RBF(2.0), noise_variance=1e-3)
    for trial in study.trials:
        assert trial.params["row"] == modeler.ask()
        modeler.tell(trial.params["row"], trial.value)
    assert study.sampler.recommend(study) == {"row": modeler.recommend()}


def test_another_process_goes_on_and_another_study_starts_afresh() -> None:
    studies = [optuna.create_study(sampler=sampler(), direction="maximize") for _ in range(2)]
    studies[0].optimize(objective, n_trials=9)
    studies[1].add_trials(studies[0].trials[:6])
    studies[1].optimize(objective, n_trials=3)
    assert [t.params for t in studies[0].trials] == [t.params for t in studies[1].trials]
    fresh = optuna.create_study(sampler=studies[0].sampler, direction="maximize")
    fresh.optimize(objective, n_trials=4)
    assert [t.params for t in fresh.trials] == [t.params for t in studies[0].trials[:4]]


def test_rows_being_evaluated_are_not_asked_again_and_failed_trials_teach_nothing() -> None:
    study, rows = optuna.create_study(sampler=sampler(), direction="maximize"), IntDistribution(0, 59)
    trials = [study.ask({"row": rows}) for _ in range(4)]
    assert len({trial.params["row"] for trial in trials}) == 4
    study.tell(trials[0], state=optuna.trial.TrialState.FAIL)
    study.ask({"row": rows})
    assert study.sampler.modeler.rows == []


def test_a_study_in_the_wrong_direction_is_refused() -> None:
    study = optuna.create_study(sampler=sampler(maximise=False), direction="maximize")
    with pytest.raises(InputError, match='direction="minimize"'):
        study.optimize(objective, n_trials=1)


class TestPOGPUCBSampler(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: POGPUCBSampler(released(Z, 0.2, maximise=False), RBF(2.0), noise_variance=1e-3)
