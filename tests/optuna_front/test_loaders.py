"""Private rows behind a loader: what it raises stays inside; what is no table is refused before anything is paid."""

from __future__ import annotations

import pickle
import time

import numpy as np
import optuna
import pytest

import dptune
from dptune_optuna import PrivateObjective
from harness import N, create, front, open_ledger, open_privatizer
from sealed_harness import MARK, SECRET, seen_in

# ---- the loader of data= --------------------------------------------------------------------------------


class Zero:
    """A fitted model."""

    def predict(self, X):
        return np.zeros(len(X))


def loading(folder, load, **settings):
    """An objective with a loader, and the trials in which its function was called."""
    called = []

    def model(trial):
        called.append(trial.number)
        trial.suggest_float("x", -1, 1)
        return Zero()

    objective = PrivateObjective(
        model, open_privatizer(folder), n_trials=6, loss="squared_error", data=load, **settings
    )
    return objective, called


DATA = np.zeros((N, 1)), np.ones(N)


UNUSABLE = {
    "fails": (lambda: np.load(f"/nowhere/{SECRET}.npy"), "FileNotFoundError"),
    "exits": (lambda: exit(f"row 17 has income {SECRET}"), "SystemExit"),
    "no pair": (lambda: np.full((N, 3), SECRET), r"\(X, y\)"),
    "other rows": (lambda: (DATA[0][1:], DATA[1][1:]), f"{N} rows"),
    "a shape that is no tuple": (lambda: (Shaped(lambda: N), DATA[1]), f"{N} rows"),
    "a shape that is a method": (lambda: (Shaped(lambda: DATA[0].mean), DATA[1]), f"{N} rows"),
    "a shape that fails": (lambda: (Shaped(lambda: exit(SECRET)), DATA[1]), f"{N} rows"),
    "a pair that cannot be read": (lambda: Unreadable(DATA), r"\(X, y\).*Unreadable"),
    "answers on another device": (lambda: (DATA[0], Device()), "Device"),
    "no answers": (lambda: (DATA[0], iter(DATA[1])), f"{N} rows"),
    "a column": (lambda: (DATA[0], DATA[1][:, None]), rf"\({N}, 1\)"),
}


class Shaped:
    def __init__(self, shape):
        self._shape = shape

    @property
    def shape(self):
        return self._shape()

    def __len__(self):
        return N


class Unreadable(tuple):
    def __iter__(self):
        raise RuntimeError(SECRET)

    __len__ = __iter__


class Device:
    """As a tensor on a GPU: no entry of it can be read from here."""

    shape, dtype = (N,), "float32"

    def __len__(self):
        return N

    def __array__(self, *args, **kw):
        raise TypeError(f"cannot convert {SECRET}")


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_loader_that_fails_is_a_public_error_before_anything_is_trained_or_paid(tmp_path, caplog, capfd, case):
    load, message = UNUSABLE[case]
    objective, called = loading(tmp_path, load)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
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

    objective, called = loading(tmp_path, load)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    with pytest.raises(dptune.InputError, match="ConnectionError"):
        study.optimize(objective, n_trials=1)
    study.optimize(objective, n_trials=4, n_jobs=4)
    assert (len(loads), len(called)) == (2, 4)


def test_an_interrupted_loader_passes_the_interrupt_bare(tmp_path):
    def load():
        raise KeyboardInterrupt(SECRET)

    objective, _ = loading(tmp_path, load)
    with pytest.raises(KeyboardInterrupt) as caught:
        create(None, optuna.samplers.RandomSampler(seed=0)).optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)


def test_a_copy_of_an_objective_does_not_carry_what_its_loader_loaded(tmp_path):
    about = {"loss": "squared_error", "data": load_marked}
    sampler, objective = front("values", open_privatizer(tmp_path), module_model, about)
    create(None, sampler).optimize(objective, n_trials=1)
    held = objective._asked
    assert np.float64(SECRET).tobytes() not in pickle.dumps(held)


def load_marked():
    return DATA[0], np.full(N, SECRET)


def module_model(trial):
    return Zero()


@pytest.mark.parametrize("data", [np.zeros((N, 3)), (DATA[0], DATA[1], DATA[1]), DATA[:1], (DATA[0], DATA[1][1:])])
def test_data_that_is_no_pair_of_as_many_rows_is_refused_at_once(tmp_path, data):
    with pytest.raises(dptune.InputError, match="data="):
        loading(tmp_path, data)


@pytest.mark.parametrize("case", [case for case in UNUSABLE if case not in ("fails", "exits")])
def test_data_that_cannot_be_read_is_refused_at_once(tmp_path, case):
    load, message = UNUSABLE[case]
    with pytest.raises(dptune.InputError, match=message):
        loading(tmp_path, load())
