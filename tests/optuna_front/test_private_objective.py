"""PrivateObjective: any sampler, on privatised values."""

import pickle

import numpy as np
import optuna
import pytest
from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler
from sklearn.dummy import DummyClassifier

import dptune
from dptune.ledger import entries
from dptune_optuna import PrivateObjective
from harness import N, begun, create, open_ledger, open_privatizer, people_s_losses, point, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.mark.parametrize("sampler", [TPESampler, CmaEsSampler])
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


def test_a_fitted_estimator_and_a_named_loss_are_enough_and_private_training_is_said(tmp_path, caplog):
    private = np.zeros((N, 1)), np.arange(N) % 4 == 0  # a quarter differs from what most are

    def model(trial):
        return DummyClassifier().fit(point(trial) and [[0.0]] * 3, [True, False, False])

    about = {"loss": "zero_one", "data": private, "training": "private"}
    objective = PrivateObjective(model, open_privatizer(tmp_path, mu=50.0), n_trials=6, **about)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    estimate = objective.estimate(study, objective.recommend(study))
    assert abs(estimate.value - 0.25) < 6 * estimate.sigma
    assert any("zero_one" in line for line in caplog.messages)  # whose range is narrower than the clip
    assert open_ledger(tmp_path, 50.0).statement(delta=1e-5).trained == ("study",)


def test_what_cannot_be_minimised_or_estimated_is_refused_unpaid(tmp_path):
    def losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        return people_s_losses(trial)

    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=3)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    without_kernel = dict(objective.recommend(study))
    del without_kernel["kernel"]
    direction = r'direction="minimize".*stored keeps its direction.*study_name'
    for use, says in (
        (lambda: optuna.create_study(direction="maximize").optimize(objective, n_trials=1), direction),
        (lambda: optuna.create_study(directions=["minimize"] * 2).optimize(objective, n_trials=1), direction),
        (lambda: objective(study.best_trial), r"estimate\(study, parameters\)"),
        (lambda: objective.estimate(study, study.best_trial), "map names to values.*got FrozenTrial"),
        (lambda: objective.estimate(study, without_kernel), r"'kernel'.*estimate\(study, \{\*\*recommend"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            use()
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
