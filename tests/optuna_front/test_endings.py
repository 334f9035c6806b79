"""Studies end correctly: refusals despite ``catch=``, incomplete plans, and components that replace the sampler."""

import contextlib
import gc
import warnings

import numpy as np
import optuna
import pytest
from sklearn.dummy import DummyClassifier

import dptune
from dptune_optuna import CentredSampler
from dptune_optuna.ending import MOST_FAILED
from harness import (
    FRONTS,
    N,
    begun,
    create,
    front,
    open_ledger,
    open_privatizer,
    point,
    spend_elsewhere,
    stored,
)

X = np.random.default_rng(0).normal(size=(2 * N, 2))
Y = (X[:, 0] > 0).astype(int)
PRIVATE = {"loss": "zero_one", "data": (X[N:].copy(), Y[N:].copy())}
X, Y = X[:N].copy(), Y[:N].copy()  # public


def trained(trial):
    return DummyClassifier().fit(point(trial) and X, Y)


def misspelt(trial):
    return DumyClassifier(point(trial))  # noqa: F821


# ---- catch= ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "about", "kind", "trials"),
    [
        (lambda trial: trained(trial).score(X, Y), PRIVATE, "gibo", 1),
        (lambda trial: trial.report(0.5, 1), PRIVATE, "centred", 1),
        (lambda trial: np.ones(7) + point(trial)[0], {}, "values", 1),
        (misspelt, PRIVATE, "centred", MOST_FAILED),
        (misspelt, PRIVATE, "values", MOST_FAILED),
    ],
)
def test_a_public_mistake_ends_a_study_that_catches_everything(tmp_path, mistake, about, kind, trials):
    _, study, objective = begun(kind, tmp_path, mistake, about)
    study.optimize(objective, catch=(Exception,), timeout=600)
    assert len(study.trials) == trials
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize("kind", FRONTS)
def test_a_study_that_catches_everything_stops_with_its_plan_or_budget(tmp_path, kind):
    sampler, study, objective = begun(kind, tmp_path, mu=0.5, n_trials=12)
    study.optimize(objective, catch=(Exception,), timeout=600)
    assert objective.run_of(study).complete
    made = len(study.trials)
    study.optimize(objective, catch=(Exception,), timeout=600)
    assert len(study.trials) <= made + 1
    spend_elsewhere(open_privatizer(tmp_path), 0.8)
    other = create(None, sampler, "other")
    with contextlib.suppress(dptune.BudgetExhausted):  # a sampler's own refusal is not for catch=
        other.optimize(objective, catch=(Exception,), timeout=600)
    assert len(other.trials) <= 1


def test_a_study_whose_trials_all_fail_ends_unpaid(tmp_path):
    _, study, objective = begun("gibo", tmp_path, lambda trial: point(trial) and 1 / 0)
    with pytest.raises(dptune.errors.AllTrialsFailed):
        study.optimize(objective)
    assert open_ledger(tmp_path).spent() == 0


def test_failures_between_successes_end_nothing(tmp_path):
    def every_second(trial):
        return 1 / 0 if trial.number % 2 else trained(trial)

    _, study, objective = begun("values", tmp_path, every_second, PRIVATE, n_trials=MOST_FAILED + 2)
    study.optimize(objective, catch=(Exception,), timeout=600)
    assert objective.run_of(study).complete


# ---- fewer trials than planned --------------------------------------------------------------------------


def lines(caplog):
    gc.collect()
    return [r.getMessage() for r in caplog.records if "planned trials of the study" in r.getMessage()]


