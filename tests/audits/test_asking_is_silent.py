"""Predicting private rows is silent: nothing is printed, logged, warned about or drawn, whatever function is called.

On neighbouring rows a model predicts another number of times, here because it fails on a missing cell. No output may
show that, and the global generators must be in the same state. Output of public training is shown.
"""

import ctypes
import io
import logging
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import optuna
import pytest
from joblib.externals.loky import reusable_executor
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.silence import silence
from dptune_ray.worker import losses_at
from dptune_sklearn import PrivateSearch
from noises import NoNoise

N, FILE, KEPT = 60, io.StringIO(), [sys.stdout]
logging.getLogger("loud").addHandler(logging.StreamHandler(FILE))  # such as a file: it has no descriptor of a stream
ROWS = np.random.default_rng(0)
X, X_VAL = ROWS.normal(size=(N, 2)), ROWS.normal(size=(N, 2))
Y, Y_VAL = (X[:, 0] > 0).astype(int), (X_VAL[:, 0] > 0).astype(int)
PUBLIC_LOSSES = ROWS.random((3, 40))


def speak(*_: Any) -> None:
    """Say LOUD on every way, and draw."""
    print("LOUD print")
    sys.stdout.write("LOUD write\n")
    print("LOUD standard error", file=sys.stderr)
    print("LOUD kept stream", file=KEPT[0])
    os.write(1, b"LOUD descriptor 1\n")
    os.write(2, b"LOUD descriptor 2\n")
    ctypes.CDLL(None).printf(b"LOUD C\n")
    logging.getLogger("loud").critical("LOUD log")
    logging.getLogger("loud").handle(logging.makeLogRecord({"msg": "LOUD record"}))
    warnings.warn("LOUD warning", stacklevel=1)
    random.random()
    sys.modules["numpy.random"].random()
    if torch := sys.modules.get("torch"):
        torch.state += 1


class Loud(ClassifierMixin, BaseEstimator):
    """Is asked another number of times if a cell is missing: it fails then, and says so."""

    def __init__(self, C: float = 1.0, speak: Callable[..., None] = speak) -> None:
        self.C, self.speak = C, speak

    def fit(self, X: Any, y: Any) -> "Loud":
        print("fits in public")
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        self.speak(len(X))
        if np.isnan(X).any():
            raise ValueError("LOUD missing")
        return (X[:, 0] > self.C - 1).astype(int)


def loud_loss(y: Any, answers: Any, *, labels: Any = None) -> Any:
    speak()
    return (np.asarray(y) != answers).astype(float)


def loading(X_val: Any) -> Callable[[], Any]:
    def load() -> Any:
        speak()
        if np.isnan(X_val).any():
            speak()
        return X_val, Y_VAL

    return load


def privatizer(folder: Path, **options: Any) -> dptune.LossPrivatizer:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(1.0))
    return dptune.LossPrivatizer(ledger, clip=(0.0, 1.0), noise=NoNoise(), **(options or {"n": N}))


def selects(folder: Path, X_val: Any, **options: Any) -> Any:
    models = [Loud(C).fit(X, Y) for C in (0.5, 1.0, 1.5)]
    asked = {"loss": "zero_one", "data": (X_val, Y_VAL), "public_losses": PUBLIC_LOSSES, **options}
    return dptune.select(models, privatizer(folder), name="s", **asked)


def searches(folder: Path, X_val: Any) -> Any:
    search = GridSearchCV(Loud(3.0), {"C": [0.5, 1.0]}, cv=2)
    budget = dptune.Budget.approximate_dp(50.0, 1e-5)
    made = PrivateSearch(search, ledger=str(folder / "l.db"), budget=budget, loss="zero_one", name="s")
    return made.fit(X, Y, X_val=X_val, y_val=Y_VAL)


def chooses(folder: Path, X_val: Any) -> Any:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("C", 0.5, 1.5), n_trials=3)
    options = {"loss": "zero_one", "data": (X_val, Y_VAL), "public": (X, Y), "cv": 2, "progress": False}
    return dptune_optuna.choose(
        study, lambda trial, X, y: Loud(**trial.params).fit(X, y), ledger=privatizer(folder), **options
    )


