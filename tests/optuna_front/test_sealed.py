"""No error, warning or log line that leaves ``study.optimize`` contains a private value."""

import contextlib
import pickle
import time

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import dptune
from dptune_optuna import LocalObjective, PrivateObjective
from dptune_optuna.sampler import UnprotectedValueWarning
from harness import (
    MARK,
    SECRET,
    N,
    begun,
    create,
    open_centred,
    open_ledger,
    open_privatizer,
    open_sampler,
    point,
    seen_in,
    transcript,
)
from local_harness import paid, usual


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


def estimated(folder, function):
    functions = [function, lambda trial: np.zeros(N)]
    _, study, objective = begun("values", folder, lambda trial: functions.pop()(trial), n_trials=2)
    study.optimize(objective, n_trials=1)
    objective.estimate(study, {"x": 0.0, "y": 1.0}, early=True)


FRONTS = {
    "PrivateObjective": lambda folder, f: optimised(*begun("values", folder, f)),
    "sampler": lambda folder, f: optimised(*begun("centred", folder, f)),
    "estimate": estimated,
    "LocalObjective": lambda folder, f: optimised(None, create(None, None), LocalObjective(f, usual())),
    "ledger": lambda folder, f: optimised(None, create(None, None), LocalObjective(f, usual(), **paid(folder))),
}


def optimised(_, study, objective):
    study.optimize(objective, n_trials=1)


def swallowing(trial):
    with contextlib.suppress(dptune.PrivacyError):
        trial.report(SECRET, 0)
    return SECRET


MISTAKES = {
    "refused": lambda trial: trial.set_user_attr("failed", True),
    "swallowed": swallowing,
    "bad range": lambda trial: trial.suggest_float("z", 1.0, 0.0),
}


@pytest.mark.parametrize(
    ("front", "mistake"),
    [
        ("PrivateObjective", "refused"),
        ("sampler", "swallowed"),
        ("sampler", "bad range"),
        ("estimate", "refused"),
        ("LocalObjective", "swallowed"),
        ("ledger", "refused"),
    ],
)
def test_a_public_error_does_not_carry_the_private_one_it_was_raised_in(tmp_path, caplog, capfd, front, mistake):
    with pytest.raises((dptune.PrivacyError, ValueError)) as caught:
        FRONTS[front](tmp_path, failing_inside(MISTAKES[mistake]))
    assert MARK not in seen_in(caught.value)
    assert MARK not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_is_returned_cannot_raise_past_the_shield(tmp_path, error):
    class Unreadable:
        def __array__(self, *args, **kwargs):
            raise error(f"row 17 has income {SECRET}")

    _, study, objective = begun("values", tmp_path, lambda trial: Unreadable(), n_trials=2)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else dptune.InputError) as caught:
        study.optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)


# ---- an objective that was not decorated ------------------------------------------------------------------


class Quoting:
    def __repr__(self):
        return f"{SECRET} could not be cast to float; failed with value {SECRET}.\n{SECRET}"


VECTORS = [[SECRET] * N, (np.full(N, SECRET), np.full(N, SECRET)), {"income": SECRET}, Quoting()]


@pytest.mark.parametrize("vector", VECTORS, ids=["list", "arrays", "one object", "quoting"])
def test_a_vector_from_an_undecorated_function_ends_the_study_unlogged(tmp_path, caplog, capfd, vector):
    study = create(None, open_centred(open_privatizer(tmp_path)))
    with pytest.raises(AssertionError) as caught:  # Optuna's own, while it handles ours
        study.optimize(returning(vector), n_trials=3)
    assert isinstance(caught.value.__context__, dptune.PrivacyError)
    assert "Decorate the function" in str(caught.value.__context__)
    assert [t.state for t in study.trials] == [TrialState.FAIL]
    assert MARK not in caplog.text + "".join(capfd.readouterr())


def returning(value):
    """An objective that was not decorated."""
    return lambda trial: point(trial) and value


def prune(study):
    def reports(trial):
        trial.report(SECRET, 0)
        raise optuna.TrialPruned

    study.optimize(reports, n_trials=3)


UNPAID = {
    "returned": lambda study: study.optimize(returning(SECRET), n_trials=3),
    "returned in threads": lambda study: study.optimize(returning(SECRET), n_trials=6, n_jobs=2),
    "told": lambda study: study.tell(study.ask(), SECRET),
    "pruned": prune,
}


