"""PrivateObjective: any sampler, on privatised values."""

import pickle

import numpy as np
import optuna
import pytest
from optuna.samplers import CmaEsSampler, QMCSampler, RandomSampler, TPESampler
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.ledger import entries
from dptune_optuna import PrivateObjective
from harness import begun, create, open_ledger, open_privatizer, people_s_losses, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
X, Y = load_breast_cancer(return_X_y=True)
PRIVATE, TRAIN = (X[:300].copy(), Y[:300].copy()), (X[300:].copy(), Y[300:].copy())


@pytest.mark.parametrize("sampler", [TPESampler, CmaEsSampler, QMCSampler])
def test_every_sampler_gets_released_values_only(tmp_path, sampler):
    privatizer = open_privatizer(tmp_path)
    objective = PrivateObjective(people_s_losses, privatizer, n_trials=12)
    study = create(None, sampler(seed=0))
    study.optimize(objective, n_trials=12)
    assert [t.value for t in study.trials] == [c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/")]
    assert open_ledger(tmp_path).spent() == pytest.approx(np.sqrt(0.95))
    assert objective.recommend(study) in [t.params for t in study.trials]
    assert privatizer.points() == ()
    objective.estimate(study, study.best_params)
    assert open_ledger(tmp_path).spent() == pytest.approx(1.0)


def test_threads_pay_once_each_and_a_copy_continues_the_same_plan(tmp_path):
    objective = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=16)
    study = create(stored(tmp_path), RandomSampler())
    study.optimize(objective, n_trials=12, n_jobs=4)
    study.optimize(copy := pickle.loads(pickle.dumps(objective)), n_trials=4)
    assert copy.n_trials == pickle.loads(pickle.dumps(objective)).n_trials == 16
    done = [t for t in study.trials if t.value is not None]
    assert {t.value for t in done} == {c.value[0] for c in open_ledger(tmp_path).charges()}
    assert len(done) == 16
    assert open_ledger(tmp_path).spent() <= 1.0


def test_a_fitted_estimator_and_a_named_loss_are_enough_and_private_training_is_said(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", told.append)

    def model(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        return LogisticRegression(C=C, max_iter=2000, solver="liblinear").fit(*TRAIN)

    about = {"loss": "zero_one", "data": PRIVATE, "training": "private"}
    objective = PrivateObjective(model, open_privatizer(tmp_path, mu=50.0, n=300), n_trials=6, **about)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    assert 0 < objective.estimate(study, objective.recommend(study)).value < 0.3
    assert any("zero_one" in line for line in told)  # whose range is narrower than the clip
    assert open_ledger(tmp_path, 50.0).statement(delta=1e-5).trained == ("study",)


def test_maximising_and_several_objectives_are_refused(tmp_path):
    objective = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=5)
    for study in (optuna.create_study(direction="maximize"), optuna.create_study(directions=["minimize"] * 2)):
        with pytest.raises(dptune.InputError, match=r'direction="minimize".*stored keeps its direction.*study_name'):
            study.optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).spent() == 0


def test_parameters_that_the_run_did_not_search_are_asked_for(tmp_path):
    def kernel_losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        return people_s_losses(trial)

    objective = PrivateObjective(kernel_losses, open_privatizer(tmp_path), n_trials=3)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    parameters = objective.recommend(study)
    del parameters["kernel"]
    with pytest.raises(dptune.InputError, match=r"'kernel'.*estimate\(study, \{\*\*recommend"):
        objective.estimate(study, parameters)
    with pytest.raises(dptune.InputError, match="estimate"):
        objective(study.best_trial)
    assert len(open_ledger(tmp_path).charges()) == 3


def test_the_work_of_a_trial_does_not_grow_with_the_ledger(tmp_path, monkeypatch):
    (_, study, objective), read, parse = begun("values", tmp_path, n_trials=30), [], entries.charge_of
    monkeypatch.setattr(entries, "charge_of", lambda row: read.append(row["key"]) or parse(row))
    each = []
    for trials in (2, 20, 2):
        read.clear()
        study.optimize(objective, n_trials=trials)
        each.append(len(read) / trials)
    assert 0 < each[-1] <= each[0]
