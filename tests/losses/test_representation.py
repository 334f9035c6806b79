"""Neighbours may differ in the type of one cell or row: all other losses keep every bit.

NumPy, pandas and CSV readers choose a dtype by all cells. Each container is created as its users create it.
"""

from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from dptune.losses.columns import column_of
from dptune.losses.estimator import estimator_losses
from dptune.losses.rows import Rows, read_rows
from one_row import BAD, LABELS, TRAIN, N, Raises, X, Y, as_objects, mixed, same_for_others, with_entry

LINEAR = LogisticRegression().fit(TRAIN, LABELS)


ALL_ROWS = {
    "by rows": X,
    "by columns": np.asfortranarray(X),
    "a view": X[:, ::-1],
    "three axes": np.repeat(X[:, None], 3, axis=1).transpose(0, 2, 1),
    "float32": X.astype(np.float32),
}


@pytest.mark.parametrize("kind", ALL_ROWS)
def test_all_rows_have_the_layout_of_taken_rows(kind: str) -> None:
    """A model that sums in another order rounds differently: one odd row would change everybody's losses."""
    table = read_rows(ALL_ROWS[kind])
    everybody, taken = table.everybody(), table.take(np.arange(N))
    assert (everybody.dtype, everybody.strides) == (taken.dtype, taken.strides)
    assert everybody.tobytes() == taken.tobytes()
    everybody[:] = np.nan  # a model may change its copy
    assert table.everybody().tobytes() == taken.tobytes()


@pytest.mark.parametrize("kind", ["lists", "objects", "float32"])
def test_one_odd_row_of_a_list(kind: str) -> None:
    mine = [row.astype(np.float32) for row in X] if kind == "float32" else X.tolist()
    hold = as_objects if kind == "objects" else list
    a = estimator_losses("log_loss", LINEAR, hold(mine), Y)
    assert np.isfinite(a).all()
    for row in ("row", None, [1.0], [[1.0, 2.0, 3.0]], [1, 2, "3"], [10**30, 1, 1], X[BAD]):
        assert same_for_others(a, estimator_losses("log_loss", LINEAR, hold(with_entry(mine, row)), Y)), row


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
def test_one_odd_cell_of_sparse_rows(kind: Any) -> None:
    whole = np.arange(3 * N).reshape(N, 3)
    a = estimator_losses("log_loss", LINEAR, kind(whole), Y)
    assert np.isfinite(a).all()
    for cell in (np.nan, np.inf, 1j, 2 + 0j, 1e300):
        other = whole.astype(type(cell))
        other[BAD, 1] = cell
        b = estimator_losses("log_loss", LINEAR, kind(other), Y)
        assert same_for_others(a, b)
        assert np.isnan(b[BAD]) == (cell not in (2, 1e300))


def test_duplicates_of_a_sparse_matrix_add_up_whatever_its_type_is() -> None:
    places = ([0, 0, 1], [0, 0, 1])
    for values in ([100, 100, 1], [100.0, 100.0, 1.5], [100, 100, 1j]):
        held = sparse.coo_array((np.array(values, dtype=np.int8 if values[2] == 1 else None), places), shape=(2, 2))
        assert read_rows(held).take(np.array([0])).toarray().tolist() == [[200.0, 0.0]]


def test_one_number_beyond_the_type_of_public_sparse_rows_warns_of_nothing() -> None:
    rows = X.copy()
    rows[BAD, 1] = 1e300
    like = sparse.csr_array(TRAIN.astype(np.float32))
    losses = estimator_losses("log_loss", LINEAR, sparse.csr_array(rows), Y, like=like)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]


