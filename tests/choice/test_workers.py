"""Public trainings in workers: the same results for every ``n_jobs`` and backend, and what they print is shown here."""

import contextlib
import os
import sys
import threading
import warnings

import joblib
import numpy as np
import optuna
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune.choice.workers import TrainingFailed, in_order, workers_of
from dptune.privacy.noise import SeededNoise
from dptune_sklearn import PrivateSearch
from harness import open_ledger

ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
CS = [1e-3, 1e-2, 0.1, 1.0, 10.0]
FAILS = 1e-2  # value of C
WAYS = {  # n_jobs, and the backend of joblib
    "one": (1, None),
    "default": (None, None),
    "processes": (2, "loky"),
    "context": (None, "loky"),
    "threads": (2, "threading"),
    "forks": (2, "multiprocessing"),
}


def in_backend(backend, **about):
    return contextlib.nullcontext() if backend is None else joblib.parallel_config(backend, **about)


def speaks(place, rows):
    """A training that prints, warns and writes into its rows; or fails."""
    print("out", place)
    print("err", place, file=sys.stderr)
    warnings.warn("the same text", UserWarning, stacklevel=1)
    rows[0] = place
    if place == 3:
        raise ValueError("no convergence")
    return place, float(rows.sum()), os.getpid()


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("n_jobs", "backend"), [(1, None), (2, "loky"), (2, "threading")])
def test_results_prints_and_warnings_come_in_order(capsys, n_jobs, backend, few):
    rows = np.ones(200_000)  # large enough to be shared by joblib
    ticks = []
    with warnings.catch_warnings(record=True) as warned, in_backend(backend):
        warnings.simplefilter("default")
        arguments = [(place, rows.copy()) for place in range(5)]
        found = list(in_order(speaks, arguments, n_jobs, few=few, tick=lambda: ticks.append(1)))
    out, err = capsys.readouterr()
    assert isinstance(found.pop(3), TrainingFailed)
    assert [each[:2] for each in found] == [(place, 199_999.0 + place) for place in (0, 1, 2, 4)]
    assert {each[2] == os.getpid() for each in found} == {backend != "loky"}
    assert sorted(out.splitlines()) == [f"out {place}" for place in range(5)]
    assert sorted(err.splitlines()) == [f"err {place}" for place in range(5)]
    assert {str(each.message) for each in warned} == {"the same text"}
    assert len(warned) == 1 or backend == "threading"
    assert len(ticks) == 5


def test_a_training_that_was_read_has_been_counted():
    """So a progress bar is full when the last model was read, though nothing asks for another one."""
    ticks = []
    read = in_order(len, [("ab",), ("abc",)], 1, tick=lambda: ticks.append(1))
    assert [(next(read), len(ticks)) for _ in range(2)] == [(2, 1), (3, 2)]


def test_no_more_models_exist_than_there_are_workers():
    begun, read = [], in_order(lambda place: begun.append(place), [(place,) for place in range(6)], 2, few=True)
    with joblib.parallel_config("threading"):
        for place in range(6):
            next(read)
            assert len(begun) <= place // 2 * 2 + 2
    assert sorted(begun) == list(range(6))


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "2"])
def test_n_jobs_is_checked(n_jobs):
    with pytest.raises(dptune.InputError, match="n_jobs must be a number of workers"):
        workers_of(n_jobs)


def test_a_training_that_does_not_pickle_is_refused_and_nothing_charged(tmp_path):
    lock, ledger = threading.Lock(), open_ledger(tmp_path)
    with pytest.raises(
        dptune.InputError,
        match=r"(?s)cannot be sent .*\. Use n_jobs=1, or joblib.*Nothing was charged",
    ):
        optuna_choice(ledger, 2, lambda trial, X, y: lock and train(trial, X, y), public=PUBLIC)
    assert ledger.spent() == 0


# ---- front ends ------------------------------------------------------------------------------------------


class Odd(ClassifierMixin, BaseEstimator):
    """A classifier with a training that may fail."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        if self.C == FAILS:
            raise ValueError("no convergence")
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def train(trial, X, y):
    if trial.study.direction != 1 or trial.user_attrs != {"place": CS.index(trial.params["C"])}:
        raise KeyError("a callback would miss something")
    return Odd(trial.params["C"]).fit(X.copy(), y)


def optuna_choice(ledger, n_jobs, train, **about):
    study, space = optuna.create_study(study_name="logit"), {"C": optuna.distributions.FloatDistribution(1e-5, 1e3)}
    for place, C in enumerate(CS):
        trial = {"params": {"C": C}, "user_attrs": {"place": place}, "value": float(place)}
        study.add_trial(optuna.trial.create_trial(distributions=space, **trial))
    about = {"loss": "log_loss", "data": PEOPLE, "cv": 3, "progress": False, "default": {"C": CS[0]}, **about}
    return dptune_optuna.choose(study, train, ledger=ledger, n_jobs=n_jobs, **about)


def objective(trial):
    model = Odd(trial.params["C"]).fit(PUBLIC[0][:30], PUBLIC[1][:30])
    dptune_optuna.candidate(trial, model, held_out=(PUBLIC[0][30:], PUBLIC[1][30:]))


def saved(trial):
    """An objective whose models are saved: with n_jobs the workers load them."""
    held_out = (PUBLIC[0][30:], PUBLIC[1][30:])
    dptune_optuna.candidate(trial, f"{trial.params['C']}", held_out=held_out, load=from_file)
    raise AssertionError("nothing is trained")


def from_file(path):
    if float(path) == FAILS:
        raise FileNotFoundError(path)
    return LogisticRegression(C=float(path)).fit(PUBLIC[0][:30], PUBLIC[1][:30])


def by_optuna(privatizer, n_jobs, way):
    trains, public = {"train": (train, PUBLIC), "objective": (objective, None), "saved": (saved, None)}[way]
    choice = optuna_choice(privatizer, n_jobs, trains, public=public, name="c")
    return choice.params, choice.selection, choice.model.predict_proba(PUBLIC[0]).tolist()


def by_sklearn(privatizer, n_jobs, way):
    grid = GridSearchCV(Odd(), {"C": CS}, cv=3, error_score=0.0)
    search = PrivateSearch(grid, ledger=privatizer.ledger, loss="log_loss", n_jobs=n_jobs, averages=True, name="c")
    planned = search.plan(*PUBLIC, n=N)
    return str(planned), search.search_.best_params_


@pytest.mark.parametrize(
    ("front", "way"),
    [
        (by_optuna, "train"),
        (by_optuna, "objective"),
        (by_sklearn, ""),
        pytest.param(by_optuna, "saved", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_every_n_jobs_and_backend_give_the_same_choice(tmp_path, caplog, front, way):
    found, told = {}, {}
    names = WAYS if way == "train" else ("one", "processes", "threads")
    for name in names:
        n_jobs, backend = WAYS[name]
        (tmp_path / name).mkdir()
        caplog.clear()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=SeededNoise(3))
        with in_backend(backend, **({"n_jobs": 2} if name == "context" else {})):
            found[name] = front(privatizer, n_jobs, way)
        told[name] = [each.partition("\n")[0] for each in caplog.messages if "new ledger" not in each]
    assert all(each == found["one"] for each in found.values()), found
    assert all(each == told["one"] for each in told.values()), told
