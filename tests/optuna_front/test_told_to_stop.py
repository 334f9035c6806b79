"""Trials that are told to stop and do not: what they cost must not be for private data to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sklearn.dummy import DummyRegressor

from dptune.losses.named import NamedLoss
from dptune.privacy.noise import SeededNoise
from dptune.privacy.stored_losses import StoredLosses
from harness import N, create, front, open_ledger, open_privatizer, people_s_losses


class Always(optuna.pruners.BasePruner):
    """Tells every trial to stop."""

    says = True

    def prune(self, study: optuna.Study, trial: Any) -> bool:
        return self.says


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


def states_and_charges(folder: Path, function: Any, pruner: Any = None, **about: Any) -> tuple[list[str], int]:
    sampler, objective = front("values", open_privatizer(folder), function, {"public": "one, always", **about})
    study = create(None, sampler, pruner=pruner or Always())
    study.optimize(objective, n_trials=3)
    return [trial.state.name for trial in study.trials], open_ledger(folder).count()


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda: np.ones(N), (["COMPLETE"] * 3, 3)),  # who goes on is paid for however it ends
        (failing, (["COMPLETE"] * 3, 3)),
        (pruning, (["COMPLETE", "PRUNED", "PRUNED"], 1)),  # who stops as told costs nothing
    ],
)
def test_a_trial_that_is_told_to_stop(tmp_path: Path, end: Any, expected: Any) -> None:
    assert states_and_charges(tmp_path, lambda trial: told(trial, end)) == expected


def test_an_answer_that_is_taken_back_is_no_leave_to_stop(tmp_path: Path) -> None:
    pruner = Always()

    def twice(trial: Any) -> Any:
        told(trial, lambda: None)
        pruner.says = False
        assert not trial.should_prune()
        pruner.says = True
        return pruning() if trial.number else np.zeros(N)

    assert states_and_charges(tmp_path, twice, pruner) == (["COMPLETE"] * 3, 3)


def test_a_loss_cannot_stop_the_trial_where_it_sees_private_rows(tmp_path: Path) -> None:
    def model(trial: Any) -> Any:
        told(trial, lambda: None)
        return DummyRegressor().fit(np.zeros((3, 1)), np.zeros(3))

    data = (np.ones((N, 1)), np.zeros(N))
    states, charges = states_and_charges(tmp_path, model, loss=NamedLoss("own", stopping), data=data)
    assert (states, charges) == (["PRUNED"] * 3, 0)  # failed, before one has succeeded


LAST = 11


@pytest.mark.parametrize("goes_on", ["reports again", "fails"])
def test_who_goes_on_at_a_private_rung_may_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: str
) -> None:
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, 9.0))

    def model(trial: Any) -> Any:
        losses = people_s_losses(trial)
        trial.report_private(losses, 1)
        if not trial.should_prune():
            return losses
        if goes_on == "fails":
            return failing() if trial.number == LAST else pruning()
        trial.report_private(losses, 2)
        return pruning()

    privatizer = open_privatizer(tmp_path, noise=SeededNoise(5))
    sampler, objective = front("centred", privatizer, model, n_trials=12, rung_share=0.2, rungs=2)
    study = create(None, sampler)
    study.optimize(objective)
    run, failures = sampler.run_of(study), privatizer.ledger.statement(delta=1e-6).failures
    assert run.complete
    if goes_on == "fails":
        assert run.ledger.charges("study", prefix=f"rung/{LAST}/")
        assert (study.trials[LAST].state, failures) == (TrialState.COMPLETE, 1)
    else:
        assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}
        assert failures >= 3  # of the first generation all but the first