def optimizes(folder: Path, X_val: Any) -> Any:
    objective = dptune_optuna.PrivateObjective(
        lambda trial: Loud(trial.suggest_float("C", 0.5, 1.5)).fit(X, Y),
        privatizer(folder), n_trials=2, loss="zero_one", data=(X_val, Y_VAL),
    )  # fmt: skip
    optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).optimize(objective, n_trials=2)


def trains_on_ray(folder: Path, X_val: Any) -> Any:
    function = losses_function(lambda config: Loud(**config).fit(X, Y), "zero_one", (X_val, Y_VAL), rows=N)
    losses_at(function, {"C": 1.0})


def reports(folder: Path, X_val: Any) -> Any:
    return dptune.report(Loud().fit(X, Y), privatizer(folder), data=(X_val, Y_VAL), public=(X, Y), cv=2)


def at_places(folder: Path, X_val: Any) -> Any:
    places = dptune.Places([dptune.Place("north", (X_val, Y_VAL)), dptune.Place("south", (X.copy(), Y.copy()))])
    p, models = privatizer(folder, places=places), [Loud(C).fit(X, Y) for C in (0.5, 1.0)]
    dptune.select(models, p, data=places, loss=OWN, name="s", mu=0.1)
    return dptune.report(models[0], p, data=places, public=(X, Y), cv=2, by=places)


OWN = NamedLoss("own", loud_loss, most=1.0, known_clip=True)
DOORS: dict[str, Callable[[Path, Any], Any]] = {
    "select": selects,
    "select, an own loss": lambda folder, X_val: selects(folder, X_val, loss=OWN),
    "select, a loader": lambda folder, X_val: selects(folder, X_val, data=loading(X_val)),
    "PrivateSearch": searches,
    "choose": chooses,
    "objective": optimizes,
    "trainable": trains_on_ray,
    "report": reports,
    "places": at_places,
    "estimator_losses": lambda _, X_val: estimator_losses("zero_one", Loud().fit(X, Y), X_val, Y_VAL),
}


class Torch(SimpleNamespace):
    """As much of PyTorch as has a global generator; tests do not need it installed."""

    state = 0
    cuda = SimpleNamespace(is_initialized=lambda: False)
    nn = SimpleNamespace(Module=type("Module", (), {}))

    def get_rng_state(self) -> int:
        return self.state

    def set_rng_state(self, state: int) -> None:
        self.state = state


def heard(door: str, folder: Path, X_val: Any, capfd: Any, monkeypatch: Any) -> tuple[str, Any]:
    folder.mkdir()
    KEPT[0] = sys.stdout  # a stream that somebody keeps, such as loguru
    FILE.truncate(0)
    random.seed(1)
    sys.modules["numpy.random"].seed(1)
    monkeypatch.setitem(sys.modules, "torch", torch := Torch())
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        DOORS[door](folder, X_val)
    ctypes.CDLL(None).fflush(None)
    generators = random.getstate(), repr(sys.modules["numpy.random"].get_state()), torch.state
    return "".join([*capfd.readouterr(), FILE.getvalue()]), generators


@pytest.mark.parametrize("door", DOORS)
def test_neighbours_leave_the_same_streams_and_generators(
    door: str, fast_path: Path, capfd: Any, monkeypatch: Any
) -> None:
    other = X_VAL.copy()
    other[7, 1] = np.nan
    if door in ("report", "places", "PrivateSearch", "choose"):  # these ask about public rows, too, out of the silence
        monkeypatch.setattr(Loud, "predict", quiet_in_public)
    mine, theirs = (
        heard(door, fast_path / k, rows, capfd, monkeypatch) for k, rows in {"a": X_VAL, "b": other}.items()
    )
    assert "LOUD" not in mine[0] + theirs[0]
    assert mine[0].count("fits in public") == theirs[0].count("fits in public") > 0
    assert mine[1] == theirs[1]


PREDICT = Loud.predict


def quiet_in_public(self: Loud, rows: Any) -> Any:
    public = {row.tobytes() for row in X}
    if {row.tobytes() for row in rows} <= public:
        return (rows[:, 0] > self.C - 1).astype(int)
    return PREDICT(self, rows)


