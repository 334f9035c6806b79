"""One private cell costs its own row only: what a reader makes of the others' cells changes nothing of theirs.

The audit: private tables that differ in one cell are read as users read them, by many readers, beside many public
columns. What a model is given of everybody else, and everybody else's losses, must keep every byte.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
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
from dptune.losses.rows import ParsedRows, Rows, read_rows
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.parsing import plain

SURROGATE = json.loads('"cut \\ud83d"')
NUMBERS = ["1", "1.0", "1.50", "1.5", "7", "007", "1e3", "1000", "1000.0", "-0.0", "0", "2.5", " 3", "0.1", "1e400"]
NUMBERS += ["-0", "9007199254740993", "1234567890123456789", "-4", "inf"]
OTHERS = ["TRUE", "True", "false", "", "?", "Bern", "Basel", "1_0", "1j", "(1+0j)", "x y", "None", "nan", "Infinity"]
CELLS = st.sampled_from(NUMBERS + OTHERS) | st.floats(-1e6, 1e6).map(repr) | st.integers(-99, 99).map(str)


def csv(**options: Any) -> Callable[[list[str]], pd.DataFrame]:
    def read(cells: list[str]) -> pd.DataFrame:
        lines = "".join(f'"{cell}",{i}\n' if cell else f",{i}\n" for i, cell in enumerate(cells))
        return pd.read_csv(io.StringIO("a,b\n" + lines), **options)

    return read


def typed(cell: str) -> Any:
    """As somebody holds the cell in a Python list."""
    if cell in ("", "None", "nan"):
        return {"": None, "None": None, "nan": np.nan}[cell]
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return complex(cell) if cell in ("1j", "(1+0j)") else cell


def rows(cells: list[str], beside: Any = 2.5) -> list[list[Any]]:
    return [[typed(cell), beside] for cell in cells]


def objects(cells: list[str]) -> np.ndarray:
    return np.array(rows(cells), dtype=object)


READERS: dict[str, Callable[[list[str]], Any]] = {
    "csv": csv(),
    "csv, Python": csv(engine="python"),
    "csv as text": csv(dtype=str),
    "csv, nullable": csv(dtype_backend="numpy_nullable"),
    "csv, Arrow": csv(dtype_backend="pyarrow"),
    "csv, category": lambda cells: csv()(cells).astype({"a": "category"}),
    "csv, converted": lambda cells: csv()(cells).convert_dtypes(),
    "frame": lambda cells: pd.DataFrame(rows(cells), columns=["a", "b"]),
    "frame of objects": lambda cells: pd.DataFrame(objects(cells), columns=["a", "b"]),
    "array": lambda cells: np.array(rows(cells)),
    "array beside text": lambda cells: np.array(rows(cells, "x")),
    "array of float32": lambda cells: np.array(
        [[np.float32(each) if isinstance(each, float) else each, "x"] for each, _ in rows(cells)]
    ),
    "objects": objects,
    "list": rows,
    "masked": lambda cells: np.ma.masked_array(np.array(rows(cells, "x")), False),
    "texts": lambda cells: [typed(cell) for cell in cells],
    "series": lambda cells: pd.Series([typed(cell) for cell in cells]),
}


def everything(table: ParsedRows) -> list[tuple[Any, ...]]:
    """What a model may be given of each row, and whether it is: types, bytes and marks."""
    taken = table.take(np.arange(len(table)))
    if isinstance(taken, pd.DataFrame):
        cells = [[(str(dtype), cell) for dtype, cell in zip(taken.dtypes, row, strict=True)] for row in as_lists(taken)]
    else:
        cells = [[(getattr(taken, "dtype", None), cell) for cell in np.atleast_1d(row).tolist()] for row in taken]
    marks = zip(table.unreadable, map(tuple, table.gaps.tolist()), table.infinite, strict=True)
    return [(repr(row), *mark) for row, mark in zip(cells, marks, strict=True)]


def as_lists(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(zip(*(frame.iloc[:, j].tolist() for j in range(frame.shape[1])), strict=True))


def read(reader: str, public: list[str], private: list[str]) -> list[tuple[Any, ...]]:
    hold = READERS[reader]
    return everything(read_rows(hold(private), hold(public)))


def can_be_public(reader: str, public: list[str]) -> bool:
    try:
        read(reader, public, public)
    except InputError:
        return False
    return True


def changed_rows(reader: str, public: list[str], private: list[str], who: int, cell: str) -> list[int]:
    """The rows of which anything changes when a person's cell does."""
    neighbour = [*private[:who], cell, *private[who + 1 :]]
    pairs = zip(read(reader, public, private), read(reader, public, neighbour), strict=True)
    return [i for i, (mine, theirs) in enumerate(pairs) if mine != theirs]


