"""What leaves ``study.optimize``, by whatever way, holds no private value: errors, warnings, log lines."""

from __future__ import annotations

import contextlib

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import dptune
from dptune.privacy.noise import SeededNoise
from dptune_optuna import LocalObjective, PrivateObjective, UnprotectedValueWarning
from harness import (
    N,
    create,
    front,
    objective_of,
    open_centred,
    open_ledger,
    open_privatizer,
    open_sampler,
    point,
    stored,
    transcript,
)
from local_harness import paid, usual
from sealed_harness import MARK, SECRET, seen_in


def failing_inside(mistake):
    """An objective that fails on a private value, and makes a public mistake while it handles that."""

    def objective(trial):
        point(trial)
        secret = SECRET
        try:
            raise ValueError(f"row 17 has income {secret}")
        except ValueError:
            return mistake(trial)

    return objective


FRONTS = {
    "PrivateObjective": lambda folder, f: front("values", open_privatizer(folder), f),
    "sampler": lambda folder, f: front("centred", open_privatizer(folder), f),
    "LocalObjective": lambda folder, f: (None, LocalObjective(f, usual())),
    "ledger": lambda folder, f: (None, LocalObjective(f, usual(), **paid(folder))),
}


def swallowing(trial):
    with contextlib.suppress(dptune.PrivacyError):
        trial.report(SECRET, 0)
    return SECRET


MISTAKES = {
    "refused": lambda trial: trial.set_user_attr("failed", True),
    "swallowed": swallowing,
    "bad range": lambda trial: trial.suggest_float("z", 1.0, 0.0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("front", FRONTS)
def test_a_public_error_does_not_carry_the_private_one_it_was_raised_in(tmp_path, caplog, capfd, front, mistake):
    sampler, objective = FRONTS[front](tmp_path, failing_inside(MISTAKES[mistake]))
    study = create(None, sampler)
    with pytest.raises((dptune.PrivacyError, ValueError)) as caught:
        study.optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)
    assert MARK not in caplog.text + "".join(capfd.readouterr())


def test_an_estimate_raises_without_the_private_error(tmp_path):
    fail = []
    inside = failing_inside(MISTAKES["refused"])
    objective = PrivateObjective(
        lambda trial: inside(trial) if fail else np.zeros(N), open_privatizer(tmp_path), n_trials=2
    )
    study = create(None, None)
    study.optimize(objective, n_trials=1)
    fail.append(True)
    with pytest.raises(dptune.PrivacyError) as caught:
        objective.estimate(study, {"x": 0.0, "y": 1.0}, early=True)
    assert MARK not in seen_in(caught.value)


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_what_is_returned_cannot_raise_past_the_shield(tmp_path, error):
    class Unreadable:
        def __array__(self, *args, **kwargs):
            raise error(f"row 17 has income {SECRET}")

    objective = PrivateObjective(lambda trial: Unreadable(), open_privatizer(tmp_path), n_trials=2)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else dptune.InputError) as caught:
        study.optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)


# ---- an objective that was not decorated ------------------------------------------------------------------

VECTORS = {
    "array": lambda: np.full(N, SECRET),
    "list": lambda: [SECRET] * N,
    "arrays": lambda: (np.full(N, SECRET), np.full(N, SECRET)),
    "one object": lambda: {"income": SECRET},
    "quoting": lambda: Quoting(),
}


class Quoting:
    def __repr__(self):
        return f"{SECRET} could not be cast to float; failed with value {SECRET}.\n{SECRET}"


def undecorated(trial, vector):
    point(trial)
    return vector()


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("open_any", [open_centred, open_sampler])
def test_a_vector_of_an_undecorated_objective_ends_the_study_and_is_not_logged(
    tmp_path, caplog, capfd, open_any, vector
):
    study = create(None, open_any(open_privatizer(tmp_path)))
    with pytest.raises(AssertionError, match="Should not reach") as caught:  # Optuna's own, while it handles ours
        study.optimize(lambda trial: undecorated(trial, VECTORS[vector]), n_trials=3)
    assert isinstance(caught.value.__context__, dptune.PrivacyError)
    assert "Decorate the function" in str(caught.value.__context__)
    assert [t.state for t in study.trials] == [TrialState.FAIL]
    assert MARK not in caplog.text + "".join(capfd.readouterr())


