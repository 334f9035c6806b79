"""One record decides only its own loss: it changes no other loss and no shape, and it never makes a call raise."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC

from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import losses_function
from one_row import BAD, LABELS, NEIGHBOUR, TRAIN, UNUSUAL, N, X, Y, as_objects, same_for_others

# --- a model that changes the rows it is given ----------------------------------------------------------------


class Rows:
    """What this package asks of a data frame, and what a model of the tests does: no NumPy array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    @property
    def iloc(self) -> Rows:
        return self

    def __getitem__(self, rows: np.ndarray) -> Rows:
        whole = len(rows) == len(self.values) and (rows == np.arange(len(rows))).all()
        return Rows(self.values if whole else self.values[rows])  # as pandas, which takes all rows as a view


class Gradient(Rows):
    """As a tensor with a gradient: rows taken by their indices are a copy, and nothing else is."""

    def __getitem__(self, rows: np.ndarray) -> Rows:
        return Gradient(self.values[rows])

    def __deepcopy__(self, memo: object) -> Rows:
        raise RuntimeError("only leaves can be copied")


class Torn(Rows):
    """As a table on disk: taking a record of missing values fails."""

    def __getitem__(self, rows: np.ndarray) -> Rows:
        if np.isnan(self.values[rows]).any():
            raise OSError("a private row")
        return super().__getitem__(rows)


