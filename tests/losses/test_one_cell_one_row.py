"""One private cell changes only its own row, whatever a reader does with the other cells.

The audit reads private tables that differ in one cell as users read them: with many readers and many public columns.
The model's input and the losses of all other people must keep every byte.
"""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from dptune.errors import InputError
from dptune.losses import columns
from dptune.losses.estimator import estimator_losses
from dptune.losses.rows import ParsedRows, read_rows
from dptune.privacy.seal.parsing import says
from one_row import as_lists

SURROGATE = json.loads('"cut \\ud83d"')
TYPED = {"": None, "None": None, "nan": np.nan, "<huge>": 10**400, "<bytes>": b"Bern", "<cut>": SURROGATE}
NUMBERS = ["1", "1.0", "1.50", "1.5", "7", "007", "1e3", "1000", "1000.0", "-0.0", "0", "2.5", " 3", "0.1", "1e400"]
NUMBERS += ["-0", "9007199254740993", "1234567890123456789", "-4", "inf"]
OTHERS = [*list(TYPED)[:-1], "TRUE", "True", "false", "?", "Bern", "Basel", "1_0", "1j", "(1+0j)", "x y", "Infinity"]
CELLS = st.sampled_from(NUMBERS + OTHERS) | st.floats(-1e6, 1e6).map(repr) | st.integers(-99, 99).map(str)


def csv(**options: Any) -> Callable[[list[str]], pd.DataFrame]:
    def read(cells: list[str]) -> pd.DataFrame:
        lines = "".join(f'"{cell}",{i}\n' if cell else f",{i}\n" for i, cell in enumerate(cells))
        return pd.read_csv(io.StringIO("a,b\n" + lines), **options)

    return read


def typed(cell: str) -> Any:
    """As somebody holds the cell in a Python list."""
    if cell in TYPED:
        return TYPED[cell]
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
    "frame of objects": lambda cells: pd.DataFrame(objects(cells), columns=["a", "b"], dtype=object),
    "array": lambda cells: np.array(rows(cells)),
    "array beside text": lambda cells: np.array(rows(cells, "x")),
    "array of float32": lambda cells: np.array(
        [[np.float32(each) if isinstance(each, float) else each, "x"] for each, _ in rows(cells)]
    ),
    "objects": objects,
    "list": rows,
    "tuple of arrays": lambda cells: tuple(np.array(row, dtype=object) for row in rows(cells)),
    "array of bytes": lambda cells: np.array([[cell.encode(), b"2.5"] for cell in cells]),
    "array of strings": lambda cells: np.array([[cell, "2.5"] for cell in cells], dtype=np.dtypes.StringDType()),
    "masked": lambda cells: np.ma.masked_array(np.array(rows(cells, "x")), False),
    "texts": lambda cells: [typed(cell) for cell in cells],
    "series": lambda cells: pd.Series([typed(cell) for cell in cells]),
}


STORES = {  # of the public rows; the private ones are a frame of objects
    "object": object,
    "str": "str",
    "string[python]": "string[python]",
    "string[pyarrow]": "string[pyarrow]",
    "arrow": pd.ArrowDtype(pa.string()),
    "category": "category",
}


def stored(store: str, cells: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(cells, dtype=STORES[store]), "b": 2.5})


def everything(table: ParsedRows) -> list[tuple[Any, ...]]:
    """What a model may be given of each row, and whether it is: types, bytes and marks."""
    taken = table.take(np.arange(len(table)))
    if isinstance(taken, pd.DataFrame):
        cells = [[(str(dtype), cell) for dtype, cell in zip(taken.dtypes, row, strict=True)] for row in as_lists(taken)]
    else:
        cells = [[(getattr(taken, "dtype", None), cell) for cell in np.atleast_1d(row).tolist()] for row in taken]
    marks = zip(table.unreadable, map(tuple, table.gaps.tolist()), table.infinite, strict=True)
    return [(repr(row), *mark) for row, mark in zip(cells, marks, strict=True)]


def read(reader: str, public: list[str], private: list[str]) -> list[tuple[Any, ...]]:
    if reader in STORES:
        return everything(read_rows(READERS["frame of objects"](private), stored(reader, public)))
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


@pytest.mark.parametrize("reader", [*(each for each in READERS if "csv," not in each), *STORES])  # these: see below
@settings(max_examples=10, deadline=None)
@given(public=COLUMN, private=st.lists(CELLS, min_size=2, max_size=6), cell=CELLS, data=st.data())
def test_only_its_own_row(reader: str, public: list[str], private: list[str], cell: str, data: Any) -> None:
    public = [*public, "x y"] if reader in ("texts", "series", *STORES) else public
    assume(can_be_public(reader, public))
    who = data.draw(st.integers(0, len(private) - 1))
    assert set(changed_rows(reader, public, private, who, cell)) <= {who}


