"""Optuna's pruners on a quantity that the user declares public: what is stored, what is paid, what takes part."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.search.unfinished import FIRST_STOPPED
from dptune_optuna import CentredSampler
from harness import N, create, front, open_ledger, open_privatizer, people_s_losses

WORDS = "the trial's number, known to everybody"
PRUNERS = {
    "median": optuna.pruners.MedianPruner(n_startup_trials=3),
    "hyperband": optuna.pruners.HyperbandPruner(max_resource=3),
}


def reporting(trial: Any) -> np.ndarray:
    """Losses of people whom the public quantity says nothing about."""
    losses = people_s_losses(trial)
    for step in range(1, 4):
        trial.report_public(trial.number % 3 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned("what it says is private where the function sees private data")
    return losses


def reports(folder: Path, kind: str, function: Any = reporting, **about: Any) -> tuple[Any, Any]:
    return front(kind, open_privatizer(folder), function, about, n_trials=12)


@pytest.mark.parametrize("pruner", PRUNERS)
@pytest.mark.parametrize("kind", ["values", "centred"])
def test_pruned_trials_cost_nothing_and_are_trials_of_the_plan(tmp_path: Path, kind: str, pruner: str) -> None:
    """Stopping trials saves training: no more trials are started than without a pruner."""
    sampler, objective = reports(tmp_path, kind, public=WORDS)
    study = create(None, sampler, pruner=PRUNERS[pruner])
    study.optimize(objective)  # it ends by itself
    states = [trial.state for trial in study.trials]
    run = objective.run_of(study)
    assert states.count(TrialState.PRUNED) >= 2
    assert len(states) == run.plan.trials
    assert run.complete == (kind == "centred")
    pruned = [trial for trial in study.trials if trial.state == TrialState.PRUNED]
    assert all(trial.value == trial.number % 3 / max(trial.intermediate_values) for trial in pruned)
    assert not {f"value/{trial.number}" for trial in pruned} & {charge.key for charge in run.ledger.charges()}
    statement = run.ledger.statement(delta=1e-5)
    assert str(statement).count(f"{WORDS} (run 'study')") == 1
    assert statement.failures == 0
    best = sampler.recommend(study) if kind == "centred" else objective.recommend(study)
    assert objective.estimate(study, best).private  # the study is over, whether or not its values are all released


def test_a_pruned_trial_is_never_what_a_search_chooses(tmp_path: Path) -> None:
    """It counts in its generation as a failed evaluation does, whatever its losses would have been."""

    def good_only_where_pruned(trial: Any) -> np.ndarray:
        x, _ = trial.suggest_float("x", -1, 1), trial.suggest_categorical("kind", ["a", "b"])
        trial.report_public(float(x > 0), 1)
        if trial.should_prune():
            raise optuna.TrialPruned
        return np.full(N, 2.0 if x <= 0 else 0.0)

    class Positive(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: Any) -> bool:
            return trial.number > 2 and bool(trial.intermediate_values[1])

    space = {
        "x": optuna.distributions.FloatDistribution(-1, 1),
        "kind": optuna.distributions.CategoricalDistribution(["a", "b"]),
    }
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path, 1e3), n=N, clip=(0.0, 4.0))
    sampler = CentredSampler(privatizer, space, n_trials=24, seed=1)
    study = create(None, sampler, pruner=Positive())
    study.optimize(sampler.objective(public=WORDS)(good_only_where_pruned))
    assert sampler.run_of(study).complete
    assert len(study.trials) == sampler.n_trials
    kept = [trial.params for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert dict(sampler.recommend(study)) in kept


def test_a_generation_in_which_all_are_pruned_does_not_propose_the_same_points_for_ever(tmp_path: Path) -> None:
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    run = CentredSampler(open_privatizer(tmp_path), space, n_trials=24, seed=1).run_of(create(None, None))
    asked = [tuple(run.ask(number).values()) for number in range(7, 7 + 12 * run.algorithm.batch)]
    assert len(set(asked)) == len(asked)


def test_a_study_whose_trials_are_all_pruned_ends(tmp_path: Path, caplog: Any) -> None:
    class Never(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: Any) -> bool:
            return True

    sampler, objective = reports(tmp_path, "centred", public=WORDS)
    study = create(None, sampler, pruner=Never())
    with caplog.at_level("WARNING", "optuna.dptune"):
        study.optimize(objective)
    assert len(study.trials) == FIRST_STOPPED
    assert "a scheduler with max_t= needs max_t larger than the number of reports" in caplog.text
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize("kind", ["values", "centred"])
def test_what_is_not_declared_is_refused_and_the_words_are_told(tmp_path: Path, kind: str) -> None:
    sampler, objective = reports(tmp_path, kind)
    with pytest.raises(dptune.PrivacyError, match=r'public="\.\.\."'):
        create(None, sampler).optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).statement(delta=1e-5).public == ()
    for wrong in ("", 3, True):
        with pytest.raises(dptune.InputError, match="public must be a text"):
            reports(tmp_path, kind, public=wrong)
    with pytest.raises(dptune.InputError, match="private people"):
        reports(tmp_path, kind, public=WORDS, training="private")


def test_a_report_that_optuna_refuses_is_raised_and_unpaid(tmp_path: Path) -> None:
    sampler, objective = reports(tmp_path, "values", lambda trial: trial.report_public("good", 1), public=WORDS)
    with pytest.raises(TypeError, match="<class 'str'>"):
        create(None, sampler).optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).spent() == 0


def test_to_raise_trial_pruned_without_being_told_to_is_a_failure(tmp_path: Path) -> None:
    """Otherwise a function that sees private data could choose by them which trials are free."""

    def pruning(trial: Any) -> np.ndarray:
        trial.report_public(1.0, 1)
        if trial.number == 1:
            raise optuna.TrialPruned
        return np.zeros(N)

    sampler, objective = reports(tmp_path, "values", pruning, public=WORDS)
    study = create(None, sampler)
    study.optimize(objective, n_trials=2)
    assert study.trials[1].state == TrialState.COMPLETE
    assert open_ledger(tmp_path).count() == 2


def test_trying_out_and_the_final_estimate_report_to_nobody(tmp_path: Path) -> None:
    sampler, objective = reports(tmp_path, "centred", public=WORDS)
    assert "private" in objective.try_out({"x": 0.1, "y": 1.0})
    study = create(None, sampler)
    study.optimize(objective, n_trials=1)
    assert objective.estimate(study, {"x": 0.1, "y": 1.0}, early=True).private
    assert len(study.trials) == 1


def boosted(trial: Any) -> Any:
    import lightgbm
    from optuna_integration import lightgbm as callbacks

    params = {"learning_rate": trial.suggest_float("rate", 0.01, 0.5, log=True), "verbosity": -1, "n_estimators": 9}
    stopping = callbacks.LightGBMPruningCallback(trial, "binary_logloss", valid_name="valid_0")
    model = lightgbm.LGBMClassifier(**params)
    return model.fit(X[:80], Y[:80], eval_X=X[80:], eval_y=Y[80:], eval_metric="binary_logloss", callbacks=[stopping])


def extremely_boosted(trial: Any) -> Any:
    import xgboost
    from optuna_integration import xgboost as callbacks

    rate = trial.suggest_float("rate", 0.01, 0.5, log=True)
    stopping = callbacks.XGBoostPruningCallback(trial, "validation_0-logloss")
    model = xgboost.XGBClassifier(n_estimators=9, learning_rate=rate, callbacks=[stopping], eval_metric="logloss")
    return model.fit(X[:80], Y[:80], eval_set=[(X[80:], Y[80:])], verbose=False)


X = np.random.default_rng(3).normal(size=(120, 3))  # public
Y = (X[:, 0] + np.random.default_rng(4).normal(size=120) > 0).astype(int)


@pytest.mark.parametrize("function", [boosted, extremely_boosted])
def test_the_pruning_callbacks_of_libraries_work_on_public_rows(tmp_path: Path, function: Any) -> None:
    class Slow(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: Any) -> bool:
            return trial.params["rate"] < 0.08 and trial.last_step >= 2

    rows = np.random.default_rng(5).normal(size=(N, 3))
    about = {"loss": "log_loss", "data": (rows, (rows[:, 0] > 0).astype(int)), "public": "log loss of 40 public rows"}
    sampler, objective = reports(tmp_path, "values", function, **about)
    study = create(None, sampler, pruner=Slow())
    study.optimize(objective)
    states = {trial.number: trial.state for trial in study.trials}
    for trial in study.trials:
        assert states[trial.number] == (TrialState.PRUNED if trial.params["rate"] < 0.08 else TrialState.COMPLETE)
        assert list(trial.intermediate_values) == list(range(3 if trial.state == TrialState.PRUNED else 9))
    assert set(states.values()) == {TrialState.PRUNED, TrialState.COMPLETE}
    assert open_ledger(tmp_path).count() == list(states.values()).count(TrialState.COMPLETE)


@pytest.mark.parametrize("about", [{"public": WORDS}, {}], ids=["public", "shielded"])
def test_a_model_that_holds_its_trial_pickles_parameters_and_nothing_of_the_study(
    tmp_path: Path, about: dict[str, Any]
) -> None:
    """A pruning callback of XGBoost stays in its model."""
    pickled: list[bytes] = []

    def keeps(trial: Any) -> Any:
        trial.suggest_float("rate", 0.01, 0.5)
        model = LogisticRegression().fit(X, Y)
        model.trial = trial
        pickled.append(pickle.dumps(model))
        return model

    rows = np.random.default_rng(5).normal(size=(N, 3))
    given = {"loss": "log_loss", "data": (rows, (rows[:, 0] > 0).astype(int)), **about}
    sampler, objective = reports(tmp_path, "values", keeps, **given)
    study = create(None, sampler)
    study.optimize(objective, n_trials=1)
    held = pickle.loads(pickled[0]).trial
    assert type(held) is optuna.trial.FixedTrial
    assert held.suggest_float("rate", 0.01, 0.5) == study.trials[0].params["rate"]
    assert rows.tobytes() not in pickled[0]
    assert len(pickled[0]) < 2000
