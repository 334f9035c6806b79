"""A training function that can reach the private rows is refused, by whatever way; one that cannot passes."""

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from dptune.errors import InputError
from dptune.losses.rows import Rows
from dptune.losses.user_function import call_guarded, losses_function
from dptune.privacy.seal.reachable import refuse_reachable

N = 20
ALL = np.random.default_rng(1).normal(size=(3 * N, 2))
X_TRAIN, X_VAL = ALL[N:], ALL[:N]
Y_VAL = X_VAL[:, 0].copy()
FRAME = pd.DataFrame(ALL[:N].copy())
MODULE = types.ModuleType("settings")
MODULE.rows, MODULE.other = X_VAL, X_TRAIN


def helper() -> Any:
    return X_VAL


def with_a_default(trial: Any, *, rows: Any = X_VAL) -> Any:
    return rows


def closing_over(held: Any) -> Callable[[Any], Any]:
    return lambda trial: held


class Objective:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, trial: Any) -> Any:
        return Ridge()


class ByName:
    def __call__(self, trial: Any) -> Any:
        return X_VAL


REACHING: dict[str, Callable[[Any], Any]] = {
    "globals": lambda trial: Ridge().fit(X_TRAIN, X_TRAIN[:, 0], eval_set=[(X_VAL, Y_VAL)]),
    "a helper": lambda trial: helper(),
    "an inner function": lambda trial: (lambda: X_VAL)(),
    "a default": with_a_default,
    "the whole table": lambda trial: ALL[N:],
    "closure": closing_over(X_VAL),
    "a tuple": closing_over([("validation", (X_VAL, Y_VAL))]),
    "a dict": closing_over({"eval_set": X_VAL}),
    "a column": closing_over(X_VAL[:, 1]),
    "reversed": closing_over(X_VAL[::-1]),
    "an object": closing_over(Objective(X_VAL)),
    "itself": Objective(X_VAL),
    "its method": Objective(X_VAL).__call__,
    "its call": ByName(),
    "partial": functools.partial(with_a_default, rows=X_VAL),
    "a view of y": closing_over(Y_VAL[:3]),
    "an attribute of a module": lambda trial: MODULE.rows,
}


def test_a_function_that_reaches_private_rows_is_refused_and_the_way_is_named() -> None:
    for name, function in REACHING.items():
        with pytest.raises(InputError, match="can reach the private data=") as refused:
            losses_function(function, "mse", (X_VAL, Y_VAL), rows=N)
        assert "data=load" in str(refused.value), name
        assert not any(str(value) in str(refused.value) for value in Y_VAL)
        if name == "a helper":
            assert "through helper: X_VAL" in str(refused.value)


def trains_only(trial: Any) -> Any:
    return Ridge().fit(X_TRAIN, X_TRAIN[:, 0])


CONTAINERS: dict[str, tuple[Any, Any]] = {
    "frame": (FRAME, FRAME),
    "a view of a frame": (FRAME, FRAME.iloc[5:]),
    "a column of a frame": (FRAME, FRAME[0]),
    "its values": (FRAME, FRAME.to_numpy(copy=False)),
    "sparse": ((s := sparse.csr_array(X_VAL)), s),
    "a view of sparse": (s, sparse.csr_array((s.data, s.indices, s.indptr), shape=s.shape)),
    "list": ((rows := X_VAL.tolist()), rows),
    "a row of a list": (rows, [rows[3]]),
    "the list it is a part of": (rows, [*rows, [0.0, 0.0]]),
}


def test_every_container_is_looked_into_and_functions_that_only_train_pass() -> None:
    for private, held in CONTAINERS.values():
        with pytest.raises(InputError, match="held"):
            refuse_reachable(closing_over(held), private, Y_VAL)
    for held in (pd.DataFrame(ALL[N:]), FRAME.copy(), X_TRAIN.tolist(), sparse.csr_array(X_TRAIN)):
        refuse_reachable(closing_over(held), FRAME, rows, s, Y_VAL)
    for held in (ALL[N:], ALL[1::2], X_VAL[[0, 1]]):  # other slices of one table, every other row, copies
        refuse_reachable(closing_over(held), ALL[:N:2], Y_VAL)
    for function in (trains_only, lambda trial: MODULE.other):
        refuse_reachable(function, ALL[:N:2], Y_VAL)


def load() -> Any:
    return X_VAL.copy(), Y_VAL.copy()


def test_what_a_loader_returns_is_looked_at_before_anything_is_trained() -> None:
    trained: list[Any] = []

    def trains(trial: Any) -> Any:
        trained.append(X_VAL)
        return Ridge()

    outcome = call_guarded(losses_function(trains, "mse", lambda: Rows(X_VAL, Y_VAL), rows=N), None, len)
    assert isinstance(outcome.error, InputError)
    assert "can reach" in str(outcome.error)
    assert not trained
    with pytest.raises(InputError) as refused:  # the loader itself is private
        losses_function(lambda trial: load(), "mse", load, rows=N)
    assert "through load" in str(refused.value)
    assert call_guarded(losses_function(trains_only, "mse", load, rows=N), None, len).losses == N


def test_an_object_that_answers_no_question_is_no_private_row() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("not connected")

    proxy = Proxy()
    assert callable(losses_function(lambda _: proxy, "mse", (X_VAL, Y_VAL), rows=N))