@pytest.mark.parametrize("store", STORES)
def test_text_that_is_no_unicode_costs_its_own_row(store: str) -> None:
    assert changed_rows(store, ["x y", "Bern"], ["Bern", "1", "x y"], 0, "<cut>") == [0]


@settings(max_examples=15, deadline=None)
@given(public=COLUMN, private=COLUMN)
@example(public=["1.0", "?", "2.5"], private=["1.0", "2.50", "3"])
@example(public=["1", "2"], private=["1.0", "?", "TRUE"])
def test_whichever_way_a_file_is_read(public: list[str], private: list[str]) -> None:
    """Then one cell costs its own row only, whichever way that is; so also where several people's cells are odd."""
    assume(can_be_public("csv", public))
    like = READERS["csv"](public)
    first, *others = (everything(read_rows(hold(private), like)) for name, hold in READERS.items() if "csv" in name)
    for other in others:
        assert other == first


PLANTED: dict[str, Callable[[Any], Any]] = {  # readers that look at spelling: each must be seen
    "whole floats lose their point": lambda cell: str(cell) if isinstance(cell, str) else _without_point(cell),
    "text is never a number": lambda cell: cell if isinstance(cell, str) else says(cell),
    "text that is public comes first": lambda cell: cell if cell in ("1.0", "1.50", "007", "TRUE") else says(cell),
    "float32 as it is": lambda cell: float(cell) if isinstance(cell, np.float32) else says(cell),
    "missing text is text": lambda cell: cell if isinstance(cell, str) and cell == "nan" else says(cell),
}


def _without_point(cell: Any) -> Any:
    said = says(cell)
    return str(int(said)) if isinstance(said, float) and said.is_integer() else said


PRECISE = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def with_text(cells: np.ndarray) -> np.ndarray:
    other = np.array([list(row) for row in cells], dtype=object)  # NumPy's own scalars
    other[7, 1] = "?"
    return other


@pytest.mark.parametrize(
    ("public", "precision"), [(np.float32, np.float16), (np.float64, np.float32), (None, np.float32)]
)
def test_text_beside_cells_of_low_precision_moves_no_other_row(public: Any, precision: Any) -> None:
    """Also where NumPy makes text of what it would keep exactly."""
    cells, like = PRECISE.astype(precision), None if public is None else PRECISE.astype(public)
    odd = with_text(cells)
    tables = [read_rows(held, like) for held in (cells, odd, np.array(odd.tolist()))]
    if like is not None:
        frame = pd.DataFrame({j: list(column) for j, column in enumerate(odd.T)})
        tables += [read_rows(held, pd.DataFrame(like)) for held in (pd.DataFrame(cells), frame)]
    rows = [everything(table) for table in tables]
    for mine, theirs in ((0, 1), (0, 2), (3, 4))[: len(rows) - 2]:
        assert [i for i, pair in enumerate(zip(rows[mine], rows[theirs], strict=True)) if len(set(pair)) > 1] == [7]


@pytest.mark.parametrize("public", [np.float32, np.float64])
def test_cells_keep_their_values_in_their_own_precision(public: Any) -> None:
    """A float32 cell that is read as float64 prints the same number."""
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


@pytest.mark.parametrize("bug", PLANTED)
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
    monkeypatch.setattr(columns, "says", PLANTED[bug])
    assert any(set(changed_rows(*case)) - {1} for case in cases)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        *((cell, 1.0) for cell in (1, 1.0, "1", "1.0", " 1", True, "TRUE", b"1", "(1+0j)", 1 + 0j, np.float32(1))),
        *((cell, None) for cell in (None, np.nan, "nan", pd.NA, pd.NaT, np.timedelta64("NaT"))),
        (np.float32(0.1), 0.1),
        (np.timedelta64(5, "h"), 5.0),
        (-0.0, 0.0),
        (10**400, np.inf),
        ("1" + "0" * 400, np.inf),
        ("a\0", "a"),
        (1j, "1j"),
        (np.complex64(1 + 2j), "(1+2j)"),
        (np.str_("a"), "a"),
        ("1.1.0", "1.1.0"),
        (pd.Interval(0, 1), pd.Interval(0, 1)),
    ],
)
def test_what_a_cell_says(cell: Any, expected: Any) -> None:
    assert says(cell) == expected
    assert type(says(cell)) is type(expected)


@pytest.mark.parametrize("cell", [SURROGATE, b"\xff"])
def test_what_is_no_text_equals_nothing(cell: Any) -> None:
    assert says(cell) not in (cell, None)
    assert not isinstance(says(cell), str | float)
