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
from dptune.accounting import entries
from dptune_optuna import PrivateObjective
from harness import N, create, losses_at, open_ledger, open_privatizer, people, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def losses(trial):
    return losses_at(people(), trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))


@pytest.mark.parametrize("sampler", [RandomSampler, TPESampler, CmaEsSampler, QMCSampler])
def test_every_sampler_gets_released_values_only(tmp_path, sampler):
    privatizer = open_privatizer(tmp_path)
    objective = PrivateObjective(losses, privatizer, n_trials=12)
    study = create(None, sampler(seed=0))
    study.optimize(objective, n_trials=12)
    assert [t.value for t in study.trials] == [c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/")]
    assert open_ledger(tmp_path).spent() == pytest.approx(np.sqrt(0.95))
    assert objective.recommend(study) in [t.params for t in study.trials]
    assert privatizer.points() == ()
    objective.estimate(study, study.best_params)
    assert open_ledger(tmp_path).spent() == pytest.approx(1.0)


def test_the_study_ends_with_the_plan_and_in_the_remaining_budget(tmp_path):
    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=5, mu=0.5)
    study = create(stored(tmp_path), RandomSampler(seed=0))
    study.optimize(objective, n_trials=9)
    assert len(study.trials) == 5
    second = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=5)
    create(None, RandomSampler(seed=0), "second").optimize(second, n_trials=9)
    assert 0.95 < open_ledger(tmp_path).spent() <= 1.0


def test_threads_pay_once_each(tmp_path):
    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=16)
    study = create(stored(tmp_path), RandomSampler())
    study.optimize(objective, n_trials=16, n_jobs=4)
    done = [t for t in study.trials if t.value is not None]
    assert {t.value for t in done} == {c.value[0] for c in open_ledger(tmp_path).charges()}
    assert open_ledger(tmp_path).spent() <= 1.0


def test_a_copy_continues_the_same_plan(tmp_path):
    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=6)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    study.optimize(pickle.loads(pickle.dumps(objective)), n_trials=3)
    assert len(open_ledger(tmp_path).charges()) == 6


def test_a_fitted_estimator_and_the_name_of_a_loss_are_enough(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X_train, y_train = X[300:], y[300:]
    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(mu=50.0))
    privatizer = dptune.LossPrivatizer(ledger, n=300, clip=(0.0, 3.0))

    def model(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        return LogisticRegression(C=C, max_iter=2000, solver="liblinear").fit(X_train, y_train)

    objective = PrivateObjective(model, privatizer, n_trials=6, loss="log_loss", data=(X[:300], y[:300]))
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    best = objective.estimate(study, objective.recommend(study))
    assert 0.02 < best.value < 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trials": 0}, "n_trials"),
        ({"n_trials": 5, "mu": -1.0}, "mu"),
        ({"n_trials": 5, "final_share": 1.0}, "final_share"),
        ({"n_trials": 5, "loss": "log_loss"}, "data="),
        ({"n_trials": 5, "loss": "roc_auc", "data": ([[0.0]], [0])}, "roc_auc"),
        ({"n_trials": 5, "loss": "r2", "data": ([[0.0]], [0])}, "r2"),
    ],
)
def test_bad_settings_are_refused_with_the_remedy(tmp_path, arguments, message):
    with pytest.raises(dptune.InputError, match=message):
        PrivateObjective(losses, open_privatizer(tmp_path), **arguments)


def test_maximising_and_several_objectives_are_refused(tmp_path):
    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=5)
    for study in (optuna.create_study(direction="maximize"), optuna.create_study(directions=["minimize"] * 2)):
        with pytest.raises(dptune.InputError, match=r'direction="minimize".*stored keeps its direction.*study_name'):
            study.optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).spent() == 0


def test_grouped_rows_count_as_one_person(tmp_path):
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), groups=np.arange(N) // 3, clip=(0.0, 4.0))
    objective = PrivateObjective(losses, privatizer, n_trials=3)
    create(None, RandomSampler(seed=0)).optimize(objective, n_trials=3)
    assert open_ledger(tmp_path).n == N // 3


@pytest.mark.parametrize(
    ("loss", "model", "message"),
    [
        ("log_loss", SVC(), "probability=True"),
        ("log_loss", LogisticRegression(), "fitted"),
        ("mse", None, "returned nothing"),
    ],
)
def test_a_public_mistake_is_seen_at_once_and_costs_nothing(tmp_path, loss, model, message):
    X, y = load_breast_cancer(return_X_y=True)
    if isinstance(model, SVC):
        model.fit(X[300:], y[300:])
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=300, clip=(0.0, 3.0))
    objective = PrivateObjective(lambda trial: model, privatizer, n_trials=5, loss=loss, data=(X[:300], y[:300]))
    with pytest.raises(dptune.InputError, match=message):
        create(None, RandomSampler(seed=0)).optimize(objective, n_trials=5)
    assert open_ledger(tmp_path).charges() == []


def test_parameters_that_the_run_did_not_search_are_asked_for(tmp_path):
    def kernel_losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        return losses(trial)

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
    read = []
    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=30)
    study = create(None, RandomSampler(seed=0))
    parse = entries.charge_of
    monkeypatch.setattr(entries, "charge_of", lambda row: read.append(row["key"]) or parse(row))
    study.optimize(objective, n_trials=2)
    first = len(read) / 2
    study.optimize(objective, n_trials=20)
    read.clear()
    study.optimize(objective, n_trials=2)
    assert 0 < len(read) / 2 <= first


def test_a_function_as_loss_is_refused_before_anything_is_read_or_paid(tmp_path):
    privatizer = open_privatizer(tmp_path)
    with pytest.raises(dptune.InputError, match=r"a function is not the name of a loss.*NamedLoss of your own"):
        PrivateObjective(lambda trial: None, privatizer, n_trials=5, loss=lambda y, p: y - p, data=([[0]], [0]))
    assert privatizer.ledger.spent() == 0