COLUMN = st.lists(CELLS, min_size=1, max_size=7)


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=15, deadline=None)
@given(public=COLUMN, private=st.lists(CELLS, min_size=2, max_size=6), cell=CELLS, data=st.data())
def test_only_its_own_row(reader: str, public: list[str], private: list[str], cell: str, data: Any) -> None:
    public = [*public, "x y"] if reader in ("texts", "series") else public
    assume(can_be_public(reader, public))
    who = data.draw(st.integers(0, len(private) - 1))
    assert set(changed_rows(reader, public, private, who, cell)) <= {who}


@settings(max_examples=15, deadline=None)
@given(public=COLUMN, private=COLUMN)
@example(public=["1.0", "?", "2.5"], private=["1.0", "2.50", "3"])
@example(public=["1", "2"], private=["1.0", "?", "TRUE"])
def test_whichever_way_a_file_is_read(public: list[str], private: list[str]) -> None:
    """So also where several people's cells are odd."""
    assume(can_be_public("csv", public))
    like = READERS["csv"](public)
    first, *others = (everything(read_rows(hold(private), like)) for name, hold in READERS.items() if "csv" in name)
    for other in others:
        assert other == first


OLD: dict[str, Callable[[Any], Any]] = {  # what was wrong once: each must be seen
    "whole floats lose their point": lambda cell: str(cell) if isinstance(cell, str) else _as_once(cell),
    "text is never a number": lambda cell: cell if isinstance(cell, str) else plain(cell),
    "text that is public comes first": lambda cell: cell if cell in ("1.0", "1.50", "007", "TRUE") else plain(cell),
    "float32 as it is": lambda cell: float(cell) if isinstance(cell, np.float32) else plain(cell),
    "missing text is text": lambda cell: cell if isinstance(cell, str) and cell == "nan" else plain(cell),
}


def _as_once(cell: Any) -> Any:
    said = plain(cell)
    return str(int(said)) if isinstance(said, float) and said.is_integer() else said


PRECISE = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
ODD_HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {  # of float32 cells, one of which may be text
    "array of text": lambda cells: np.array([list(row) for row in cells]),
    "objects": lambda cells: np.array([list(row) for row in cells], dtype=object),
    "frame": lambda cells: pd.DataFrame({f"c{j}": list(column) for j, column in enumerate(cells.T)}),
}


def with_text(cells: np.ndarray) -> np.ndarray:
    other = np.array([list(row) for row in cells], dtype=object)  # NumPy's own scalars
    other[7, 1] = "?"
    return other


@pytest.mark.parametrize("precision", [np.float16, np.float32])
@pytest.mark.parametrize("public", [np.float32, np.float64, None])
@pytest.mark.parametrize("hold", ["array of text", "objects", "frame"])
def test_text_beside_cells_of_low_precision_moves_no_other_row(hold: str, public: Any, precision: Any) -> None:
    """A whole array of float32 kept its exact values, and beside one text each became the number that it printed as."""
    cells = PRECISE.astype(precision)
    frame = hold == "frame"
    like = None if public is None else PRECISE.astype(public)
    if frame:
        like = pd.DataFrame(np.zeros((2, 3)) if like is None else like, columns=["c0", "c1", "c2"])
    held, neighbour = (pd.DataFrame(cells, columns=["c0", "c1", "c2"]) if frame else cells), with_text(cells)
    mine, theirs = everything(read_rows(held, like)), everything(read_rows(ODD_HOLDERS[hold](neighbour), like))
    assert [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b] == [7]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_array])
