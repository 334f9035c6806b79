"""Trials in Optuna that private losses stop: what a study shows, and that it shows nothing else."""

from functools import partial
from typing import Any

import numpy as np
import optuna
import pytest
from noises import CannedNoise
from optuna.trial import TrialState
from sklearn.linear_model import SGDClassifier

import dptune
from dptune.privacy.noise import SeededNoise
from harness import N, create, losses_at, open_centred, open_privatizer, people, point, transcript
from test_non_interference import neighbour

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


def optimised(storage, folder, data, kind="other", trials=None, noise=None):
    sampler = open_centred(open_privatizer(folder, noise=noise or SeededNoise(5)), **SETTINGS)
    study = create(storage, sampler)
    study.optimize(sampler.objective(training(data, kind)), n_trials=trials)
    return study


def transcripts(folder, other, kind="other", answer=None):
    """Of a study of the people as they are, and of one of their neighbours, with canned noise."""
    found = []
    for at, data in ((folder / "a", people()), (folder / "b", other)):
        run = partial(optimised, folder=at, data=data, kind=kind, trials=8, noise=CannedNoise(answer=answer))
        found.append(transcript(at, run))
    return found


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


@pytest.mark.parametrize(("kind", "answer"), [("nan", -9.0), ("raise", 9.0)])  # stops none, or all
def test_transcripts_of_neighbouring_data_are_byte_identical(tmp_path, kind, answer):
    mine, theirs = transcripts(tmp_path, neighbour(kind), kind, answer)
    assert mine == theirs
    assert mine.count("rung/") > 0


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

    sampler, plain = (
        open_centred(open_privatizer(tmp_path), **SETTINGS),
        open_centred(open_privatizer(tmp_path), mu=0.1),
    )
    for mistake, says in (
        (lambda: create(None, sampler).optimize(sampler.objective(wrong), n_trials=1), f"expected {N}"),
        (
            lambda: create(None, plain, "plain").optimize(plain.objective(wrong), n_trials=1),
            "report_private is refused",
        ),
        (lambda: sampler.objective(public="the weather")(training(people())), "public= and rung_share="),
    ):
        with pytest.raises(dptune.DptuneError, match=says):
            mistake()
    assert sampler.run_of(create(None, sampler)).ledger.spent() == 0