def tell(study):
    study.tell(study.ask(), SECRET)


def prune(study):
    def reports(trial):
        trial.report(SECRET, 0)
        raise optuna.TrialPruned

    study.optimize(reports, n_trials=3)


UNPAID = {
    "returned": lambda study: study.optimize(lambda trial: undecorated(trial, lambda: SECRET), n_trials=3),
    "returned in threads": lambda study: study.optimize(lambda trial: SECRET, n_trials=6, n_jobs=2),
    "told": tell,
    "pruned": prune,
}


@pytest.mark.parametrize("how", UNPAID)
def test_a_value_that_no_release_paid_for_ends_the_study_and_optuna_gets_inf(tmp_path, how):
    def run(storage):
        study = create(storage, open_sampler(open_privatizer(tmp_path / "a")))
        with pytest.raises(dptune.PrivacyError, match=r"was stored and logged as inf.*unprotected=.allow") as caught:
            UNPAID[how](study)
        assert MARK not in str(caught.value)
        assert {t.value for t in study.trials} <= {float("inf"), None}
        assert len(study.trials) <= (2 if how == "returned in threads" else 1)

    text = transcript(tmp_path / "a", run)
    assert (MARK in text) == (how == "pruned")  # what a function reports is stored at once


def test_a_study_goes_on_when_its_objective_is_decorated_after_all(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(stored(tmp_path), sampler)
    with pytest.raises(dptune.PrivacyError):
        study.optimize(lambda trial: SECRET, n_trials=1)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials + 1)
    assert sampler.run_of(study).complete
    assert study.best_value < 4


@pytest.mark.parametrize("open_any", [open_centred, open_sampler])
def test_public_values_are_stored_with_a_warning_if_the_user_says_so(tmp_path, open_any):
    study = create(None, open_any(open_privatizer(tmp_path), unprotected="allow"))
    with pytest.warns(UnprotectedValueWarning, match="without noise"):
        study.optimize(lambda trial: undecorated(trial, lambda: 0.25), n_trials=2)
    with pytest.warns(UnprotectedValueWarning, match="failed"):
        study.optimize(lambda trial: 1 / 0, n_trials=1, catch=ZeroDivisionError)
    assert [t.value for t in study.trials] == [0.25, 0.25, None]
    assert open_ledger(tmp_path).count() == 0


def test_an_undecorated_objective_that_raises_ends_the_study(tmp_path):
    sampler, bad = front("gibo", open_privatizer(tmp_path), lambda trial: undecorated(trial, lambda: np.zeros(3)))
    study = create(None, sampler)
    with pytest.raises(dptune.InputError):  # a public failure of a decorated one ends nothing, nor does
        study.optimize(bad, n_trials=1)
    study.tell(study.ask(), state=TrialState.PRUNED)
    with pytest.raises(dptune.PrivacyError, match="is in Optuna's log"):
        study.optimize(lambda trial: 1 / 0, n_trials=3, catch=ZeroDivisionError)
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.PRUNED, TrialState.FAIL]


# ---- a seeded run ---------------------------------------------------------------------------------------


def test_a_seeded_objective_says_so_once(tmp_path, caplog):
    objective = PrivateObjective(lambda trial: np.zeros(N), open_privatizer(tmp_path, noise=SeededNoise(1)), n_trials=3)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    run = objective.run_of(study)
    assert run.progress()["private"] is False  # before the first charge
    study.optimize(objective, n_trials=3)
    assert caplog.text.count("is NOT PRIVATE") == 1
    assert "NOT PRIVATE" in str(objective.estimate(study, {}))