@pytest.mark.parametrize("cell", ["n/a", 2.0, None])
def test_one_odd_cell_of_masked_rows(cell: Any) -> None:
    mask = np.zeros((N, 3), dtype=bool)
    mask[7, 0] = True
    model = LogisticRegression().fit(TRAIN, LABELS)
    del model.n_features_in_  # how many columns there are is told by the array's shape
    plain = estimator_losses("log_loss", model, X, Y)
    odd: list[Any] = X.tolist()
    odd[BAD][1] = cell
    a, b = (estimator_losses("log_loss", model, np.ma.masked_array(rows, mask), Y) for rows in (X, np.array(odd)))
    assert np.flatnonzero(np.isnan(a)).tolist() == [7]
    assert np.array_equal(np.delete(a, 7), np.delete(plain, 7))
    assert same_for_others(a, b)


def test_an_infinite_cell_is_the_models_own_affair() -> None:
    rows = X.copy()
    rows[BAD, 1] = np.inf
    model = HistGradientBoostingClassifier(max_iter=5).fit(TRAIN, LABELS)
    assert np.isfinite(estimator_losses("accuracy", model, rows, Y)).all()


# --- what bad rows cost ---------------------------------------------------------------------------------------------


class Counting:
    """Refuses a row that is not finite or above 50, and counts how many it is asked."""

    n_features_in_ = 3
    asked: ClassVar[list[int]] = []  # of all copies: dptune asks one

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.asked.append(len(rows))
        if not (rows < 50).all():
            raise ValueError
        return rows[:, 0]


@pytest.mark.parametrize("bad", [np.nan, "n/a", np.inf])
def test_a_tenth_of_bad_rows_costs_one_call_for_everybody_and_public_rows(bad: Any) -> None:
    Counting.asked.clear()
    rows: list[Any] = X.tolist()
    for i in range(0, N, 10):
        rows[i][1] = bad
    losses = estimator_losses("mse", Counting(), rows, np.zeros(N))
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(range(0, N, 10))
    assert Counting.asked.count(N) == 1
    assert max(sorted(Counting.asked)[:-1]) <= 5  # public rows
    assert len(Counting.asked) <= 8


TENTH = np.flatnonzero(np.random.default_rng(0).random(2000) < 0.1)


@pytest.mark.parametrize(
    ("n", "bad", "calls", "rows"), [(2000, [], 9, 2015), (2000, TENTH, 2200, 6031), (4096, [1234, 4000], 60, 90_000)]
)
def test_rows_that_only_the_model_refuses_are_found_by_halving(n: int, bad: list[int], calls: int, rows: int) -> None:
    """Every row is asked for three times at most where they are many; the rest are public rows."""
    Counting.asked.clear()
    held = np.zeros((n, 3))
    held[bad, 0] = 70.0
    losses = estimator_losses("mse", Counting(), held, np.zeros(n))
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(bad)
    assert len(Counting.asked) < calls
    assert sum(Counting.asked) <= rows


def test_many_columns_with_missing_values_need_few_predictions() -> None:
    d, asked = 500, []

    class Counting:
        n_features_in_ = d

        def predict(self, given: np.ndarray) -> np.ndarray:
            asked.append(len(given))
            if np.isnan(given[:, 250:]).any():
                raise ValueError
            return np.zeros(len(given))

    rows = np.zeros((N, d))
    rows[::2, 100] = rows[1::4] = np.nan
    losses = estimator_losses("mse", Counting(), rows, np.zeros(N))
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(range(1, N, 4))
    assert len(asked) <= 70


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


@pytest.mark.parametrize("kind", ["object", "category", pd.CategoricalDtype(["north", "south"])])
def test_a_category_that_training_lacks_is_what_the_model_makes_of_it(kind: Any) -> None:
    """Of two columns that training knows as text or as categories, scikit-learn's model gives the same answers."""
    like, rows = (mixed(cells)[["age", "site"]].astype({"site": object}) for cells in (TRAIN, X))
    rows.loc[::10, "site"] = np.resize(["west", "east"], len(rows.iloc[::10]))
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["site"]))
    model = make_pipeline(columns, LogisticRegression()).fit(like.astype({"site": kind}), LABELS)
    given = rows.astype({"site": "category" if kind == "category" else "object"})
    losses = estimator_losses("log_loss", model, given, Y, like=like.astype({"site": kind}))
    assert losses == pytest.approx(-np.log(model.predict_proba(given)[np.arange(N), Y]))