def test_sparse_cells_of_low_precision_are_read_as_dense_ones(kind: Any) -> None:
    like = PRECISE.astype(np.float64)
    dense = read_rows(PRECISE, like).take(np.arange(40))
    assert read_rows(kind(PRECISE), sparse.csr_array(like)).take(np.arange(40)).toarray().tobytes() == dense.tobytes()


@pytest.mark.parametrize("public", [np.float32, np.float64])
def test_cells_keep_their_values_in_their_own_precision_and_a_float32_prints_the_same_beyond(public: Any) -> None:
    taken = read_rows(PRECISE, PRECISE.astype(public)).take(np.arange(40))
    assert taken.dtype == public
    assert (taken.astype(np.float32) == PRECISE).all()
    assert taken[0, 0] == (PRECISE[0, 0] if public is np.float32 else float(str(PRECISE[0, 0])))


def test_a_text_among_answers_of_low_precision_moves_no_other_loss() -> None:
    X, y = PRECISE.astype(np.float64), PRECISE[:, 0]
    model = LinearRegression().fit(X, y.astype(np.float64) + 1)
    odd = with_text(PRECISE[:, [0, 0]])[:, 1]
    losses = [np.asarray(estimator_losses("squared_error", model, X, answers)) for answers in (y, odd, odd.astype(str))]
    assert [np.flatnonzero(losses[0] != other).tolist() for other in losses[1:]] == [[7], [7]]


@pytest.mark.parametrize("bug", OLD)
def test_a_reader_that_looks_at_spelling_is_seen(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    cases = [
        ("csv", ["1.0", "?", "1.50", "007", "TRUE"], [cell, "3"], 1, "Bern")
        for cell in ("1.0", "1.50", "007", "1e3", "TRUE")
    ]
    cases += [
        ("array of float32", ["0.1", "2.5"], ["0.1", "2.5"], 1, ""),
        ("array beside text", ["1"], ["nan"] * 2, 1, ""),
    ]
    assert not any(set(changed_rows(*case)) - {1} for case in cases)
    monkeypatch.setattr(columns, "plain", OLD[bug])
    assert any(set(changed_rows(*case)) - {1} for case in cases)


# --- models ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("store", ["str", "string[pyarrow]", "arrow"])
@pytest.mark.parametrize("repeats", [True, False])
def test_a_cell_of_which_no_frame_can_be_built_costs_its_own_row_only(
    monkeypatch: pytest.MonkeyPatch, store: str, repeats: bool
) -> None:
    """Were the surrogate taken for text, Arrow would refuse the column: rows are built inside the guarded ask."""
    monkeypatch.setattr(columns, "plain", lambda cell: cell if cell == SURROGATE else plain(cell))
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


# --- other containers, answers and losses ----------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        *((cell, 1.0) for cell in (1, 1.0, "1", "1.0", " 1", True, "TRUE", b"1", "(1+0j)", 1 + 0j, np.float32(1))),
        *((cell, None) for cell in (None, np.nan, "nan", pd.NA, pd.NaT, np.timedelta64("NaT"))),
        (np.float32(0.1), 0.1),
        (np.timedelta64(5, "h"), 5.0),
        (-0.0, 0.0),
        (10**400, np.inf),
        ("1" + "0" * 400, np.inf),
        ("a\0", "a"),
        (np.str_("a"), "a"),
        ("1.1.0", "1.1.0"),
        (pd.Interval(0, 1), pd.Interval(0, 1)),
    ],
)
def test_what_a_cell_says(cell: Any, says: Any) -> None:
    assert plain(cell) == says
    assert type(plain(cell)) is type(says)


@pytest.mark.parametrize("cell", [SURROGATE, b"\xff"])
def test_what_is_no_text_equals_nothing(cell: Any) -> None:
    assert plain(cell) not in (cell, None)
    assert not isinstance(plain(cell), str | float)
