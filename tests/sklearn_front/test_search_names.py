"""Whatever decides an answer is part of a search's name; what cannot be read, or named so, is refused."""

import functools
import os
import pickle
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import dptune
from dptune.errors import BudgetMismatch
from dptune_sklearn.digest import _version, digest
from named_searches import digests, grid, name_of_search, own_loss
from named_searches import own as own_estimator
from sklearn_tools import PUBLIC, VAL, ledger_in, rows, search_in


def test_what_decides_an_answer_is_part_of_the_name_which_is_the_same_wherever_it_is_made():
    first, second = digests(0), digests(1)
    assert [what for what in first if first[what] == second[what]] == []
    program = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("named_searches.py"))]
    about = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(program, env=about, capture_output=True, text=True, check=True, timeout=300)
    assert run.stdout == f"{second}\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"n_jobs": 2, "verbose": 1, "refit": False}),
        ({"search": grid()}, {"search": grid(n_jobs=2, verbose=3)}),
        ({"warm_start": True}, {"warm_start": True, "n_trials": 16, "mu": 0.5}),
    ],
    ids=["how it runs", "how a public search runs", "more trials of a warm start"],
)
def test_what_decides_no_answer_is_no_part_of_the_name(first, second):
    assert name_of_search(**first) == name_of_search(**second)


def test_the_version_of_the_users_own_package_stands_for_the_code_in_its_modules(monkeypatch):
    names = []
    for version in ("1.0", "2.0"):
        package = types.ModuleType("package_of_the_user")
        package.part, package.__version__ = types.ModuleType("package_of_the_user.part"), version
        monkeypatch.setitem(sys.modules, "package_of_the_user", package)
        monkeypatch.setitem(globals(), "package_of_the_user", package)
        _version.cache_clear()
        names.append(digest(FunctionTransformer(_in_a_part)))
    assert names[0] != names[1]


def _in_a_part(X):
    return package_of_the_user.part.function(X)  # noqa: F821 - of the test


class Handle:
    """Is pickled by its name only, so that nobody knows what it holds."""

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        return "HANDLE"


HANDLE = Handle()


def _with(X, handle):
    return X


def _unreadable(folder, **settings):
    estimator = make_pipeline(FunctionTransformer(_with, kw_args={"handle": HANDLE}), LogisticRegression())
    space = {"logisticregression__C": [0.1, 1.0]}
    return search_in(folder, "selection", estimator, param_distributions=space, n_trials=None, **settings)


def test_an_object_that_cannot_be_read_needs_a_name(fast_path):
    said = "cannot read a Handle .*handle.* Give PrivateSearch name=.* Nothing was charged"
    with pytest.raises(dptune.InputError, match=said):
        _unreadable(fast_path).fit(*PUBLIC, **VAL)
    assert ledger_in(fast_path).charges() == []
    search = _unreadable(fast_path, name="mine").fit(*PUBLIC, **VAL)
    assert clone(search).fit(*PUBLIC, **VAL).best_params_ == search.best_params_


@pytest.mark.parametrize("held", [threading.Lock(), (i for i in range(3)), functools.lru_cache(lambda: 1), open])
def test_what_pickle_stores_by_name_only_or_not_at_all_is_read_or_refused(held):
    if held is open or hasattr(held, "__wrapped__"):
        assert digest(held) != digest(len)
        assert digest(held) != digest(functools.lru_cache(lambda: 2))
    else:
        with pytest.raises(dptune.InputError, match="cannot read a"):
            digest(held)


@pytest.mark.parametrize("method", ["centred", "selection", "public"])
def test_a_name_belongs_to_its_loss_estimator_training_rows_candidates_and_default(fast_path, method):
    settings = {"name": "mine", "mu": 1.0, "param_distributions": {"C": [0.1, 1.0]}, "loss": own_loss(1)}
    settings |= {"cv": 3, "method": None} if method == "public" else {"method": method, "default": {"C": 1.0}}
    search = search_in(fast_path, **settings)
    spent = search.fit(*PUBLIC, **VAL).ledger.spent()
    weights = {"sample_weight": np.ones(len(PUBLIC[1]))}
    changes = [
        ({"loss": "brier"}, PUBLIC, {}, "other loss"),
        ({"loss": own_loss(2)}, PUBLIC, {}, "other loss"),
        ({"estimator": SVC(probability=True)}, PUBLIC, {}, "other estimator"),
        ({"estimator": LogisticRegression(max_iter=50)}, PUBLIC, {}, "other estimator"),
        ({}, rows(40, seed=9), {}, "other training rows"),
        ({}, PUBLIC, weights, "other training rows"),
        ({"param_distributions": {"C": [0.1, 20.0]}}, PUBLIC, {}, ""),
        *[({"default": default}, PUBLIC, {}, "") for default in ({"C": 0.1}, None) if method == "selection"],
    ]
    for changed, rows_of, options, said in changes:
        with pytest.raises(BudgetMismatch, match=f"{said}.*(another|new) name"):
            clone(search).set_params(**changed).fit(*rows_of, **VAL, **options)
    assert clone(search).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == spent


def test_an_object_of_a_class_that_was_pickled_changes_nothing():
    first = digest(Handle)
    assert pickle.loads(pickle.dumps(HANDLE)) is HANDLE
    own = own_estimator()
    before = digest(own)
    own.__reduce_ex__(4)
    assert "__slotnames__" in vars(type(own))
    assert (digest(own), digest(Handle)) == (before, first)