@pytest.mark.parametrize(
    "sites",
    [
        [("north", 1), ("south", 2), ("west", 3)],
        [frozenset("a"), frozenset("b"), frozenset("c")],
        list(pd.interval_range(0, 3)),
        list(pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"])),
    ],
    ids=lambda sites: type(sites[0]).__name__,
)
def test_a_listed_category_that_no_public_row_has_costs_its_row(sites: list[Any]) -> None:
    """NumPy compares a tuple with a column as if the tuple were another column."""

    class Fussy:
        classes_ = np.array([0, 1])

        def predict(self, frame: pd.DataFrame) -> np.ndarray:
            if (frame["site"].cat.codes == 2).any():
                raise ValueError
            return np.zeros(len(frame))

    def table(codes: np.ndarray) -> pd.DataFrame:
        index = pd.Index(as_objects(sites), tupleize_cols=False)
        return pd.DataFrame({"age": 0.0, "site": pd.Categorical.from_codes(codes, categories=index)})

    codes = np.arange(N) % 2
    a, b = (
        estimator_losses("zero_one", Fussy(), table(np.array(with_entry(codes.tolist(), code))), Y, like=table(codes))
        for code in (1, 2)
    )
    assert np.isfinite(a).all()
    assert np.isnan(b[BAD])
    assert same_for_others(a, b)


def test_a_value_that_cannot_be_looked_up_is_no_unknown_value_of_others() -> None:
    column = column_of("site", np.array(list("abab"), dtype=object))
    assert column.unknown_values(as_objects(["a", ["c"], "c", Raises(), "c"])) == {"c": [2, 4]}


IMAGES = np.random.default_rng(0).normal(size=(N, 2, 2))


class Sum:
    """Predicts from the sum of an image's pixels."""

    classes_ = np.array([0, 1])

    def predict(self, images: np.ndarray) -> np.ndarray:
        return (np.asarray(images).sum(axis=(1, 2)) > 0).astype(int)


@pytest.mark.parametrize("hold", [np.ndarray.tolist, list, lambda images: [list(each) for each in images]])
@pytest.mark.parametrize("public", [np.array, np.ndarray.tolist])
def test_images_as_nested_lists_are_images(hold: Any, public: Any) -> None:
    labels, like = Sum().predict(IMAGES), public(IMAGES[:3] + 1)
    assert estimator_losses("zero_one", Sum(), hold(IMAGES), labels, like=like).tolist() == [0] * N
    for odd in (None, 1.0, [1.0, 2.0], [[1.0, 2.0]], [[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0, "x"]], [[[1.0]]] * 2):
        images = with_entry(list(hold(IMAGES)), odd)
        losses = estimator_losses("zero_one", Sum(), images, labels, like=like)
        assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD], odd


# --- frames and texts ----------------------------------------------------------------------------------------------


PEOPLE, PRIVATE = mixed(TRAIN), mixed(X)
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


@pytest.mark.parametrize("column", ["age", "visits", "site", "grade"])
def test_one_odd_cell_of_a_mixed_frame(column: str) -> None:
    for odd in (None, "?", 1.5, 10**400, ["a"]):
        frame = mixed(X)
        records = frame.to_dict("list")
        records[column][BAD] = odd
        neighbour = pd.DataFrame(records, columns=frame.columns)
        b = estimator_losses("log_loss", PIPELINE, neighbour, Y, like=PEOPLE)
        for a in map(losses_of_mixed_rows, (False, True)):
            assert np.isfinite(a).all()
            assert same_for_others(a, b), odd
        if column == "age" and odd is None:
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


