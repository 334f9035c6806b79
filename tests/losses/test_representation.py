"""Neighbours that differ in what one cell, label or row *is*: everybody else's loss keeps every bit.

NumPy, pandas and CSV readers choose a dtype by all cells; each container is made as its users make it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.rows import Rows
from dptune.losses.user_function import losses_function

N, BAD = 40, 3
RNG = np.random.default_rng(8)
TRAIN, X = RNG.normal(3, 2, (150, 3)).round(2), RNG.normal(3, 2, (N, 3)).round(2)
LABELS, Y = (TRAIN.sum(axis=1) > 9).astype(int), (X.sum(axis=1) > 9).astype(int)
COLUMNS = ["a", "b", "c"]
FRAME = pd.DataFrame(TRAIN, columns=COLUMNS)

ODD = {"NaN": np.nan, "text": "n/a", "None": None, "inf": np.inf, "huge": 10**400, "long": 10**30, "complex": 1j}
CONTAINERS: dict[str, Callable[[list[list[Any]]], Any]] = {
    "np.array(rows)": np.array,
    "objects": lambda rows: np.array(rows, dtype=object),
    "lists": lambda rows: rows,
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "arrays": lambda rows: [np.array(row) for row in rows],
    "frame": lambda rows: pd.DataFrame(rows, columns=COLUMNS),
    "csv": lambda rows: pd.read_csv(io.StringIO(pd.DataFrame(rows, columns=COLUMNS).to_csv(index=False))),
}
MODELS = {
    "linear": LogisticRegression().fit(TRAIN, LABELS),
    "forest": RandomForestClassifier(10, random_state=0).fit(TRAIN, LABELS),
    "boosting": HistGradientBoostingClassifier(max_iter=5).fit(TRAIN, LABELS),
    "imputing": make_pipeline(SimpleImputer(), StandardScaler(), SVC()).fit(TRAIN, LABELS),
}


def same_for_others(a: np.ndarray, b: np.ndarray) -> bool:
    assert a.shape == b.shape == (N,)
    return np.array_equal(np.delete(a, BAD), np.delete(b, BAD))


def with_cell(cell: Any) -> list[list[Any]]:
    rows = X.tolist()
    rows[BAD][1] = cell
    return rows


@pytest.mark.parametrize("hold", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_one_odd_cell(model: Any, hold: Any) -> None:
    mine = hold(X.tolist())
    like = FRAME if isinstance(mine, pd.DataFrame) else None
    a = estimator_losses("accuracy", model, mine, Y, like=like)
    assert np.isfinite(a).all()
    for name, odd in ODD.items():
        theirs = hold(with_cell(odd))
        if isinstance(odd, complex) and isinstance(mine, pd.DataFrame):
            theirs = mine.astype({"b": object})  # pandas writes a column of complex numbers as text of its own
            theirs.loc[BAD, "b"] = odd
        assert same_for_others(a, estimator_losses("accuracy", model, theirs, Y, like=like)), name


@pytest.mark.parametrize("row", ["row", None, [1.0], [[1.0, 2.0, 3.0]], [1, 2, "3"], [10**30, 1, 1]])
@pytest.mark.parametrize("objects", [False, True])
def test_one_odd_row_of_a_list(row: Any, objects: bool) -> None:
    mine, theirs = [[*r] for r in X.tolist()], [*X.tolist()]
    theirs[BAD] = row
    held: list[Any] = [mine, theirs]
    if objects:
        held = [np.array(mine, dtype=object), np.fromiter(theirs, dtype=object, count=N)]
    a, b = (estimator_losses("log_loss", MODELS["linear"], each, Y) for each in held)
    assert np.isfinite(a).all()
    assert same_for_others(a, b)


def test_numbers_that_became_text_are_the_same_numbers() -> None:
    for hold in (np.array, lambda rows: np.array(rows).astype("S32"), lambda rows: np.array(rows).astype("T")):
        losses = estimator_losses("log_loss", MODELS["linear"], hold(with_cell("n/a")), Y)
        assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]


def test_whole_numbers_beside_a_missing_one() -> None:
    whole = np.round(X).astype(int)
    model = LogisticRegression().fit(np.round(TRAIN).astype(int), LABELS)
    rows: list[Any] = whole.tolist()
    rows[BAD] = [1, None, 2]
    frames = (pd.DataFrame(r, columns=COLUMNS) for r in (whole.tolist(), rows))
    a, b = (estimator_losses("log_loss", model, frame, Y, like=FRAME.round().astype(int)) for frame in frames)
    assert same_for_others(a, b)
    assert np.isnan(b[BAD])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
def test_one_odd_cell_of_a_sparse_matrix(kind: Any, bad: float) -> None:
    whole = np.round(X).astype(int)
    mine, theirs = kind(whole), kind(np.where(np.arange(3 * N).reshape(N, 3) == 3 * BAD, bad, whole))
    a, b = (estimator_losses("log_loss", MODELS["linear"], held, Y) for held in (mine, theirs))
    assert same_for_others(a, b)
    assert np.isnan(b[BAD])


def test_one_number_beyond_the_type_of_public_sparse_rows_warns_of_nothing() -> None:
    rows = X.copy()
    rows[BAD, 1] = 1e300
    like = sparse.csr_array(TRAIN.astype(np.float32))
    losses = estimator_losses("log_loss", MODELS["linear"], sparse.csr_array(rows), Y, like=like)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]


def test_masked_cells_are_missing() -> None:
    mask = np.zeros((N, 3), dtype=bool)
    mask[BAD, 1] = True
    masked = np.ma.masked_array(X, mask)
    losses = estimator_losses("log_loss", MODELS["linear"], masked, Y)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]
    assert same_for_others(estimator_losses("log_loss", MODELS["linear"], X, Y), losses)


@pytest.mark.parametrize("bad", [np.nan, "n/a", np.inf])
def test_a_tenth_of_bad_rows_costs_three_calls_at_most(bad: Any) -> None:
    """Of a few public rows each; the rest of the work is one call for everybody, as without them."""
    asked = []

    class Counting:
        n_features_in_ = 3

        def predict(self, rows: np.ndarray) -> np.ndarray:
            asked.append(len(rows))
            if not np.isfinite(rows).all():
                raise ValueError
            return rows[:, 0]

    rows: list[Any] = X.tolist()
    for i in range(0, N, 10):
        rows[i][1] = bad
    losses = estimator_losses("mse", Counting(), rows, np.zeros(N))
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(range(0, N, 10))
    assert asked.count(N) == 1
    assert max(sorted(asked)[:-1]) <= 5  # public rows
    assert len(asked) <= 8


class Counting:
    """Refuses rows above 5, and counts how many it is asked."""

    n_features_in_ = 2
    asked: ClassVar[list[int]] = []  # of all copies: dptune asks one

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.asked.append(len(rows))
        if (rows[:, 0] > 5).any():
            raise ValueError
        return rows[:, 0]


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_tenth_of_rows_that_only_the_model_can_refuse_costs_three_calls_at_most(share: float) -> None:
    n = 2000
    Counting.asked.clear()
    rng = np.random.default_rng(0)
    rows = rng.random((n, 2))
    bad = rng.random(n) < share
    rows[bad, 0] = 7.0
    losses = estimator_losses("mse", Counting(), rows, np.zeros(n))
    assert np.isnan(losses).tolist() == bad.tolist()
    assert sum(Counting.asked) <= (3 * n + 16 if share else n) + 15  # public rows


def test_one_row_that_only_the_model_can_refuse_costs_few_calls() -> None:
    n = 2000
    Counting.asked.clear()
    rows = np.zeros((n, 2))
    rows[1234, 0] = 7.0
    assert np.flatnonzero(np.isnan(estimator_losses("mse", Counting(), rows, np.zeros(n)))).tolist() == [1234]
    assert len(Counting.asked) < 34


@pytest.mark.parametrize("kind", ["text", "category", "array"])
def test_unknown_categories_cost_one_public_row_each(kind: str) -> None:
    """One row in ten holds a site that the model refuses: found on public rows, before anybody is asked."""
    like, rows = mixed(TRAIN)[["age", "site"]], mixed(X)[["age", "site"]]
    model = make_pipeline(
        make_column_transformer((StandardScaler(), [0]), (OneHotEncoder(), [1])), LogisticRegression()
    )
    rows.loc[::10, "site"] = np.resize(["west", "east"], len(rows.iloc[::10]))
    if kind == "category":
        sites = pd.CategoricalDtype(["north", "south", "west", "east"])
        like, rows = like.astype({"site": sites}), rows.astype({"site": sites})
    held = [each.to_numpy() if kind == "array" else each for each in (like, rows)]
    model.fit(held[0], LABELS)
    asked, predict = [], model.predict_proba
    model.predict_proba = lambda rows: (asked.append(len(rows)), predict(rows))[1]
    losses = estimator_losses("log_loss", model, held[1], Y, like=held[0])
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(range(0, N, 10))
    assert sorted(asked) == [1, 1, 1, 4, 4, N]  # of four rows: whether they are answered one by one


# --- answers -------------------------------------------------------------------------------------------------------


ANSWERS: dict[str, Callable[[list[Any]], Any]] = {
    "np.array": np.array,
    "objects": lambda y: np.array(y, dtype=object),
    "list": list,
    "series": pd.Series,
    "csv": lambda y: pd.read_csv(io.StringIO(pd.DataFrame({"y": y}).to_csv(index=False)))["y"],
    "category": lambda y: pd.Series(y, dtype="category"),
}


@cache
def fitted_to(classes: Any) -> LogisticRegression:
    return LogisticRegression().fit(TRAIN, LABELS.astype(bool if classes is bool else int).astype(classes))


def labels(written: Any) -> list[Any]:
    return [str(label) for label in Y.tolist()] if written is str else Y.astype(written).tolist()


@pytest.mark.parametrize("hold", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("classes", [int, float, bool, str])
@pytest.mark.parametrize("written", [int, float, bool, str])
def test_one_odd_label(written: Any, classes: Any, hold: Any) -> None:
    y, model = labels(written), fitted_to(classes)
    a = estimator_losses("log_loss", model, X, hold(y))
    if {written, classes} <= {int, float} or written is classes:
        assert np.isfinite(a).all()
    for odd in (None, "?", np.nan, 7, 1.5, 10**400, "1.0"):
        b = estimator_losses("log_loss", model, X, hold([*y[:BAD], odd, *y[BAD + 1 :]]))
        assert same_for_others(a, b) or (np.isnan(a).all() and np.isnan(np.delete(b, BAD)).all()), odd


@pytest.mark.parametrize("odd", [None, "?", np.nan, 10**400], ids=str)
@pytest.mark.parametrize("hold", ANSWERS.values(), ids=ANSWERS)
def test_one_odd_number(hold: Any, odd: Any) -> None:
    model = Ridge().fit(TRAIN, TRAIN[:, 0])
    y = X[:, 0].tolist()
    own = NamedLoss("own", lambda y, prediction: (y - prediction) ** 2)
    for loss in ("mse", own):
        a, b = (estimator_losses(loss, model, X, hold(each)) for each in (y, [*y[:BAD], odd, *y[BAD + 1 :]]))
        assert np.isfinite(a).all()
        assert same_for_others(a, b)
        assert not np.isfinite(b[BAD])


# --- frames and texts ----------------------------------------------------------------------------------------------


def mixed(rows: np.ndarray) -> pd.DataFrame:
    site = np.where(rows[:, 1] > 3, "north", "south")
    grade = pd.Categorical(np.where(rows[:, 2] > 3, "high", "low"), categories=["low", "high", "top"])
    return pd.DataFrame({"age": rows[:, 0], "visits": rows[:, 2].round().astype(int), "site": site, "grade": grade})


PEOPLE = mixed(TRAIN)
PEOPLE.loc[0, "age"] = np.nan
PIPELINE = make_pipeline(
    make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "visits"]),
        (OneHotEncoder(handle_unknown="ignore"), ["site", "grade"]),
    ),
    LogisticRegression(),
).fit(PEOPLE, LABELS)


@cache
def losses_of_mixed_rows(as_objects: bool) -> np.ndarray:
    frame = mixed(X).astype(object) if as_objects else mixed(X)
    return estimator_losses("log_loss", PIPELINE, frame, Y, like=PEOPLE)


@pytest.mark.parametrize("odd", [None, np.nan, "?", 7, 1.5, 10**400, pd.NA, ["a"]], ids=str)
@pytest.mark.parametrize("column", ["age", "visits", "site", "grade"])
def test_one_odd_cell_of_a_mixed_frame(column: str, odd: Any) -> None:
    frame = mixed(X)
    records = frame.to_dict("list")
    records[column][BAD] = odd
    neighbour = pd.DataFrame(records, columns=frame.columns)
    b = estimator_losses("log_loss", PIPELINE, neighbour, Y, like=PEOPLE)
    for as_objects in (False, True):
        a = losses_of_mixed_rows(as_objects)
        assert np.isfinite(a).all()
        assert same_for_others(a, b)
    if column == "age" and (odd is None or odd is pd.NA or odd is np.nan):
        assert np.isfinite(b[BAD])  # imputed, as in the public rows
    if column in ("age", "visits") and isinstance(odd, str):
        assert np.isnan(b[BAD])


def test_the_model_sees_the_dtypes_of_the_public_rows() -> None:
    class Looking:
        n_features_in_, classes_ = 4, np.array([0, 1])
        seen: ClassVar[list[Any]] = []

        def predict(self, frame: pd.DataFrame) -> np.ndarray:
            self.seen.append((type(frame), dict(frame.dtypes)))
            return np.zeros(len(frame))

    estimator_losses("accuracy", Looking(), mixed(X).astype(object), Y, like=PEOPLE.astype({"age": "float32"}))
    dtypes = Looking.seen[-1][1]
    assert [str(dtypes[c]) for c in ("age", "visits")] == ["float32", "float64"]
    assert dtypes["site"] == PEOPLE["site"].dtype
    assert dtypes["grade"] == PEOPLE["grade"].dtype
    assert all(each == Looking.seen[0] for each in Looking.seen)


@pytest.mark.parametrize("odd", [None, 3, 1.5, np.nan, ["a"], b"x"], ids=str)
@pytest.mark.parametrize("hold", [list, np.array, pd.Series], ids=["list", "array", "series"])
def test_texts(hold: Any, odd: Any) -> None:
    words = np.where(LABELS == 1, "warm sunny day", "cold rain")
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(words, LABELS)
    texts = np.where(Y == 1, "warm sunny day", "cold rain").tolist()
    other: Any = [*texts[:BAD], odd, *texts[BAD + 1 :]]
    other = pd.Series(other) if hold is pd.Series else np.fromiter(other, object, N) if hold is np.array else other
    a, b = (estimator_losses("log_loss", model, held, Y, like=["rain"]) for held in (hold(texts), other))
    assert a.mean() < 0.1
    assert same_for_others(a, b)


def test_arrays_of_text_and_numbers() -> None:
    like = mixed(TRAIN)[["age", "site"]].to_numpy()
    model = make_pipeline(
        make_column_transformer((StandardScaler(), [0]), (OneHotEncoder(), [1])), LogisticRegression()
    ).fit(like, LABELS)
    rows = mixed(X)[["age", "site"]].to_numpy()
    for cell in ("north", "west", None, "3"):
        other = rows.copy()
        other[BAD, 1] = cell
        a, b = (estimator_losses("log_loss", model, held, Y, like=like) for held in (rows, other))
        assert np.isfinite(a).all()
        assert same_for_others(a, b)
    as_text = estimator_losses("log_loss", model, rows.astype(str), Y, like=like)  # np.array(rows) beside one "n/a"
    np.testing.assert_array_equal(as_text, a)


@pytest.mark.parametrize(
    ("held", "like", "says"),
    [
        (pd.DataFrame(X), None, "like=X_train"),
        (X, FRAME, "like=X_train"),
        (pd.DataFrame(X), FRAME, "same columns"),
        (["a"] * N, None, "n_features_in_"),
        (X, TRAIN[:, :2], r"allowed: \(n, 2\)"),
        (X, TRAIN[:0], "at least one"),
        (mixed(X), PEOPLE.assign(age=pd.Timestamp("2020-01-01")), "neither numbers, text nor categories"),
    ],
)
def test_what_cannot_be_known_is_refused_before_anything_is_trained(held: Any, like: Any, says: str) -> None:
    class Unasked:
        def predict(self, rows: Any) -> Any:
            raise AssertionError("it was asked")

    with pytest.raises(InputError, match=says):
        estimator_losses("mse", Unasked(), held, Y, like=like)
    if not isinstance(held, list):
        with pytest.raises(InputError, match=says):
            losses_function(lambda _: None, "mse", Rows(held, Y, like), rows=N)


def test_rows_do_not_print_what_they_hold() -> None:
    assert str(X[0, 0]) not in repr(Rows(X, Y, TRAIN))
