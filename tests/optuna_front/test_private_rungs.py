"""Trials in Optuna that private losses stop: what a study shows, and that it shows nothing else."""

from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sklearn.linear_model import SGDClassifier

import dptune
from dptune.privacy.noise import SeededNoise
from dptune.privacy.stored_losses import StoredLosses
from harness import N, create, losses_at, open_centred, open_privatizer, people, point, transcript
from test_non_interference import canned, neighbour

SETTINGS: dict[str, Any] = {"n_trials": 12, "rung_share": 0.2, "rungs": 2}


def training(data, kind="other"):
    """A function whose losses fall step by step, and that may fail half-way."""

    def losses(trial):
        x, y = point(trial)
        for step in range(1, 4):
            with np.errstate(all="ignore"):
                now = losses_at(data, x, y) + 1 / step
            if kind == "raise" and trial.number % 3 == 1:
                raise ValueError(f"bad person: {data[7]}")
            trial.report_private(now, step)
            if trial.should_prune():
                raise optuna.TrialPruned(f"of person 7: {data[7]}")
        return now

    return losses


def optimised(storage, folder, data, kind="other", trials=None):
    sampler = open_centred(open_privatizer(folder, noise=SeededNoise(5)), **SETTINGS)
    study = create(storage, sampler)
    study.optimize(sampler.objective(training(data, kind)), n_trials=trials)
    return study


def transcripts(folder, other, kind="other"):
    """Of a study of the people as they are, and of one of their neighbours."""
    return [
        transcript(
            folder / name, lambda storage, data=data, name=name: optimised(storage, folder / name, data, kind, 12)
        )
        for name, data in (("a", people()), ("b", other))
    ]


def test_a_stopped_trial_is_pruned_without_a_value_and_another_takes_its_place(tmp_path):
    study = optimised(None, tmp_path, people())
    run = study.sampler.run_of(study)
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == run.plan.trials
    assert run.complete
    assert 0 < states.count(TrialState.PRUNED) == len(states) - run.plan.trials
    assert all(not t.values and not t.intermediate_values for t in study.trials if t.state == TrialState.PRUNED)
    asked = run.ledger.charges("study", prefix="rung/")
    assert states.count(TrialState.PRUNED) <= len(asked) <= run.plan.decisions
    assert {c.key.split("/")[1] for c in asked} >= {str(t.number) for t in study.trials if t.state == TrialState.PRUNED}


@pytest.mark.parametrize(("kind", "answer"), [("other", 0.09), ("nan", -0.09), ("raise", 0.09)])  # stops all, or none
def test_transcripts_of_neighbouring_data_are_byte_identical(tmp_path, monkeypatch, kind, answer):
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, answer))
    mine, theirs = transcripts(tmp_path, neighbour(kind), kind)
    assert mine == theirs
    assert mine.count("rung/") > 0


def test_a_decision_from_the_raw_mean_is_found(tmp_path, monkeypatch):
    canned(monkeypatch)

    def leak(self, trial):
        asked = self.question(trial)
        held = self.run.privatizer._held
        return bool(asked and held.combine(asked.query.points, asked.query.weights, slice(7, 8))[0, 0] > 0)

    monkeypatch.setattr("dptune.search.rungs.Rungs.stops", leak)
    data = people()
    data[7] = -people()[7] * 30
    mine, theirs = transcripts(tmp_path, data)
    assert mine != theirs


def test_with_a_named_loss_the_model_is_reported_and_nothing_is_kept_of_a_failed_trial(tmp_path):
    rng = np.random.default_rng(0)
    X, X_train = rng.normal(size=(N, 3)), rng.normal(size=(40, 3))
    y, y_train = (X[:, 0] > 0).astype(int), (X_train[:, 0] > 0).astype(int)
    sampler, failing = open_centred(open_privatizer(tmp_path), **SETTINGS), iter([True])

    @sampler.objective(loss="hinge", data=(X, y))
    def model(trial):
        made = SGDClassifier(alpha=trial.suggest_float("y", 1e-3, 1e1, log=True), random_state=0)
        eta = trial.suggest_float("x", -1, 1)
        for step in range(1, 4):
            made.set_params(learning_rate="constant", eta0=10.0**eta).partial_fit(X_train, y_train, classes=[0, 1])
            trial.report_private(made, step)
            if trial.should_prune():
                raise optuna.TrialPruned
            if next(failing, False):
                raise ValueError("in public")
        return made

    study = create(None, sampler)
    study.optimize(model, catch=(ValueError,))  # one trial more than planned, for the one that ended in error
    assert sampler.run_of(study).complete
    assert sampler.run_of(study).privatizer.points() == ()
    assert model.estimate(study, sampler.recommend(study)).private
    assert "private" in model.try_out({"x": 0.1, "y": 1.0})


def test_reports_of_a_wrong_shape_are_public_mistakes_and_unplanned_ones_are_refused(tmp_path):
    def wrong(trial):
        point(trial)
        trial.report_private(np.zeros(N - 1), 1)

    sampler = open_centred(open_privatizer(tmp_path), **SETTINGS)
    with pytest.raises(dptune.InputError, match=f"expected {N}"):
        create(None, sampler).optimize(sampler.objective(wrong), n_trials=1)
    plain = open_centred(open_privatizer(tmp_path), mu=0.1)
    with pytest.raises(dptune.PrivacyError, match="report_private"):
        create(None, plain, "plain").optimize(plain.objective(wrong), n_trials=1)
    with pytest.raises(dptune.InputError, match="public= and rung_share="):
        sampler.objective(public="the weather")(training(people()))
    assert sampler.run_of(create(None, sampler)).ledger.spent() == 0