@pytest.mark.parametrize("hold", [list, as_objects, pd.Series], ids=["list", "array", "series"])
def test_texts(hold: Any) -> None:
    words = np.where(LABELS == 1, "warm sunny day", "cold rain")
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(words, LABELS)
    texts = np.where(Y == 1, "warm sunny day", "cold rain").tolist()
    a = estimator_losses("log_loss", model, hold(texts), Y, like=["rain"])
    assert a.mean() < 0.1
    for odd in (None, 3, 1.5, np.nan, ["a"], b"x"):
        b = estimator_losses("log_loss", model, hold(with_entry(texts, odd)), Y, like=["rain"])
        assert same_for_others(a, b), odd


def test_numbers_of_a_text_column_are_its_public_values() -> None:
    like = pd.DataFrame({"score": ["1.0", "007", "TRUE?", "2.50", None]})
    held = [1.0, 7, "7", 1, "1.0", np.float32(2.5), True, 4.0, "4.75", "x", np.nan]
    given = read_rows(pd.DataFrame({"score": pd.Series(held, dtype=object)}), like).take(np.arange(len(held)))
    assert given["score"].tolist()[:-1] == ["1.0", "007", "007", *["1.0"] * 2, "2.50", "1.0", "4", "4.75", "x"]
    assert pd.isna(given["score"].iloc[-1])


def test_a_public_value_that_is_no_text_stays_what_it_is() -> None:
    like = pd.DataFrame({"code": pd.Series([2, "a", np.nan, "3.0"], dtype=object)})
    given = read_rows(pd.DataFrame({"code": ["2.0", "a", "3", None]}), like).take(np.arange(4))["code"].tolist()
    assert given[:3] == [2, "a", "3.0"]
    assert isinstance(given[0], int)
    assert isinstance(given[3], float)


def test_a_missing_cell_is_the_public_missing_value() -> None:
    held = pd.DataFrame({"city": [None, "nan", "a"]})
    table = read_rows(held, pd.DataFrame({"city": ["nan", "a"]}))  # a text that says so
    assert table.take(np.arange(3))["city"].tolist() == ["nan", "nan", "a"]
    assert not table.gaps.any()
    assert table.synthetic_row(np.nan)["city"].tolist() == ["nan"]
    table = read_rows(held, pd.DataFrame({"city": pd.Series(["a", np.nan], dtype=object)}))
    assert table.gaps.ravel().tolist() == [True, True, False]
    for row in (table.take(np.arange(3)), table.synthetic_row(np.nan)):
        assert isinstance(row["city"].iloc[0], float)


@pytest.mark.parametrize("store", ["object", "string[pyarrow]", "category"])
def test_the_pipeline_imputes_missing_values_of_an_integer_column(store: Any) -> None:
    """No public number is missing, and the encoder of the site knows no missing value; the imputer of visits does."""
    like, private = PEOPLE.astype({"site": store}), PRIVATE.astype({"visits": float})
    private.loc[::3, "visits"] = np.nan
    for encoder in (OneHotEncoder(), OrdinalEncoder()):
        table = make_column_transformer((SimpleImputer(), ["age", "visits"]), (encoder, ["site"]))
        model = make_pipeline(table, LogisticRegression(max_iter=1000)).fit(like, LABELS)
        losses = estimator_losses("log_loss", model, private, Y, like=like)
        assert losses.mean() == pytest.approx(log_loss(Y, model.predict_proba(private.astype({"site": store}))))


def test_a_missing_value_that_the_pipeline_refuses_costs_its_row() -> None:
    table = make_column_transformer((SimpleImputer(), ["age"]), ("passthrough", ["visits"]))
    model = make_pipeline(table, LogisticRegression(max_iter=1000)).fit(PEOPLE, LABELS)
    private = PRIVATE.astype({"visits": float})
    private.loc[BAD, "visits"] = private.loc[7, "age"] = np.nan
    losses = estimator_losses("log_loss", model, private, Y, like=PEOPLE)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]


def test_rows_do_not_print_what_they_hold() -> None:
    assert str(X[0, 0]) not in repr(Rows(X, Y, TRAIN))