def test_a_stock_forest_that_prints_is_not_heard(fast_path: Path, capfd: Any) -> None:
    models = [RandomForestClassifier(2, max_depth=depth, verbose=1).fit(X, Y) for depth in (1, 2, 3)]
    capfd.readouterr()
    asked = {"loss": "zero_one", "data": (X_VAL, Y_VAL), "public_losses": PUBLIC_LOSSES}
    dptune.select(models, privatizer(fast_path), name="s", **asked)
    assert "Parallel" not in "".join(capfd.readouterr())


# ---- processes -------------------------------------------------------------------------------------------------------


def loud_work(*_: Any) -> int:
    warnings.warn("LOUD worker", stacklevel=1)
    os.write(1, b"LOUD worker\n")
    return os.getpid()


def in_child(_: int) -> None:
    subprocess.run(["echo", "LOUD child"], check=True)


def in_workers(backend: str | None) -> Callable[[int], None]:
    return lambda _: joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(loud_work)(i) for i in range(2)) and None


@pytest.mark.parametrize("way", ["a child", None, "loky", "multiprocessing"])
def test_processes_that_a_model_starts_are_not_heard(way: str | None, capfd: Any) -> None:
    """Joblib keeps its processes, and those of a public training have descriptors from before."""
    here, before = in_workers(way), set[int]()
    if way == "loky":
        joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(4))
        before = set(reusable_executor._executor._processes)  # a busy machine may give all calls to one of them
    capfd.readouterr()
    estimator_losses("zero_one", Loud(1.0, in_child if way == "a child" else here).fit(X, Y), X_VAL, Y_VAL)
    assert "LOUD" not in "".join(capfd.readouterr())
    if way == "loky":  # public training goes on in the processes that it had, and is heard
        assert set(joblib.Parallel(n_jobs=2)(joblib.delayed(loud_work)() for _ in range(4))) <= before
        assert "LOUD" in "".join(capfd.readouterr())


# ---- the process around it -------------------------------------------------------------------------------------------

ODD_PROCESS = """
import os, sys, threading
import numpy as np
from dptune.privacy.seal.silence import silence, quietly
{before}
with silence():
    print("LOUD"); os.write(1, b"LOUD")
assert os.fstat(1) and os.fstat(2)
{after}
"""
PROCESSES = {
    "closed descriptors": ("os.close(1); os.close(2)", ""),
    "no streams": ("sys.stdout = sys.stderr = None", "assert sys.stdout is None"),
    "a closed stream": ("sys.stdout.close()", ""),
    "a fork of another thread": (
        "began, end = threading.Event(), threading.Event()\n"
        "def ask(_): began.set(); end.wait()\n"
        "asks = threading.Thread(target=quietly, args=(ask, 0)); asks.start(); began.wait()",
        "pid = os.fork()\nif pid == 0: os.write(1, b'public'); os._exit(0)\nos.waitpid(pid, 0); end.set(); asks.join()",
    ),
    "an interrupt": (
        "def stop(_): raise KeyboardInterrupt('LOUD')\n"
        "try: quietly(stop, 0)\nexcept KeyboardInterrupt as error: assert not error.args",
        "print('public')",
    ),
    "an error": (
        "def stop(_): raise SystemExit('LOUD')\nassert isinstance(quietly(stop, 0), SystemExit)",
        "print('public')",
    ),
}


@pytest.mark.parametrize("case", PROCESSES)
def test_it_works_in_odd_processes_and_ends(case: str) -> None:
    before, after = PROCESSES[case]
    ran = subprocess.run(
        [sys.executable, "-c", ODD_PROCESS.format(before=before, after=after)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == ("public" if "public" in after else "")
    assert ran.stderr == ""


def test_a_silence_in_which_somebody_trains_never_brings_noise_back() -> None:
    """One state of 624 words comes again by chance with probability below 2^-1000."""
    states = set[str]()
    for _ in range(3):
        sys.modules["numpy.random"].seed(1)
        with silence(trains=True):
            sys.modules["numpy.random"].random()
        states.add(repr(sys.modules["numpy.random"].get_state(legacy=False)["state"]))
    assert len(states) == 3
