"""How studies end: refusals whatever ``catch=`` says, plans that are not complete, components that swap the sampler."""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
from dptune_optuna import CentredSampler, LocalObjective, PrivateObjective, SelectionObjective
from dptune_optuna.ending import MOST_FAILED
from harness import (
    FRONTS,
    N,
    create,
    front,
    open_ledger,
    open_privatizer,
    people_s_losses,
    point,
    spend_elsewhere,
    stored,
)

X = np.random.default_rng(0).normal(size=(2 * N, 2))
Y = (X[:, 0] > 0).astype(int)
PRIVATE = {"loss": "zero_one", "data": (X[N:].copy(), Y[N:].copy())}
X, Y = X[:N].copy(), Y[:N].copy()  # public


def trained(trial: Any) -> LogisticRegression:
    return LogisticRegression(C=0.5 + abs(sum(point(trial)))).fit(X, Y)


def misspelt(trial: Any) -> Any:
    return LogisticRegresion(C=point(trial)[0])  # noqa: F821 - a public mistake


def a_report(trial: Any) -> Any:
    trial.report(0.5, 1)


MISTAKES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "a score": (lambda trial: 0.9 + 0 * sum(point(trial)), PRIVATE, 1),
    "nothing": (lambda trial: point(trial) and None, PRIVATE, 1),
    "a misspelt name": (misspelt, PRIVATE, MOST_FAILED),
    "trial.report": (a_report, PRIVATE, 1),
    "a wrong length": (lambda trial: np.ones(7) + point(trial)[0], {}, 1),
}


# ---- catch= ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("kind", FRONTS)
def test_a_public_mistake_ends_a_study_that_catches_everything(tmp_path: Path, kind: str, mistake: str) -> None:
    function, about, trials = MISTAKES[mistake]
    sampler, objective = front(kind, open_privatizer(tmp_path), function, about)
    study = create(None, sampler)
    study.optimize(objective, catch=(Exception,), timeout=60)
    assert len(study.trials) == trials
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.parametrize("kind", FRONTS)
def test_a_spent_budget_and_a_complete_plan_end_a_study_that_catches_everything(tmp_path: Path, kind: str) -> None:
    sampler, objective = front(kind, open_privatizer(tmp_path), mu=0.5)
    study = create(None, sampler)
    study.optimize(objective, catch=(Exception,), timeout=60)
    assert objective.run_of(study).complete
    made = len(study.trials)
    study.optimize(objective, catch=(Exception,), timeout=60)
    assert len(study.trials) <= made + 1
    spend_elsewhere(open_privatizer(tmp_path), 0.8)
    sampler, objective = front(kind, open_privatizer(tmp_path), mu=0.5)
    other = create(None, sampler, "other")
    with contextlib.suppress(dptune.BudgetExhausted):  # a sampler's own refusal is not for catch=
        other.optimize(objective, catch=(Exception,), timeout=60)
    assert len(other.trials) <= 1


def test_failures_between_successes_end_nothing(tmp_path: Path) -> None:
    def every_second(trial: Any) -> LogisticRegression:
        if trial.number % 2:
            raise ZeroDivisionError
        return trained(trial)

    sampler, objective = front("values", open_privatizer(tmp_path), every_second, PRIVATE, n_trials=MOST_FAILED + 5)
    study = create(None, sampler)
    study.optimize(objective, catch=(Exception,), timeout=60)
    assert objective.run_of(study).complete


def test_other_objectives_end_at_refusals_and_another_user_may_still_be_asked(tmp_path: Path) -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler())
    study.optimize(SelectionObjective(people_s_losses, open_privatizer(tmp_path), mu=0.5), catch=(Exception,))
    assert len(study.trials) == 1
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=1.0)
    users = ["me", "me", "you"]
    about = {"ledger": ledger, "user": lambda trial: users[trial.number % 3]}
    objective = LocalObjective(lambda trial: 0.1, dptune.local.LocalRandomizer(1.0, 1.0), **about)
    study = optuna.create_study(direction="maximize")
    study.optimize(objective, n_trials=6, catch=(Exception,))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE", "FAIL", "FAIL", "FAIL"]
    alone = LocalObjective(lambda trial: 0.1, dptune.local.LocalRandomizer(1.0, 1.0), ledger=ledger, user="me")
    study = optuna.create_study(direction="maximize")
    study.optimize(alone, catch=(Exception,), timeout=60)
    assert len(study.trials) == 1


