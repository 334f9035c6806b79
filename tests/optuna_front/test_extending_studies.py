"""A study that is given more trials and budget, one that starts from another, and trials of processes that died."""

from __future__ import annotations

import time

import pytest
from optuna.storages import RDBStorage
from optuna.trial import TrialState

import dptune
from harness import OPEN, SPACE, create, objective_of, open_centred, open_privatizer, ran, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.mark.parametrize("kind", OPEN)
def test_a_study_goes_on_where_it_was_and_every_script_that_says_so_agrees(tmp_path, kind):
    def script(n_trials):
        sampler, study, objective = ran(kind, tmp_path, 12, storage=stored(tmp_path), n_trials=12, mu=0.6)
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
    sampler, study, objective = ran("centred", tmp_path, 4, n_trials=8)
    with pytest.raises(dptune.InputError, match="before it is complete"):
        objective.extend(study, n_trials=16)
    study.optimize(objective, n_trials=20)
    with pytest.raises(dptune.BudgetExhausted):
        objective.extend(study, n_trials=16, mu=1.4)
    sampler.run_of(study).ledger.raise_budget(dptune.Budget.gdp(1.4))
    objective.extend(study, n_trials=16, mu=1.4)
    study.optimize(objective, n_trials=20)
    assert sampler.run_of(study).complete


def test_a_study_of_another_sampler_is_extended_by_its_objective(tmp_path):
    _, study, objective = ran("values", tmp_path, 9, n_trials=3, mu=0.5)
    objective.extend(study, n_trials=6, mu=0.8)
    study.optimize(objective, n_trials=9)
    assert len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) == 6
    assert objective.recommend(study).keys() == SPACE.keys()


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


@pytest.mark.filterwarnings("ignore:.*supposed to be used with Study.optimize")
@pytest.mark.parametrize("closed_by", ["heartbeat", "user"])
def test_trials_of_a_killed_process_are_closed_and_the_study_goes_on(tmp_path, closed_by):
    """docs/optuna.md: a storage with a heartbeat, or the user, who knows them to be dead."""

    def opened():
        storage = RDBStorage(f"sqlite:///{tmp_path}/s.db", heartbeat_interval=1, grace_period=1)
        sampler = open_centred(open_privatizer(tmp_path), n_trials=8)
        storage = storage if closed_by == "heartbeat" else stored(tmp_path)
        return storage, create(storage, sampler), objective_of(sampler)

    storage, study, _ = opened()
    trial = study.ask()
    if closed_by == "heartbeat":
        identity = storage.get_trial_id_from_study_id_trial_number(storage.get_study_id_from_name("study"), 0)
        storage.record_heartbeat(identity)  # the last one of the process
        time.sleep(2.1)
    else:
        study.tell(trial.number, state=TrialState.FAIL)
    _, study, objective = opened()
    study.optimize(objective, n_trials=1)
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.COMPLETE]
