"""A study that is given more trials and budget, one that starts from another, and trials of processes that died."""

from __future__ import annotations

import time

import numpy as np
import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import TrialState

import dptune
from dptune_optuna import PrivateObjective
from harness import SPACE, N, create, objective_of, open_centred, open_privatizer, open_sampler, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
BOTH = pytest.mark.parametrize("opened", [open_centred, open_sampler])


@BOTH
def test_a_study_goes_on_where_it_was_and_every_script_that_says_so_agrees(tmp_path, opened):
    def script(n_trials):
        sampler = opened(open_privatizer(tmp_path), n_trials=12, mu=0.6)
        study, objective = create(stored(tmp_path), sampler), objective_of(sampler)
        study.optimize(objective, n_trials=12)
        objective.extend(study, n_trials=24, mu=1.0)
        study.optimize(objective, n_trials=n_trials)
        return sampler, study, objective

    _, first, _ = script(4)
    sampler, study, objective = script(40)
    run, ledger = sampler.run_of(study), open_privatizer(tmp_path).ledger
    assert (run.scope, run.complete, sampler.n_trials) == ("study, extended", True, run.trials)
    assert 20 <= run.trials <= len(study.trials) <= 34
    assert len(first.trials) > 12
    assert ledger.spent() <= 1.0 + 1e-9
    assert sampler.recommend(study).keys() == SPACE.keys()
    assert objective.estimate(study, sampler.recommend(study)).sigma > 0
    with pytest.raises(dptune.InputError, match="give more of both"):
        objective.extend(study, n_trials=12, mu=1.0)


def test_an_extension_that_the_ledger_cannot_pay_names_the_remedy(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path), n_trials=8)
    study, objective = create(None, sampler), objective_of(sampler)
    study.optimize(objective, n_trials=4)
    with pytest.raises(dptune.InputError, match="not complete"):
        objective.extend(study, n_trials=16)
    study.optimize(objective, n_trials=20)
    with pytest.raises(dptune.BudgetExhausted):
        objective.extend(study, n_trials=16, mu=1.4)
    sampler.run_of(study).ledger.raise_budget(dptune.Budget.gdp(1.4))
    objective.extend(study, n_trials=16, mu=1.4)
    study.optimize(objective, n_trials=20)
    assert sampler.run_of(study).complete


def test_a_study_of_another_sampler_is_extended_by_its_objective(tmp_path):
    objective = PrivateObjective(
        lambda trial: np.full(N, trial.suggest_float("x", -1, 1) ** 2), open_privatizer(tmp_path), n_trials=3, mu=0.5
    )
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=9)
    objective.extend(study, n_trials=6, mu=0.8)
    study.optimize(objective, n_trials=9)
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    assert len(completed) == 6
    assert objective.recommend(study).keys() == {"x"}


def test_a_new_study_starts_from_another_of_the_same_ledger(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path), n_trials=12, mu=0.5)
    study = create(None, sampler, "old")
    study.optimize(objective_of(sampler), n_trials=12)
    later = open_centred(open_privatizer(tmp_path), n_trials=12, mu=0.5, start_from="old")
    again = create(None, later, "new")
    again.optimize(objective_of(later), n_trials=1)
    old, new = sampler.run_of(study), later.run_of(again)
    assert new.algorithm.t == old.algorithm.t == 3
    assert new.recommend() == pytest.approx(old.recommend())
    assert open_privatizer(tmp_path).ledger.count("new") == 0


def test_optuna_closes_the_trials_of_a_killed_process_when_the_study_goes_on(tmp_path):
    """docs/optuna.md: a storage with a heartbeat. A killed process beats no more."""

    def opened():
        storage = RDBStorage(f"sqlite:///{tmp_path}/s.db", heartbeat_interval=1, grace_period=1)
        sampler = open_centred(open_privatizer(tmp_path), n_trials=8)
        return create(storage, sampler), objective_of(sampler)

    study, _ = opened()
    with pytest.warns(UserWarning, match="supposed to be used with Study.optimize"):
        trial = study.ask()
    study._storage.record_heartbeat(trial._trial_id)  # the last one of the process
    time.sleep(2.1)
    study, objective = opened()
    study.optimize(objective, n_trials=1)
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.COMPLETE]


def test_a_trial_that_its_user_knows_to_be_dead_is_told_to_have_failed(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path), n_trials=8)
    study = create(stored(tmp_path), sampler)
    study.ask()
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    study.optimize(objective_of(sampler), n_trials=1)
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.COMPLETE]