class Dataset:
    """As a dataset of HDF5, of which rows are read at increasing positions only."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def __getitem__(self, rows: Any) -> Any:
        if (np.diff(rows) <= 0).any() if np.ndim(rows) else rows < 0:
            raise TypeError("indexing elements must be in increasing order")
        return self.values[rows].copy()


class Lazy(Dataset):
    """As a view of a dataset, of which rows are another view."""

    def __getitem__(self, rows: Any) -> Any:
        taken = super().__getitem__(rows)
        return Lazy(taken) if np.ndim(rows) else taken


class OneByOne(Dataset):
    """As a dataset that reads a record at a time, and cannot read one of missing values."""

    def __getitem__(self, rows: Any) -> Any:
        if np.isnan(self.values[int(rows)]).any():
            raise OSError("a private row")
        return super().__getitem__(int(rows))


class InPlace:
    """Scales its rows where they are, and cannot take a NaN: whatever holds them."""

    classes_, n_features_in_ = np.array([0, 1]), 3

    def decision_function(self, rows: Any) -> np.ndarray:
        listed = list(rows.values if isinstance(rows, Rows) else rows)
        for row in listed:
            for j in range(3):
                row[j] = (row[j] - 3) / 2
        values = np.array(listed, dtype=float)
        if np.isnan(values).any():
            raise ValueError("a private row")
        return values.sum(axis=1)


RIDGE = Ridge().fit(TRAIN, TRAIN[:, 0])
SCALED = make_pipeline(StandardScaler(copy=False), SVC()).fit(TRAIN.copy(), LABELS)
SPARSE = make_pipeline(MaxAbsScaler(copy=False), LogisticRegression()).fit(sparse.csr_array(TRAIN), LABELS)
CASES: dict[str, tuple[Any, Callable[[np.ndarray], Any]]] = {
    "array": (SCALED, np.copy),
    "Fortran": (SCALED, np.asfortranarray),
    "frame": (SCALED, lambda rows: pandas.DataFrame(rows.copy())),
    "csr": (SPARSE, sparse.csr_array),
    "csc": (SPARSE, sparse.csc_matrix),
    "list": (InPlace(), lambda rows: rows.tolist()),
    "tuple of arrays": (InPlace(), lambda rows: tuple(row.copy() for row in rows)),
    "objects": (InPlace(), lambda rows: as_objects(rows.tolist())),
    "own class": (InPlace(), lambda rows: Rows(rows.copy())),
    "torn": (InPlace(), lambda rows: Torn(rows.copy())),
    "gradient": (InPlace(), lambda rows: Gradient(rows.copy())),
    "dataset": (InPlace(), lambda rows: Dataset(rows.copy())),
    "lazy": (InPlace(), lambda rows: Lazy(rows.copy())),
    "one by one": (InPlace(), lambda rows: OneByOne(rows.copy())),
}


def public(held: Any) -> Any:
    """Public rows, where a container needs them."""
    return type(held)(TRAIN) if hasattr(held, "columns") else None


def content(held: Any) -> str:
    held = held.toarray() if sparse.issparse(held) else getattr(held, "values", held)
    return str([list(row) for row in held])


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_changes_its_rows_changes_a_copy(case: str) -> None:
    model, hold = CASES[case]
    mine, theirs = hold(X), hold(NEIGHBOUR)
    before = content(mine), content(theirs)
    a, b = (estimator_losses("hinge", model, held, Y, like=public(held)) for held in (mine, theirs))
    assert np.isfinite(a).all()
    assert np.isnan(b[BAD])
    assert same_for_others(a, b)
    assert (content(mine), content(theirs)) == before
    np.testing.assert_array_equal(estimator_losses("hinge", model, mine, Y, like=public(mine)), a)  # the next trial


@pytest.mark.parametrize("case", ["list", "tuple of arrays", "objects"])
def test_two_people_with_one_row_object_have_a_copy_each(case: str) -> None:
    """As has a row that stands in for a failing one."""
    model, hold = CASES[case]
    rows = list(hold(NEIGHBOUR))
    shared = [rows[0], rows[0], *rows[2:]]
    alone = [rows[0], copy.copy(rows[0]), *rows[2:]]
    a, b = (estimator_losses("hinge", model, held, np.zeros(N)) for held in (shared, alone))
    np.testing.assert_array_equal(a, b)


def test_a_loss_of_the_users_own_gets_a_copy_of_the_answers() -> None:
    def careless(y: np.ndarray, prediction: np.ndarray) -> np.ndarray:
        y -= prediction
        return y**2

    y, rows = X[:, 0].copy(), X.copy()
    trial = losses_function(lambda _: RIDGE, NamedLoss("careless", careless), lambda: (rows, y), rows=N)
    np.testing.assert_array_equal(trial(None), trial(None))
    np.testing.assert_array_equal(y, X[:, 0])
    np.testing.assert_array_equal(rows, X)


# --- outputs that one row spoils --------------------------------------------------------------------------------


class Spoiled:
    """Answers all rows but the one with a NaN, and then something else."""

    classes_ = np.array([0, 1])

    def __init__(self, spoil: Callable[[np.ndarray], Any]) -> None:
        self.spoil = spoil

    def predict(self, rows: np.ndarray) -> Any:
        answers = np.nan_to_num(rows).sum(axis=1)
        return self.spoil(answers) if np.isnan(rows).any() else answers


SPOILS: dict[str, Callable[[np.ndarray], Any]] = {
    "a row less": lambda answers: answers[:-1],
    "two columns": lambda answers: np.stack([answers, answers], axis=1),
    "complex": lambda answers: answers * 1j,
    "text": lambda answers: answers.astype(str),
    "a number": lambda answers: 1.0,
    "nothing": lambda answers: None,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_row_that_spoils_everybody_s_answers_costs_itself(spoil: Callable[[np.ndarray], Any]) -> None:
    a, b = (estimator_losses("mse", Spoiled(spoil), rows, Y) for rows in (X, NEIGHBOUR))
    assert np.isfinite(a).all()
    assert np.isnan(b[BAD])
    assert same_for_others(a, b)


# --- whatever a model raises ------------------------------------------------------------------------------------


def test_a_data_frame_keeps_its_labels_where_a_row_stands_in_for_another() -> None:
    class Aligning:
        def predict(self, frame: Any) -> Any:
            if frame["a"].isna().any():
                raise ValueError
            return frame.assign(b=frame["a"].sort_values().reindex(frame.index))["b"].to_numpy()

    like = pandas.DataFrame({"a": [0.0]})
    frames = (pandas.DataFrame({"a": rows[:, 1]}) for rows in (X, NEIGHBOUR))
    a, b = (estimator_losses("mse", Aligning(), frame, Y, like=like) for frame in frames)
    assert same_for_others(a, b)
    assert np.isnan(b[BAD])


@pytest.mark.parametrize("error", [ValueError, NotFittedError, *UNUSUAL])
def test_a_row_fails_alone_and_silently_whatever_the_model_raises(error: type[BaseException]) -> None:
    class Fragile:
        def fit(self) -> None:
            """As has an estimator of which scikit-learn asks whether it is fitted."""

        def predict(self, rows: np.ndarray) -> np.ndarray:
            warnings.warn(f"a private value: {rows[0]}", stacklevel=1)
            if (rows > 100).any():
                raise error(f"secret row {rows}")
            return np.zeros(len(rows))

    stream, rows = io.StringIO(), X.copy()
    rows[BAD, 0] = 700.0
    with contextlib.redirect_stderr(stream):
        losses = estimator_losses("mse", Fragile(), rows, Y)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]
    np.testing.assert_array_equal(np.delete(losses, BAD), np.delete(Y, BAD))
    assert stream.getvalue() == ""


def test_an_interrupt_passes_without_the_frames_of_the_model() -> None:
    class Interrupted:
        def predict(self, rows: np.ndarray) -> np.ndarray:
            raise KeyboardInterrupt(f"secret row {rows}")

    with pytest.raises(KeyboardInterrupt) as caught:
        estimator_losses("mse", Interrupted(), X, Y)
    assert not caught.value.args
    assert caught.value.__context__ is None
    assert "predict" not in [frame.name for frame in caught.traceback]