@pytest.mark.filterwarnings("ignore:no answer is released yet")
@pytest.mark.parametrize("kind", FRONTS)
def test_a_study_that_ends_before_its_plan_warns_once(tmp_path, kind, caplog):
    """The warning comes at the end of the study or with its recommendation."""
    caplog.set_level("WARNING", "optuna.dptune")
    sampler, study, objective = begun(kind, tmp_path, storage=stored(tmp_path), n_trials=12)
    study.optimize(objective, n_trials=7)
    assert lines(caplog) == []
    del study
    (line,) = lines(caplog)
    assert f"7 of {objective.run_of(create(stored(tmp_path), sampler)).plan.trials} planned trials of the study" in line
    assert "study.optimize(objective) without n_trials" in line
    study = create(stored(tmp_path), sampler)
    study.optimize(objective, n_trials=1)
    (objective if kind == "values" else sampler).recommend(study)
    assert len(lines(caplog)) == 2
    study.optimize(objective)
    (objective if kind == "values" else sampler).recommend(study)
    del study
    assert len(lines(caplog)) == 2  # it was complete


def test_choices_that_a_storage_changes_are_refused_before_a_charge(tmp_path):
    def layered(trial):
        rate = trial.suggest_float("rate", 0.0, 1.0)
        return np.full(N, rate + len(trial.suggest_categorical("layers", [(32,), (64, 64)])))

    sampler = CentredSampler(open_privatizer(tmp_path), n_trials=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Optuna's own, about such choices
        study = create(stored(tmp_path), sampler)
        study.optimize(sampler.objective(layered), n_trials=3, catch=(Exception,))
        assert len(study.trials) == 1
        with pytest.raises(dptune.InputError, match=r"'layers' have a tuple of length 1.*Choose among names"):
            study.optimize(sampler.objective(layered), n_trials=1)
        assert open_ledger(tmp_path).spent() == 0
        study = create(None, sampler)
        study.optimize(sampler.objective(layered), n_trials=3)
        assert all(trial.params["layers"] in [(32,), (64, 64)] for trial in study.trials)


# ---- what replaces the sampler --------------------------------------------------------------------------


@pytest.mark.parametrize("tuner", ["LightGBMTuner", "LightGBMTunerCV"])
def test_a_lightgbm_tuner_that_stores_raw_losses_is_refused(tmp_path, tuner):
    import lightgbm
    from optuna_integration import lightgbm as tuners

    _, study, _ = begun("centred", tmp_path)
    train, test = lightgbm.Dataset(X, Y), lightgbm.Dataset(*PRIVATE["data"])
    about = {"study": study, "show_progress_bar": False, "num_boost_round": 2}
    about |= {"valid_sets": [test]} if tuner == "LightGBMTuner" else {}
    tuning = getattr(tuners, tuner)({"objective": "binary", "verbosity": -1}, train, **about)
    with pytest.raises(dptune.PrivacyError, match=r"LightGBMTuner does.*Nothing was trained or stored"):
        tuning.run()
    assert study.trials == []


def test_a_sampler_may_be_wrapped_and_another_one_is_refused(tmp_path):
    """The refusal comes before private rows are read."""
    calls = []
    sampler, objective = front("centred", open_privatizer(tmp_path))
    study = create(None, sampler, pruner=optuna.pruners.HyperbandPruner(max_resource=3))
    study.optimize(objective, n_trials=2)
    study.sampler = optuna.samplers.PartialFixedSampler({"x": 0.5}, sampler)
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params["x"] == 0.5
    for other in (optuna.samplers.TPESampler(), front("centred", open_privatizer(tmp_path))[0]):
        study.sampler = other
        with pytest.raises(dptune.InputError, match=r"not the CentredSampler.*sampler=sampler"):
            study.optimize(sampler.objective(calls.append), n_trials=3)
    study.optimize(sampler.objective(calls.append), catch=(Exception,), timeout=600)  # it ends
    assert calls == []
    assert [trial.value for trial in study.trials[3:]] == [None] * 3


@pytest.mark.parametrize("kind", ["gibo", "centred"])
def test_ask_and_tell_before_optimize_stores_released_values(tmp_path, kind):
    _, study, objective = begun(kind, tmp_path, n_trials=12)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, objective(trial))
    study.optimize(objective)
    assert objective.run_of(study).complete
    values = {charge.value[0] for charge in open_ledger(tmp_path).charges(prefix="value/") if charge.value}
    shown = {trial.value for trial in study.trials if trial.value < np.inf}
    assert len(shown) > len(study.trials) / 2
    assert kind == "centred" or shown == values
