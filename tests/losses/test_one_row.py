"""One record decides its own loss and nothing else: not another's, not a shape, not whether anything raises.

Every test compares data with a neighbour that differs in row 3 of n = 12.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from one_row import BAD, LABELS, NEIGHBOUR, TRAIN, N, X, Y, same_for_others
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC

from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import losses_function

NEIGHBOUR[BAD, 1] = np.nan


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


def objects(rows: np.ndarray) -> np.ndarray:
    """An array of lists: copying it copies references."""
    array = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        array[i] = row.tolist()
    return array


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
    "objects": (InPlace(), objects),
    "own class": (InPlace(), lambda rows: Rows(rows.copy())),
    "gradient": (InPlace(), lambda rows: Gradient(rows.copy())),
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


@pytest.mark.parametrize("loads", [True, False])
def test_trials_of_an_objective_share_rows_that_no_model_has_changed(loads: bool) -> None:
    held = X.copy()
    data: Any = (lambda: (held, Y)) if loads else (held, Y)
    trial = losses_function(lambda _: SCALED, "hinge", data, rows=N)
    np.testing.assert_array_equal(trial(None), trial(None))
    np.testing.assert_array_equal(held, X)


def test_a_loss_of_the_users_own_gets_a_copy_of_the_answers() -> None:
    def careless(y: np.ndarray, prediction: np.ndarray) -> np.ndarray:
        y -= prediction
        return y**2

    y = X[:, 0].copy()
    model = Ridge().fit(TRAIN, TRAIN[:, 0])
    a, b = (estimator_losses(NamedLoss("careless", careless), model, X, y) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(y, X[:, 0])


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
    "a row more": lambda answers: np.append(answers, 0.0),
    "a column": lambda answers: answers[:, None],
    "two columns": lambda answers: np.stack([answers, answers], axis=1),
    "complex": lambda answers: answers * 1j,
    "text": lambda answers: answers.astype(str),
    "dates": lambda answers: answers.astype("datetime64[s]"),
    "a number": lambda answers: 1.0,
    "nothing": lambda answers: None,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_row_that_spoils_everybody_s_answers_costs_itself(spoil: Callable[[np.ndarray], Any]) -> None:
    a, b = (estimator_losses("mse", Spoiled(spoil), rows, Y) for rows in (X, NEIGHBOUR))
    assert np.isfinite(a).all()
    assert np.isnan(b[BAD])
    assert same_for_others(a, b)


@pytest.mark.parametrize(("output", "says"), [((1, 2), r"shape \(1, 2\)"), ((3,), r"shape \(3,\)")])
def test_an_answer_that_is_wrong_on_zeros_is_a_public_mistake(output: tuple[int, ...], says: str) -> None:
    class Wrong:
        def predict(self, rows: Any) -> np.ndarray:
            return np.zeros(output)

    with pytest.raises(InputError, match=says):
        estimator_losses("mse", Wrong(), X, Y)


def test_bad_rows_are_found_by_halving() -> None:
    asked = []

    class Counting:
        def predict(self, rows: np.ndarray) -> np.ndarray:
            asked.append(len(rows))
            if np.isnan(rows).any():
                raise ValueError
            return rows.sum(axis=1)

    rows = np.zeros((4096, 1))
    rows[[5, 4000]] = np.nan
    losses = estimator_losses("mse", Counting(), rows, np.zeros(4096))
    assert np.flatnonzero(np.isnan(losses)).tolist() == [5, 4000]
    assert len(asked) < 60


def test_rows_of_a_list_do_not_set_each_other_s_dtype() -> None:
    model = LogisticRegression().fit(TRAIN, LABELS)
    whole = [row.astype(np.float32) for row in X]
    for odd in (X[BAD], X[BAD].tolist(), [10**30] * X.shape[1], [1.0], "row", None):
        rows = [*whole]
        rows[BAD] = odd
        a, b = (estimator_losses("log_loss", model, held, Y) for held in (whole, rows))
        assert same_for_others(a, b)


def test_a_data_frame_keeps_its_labels_where_a_row_stands_in_for_another() -> None:

    class Aligning:
        def predict(self, frame: Any) -> Any:
            if frame["a"].isna().any():
                raise ValueError
            return frame.assign(b=frame["a"].sort_values().reindex(frame.index))["b"].to_numpy()

    values = np.arange(6.0)
    bad = values.copy()
    bad[2] = np.nan
    like = pandas.DataFrame({"a": [0.0]})
    frames = (pandas.DataFrame({"a": v}) for v in (values, bad))
    a, b = (estimator_losses("mse", Aligning(), frame, np.zeros(6), like=like) for frame in frames)
    np.testing.assert_array_equal(np.delete(a, 2), np.delete(b, 2))
    assert np.isnan(b[2])


@pytest.mark.parametrize("missing", [False, True])
def test_a_column_with_a_missing_value_is_refused_when_one_without_is(missing: bool) -> None:
    """A nullable column becomes numbers or objects by its values: whether it is compared with text must not show it."""
    y = pandas.Series(Y, dtype="Int64")
    if missing:
        y[BAD] = pandas.NA
    text = LogisticRegression().fit(TRAIN, np.where(LABELS == 1, "yes", "no"))
    assert np.isnan(estimator_losses("log_loss", text, X, y)).all()
    numbers = LogisticRegression().fit(TRAIN, LABELS)
    losses = estimator_losses("log_loss", numbers, X, y)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD] * missing


@pytest.mark.parametrize("kind", ["list", "array", "objects", "series"])
def test_labels_may_be_text(kind: str) -> None:
    words = np.where(Y == 1, "yes", "no")
    y = {
        "list": words.tolist,
        "array": words.copy,
        "objects": lambda: words.astype(object),
        "series": lambda: pandas.Series(words, index=range(5, 5 + N)),
    }[kind]()
    model = LogisticRegression().fit(TRAIN, np.where(LABELS == 1, "yes", "no"))
    expected = estimator_losses("log_loss", LogisticRegression().fit(TRAIN, LABELS), X, Y)
    trial = losses_function(lambda _: model, "log_loss", (X, y), rows=N)
    np.testing.assert_allclose(trial(None), expected)


# --- a model that is not fitted ------------------------------------------------------------------------------------


class PerSite(BaseEstimator):
    """A model for each site, without scikit-learn's trailing underscores; one site had no training rows."""

    classes_ = np.array([0, 1])

    def __init__(self) -> None:
        self.models = {site: LogisticRegression() for site in (0, 1, 2)}

    def fit(self, rows: np.ndarray, y: np.ndarray) -> PerSite:
        for site in (0, 1):
            self.models[site].fit(rows[rows[:, 0] == site], y[rows[:, 0] == site])
        return self

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        proba = np.empty((len(rows), 2))
        for site in np.unique(rows[:, 0]):
            proba[rows[:, 0] == site] = self.models[site].predict_proba(rows[rows[:, 0] == site])
        return proba


def test_a_row_for_which_a_part_of_the_model_is_not_fitted_fails_alone() -> None:
    rows = np.column_stack([np.arange(N) % 2, X[:, 0] - 3])
    model = PerSite().fit(rows, Y)
    neighbour = rows.copy()
    neighbour[BAD, 0] = 2
    a, b = (estimator_losses("log_loss", model, held, Y) for held in (rows, neighbour))
    assert same_for_others(a, b)
    assert np.isnan(b[BAD])


@pytest.mark.parametrize("held", [X, X.tolist(), sparse.csr_array(X)], ids=["array", "list", "sparse"])
def test_a_model_that_is_not_fitted_is_a_public_error(held: Any) -> None:
    for model in (LinearRegression(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(InputError, match="fitted"):
            estimator_losses("mse", model, held, Y)


def test_a_model_without_fit_is_taken_as_it_is() -> None:
    class Unfit:
        def predict(self, rows: np.ndarray) -> np.ndarray:
            if np.isnan(rows).any():
                raise NotFittedError("secret")
            return np.zeros(len(rows))

    assert np.flatnonzero(np.isnan(estimator_losses("mse", Unfit(), NEIGHBOUR, Y))).tolist() == [BAD]
