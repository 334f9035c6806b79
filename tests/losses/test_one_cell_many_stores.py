"""One private cell costs its own row only, however pandas stores its column; missing values are the model's affair."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from one_row import BAD, LABELS, TRAIN, N, X, Y, mixed, same_for_others
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from dptune.errors import InputError
from dptune.losses import columns
from dptune.losses.estimator import estimator_losses
from dptune.losses.rows import Rows, read_rows
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.parsing import says

SURROGATE = json.loads('"cut \\ud83d"')
ARROW = pd.ArrowDtype(pa.string())
STORES = ["str", "object", "string[python]", "string[pyarrow]", "category", ARROW]
PEOPLE, PRIVATE = mixed(TRAIN), mixed(X)


def encoding(like: pd.DataFrame, encoder: Any) -> Any:
    table = make_column_transformer((SimpleImputer(), ["age", "visits"]), (encoder, ["site"]))
    return make_pipeline(table, LogisticRegression(max_iter=1000)).fit(like, LABELS)


@pytest.mark.parametrize(
    ("store", "repeats"), [("str", True), ("string[pyarrow]", True), (ARROW, True), (ARROW, False)], ids=str
)
def test_a_cell_of_which_no_frame_can_be_built_costs_its_own_row_only(
    monkeypatch: pytest.MonkeyPatch, store: Any, repeats: bool
) -> None:
    """Were the surrogate taken for text, Arrow would refuse the column: rows are built inside the guarded ask."""
    monkeypatch.setattr(columns, "says", lambda cell: cell if cell == SURROGATE else says(cell))
    like = PEOPLE if repeats else PEOPLE.assign(site=[f"place {i}" for i in range(len(PEOPLE))])
    like = like.astype({"site": store})
    model, private = encoding(like, OneHotEncoder(handle_unknown="ignore")), PRIVATE.astype({"site": object})
    a = estimator_losses("log_loss", model, private, Y, like=like)
    private.loc[BAD, "site"] = SURROGATE
    b = estimator_losses("log_loss", model, private, Y, like=like)
    assert np.isfinite(a).all()
    assert same_for_others(a, b)
    assert np.isnan(b[BAD])


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


@pytest.mark.parametrize("kind", ["text", "category"])
def test_public_values_that_are_one_number_are_refused_where_values_repeat(kind: str) -> None:
    like = pd.DataFrame({"version": ["1.1", "1.10", "2.0-beta"] * 3})
    like = like.astype("category") if kind == "category" else like
    with pytest.raises(InputError, match=r"column 'version' of like= holds '1.1' and '1.10'"):
        losses_function(lambda _: None, "mse", Rows(like, np.zeros(9), like), rows=9)
    free = pd.DataFrame({"id": ["1e999", "2e999", "77ab", "8c"]})
    assert len(read_rows(free, free)) == 4


@pytest.mark.parametrize("beside", ["a", 1])
def test_public_dates_beside_text_are_refused(beside: Any) -> None:
    day = pd.Timestamp("2020-01-01")
    with pytest.raises(InputError, match="like="):
        read_rows([["b", 1]], [[beside, day]])
    with pytest.raises(InputError, match="neither numbers, text nor categories"):
        read_rows(pd.DataFrame({"day": [1, 2]}), pd.DataFrame({"day": pd.Series(["x", day], dtype=object)}))


# --- gaps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES, ids=str)
def test_missing_values_in_a_column_of_integers_are_what_the_pipeline_makes_of_them(store: Any) -> None:
    """No public number is missing, and the encoder of the site knows no missing value; the imputer of visits does."""
    like, private = PEOPLE.astype({"site": store}), PRIVATE.astype({"visits": float})
    private.loc[::3, "visits"] = np.nan
    for encoder in (OneHotEncoder(), OrdinalEncoder()):
        model = encoding(like, encoder)
        losses = estimator_losses("log_loss", model, private, Y, like=like)
        assert losses.mean() == pytest.approx(log_loss(Y, model.predict_proba(private.astype({"site": store}))))


def test_a_missing_value_that_the_pipeline_refuses_costs_its_row() -> None:
    table = make_column_transformer((SimpleImputer(), ["age"]), ("passthrough", ["visits"]))
    model = make_pipeline(table, LogisticRegression(max_iter=1000)).fit(PEOPLE, LABELS)
    private = PRIVATE.astype({"visits": float})
    private.loc[BAD, "visits"] = private.loc[7, "age"] = np.nan
    losses = estimator_losses("log_loss", model, private, Y, like=PEOPLE)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [BAD]


def test_many_columns_with_missing_values_cost_a_bounded_number_of_questions() -> None:
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


def test_duplicates_of_a_sparse_matrix_add_up_whatever_its_type_is() -> None:
    places = ([0, 0, 1], [0, 0, 1])
    for values in ([100, 100, 1], [100.0, 100.0, 1.5], [100, 100, 1j]):
        X = sparse.coo_array((np.array(values, dtype=np.int8 if values[2] == 1 else None), places), shape=(2, 2))
        assert read_rows(X).take(np.array([0])).toarray().tolist() == [[200.0, 0.0]]