@pytest.mark.parametrize("how", UNPAID)
def test_an_unpaid_value_ends_the_study_and_optuna_gets_inf(tmp_path, how):
    def run(storage):
        study = create(storage, open_sampler(open_privatizer(tmp_path / "a")))
        with pytest.raises(dptune.PrivacyError, match=r"was stored and logged as inf.*unprotected=.allow") as caught:
            UNPAID[how](study)
        assert MARK not in str(caught.value)
        assert {t.value for t in study.trials} <= {float("inf"), None}
        assert len(study.trials) <= (2 if how == "returned in threads" else 1)

    text = transcript(tmp_path / "a", run)
    assert (MARK in text) == (how == "pruned")  # what a function reports is stored at once


def test_public_values_are_stored_with_a_warning_if_the_user_says_so(tmp_path):
    study = create(None, open_sampler(open_privatizer(tmp_path), unprotected="allow"))
    with pytest.warns(UnprotectedValueWarning, match="without noise"):
        study.optimize(returning(0.25), n_trials=2)
    with pytest.warns(UnprotectedValueWarning):
        study.optimize(lambda trial: 1 / 0, n_trials=1, catch=ZeroDivisionError)
    assert [t.value for t in study.trials] == [0.25, 0.25, None]
    assert open_ledger(tmp_path).count() == 0


def test_an_undecorated_objective_that_raises_ends_the_study(tmp_path):
    _, study, bad = begun("gibo", tmp_path, returning(np.zeros(3)))
    with pytest.raises(dptune.InputError):  # a public failure of a decorated one ends nothing, nor does
        study.optimize(bad, n_trials=1)
    study.tell(study.ask(), state=TrialState.PRUNED)
    with pytest.raises(dptune.PrivacyError, match="is in Optuna's log"):
        study.optimize(lambda trial: 1 / 0, n_trials=3, catch=ZeroDivisionError)
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.PRUNED, TrialState.FAIL]


# ---- the loader of data= --------------------------------------------------------------------------------


class Zero:
    """A fitted model."""

    def predict(self, X):
        return np.zeros(len(X))


def loading(folder, load):
    """A study, its objective with a loader, and the trials in which its function was called."""
    called = []

    def model(trial):
        called.append(trial.number)
        return Zero()

    objective = PrivateObjective(model, open_privatizer(folder), n_trials=6, loss="squared_error", data=load)
    return create(None, optuna.samplers.RandomSampler(seed=0)), objective, called


def raising(error):
    def load():
        raise error(f"row 17 has income {SECRET}")

    return load


DATA = np.zeros((N, 1)), np.ones(N)
UNUSABLE = {
    "fails": (raising(FileNotFoundError), "FileNotFoundError"),
    "exits": (raising(SystemExit), "SystemExit"),
    "no answers": (lambda: (DATA[0], iter(DATA[1])), f"{N} rows"),
    "no pair": (lambda: np.full((N, 3), SECRET), r"\(X, y\)"),
    "too few": (lambda: (DATA[0], DATA[1][1:]), f"{N} rows"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_failing_loader_is_a_public_error_before_training_and_charge(tmp_path, caplog, capfd, case):
    load, message = UNUSABLE[case]
    study, objective, called = loading(tmp_path, load)
    with pytest.raises(dptune.InputError, match=message) as caught:
        study.optimize(objective, n_trials=6)
    assert called == []
    assert open_ledger(tmp_path).spent() == 0.0
    assert MARK not in seen_in(caught.value)
    assert MARK not in caplog.text + "".join(capfd.readouterr())


def test_a_loader_is_called_once_by_all_threads_and_again_after_a_failure(tmp_path):
    loads = []

    def load():
        loads.append(1)
        if len(loads) == 1:
            raise ConnectionError
        time.sleep(0.05)
        return DATA

    study, objective, called = loading(tmp_path, load)
    with pytest.raises(dptune.InputError):
        study.optimize(objective, n_trials=1)
    study.optimize(objective, n_trials=4, n_jobs=4)
    assert (len(loads), len(called)) == (2, 4)


def test_an_interrupt_of_a_loader_shows_no_rows(tmp_path):
    """A copy of the objective does not contain loaded rows."""
    study, objective, _ = loading(tmp_path, raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as caught:
        study.optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)
    about = {"loss": "squared_error", "data": load_marked}
    _, study, objective = begun("values", tmp_path, module_model, about, n_trials=6)
    study.optimize(objective, n_trials=1)
    assert np.float64(SECRET).tobytes() not in pickle.dumps(objective._asked)


def load_marked():
    return DATA[0], np.full(N, SECRET)


def module_model(trial):
    return Zero()
