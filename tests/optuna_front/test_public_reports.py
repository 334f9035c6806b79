"""Optuna's pruners work on a declared public quantity, and trials may ignore a request to stop."""

import itertools
import pickle

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.losses.named import NamedLoss
from dptune.search.outcomes import FIRST_STOPPED
from harness import N, begun, open_ledger, people_s_losses

WORDS = "the trial's number, known to everybody"


def reporting(trial):
    """Losses of people whom the public quantity says nothing about."""
    losses = people_s_losses(trial)
    for step in range(1, 4):
        trial.report_public(trial.number % 3 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned("what it says is private where the function sees private data")
    return losses


class Rule(optuna.pruners.BasePruner):
    """Tells those trials to stop of which a function says so."""

    def __init__(self, says):
        self.says = says

    def prune(self, study, trial):
        return self.says(trial)


def reports(folder, kind, function=reporting, pruner=None, **about):
    """A sampler, its study and its objective."""
    sampler, study, objective = begun(kind, folder, function, about, n_trials=12)
    study.pruner = pruner or study.pruner
    return sampler, study, objective


@pytest.mark.parametrize(
    ("kind", "pruner"),
    [
        ("values", optuna.pruners.MedianPruner(n_startup_trials=3)),
        ("centred", optuna.pruners.HyperbandPruner(max_resource=3)),
    ],
)
def test_pruned_trials_cost_nothing_and_are_trials_of_the_plan(tmp_path, kind, pruner):
    """Stopping trials saves training: no more trials are started than without a pruner."""
    sampler, study, objective = reports(tmp_path, kind, pruner=pruner, public=WORDS)
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
    assert len(study.trials) == len(states)
    assert "private" in objective.try_out({"x": 0.1, "y": 1.0})


def test_a_study_whose_trials_are_all_pruned_ends(tmp_path, caplog):
    _, study, objective = reports(tmp_path, "centred", pruner=Rule(lambda trial: True), public=WORDS)
    with caplog.at_level("WARNING", "optuna.dptune"):
        study.optimize(objective)
    assert len(study.trials) == FIRST_STOPPED
    assert "a scheduler with max_t= needs max_t larger than the number of reports" in caplog.text
    assert open_ledger(tmp_path).spent() == 0


def test_what_is_not_declared_or_not_a_number_is_refused_unpaid(tmp_path):
    def run(function=reporting, **about):
        _, study, objective = reports(tmp_path, "centred", function, **about)
        study.optimize(objective, n_trials=1)

    for about, error, says in (
        ({}, dptune.PrivacyError, r'public="\.\.\."'),
        ({"public": ""}, dptune.InputError, "public must be a text"),
        ({"public": True}, dptune.InputError, "public must be a text"),
        ({"public": WORDS, "training": "private"}, dptune.InputError, "private people"),
        ({"public": WORDS, "function": lambda trial: trial.report_public("good", 1)}, TypeError, "<class 'str'>"),
    ):
        assert open_ledger(tmp_path).statement(delta=1e-5).public == ()
        with pytest.raises(error, match=says):
            run(**about)
    assert open_ledger(tmp_path).spent() == 0


def light(trial):
    import lightgbm
    from optuna_integration import lightgbm as callbacks

    stopping = callbacks.LightGBMPruningCallback(trial, "binary_logloss", valid_name="valid_0")
    rate = trial.suggest_float("rate", 0.01, 0.5, log=True)
    model = lightgbm.LGBMClassifier(learning_rate=rate, verbosity=-1, n_estimators=5)
    return model.fit(X[:80], Y[:80], eval_X=X[80:], eval_y=Y[80:], eval_metric="binary_logloss", callbacks=[stopping])


X = np.random.default_rng(3).normal(size=(120, 3))  # public
Y = (X[:, 0] + np.random.default_rng(4).normal(size=120) > 0).astype(int)
ROWS = np.random.default_rng(5).normal(size=(N, 3))
ABOUT = {"loss": "log_loss", "data": (ROWS, (ROWS[:, 0] > 0).astype(int)), "public": "log loss of 40 public rows"}


def test_the_pruning_callback_of_a_library_works_on_public_rows(tmp_path):
    slow = Rule(lambda trial: trial.params["rate"] < 0.08 and trial.last_step >= 2)
    _, study, objective = reports(tmp_path, "values", light, pruner=slow, **ABOUT)
    study.optimize(objective)
    for trial in study.trials:
        stopped = trial.params["rate"] < 0.08
        assert trial.state == (TrialState.PRUNED if stopped else TrialState.COMPLETE)
        assert list(trial.intermediate_values) == list(range(3 if stopped else 5))
    states = [trial.state for trial in study.trials]
    assert 0 < open_ledger(tmp_path).count() == states.count(TrialState.COMPLETE) < len(states)


def test_a_model_that_stores_its_trial_pickles_only_its_parameters(tmp_path):
    """A pruning callback of XGBoost stays in its model."""
    pickled = []

    def keeps(trial):
        trial.suggest_float("rate", 0.01, 0.5)
        model = LogisticRegression().fit(X, Y)
        model.trial = trial
        if hasattr(trial, "__len__"):
            raise RuntimeError("a trial has no length")
        pickled.append(pickle.dumps(model))
        return model

    _, study, objective = reports(tmp_path, "values", keeps, **ABOUT)
    study.optimize(objective, n_trials=1)
    held = pickle.loads(pickled[0]).trial
    assert type(held) is optuna.trial.FixedTrial
    assert held.suggest_float("rate", 0.01, 0.5) == study.trials[0].params["rate"]
    assert ROWS.tobytes() not in pickled[0]
    assert len(pickled[0]) < 2000


# ---- trials that are told to stop: what they cost must not be for private data to choose --------------------


def failing():
    raise ValueError("private data decide")


def pruning():
    raise optuna.TrialPruned


def stopping(y, output):
    """A loss of one's own that stops the trial where it sees all private rows."""
    return pruning() if len(y) == N else np.zeros(len(y))


def states_and_charges(folder, function, says=lambda trial: True, **about):
    _, study, objective = reports(folder, "values", function, pruner=Rule(says), public="one, always", **about)
    study.optimize(objective, n_trials=3)
    return [trial.state.name for trial in study.trials], open_ledger(folder).count()


PAID, FREE = (["COMPLETE"] * 3, 3), (["COMPLETE", "PRUNED", "PRUNED"], 1)


@pytest.mark.parametrize(
    ("answers", "end", "expected"),
    [
        ([True], lambda: np.ones(N), PAID),  # who goes on is paid for however it ends
        ([True], failing, PAID),
        ([True], pruning, FREE),
        ([False], pruning, PAID),  # it was never told
        ([True, False], pruning, PAID),  # that was taken back
    ],
)
def test_who_stops_as_told_costs_nothing_and_nobody_else_may_stop(tmp_path, answers, end, expected):
    """Otherwise a function that sees private data could choose by them which trials are free."""
    pruner = itertools.cycle(answers)

    def function(trial):
        trial.suggest_float("x", -1, 1)
        trial.report_public(1.0, 1)
        if [trial.should_prune() for _ in answers] != answers:
            raise RuntimeError("it was not told")  # no assert: pytest's makes its whole self reachable from here
        return end() if trial.number else np.zeros(N)

    assert states_and_charges(tmp_path, function, lambda trial: next(pruner)) == expected


def test_a_loss_cannot_stop_the_trial_where_it_sees_private_rows(tmp_path):
    def model(trial):
        trial.report_public(1.0, 1)
        trial.should_prune()
        return DummyRegressor().fit(np.zeros((3, 1)), np.zeros(3))

    data = (np.ones((N, 1)), np.zeros(N))
    assert states_and_charges(tmp_path, model, loss=NamedLoss("own", stopping), data=data) == PAID