def test_an_input_error_is_no_value_error(tmp_path: Path) -> None:
    assert not issubclass(dptune.InputError, ValueError)
    sampler, objective = front("centred", open_privatizer(tmp_path), lambda trial: np.ones(7) + point(trial)[0])
    with pytest.raises(dptune.InputError, match="expected 60"):
        create(None, sampler).optimize(objective, n_trials=3, catch=(ValueError,))


# ---- fewer trials than planned --------------------------------------------------------------------------


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "planned trials of the study" in r.getMessage()]


@pytest.mark.parametrize("kind", FRONTS)
def test_a_study_that_ends_before_its_plan_says_so_once_and_how_to_continue(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "optuna.dptune")
    sampler, objective = front(kind, open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective, n_trials=7)
    planned = objective.run_of(study).trials
    assert lines(caplog) == []
    del study
    gc.collect()
    assert len(lines(caplog)) == 1
    assert f"7 of {planned} planned trials of the study 'study'" in lines(caplog)[0]
    assert "study.optimize(objective) without n_trials" in lines(caplog)[0]


@pytest.mark.filterwarnings("ignore:no answer is released yet")
@pytest.mark.parametrize("kind", FRONTS)
def test_a_recommendation_says_that_the_plan_is_not_complete(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "optuna.dptune")
    sampler, objective = front(kind, open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective, n_trials=7)
    (objective if kind == "values" else sampler).recommend(study)
    assert [f"7 of {objective.run_of(study).trials} planned trials" in line for line in lines(caplog)] == [True]
    study.optimize(objective)
    (objective if kind == "values" else sampler).recommend(study)
    del study
    gc.collect()
    assert len(lines(caplog)) == 1  # the second was complete


READS = {
    "the best value": lambda study, trial: study.best_value,
    "the best trial's values": lambda study, trial: study.best_trial.values[0],
    "the trial's value": lambda study, trial: trial.value,
}


