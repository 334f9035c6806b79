"""A training function that can reach the private rows in any way is refused. Other functions pass."""

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import dptune
from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.rows import Rows
from dptune.losses.user_function import call_guarded, losses_function
from dptune.privacy.seal.reachable import refuse_reachable, refuse_shared

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
    "its Rows": closing_over(Rows(X_VAL, Y_VAL)),
    "an attribute of a module": lambda trial: MODULE.rows,
}


def test_a_function_that_reaches_private_rows_is_refused_with_the_path() -> None:
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


TABLE = pa.table({"age": list(range(2 * N)), "town": ["Bern", "Basel"] * N})
TEXTS = pd.DataFrame({"town": ["Bern", "Basel"] * N}, dtype="str")
SHARED: dict[str, tuple[Any, Any, Any]] = {  # private rows and answers, and what must not be public beside them
    "itself": (X_VAL, Y_VAL, X_VAL),
    "a slice": (X_VAL, Y_VAL, X_VAL[:1]),
    "the whole table": (X_VAL, Y_VAL, ALL),
    "the answers": (X_VAL, Y_VAL, Y_VAL),
    "answers of a list": (X_VAL, (listed := Y_VAL.tolist()), listed),
    "a frame": (FRAME, Y_VAL, FRAME),
    "a column": (FRAME, Y_VAL, FRAME[[1]]),
    "a frame of texts": (TEXTS, Y_VAL, TEXTS.iloc[5:]),
    "sparse": (s, Y_VAL, s),
    "whole numbers, sparse": (
        (k := sparse.csr_array(np.eye(N, dtype=int))),
        Y_VAL,
        sparse.csr_array((k.data, k.indices, k.indptr)),
    ),
    "Arrow": (TABLE.slice(0, N), Y_VAL, TABLE.slice(N - 1)),
    "answers of Arrow": (X_VAL, TABLE["town"].slice(0, N), TABLE.slice(3, 2)),
    "a buffer": (X_VAL, Y_VAL, memoryview(X_VAL)),
}
UNSHARED = [
    (X_VAL, Y_VAL, X_TRAIN),
    (FRAME.iloc[:9], Y_VAL[:9], FRAME.iloc[9:]),
    (TEXTS.iloc[:N], Y_VAL, TEXTS.iloc[N:]),
    (TABLE.slice(0, N), Y_VAL, TABLE.slice(N)),
    (s, Y_VAL, s.copy()),
]


class Holds(Ridge):
    def __init__(self, held: Any = None) -> None:
        super().__init__()
        self.held, self.coef_, self.intercept_, self.n_features_in_ = held, np.ones(2), 0.0, 2


def test_what_shares_memory_with_private_rows_is_refused_as_public(ledger: dptune.PrivacyLedger) -> None:
    for X, y, held in SHARED.values():
        with pytest.raises(InputError, match=r"^like=.* shares memory"):
            refuse_shared(X, y, **{"like=": held})
    for X, y, held in UNSHARED:
        refuse_shared(X, y, **{"like=": held})
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    own = NamedLoss("own", lambda y, answers: (y - Y_VAL) ** 2)
    models, rows = [Ridge().fit(X_TRAIN, X_TRAIN[:, 0]), Holds(X_VAL)], Rows(X_VAL, Y_VAL)
    private, public = (X_VAL, Y_VAL), (X_TRAIN, X_TRAIN[:, 0])
    V = np.random.default_rng(0).random((2, 30))
    doors: dict[str, Callable[[], Any]] = {
        "like=": lambda: losses_function(trains_only, "mse", Rows(X_VAL, Y_VAL, like=X_VAL[:1]), rows=N),
        "like= ": lambda: estimator_losses("mse", models[0], X_VAL, Y_VAL, like=X_VAL),
        "the loss": lambda: losses_function(trains_only, own, private, rows=N),
        "the loss ": lambda: estimator_losses(own, models[0], X_VAL, Y_VAL),
        "held": lambda: dptune.select(models, privatizer, name="s", loss="mse", data=private),
        "held ": lambda: dptune.select(models, privatizer, name="s", loss="mse", data=rows, public_losses=V),
        "held  ": lambda: losses_function(lambda _: models[1], "mse", private, rows=N)(None),
        "like=  ": lambda: dptune.select(
            models, privatizer, name="s", loss="mse", data=Rows(X_VAL, Y_VAL, X_VAL), public_losses=V
        ),
        "model=: ": lambda: dptune.report(models[1], privatizer, data=private, public=public),
        "scores=": lambda: dptune.report(models[0], privatizer, data=private, public=public, scores=ALL[:40, 0]),
        "fit_params=": lambda: dptune.report(
            models[0], privatizer, data=private, public=public, fit_params={"eval_set": [(ALL, ALL[:, 0])]}
        ),
        "public=: ": lambda: dptune.report(models[0], privatizer, data=private, public=(ALL, ALL[:, 0])),
    }
    for says, door in doors.items():
        with pytest.raises(InputError, match=says.strip()):
            door()
    assert ledger.count() == 0


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


def test_keys_of_a_dict_are_not_quoted() -> None:
    by_name = {"Ann Smith": X_VAL}
    with pytest.raises(InputError, match="through by_name: an entry: "):
        refuse_reachable(lambda trial: by_name, X_VAL, Y_VAL)


def test_the_streams_of_a_notebook_are_not_searched() -> None:
    """They know the notebook, and that all its variables."""
    stream = type("Stream", (), {"__module__": "ipykernel.iostream"})()
    stream.user_ns = {"X_val": X_VAL}
    refuse_reachable(lambda trial: stream, X_VAL, Y_VAL)
