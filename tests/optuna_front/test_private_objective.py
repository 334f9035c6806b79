"""PrivateObjective: any sampler, on privatised values."""

from __future__ import annotations

import pickle

import numpy as np
import optuna
import pytest
from optuna.samplers import CmaEsSampler, QMCSampler, RandomSampler, TPESampler
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import dptune
from dptune.ledger import entries
from dptune_optuna import PrivateObjective
from harness import N, create, open_centred, open_ledger, open_privatizer, people_s_losses, ran, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
X, Y = load_breast_cancer(return_X_y=True)
PRIVATE, TRAIN = (X[:300].copy(), Y[:300].copy()), (X[300:].copy(), Y[300:].copy())


@pytest.mark.parametrize("sampler", [RandomSampler, TPESampler, CmaEsSampler, QMCSampler])
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


def test_the_study_ends_with_the_plan_and_in_the_remaining_budget(tmp_path):
    objective = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=5, mu=0.5)
    study = create(stored(tmp_path), RandomSampler(seed=0))
    study.optimize(objective, n_trials=9)
    assert len(study.trials) == 5
    second = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=5)
    create(None, RandomSampler(seed=0), "second").optimize(second, n_trials=9)
    assert 0.95 < open_ledger(tmp_path).spent() <= 1.0


def test_threads_pay_once_each_and_a_copy_continues_the_same_plan(tmp_path):
    objective = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=16)
    study = create(stored(tmp_path), RandomSampler())
    study.optimize(objective, n_trials=12, n_jobs=4)
    study.optimize(pickle.loads(pickle.dumps(objective)), n_trials=4)
    done = [t for t in study.trials if t.value is not None]
    assert {t.value for t in done} == {c.value[0] for c in open_ledger(tmp_path).charges()}
    assert len(done) == 16
    assert open_ledger(tmp_path).spent() <= 1.0


def test_a_fitted_estimator_and_the_name_of_a_loss_are_enough(tmp_path):
    privatizer = open_privatizer(tmp_path, mu=50.0, n=300, clip=(0.0, 3.0))

    def model(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        return LogisticRegression(C=C, max_iter=2000, solver="liblinear").fit(*TRAIN)

    objective = PrivateObjective(model, privatizer, n_trials=6, loss="log_loss", data=PRIVATE)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    best = objective.estimate(study, objective.recommend(study))
    assert 0.02 < best.value < 0.6


def test_private_training_and_a_clip_beyond_the_loss_are_said(tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", told.append)
    model = LogisticRegression(max_iter=2000, solver="liblinear").fit(*TRAIN)
    about = {"loss": "zero_one", "data": PRIVATE, "training": "private"}
    objective = PrivateObjective(lambda trial: model, open_privatizer(tmp_path, n=300), n_trials=2, **about)
    create(None, RandomSampler(seed=0)).optimize(objective, n_trials=1)
    assert any("zero_one" in line for line in told)
    assert open_ledger(tmp_path).statement(delta=1e-5).trained == ("study",)


def test_maximising_and_several_objectives_are_refused(tmp_path):
    objective = PrivateObjective(people_s_losses, open_privatizer(tmp_path), n_trials=5)
    for study in (optuna.create_study(direction="maximize"), optuna.create_study(directions=["minimize"] * 2)):
        with pytest.raises(dptune.InputError, match=r'direction="minimize".*stored keeps its direction.*study_name'):
            study.optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize(
    ("loss", "model", "message"),
    [
        ("log_loss", SVC(), "probability=True"),
        ("log_loss", LogisticRegression(), "fitted"),
        ("mse", None, "returned nothing"),
    ],
)
def test_a_public_mistake_is_seen_at_once_and_costs_nothing(tmp_path, loss, model, message):
    if isinstance(model, SVC):
        model.fit(*TRAIN)
    privatizer = open_privatizer(tmp_path, n=300)
    objective = PrivateObjective(lambda trial: model, privatizer, n_trials=5, loss=loss, data=PRIVATE)
    with pytest.raises(dptune.InputError, match=message):
        create(None, RandomSampler(seed=0)).optimize(objective, n_trials=5)
    assert open_ledger(tmp_path).charges() == []


def test_data_of_another_length_is_an_input_error_by_name(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match=f"{N} rows") as refused:
        sampler.objective(loss="mse", data=(np.zeros((N + 1, 1)), np.zeros(N + 1)))(people_s_losses)
    assert type(refused.value) is dptune.InputError


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
    (_, study, objective), read, parse = ran("values", tmp_path, 0, n_trials=30), [], entries.charge_of
    monkeypatch.setattr(entries, "charge_of", lambda row: read.append(row["key"]) or parse(row))
    each = []
    for trials in (2, 20, 2):
        read.clear()
        study.optimize(objective, n_trials=trials)
        each.append(len(read) / trials)
    assert 0 < each[-1] <= each[0]
