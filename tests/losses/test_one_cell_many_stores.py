"""One private cell costs its own row only: what models, answers and losses make of everybody else."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from one_row import as_lists
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from dptune.errors import InputError
from dptune.losses import columns
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss
from dptune.losses.rows import Rows, read_rows
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.parsing import says

SURROGATE = json.loads('"cut \\ud83d"')


class Witness:
    """A model that keeps what it was given."""

    classes_: ClassVar[Any] = np.array([0, 1])
    n_features_in_ = 3
    given: ClassVar[list[Any]] = []  # of all copies: dptune asks one

    def predict(self, given: Any) -> np.ndarray:
        self.given.append(given)
        return np.zeros(len(given), dtype=int)


M, N, WHO = 60, 40, 5


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    frame = pd.DataFrame({"age": age, "grade": rng.integers(1, 5, n) / 2, "city": np.where(age > 50, "Bern", "Basel")})
    return frame, (age + rng.normal(0, 20, n) > 55).astype(int)


TRAIN, LABELS = people(M, 1)
PRIVATE, ANSWERS = people(N, 2)
STORES = ["str", "object", "string[python]", "string[pyarrow]", "category", "arrow"]


def stored(store: str) -> Any:
    return pd.ArrowDtype(__import__("pyarrow").string()) if store == "arrow" else store


def with_city(cell: Any) -> pd.DataFrame:
    cities = PRIVATE["city"].tolist()
    cities[WHO] = cell
    return PRIVATE.assign(city=pd.Series(cities, dtype=object))


def others_alike(a: np.ndarray, b: np.ndarray) -> bool:
    return np.delete(a, WHO).tobytes() == np.delete(b, WHO).tobytes()


def encoding(like: pd.DataFrame) -> Any:
    cities = OneHotEncoder(handle_unknown="ignore")
    table = make_column_transformer(("passthrough", ["age", "grade"]), (cities, ["city"]))
    return make_pipeline(table, LogisticRegression(max_iter=1000)).fit(like, LABELS)


@pytest.mark.parametrize("store", STORES)
def test_a_lone_surrogate_costs_its_own_row_only(store: str) -> None:
    like = TRAIN.astype({"city": stored(store)})
    a, b = (estimator_losses("log_loss", encoding(like), with_city(c), ANSWERS, like=like) for c in ("Bern", SURROGATE))
    assert np.isfinite(a).all()
    assert others_alike(a, b)
    assert np.isnan(b[WHO])


@pytest.mark.parametrize(
    ("store", "repeats"), [("str", True), ("string[pyarrow]", True), ("arrow", True), ("arrow", False)]
)
def test_a_cell_of_which_no_frame_can_be_built_costs_its_own_row_only(
    monkeypatch: pytest.MonkeyPatch, store: str, repeats: bool
) -> None:
    """Were the surrogate taken for text, Arrow would refuse the column: rows are built inside the guarded ask."""
    monkeypatch.setattr(columns, "says", lambda cell: cell if cell == SURROGATE else says(cell))
    like = TRAIN if repeats else TRAIN.assign(city=[f"place {i}" for i in range(M)])
    like = like.astype({"city": stored(store)})
    a, b = (estimator_losses("log_loss", encoding(like), with_city(c), ANSWERS, like=like) for c in ("Bern", SURROGATE))
    assert np.isfinite(a).all()
    assert others_alike(a, b)
    assert np.isnan(b[WHO])


@pytest.mark.parametrize("cell", ["Zug", None, np.nan, 1.0, "1.0", True, SURROGATE, b"Bern", ["Bern"], 1j])
@pytest.mark.parametrize("store", STORES)
def test_a_model_is_given_the_same_bytes_of_everybody_else(store: str, cell: Any) -> None:
    like, seen = TRAIN.astype({"city": stored(store)}), []
    for frame in (PRIVATE, with_city(cell)):
        estimator_losses("zero_one", Witness(), frame, ANSWERS, like=like)
        given = Witness.given[-1]
        assert len(given) == N
        assert dict(given.dtypes) == {"age": np.float64, "grade": np.float64, "city": like["city"].dtype}
        seen.append([repr(row) for i, row in enumerate(as_lists(given)) if i != WHO])
    assert seen[0] == seen[1]


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
    assert all(
        isinstance(row["city"].iloc[0], float) for row in (table.take(np.arange(3)), table.synthetic_row(np.nan))
    )


@pytest.mark.parametrize("kind", ["text", "category"])
def test_public_values_that_are_one_number_are_refused_where_values_repeat(kind: str) -> None:
    like = pd.DataFrame({"version": ["1.1", "1.10", "2.0-beta"] * 3})
    like = like.astype("category") if kind == "category" else like
    with pytest.raises(InputError, match=r"column 'version' of like= holds '1.1' and '1.10'"):
        losses_function(lambda _: None, "mse", Rows(like, np.zeros(9), like), rows=9)
    free = pd.DataFrame({"id": ["1e999", "2e999", "77ab", "8c"]})
    assert len(read_rows(free, free)) == 4


@pytest.mark.parametrize("like", [[["a", pd.Timestamp("2020-01-01")]], [[1, pd.Timestamp("2020-01-01")]]])
def test_public_dates_beside_text_are_refused(like: list[list[Any]]) -> None:
    with pytest.raises(InputError, match="like="):
        read_rows([["b", 1]], like)
    with pytest.raises(InputError, match="neither numbers, text nor categories"):
        read_rows(pd.DataFrame({"day": [1, 2]}), pd.DataFrame({"day": pd.Series(["x", like[0][1]], dtype=object)}))


# --- gaps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()])
@pytest.mark.parametrize("store", STORES)
def test_missing_values_in_a_column_of_integers_are_what_the_pipeline_makes_of_them(store: str, encoder: Any) -> None:
    """No public age is missing, and the encoder of the city knows no missing value; the imputer of ages does."""
    like = TRAIN.astype({"city": stored(store)})
    model = make_pipeline(
        make_column_transformer((SimpleImputer(), ["age", "grade"]), (encoder, ["city"])),
        LogisticRegression(max_iter=1000),
    ).fit(like, LABELS)
    private = PRIVATE.astype({"age": float})
    private.loc[::3, "age"] = np.nan
    losses = estimator_losses("log_loss", model, private, ANSWERS, like=like)
    wanted = log_loss(ANSWERS, model.predict_proba(private.astype({"city": stored(store)})))
    assert losses.mean() == pytest.approx(wanted)


def test_a_missing_value_that_the_pipeline_refuses_costs_its_row() -> None:
    model = make_pipeline(
        make_column_transformer((SimpleImputer(), ["age"]), ("passthrough", ["grade"])),
        LogisticRegression(max_iter=1000),
    ).fit(TRAIN, LABELS)
    private = PRIVATE.astype({"age": float})
    private.loc[WHO, "grade"] = private.loc[7, "age"] = np.nan
    losses = estimator_losses("log_loss", model, private, ANSWERS, like=TRAIN)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [WHO]


def test_many_columns_with_missing_values_cost_a_bounded_number_of_questions() -> None:
    d, asked = 500, []

    class Counting:
        n_features_in_ = d

        def predict(self, given: np.ndarray) -> np.ndarray:
            asked.append(len(given))
            if np.isnan(given[:, 250:]).any():
                raise ValueError
            return np.zeros(len(given))

    X = np.zeros((N, d))
    X[::2, 100] = X[1::4] = np.nan
    losses = estimator_losses("mse", Counting(), X, np.zeros(N))
    assert np.flatnonzero(np.isnan(losses)).tolist() == list(range(1, N, 4))
    assert len(asked) <= 70


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_array, sparse.lil_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("cell", [1j, 2 + 0j, np.nan, 1e300])
def test_one_odd_cell_of_sparse_rows(kind: Any, cell: complex) -> None:
    dense = np.arange(2.0 * N).reshape(N, 2)
    model = LogisticRegression(max_iter=1000).fit(dense, np.arange(N) % 2)
    other = dense.astype(type(cell))
    other[WHO, 1] = cell
    a, b = (estimator_losses("log_loss", model, kind(held), ANSWERS) for held in (dense, other))
    assert np.isfinite(a).all()
    assert others_alike(a, b)
    assert np.isnan(b[WHO]) == (cell != 2 and cell != 1e300)


def test_duplicates_of_a_sparse_matrix_add_up_whatever_its_type_is() -> None:
    places = ([0, 0, 1], [0, 0, 1])
    for values in ([100, 100, 1], [100.0, 100.0, 1.5], [100, 100, 1j]):
        X = sparse.coo_array((np.array(values, dtype=np.int8 if values[2] == 1 else None), places), shape=(2, 2))
        assert read_rows(X).take(np.array([0])).toarray().tolist() == [[200.0, 0.0]]


@pytest.mark.parametrize("cell", ["n/a", 2.0, None])
def test_one_odd_cell_of_masked_rows(cell: Any) -> None:
    held = [[float(i), 1.0] for i in range(N)]
    other = [[*row] for row in held]
    other[WHO][1] = cell
    mask = np.zeros((N, 2), dtype=bool)
    mask[7, 0] = True
    y = np.arange(N) % 2
    model = LogisticRegression().fit(held, y)
    del model.n_features_in_  # how many columns there are is told by the array's shape
    a, b = (estimator_losses("log_loss", model, np.ma.masked_array(np.array(X), mask), y) for X in (held, other))
    assert np.flatnonzero(np.isnan(a)).tolist() == [7]
    assert others_alike(a, b)


@pytest.mark.parametrize("cell", [np.timedelta64(5, "D"), np.timedelta64("NaT"), pd.Timedelta("5D"), 1.5, "x", None])
def test_one_odd_answer_among_whole_numbers(cell: Any) -> None:
    """NumPy turns whole numbers beside one timedelta into timedeltas."""
    y = [i % 2 for i in range(N)]
    other = [*y[:WHO], cell, *y[WHO + 1 :]]
    X = np.arange(2.0 * N).reshape(N, 2)
    classifier, regression = DummyClassifier().fit(X, y), LinearRegression().fit(X, y)
    for loss, model in (("log_loss", classifier), ("zero_one", classifier), ("mse", regression)):
        a, b = (estimator_losses(loss, model, X, np.array(each)) for each in (y, other))
        assert np.isfinite(a).all()
        assert others_alike(a, b)


@pytest.mark.parametrize("cell", ["n/a", [], None, np.timedelta64(3, "D"), 1j, SURROGATE, {}])
@pytest.mark.parametrize("hold", [list, tuple, lambda losses: np.array(losses, dtype=object), pd.Series])
def test_a_named_loss_of_ones_own_is_read_entry_by_entry(hold: Any, cell: Any) -> None:
    X = np.arange(2.0 * N).reshape(N, 2)
    model = LinearRegression().fit(X, X[:, 0])

    def losses(odd: Any) -> np.ndarray:
        own = NamedLoss("own", lambda y, p: hold([odd if a == 99 else abs(a - b) for a, b in zip(y, p, strict=True)]))
        return estimator_losses(own, model, X, np.where(np.arange(N) == WHO, 99.0, 0.0))

    a, b = losses(0.5), losses(cell)
    assert np.isfinite(a).all()
    assert others_alike(a, b)
    assert np.isnan(b[WHO]) or b[WHO] == 3


@pytest.mark.parametrize("result", [0.5, [0.5, 0.5], [[0.5]], []])
def test_a_named_loss_that_is_not_one_number_a_person_is_refused(result: Any) -> None:
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    own = NamedLoss("own", lambda y, prediction: result)
    with pytest.raises(InputError, match="one loss per"):
        estimator_losses(own, model, [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
