"""Trials that are told to stop and do not: what they cost must not be for private data to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sklearn.dummy import DummyRegressor

import dptune
from dptune.losses.named import NamedLoss
from dptune.privacy.held import HeldLosses
from dptune_optuna import PrivateObjective
from harness import N, create, losses_at, open_centred, open_ledger, open_privatizer, people


class Always(optuna.pruners.BasePruner):
    """Tells every trial to stop."""

    def prune(self, study: optuna.Study, trial: Any) -> bool:
        return True


def told(trial: Any, end: Any) -> Any:
    """Be told to stop; go on to an end that private data may choose."""
    trial.suggest_float("x", -1, 1)
    trial.report_public(1.0, 1)
    if not trial.should_prune():
        raise RuntimeError("it was not told")  # no assert: pytest's would make its whole self reachable from here
    return end() if trial.number else np.zeros(N)


def failing() -> Any:
    raise ValueError("private data decide")


def pruning() -> Any:
    raise optuna.TrialPruned


def stopping(y: Any, output: Any) -> Any:
    """A loss of one's own that stops the trial where it sees the private rows; one public row comes first."""
    return np.zeros(1) if len(y) == 1 else pruning()


def states_and_charges(folder: Path, function: Any, **options: Any) -> tuple[list[str], int]:
    objective = PrivateObjective(function, open_privatizer(folder), n_trials=5, public="one, always", **options)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), pruner=Always())
    study.optimize(objective, n_trials=3)
    return [trial.state.name for trial in study.trials], open_ledger(folder).count()


@pytest.mark.parametrize("end", [lambda: np.ones(N), failing], ids=["losses", "failure"])
def test_a_trial_that_goes_on_is_paid_for_however_it_ends(tmp_path: Path, end: Any) -> None:
    assert states_and_charges(tmp_path, lambda trial: told(trial, end)) == (["COMPLETE"] * 3, 3)


def test_a_trial_that_stops_as_told_costs_nothing(tmp_path: Path) -> None:
    expected = ["COMPLETE", "PRUNED", "PRUNED"], 1
    assert states_and_charges(tmp_path, lambda trial: told(trial, pruning)) == expected


def test_an_answer_that_is_taken_back_is_no_leave_to_stop(tmp_path: Path) -> None:
    def twice(trial: Any) -> Any:
        told(trial, lambda: None)
        trial._trial.study.pruner = optuna.pruners.NopPruner()
        assert not trial.should_prune()
        trial._trial.study.pruner = Always()
        return pruning() if trial.number else np.zeros(N)

    assert states_and_charges(tmp_path, twice) == (["COMPLETE"] * 3, 3)


def test_a_loss_cannot_stop_the_trial_where_it_sees_private_rows(tmp_path: Path) -> None:
    def model(trial: Any) -> Any:
        told(trial, lambda: None)
        return DummyRegressor().fit(np.zeros((3, 1)), np.zeros(3))

    options: dict[str, Any] = {"loss": NamedLoss("own", stopping), "data": (np.ones((N, 1)), np.zeros(N))}
    objective = PrivateObjective(model, open_privatizer(tmp_path), n_trials=5, public="one, always", **options)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), pruner=Always())
    with pytest.raises(dptune.errors.AllTrialsFailed):
        study.optimize(objective, n_trials=5)


def test_who_reports_again_has_gone_on_and_may_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldLosses, "mean", lambda self, query: np.full(query.dimension, 9.0))
    data = people()

    def model(trial: Any) -> Any:
        losses = losses_at(data, trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))
        trial.report_private(losses, 1)
        if trial.should_prune():
            trial.report_private(losses, 2)
            return pruning()
        return losses

    sampler = open_centred(open_privatizer(tmp_path, insecure_seed=5), n_trials=12, rung_share=0.2, rungs=2)
    study = create(None, sampler)
    study.optimize(sampler.objective(model))
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}
    assert sampler.run_of(study).ledger.statement(delta=1e-6).failures >= 3  # of the first generation all but the first


def test_who_goes_on_at_a_private_rung_and_fails_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldLosses, "mean", lambda self, query: np.full(query.dimension, 9.0))
    data, last = people(), 11

    def model(trial: Any) -> Any:
        losses = losses_at(data, trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))
        trial.report_private(losses, 1)
        if trial.should_prune():
            return failing() if trial.number == last else pruning()
        return losses

    sampler = open_centred(open_privatizer(tmp_path, insecure_seed=5), n_trials=12, rung_share=0.2, rungs=2)
    study = create(None, sampler)
    study.optimize(sampler.objective(model))
    run = sampler.run_of(study)
    assert run.complete
    assert run.ledger.charges("study", prefix=f"rung/{last}/")
    assert study.trials[last].state == TrialState.COMPLETE
    assert run.ledger.statement(delta=1e-6).failures == 1