@pytest.mark.parametrize("reads", READS)
def test_a_threshold_callback_does_not_end_a_centred_study_before_its_plan(tmp_path: Path, reads: str) -> None:
    """A trial's value is at least its mean loss, so no value is below a threshold that no mean loss is below."""
    sampler, objective = front("centred", open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(
        objective, callbacks=[lambda study, trial: study.stop() if READS[reads](study, trial) < 0.3 else None]
    )
    run = objective.run_of(study)
    assert run.complete
    assert len(study.trials) == run.trials
    known = [trial for trial in study.trials if trial.value < np.inf]
    assert len(known) > len(study.trials) / 2
    assert all(trial.value > people_s_losses(trial).mean() for trial in known)


@pytest.mark.parametrize("kind", [*FRONTS, "selection"])
def test_what_stands_where_nothing_is_released_is_below_no_threshold(tmp_path: Path, kind: str) -> None:
    seen: list[tuple[int, float]] = []

    def below(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        releases = [charge for charge in open_ledger(tmp_path).charges() if charge.key != "clip"]
        seen.append((len(releases), study.best_value))
        if study.best_value < 1e308:
            study.stop()

    if kind == "selection":
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(SelectionObjective(people_s_losses, open_privatizer(tmp_path), mu=0.5), 6, callbacks=[below])
    else:
        sampler, objective = front(kind, open_privatizer(tmp_path))
        study = create(None, sampler)
        study.optimize(objective, callbacks=[below])
    *before, last = seen
    assert all(value == np.inf for _, value in before)
    assert all(releases == 0 for releases, _ in before)
    assert (last == (0, np.inf)) if kind == "selection" else (last[0] > 0 and last[1] < np.inf)


@pytest.mark.parametrize("kind", ["gibo", "values"])
def test_a_threshold_callback_stops_at_the_first_released_loss_below_it(tmp_path: Path, kind: str) -> None:
    sampler, objective = front(kind, open_privatizer(tmp_path, mu=4.0))
    study = create(None, sampler)
    study.optimize(objective, callbacks=[lambda study, trial: study.stop() if study.best_value < 0.5 else None])
    *before, last = [trial.value for trial in study.trials]
    released = {charge.value[0] for charge in open_ledger(tmp_path, 4.0).charges(prefix="value/") if charge.value}
    assert last < 0.5
    assert all(value >= 0.5 for value in before)
    assert {*before, last} <= released


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("kind", FRONTS)
@pytest.mark.parametrize("callback", ["most trials", "stagnation"])
def test_callbacks_that_stop_a_study_leave_one_that_goes_on(tmp_path: Path, kind: str, callback: str) -> None:
    from optuna.study import MaxTrialsCallback
    from optuna.terminator import BestValueStagnationEvaluator, StaticErrorEvaluator, Terminator, TerminatorCallback

    stagnates = Terminator(BestValueStagnationEvaluator(2), StaticErrorEvaluator(0.0), min_n_trials=3)
    stops: Any = MaxTrialsCallback(5) if callback == "most trials" else TerminatorCallback(stagnates)
    sampler, objective = front(kind, open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective, callbacks=[stops])
    assert 3 <= len(study.trials) < 24
    assert callback != "most trials" or len(study.trials) == 5
    study.optimize(objective)
    assert objective.run_of(study).complete


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(("kind", "restarts"), [("values", True), ("values", False), ("centred", False)])
def test_an_error_in_a_terminator_loses_no_budget(tmp_path: Path, kind: str, restarts: bool) -> None:
    """A terminator without ``error_evaluator=`` asks for scores that no private objective reports."""
    from optuna.terminator import BaseImprovementEvaluator, StaticErrorEvaluator, Terminator, TerminatorCallback

    class Improves(BaseImprovementEvaluator):
        def evaluate(self, trials: Any, study_direction: Any) -> float:
            return 1.0

    def begin(name: str) -> tuple[optuna.Study, Any]:
        (tmp_path / name).mkdir(exist_ok=True)
        sampler, objective = front(kind, open_privatizer(tmp_path / name))
        return create(stored(tmp_path / name) if restarts else None, sampler), objective

    study, objective = begin("undisturbed")
    study.optimize(objective)
    study, objective = begin("ended")
    with pytest.raises(ValueError, match="Cross-validation scores have not been reported"):
        study.optimize(objective, callbacks=[TerminatorCallback(Terminator(Improves(), min_n_trials=7))])
    assert len(study.trials) == 7
    paid = open_ledger(tmp_path / "ended").charges()
    assert len(paid) > 0
    if restarts:
        study, objective = begin("ended")
    mended = Terminator(Improves(), StaticErrorEvaluator(0.0), min_n_trials=7)
    study.optimize(objective, callbacks=[TerminatorCallback(mended)])
    assert objective.run_of(study).complete
    charges = open_ledger(tmp_path / "ended").charges()
    assert charges[: len(paid)] == paid
    undisturbed = open_ledger(tmp_path / "undisturbed").charges()
    assert [(each.key, each.mu) for each in charges] == [(each.key, each.mu) for each in undisturbed]


def test_an_objective_still_pickles(tmp_path: Path) -> None:
    _, objective = front("values", open_privatizer(tmp_path))
    create(None, None).optimize(objective, n_trials=2)
    assert pickle.loads(pickle.dumps(objective)).n_trials == 24


def test_a_sampler_without_a_space_says_to_leave_n_trials_out(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match="without n_trials: the study stops when its plan is complete"):
        _ = CentredSampler(open_privatizer(tmp_path)).n_trials


# ---- choices that a storage does not give back ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["values", "centred", "selection"])
def test_choices_that_a_storage_changes_are_refused_before_anything_is_paid(tmp_path: Path, kind: str) -> None:
    def layered(trial: Any) -> np.ndarray:
        return np.full(N, float(len(trial.suggest_categorical("layers", [(32,), (64, 64)]))))

    def objective_of(folder: Path) -> tuple[Any, Any]:
        folder.mkdir()
        privatizer = open_privatizer(folder)
        if kind == "selection":
            return optuna.samplers.RandomSampler(), SelectionObjective(layered, privatizer, mu=0.5)
        if kind == "values":
            return optuna.samplers.RandomSampler(), PrivateObjective(layered, privatizer, n_trials=4)
        sampler = CentredSampler(privatizer, n_trials=12)
        return sampler, sampler.objective(layered)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Optuna's own, about such choices
        sampler, objective = objective_of(tmp_path / "stored")
        study = create(f"sqlite:///{tmp_path}/s.db", sampler)
        study.optimize(objective, n_trials=3, catch=(Exception,))
        assert len(study.trials) == 1
        with pytest.raises(dptune.InputError, match=r"'layers' have \(32,\), a tuple.*Choose among names"):
            study.optimize(objective, n_trials=1)
        assert open_ledger(tmp_path / "stored").spent() == 0
        sampler, objective = objective_of(tmp_path / "memory")
        study = create(None, sampler)
        study.optimize(objective, n_trials=3)
        assert all(trial.params["layers"] in [(32,), (64, 64)] for trial in study.trials)


# ---- what replaces the sampler --------------------------------------------------------------------------


@pytest.mark.parametrize("tuner", ["LightGBMTuner", "LightGBMTunerCV"])
@pytest.mark.parametrize("kind", ["gibo", "centred"])
def test_a_tuner_that_would_swap_the_sampler_and_store_raw_losses_is_refused(
    tmp_path: Path, kind: str, tuner: str
) -> None:
    import lightgbm
    from optuna_integration import lightgbm as tuners

    sampler, _ = front(kind, open_privatizer(tmp_path))
    study = create(None, sampler)
    train = lightgbm.Dataset(X, Y)
    about: dict[str, Any] = {"study": study, "show_progress_bar": False, "num_boost_round": 2}
    if tuner == "LightGBMTuner":
        about["valid_sets"] = [lightgbm.Dataset(*PRIVATE["data"], reference=train)]
    tuning = getattr(tuners, tuner)(
        {"objective": "binary", "metric": "binary_logloss", "verbosity": -1}, train, **about
    )
    with pytest.raises(dptune.PrivacyError, match=r"LightGBMTuner does.*Nothing was trained or stored"):
        tuning.run()
    assert study.trials == []


@pytest.mark.parametrize("pruner", [optuna.pruners.HyperbandPruner(max_resource=3), optuna.pruners.NopPruner()])
def test_studies_that_optuna_itself_makes_keep_the_sampler(tmp_path: Path, pruner: Any) -> None:
    sampler, objective = front("centred", open_privatizer(tmp_path))
    study = create(None, sampler, pruner=pruner)
    study.optimize(objective, n_trials=2)
    study.sampler = optuna.samplers.PartialFixedSampler({"x": 0.5}, sampler)
    study.optimize(objective, n_trials=1)
    assert len(study.trials) == 3


@pytest.mark.parametrize("kind", ["gibo", "centred"])
def test_an_objective_whose_sampler_was_replaced_is_refused_before_anything_is_read(tmp_path: Path, kind: str) -> None:
    calls: list[int] = []

    def counting(trial: Any) -> np.ndarray:
        calls.append(trial.number)
        return people_s_losses(trial)

    sampler, objective = front(kind, open_privatizer(tmp_path), counting)
    study = create(None, sampler)
    study.sampler = optuna.samplers.TPESampler()
    study.optimize(objective, catch=(Exception,), timeout=60)
    assert calls == []
    assert [trial.value for trial in study.trials] == [None]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_terminator_reads_released_values_only(tmp_path: Path) -> None:
    """Its own error says what it lacks; what it is asked to store is refused."""
    from optuna.terminator import report_cross_validation_scores

    def reports(trial: Any) -> np.ndarray:
        report_cross_validation_scores(trial, [0.1, 0.2])
        return people_s_losses(trial)

    objective = PrivateObjective(reports, open_privatizer(tmp_path), n_trials=8)
    study = create(None, optuna.samplers.RandomSampler())
    with pytest.raises(dptune.PrivacyError, match="refused inside a private objective"):
        study.optimize(objective, n_trials=3)
    assert "0.2" not in json.dumps([trial.system_attrs for trial in study.trials])
    assert open_ledger(tmp_path).spent() == 0
