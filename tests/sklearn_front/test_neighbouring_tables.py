"""One odd private cell, in what users hold rows in: NumPy, pandas and CSV choose a type by all cells.

tests/losses/test_one_cell_one_row.py has many more readers and cells; here are whole searches. A neighbour changes the
dtype of the whole array, column or series. Still the name, the outcome and all that a search leaves behind are the
same, everybody else's losses are the same numbers, and no mean moves by more than one share.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dptune
from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch
from dptune_sklearn.models import Models
from search_transcripts import can_answers, left_behind
from sklearn_tools import ledger_in

M, N, WHO, CLIP = 30, 12, 5, (0.0, 2.0)
SECRET = 1234.56789
ODD = {"?": "?", "n/a": "n/a", "none": None, "nan": np.nan, "real": 3.5, "text": f"a longer text {SECRET}"}


def people(n: int, seed: int) -> dict[str, list[Any]]:
    """Return columns as plain lists: whole numbers, numbers, text; and answers."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    columns = {"age": age.tolist(), "dose": rng.normal(size=n).tolist()}
    return columns | {
        "city": np.where(age > 50, "Bern", "Basel").tolist(),
        "sick": (age + rng.normal(0, 20, n) > 55).astype(int).tolist(),
    }


def rows_of(*names: str) -> Callable[[dict[str, list[Any]]], list[Any]]:
    return lambda table: [list(row) for row in zip(*(table[name] for name in names), strict=True)]


def frame(table: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: table[name] for name in ("age", "dose", "city")})


def read_again(table: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


def halves(table: dict[str, list[Any]]) -> pd.DataFrame:
    """Whole floats, each half of the file read by itself; one public age is "?", so that public ages are text."""
    ages = [float(age) if isinstance(age, int) else age for age in table["age"]]
    return read_again(frame(table | {"age": ["?", *ages[1:]] if len(ages) == M else ages}))


def beside_text(table: dict[str, list[Any]]) -> Any:
    """Whole floats beside text: NumPy makes text of all, and objects where one city is None."""
    return np.array([[float(age // 10), city] for age, city in zip(table["age"], table["city"], strict=True)])


numbers, mixed = rows_of("age", "dose"), rows_of("age", "dose", "city")
BY_TYPE = make_pipeline(
    make_column_transformer(
        (SimpleImputer(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    ),
    LogisticRegression(),
)
BY_PLACE = make_pipeline(
    make_column_transformer((SimpleImputer(), [0, 1]), (OneHotEncoder(), [2])), LogisticRegression()
)
PLAIN, RIDGE = make_pipeline(SimpleImputer(), LogisticRegression()), make_pipeline(SimpleImputer(), Ridge())
WORDS = make_pipeline(CountVectorizer(), LogisticRegression())
ENCODED = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
Table = dict[str, list[Any]]


def array(table: Table) -> Any:
    return np.array(numbers(table))


# what is odd, and how it is held -> model, rows, answers, the column of the odd cell
HELD: dict[str, tuple[Any, Callable[[Table], Any], Callable[[list[Any]], Any], str]] = {
    "frame": (BY_TYPE, frame, list, "age"),
    "csv, public text": (BY_TYPE, halves, list, "age"),
    "whole floats beside text": (ENCODED, beside_text, list, "city"),
    "category": (BY_TYPE, lambda table: frame(table).astype({"city": "category"}), list, "city"),
    "nullable": (BY_TYPE, lambda table: frame(table).convert_dtypes(), list, "age"),
    "array": (PLAIN, array, list, "age"),
    "objects, text": (BY_PLACE, lambda table: np.array(mixed(table), dtype=object), list, "city"),  # else refused
    "list": (PLAIN, numbers, list, "age"),
    "series": (WORDS, lambda table: pd.Series(table["city"]), list, "city"),
    "answer, array": (PLAIN, array, np.array, "sick"),
    "answer, objects": (PLAIN, array, lambda y: np.array(y, dtype=object), "sick"),
    "answer, category of texts": (PLAIN, array, lambda y: pd.Series(map(str, y), dtype="category"), "sick"),
    "answer, csv": (PLAIN, array, lambda y: read_again(pd.DataFrame({"y": y}))["y"], "sick"),
    "answer, list of numbers": (RIDGE, lambda table: np.array(table["age"])[:, None], list, "dose"),
}


def changed(column: list[Any], odd: Any) -> list[Any]:
    return [odd if i == WHO else cell for i, cell in enumerate(column)]


def outcome(
    folder: Path, patch: pytest.MonkeyPatch, searched: type[PrivateSearch], method: str, model: Any, fit: dict[str, Any]
) -> tuple[Any, Any]:
    """What is left behind, and clipped losses (models, n)."""
    seen: list[Any] = []
    losses = Models.losses
    step = model.steps[-1][0] + ("__C" if hasattr(model[-1], "C") else "__alpha")

    def kept(self: Models, fitted: Any) -> Any:
        found = losses(self, fitted)
        seen.append(np.clip(np.nan_to_num(reveal(found), nan=CLIP[1]), *CLIP))
        return found

    def search_in(folder: Path) -> PrivateSearch:
        loss = "log_loss" if step.endswith("C") else "squared_error"
        n_trials = 2 if method == "selection" else 4
        settings = {"loss": loss, "clip": CLIP, "n_trials": n_trials, "method": method, "mu": 1.0, "cv": None}
        return searched(model, {step: loguniform(1e-2, 1e2)}, ledger=ledger_in(folder), **settings)

    with patch.context() as inner:
        can_answers(inner)
        inner.setattr(Models, "losses", kept)
        return left_behind(folder, search_in, fit, SECRET), np.array(seen)


def assert_neighbours_are_alike(
    folder: Path,
    patch: pytest.MonkeyPatch,
    method: str,
    model: Any,
    fits: Sequence[dict[str, Any]],
    searched: type[PrivateSearch] = PrivateSearch,
) -> None:
    """The first of ``fits`` is that of everybody as they are, the others' are neighbours."""
    outcomes = [outcome(folder / str(i), patch, searched, method, model, fit) for i, fit in enumerate(fits)]
    left, before = outcomes[0]
    assert (np.delete(before, WHO, axis=1) < CLIP[1]).any()
    for told, losses in outcomes[1:]:
        assert told == left
        np.testing.assert_array_equal(np.delete(losses, WHO, axis=1), np.delete(before, WHO, axis=1))
        assert np.abs(losses.mean(axis=1) - before.mean(axis=1)).max() <= (CLIP[1] - CLIP[0]) / N * (1 + 1e-9)


def odd_cells() -> list[Any]:
    """Each way to hold rows with one odd cell in turn; the other five are an audit."""
    cases = []
    for place, held in enumerate(HELD):
        first, *others = [*ODD, *ODD][place % len(ODD) :][: len(ODD)]
        cases.append(pytest.param(held, [first], "selection", id=held))
        audited = "centred" if held.startswith("answer") else "selection"
        cases.append(pytest.param(held, others, audited, marks=pytest.mark.slow, id=f"{held}: others"))
    return cases


def fits(held: str, odd: Iterable[str]) -> list[dict[str, Any]]:
    """Return what ``fit`` is given of everybody as they are, and of neighbours."""
    model, hold, answers, column = HELD[held]
    target = "dose" if model is RIDGE else "sick"
    public, private = people(M, 1), people(N, 2)
    neighbours = [private | {column: changed(private[column], ODD[each])} for each in odd]
    y = list(answers(public[target])) if column == target else public[target]
    return [
        {"X": hold(public), "y": y, "X_val": hold(each), "y_val": answers(each[target])}
        for each in (private, *neighbours)
    ]


@pytest.mark.parametrize(("held", "odd", "method"), odd_cells())
def test_one_odd_private_cell(fast_path, monkeypatch, held, odd, method):
    assert_neighbours_are_alike(fast_path, monkeypatch, method, HELD[held][0], fits(held, odd))


class Refuses(PrivateSearch):
    """Text beside numbers is a mistake that one person can make for everybody: it must not be what is refused."""

    def fit(self, X: Any, y: Any, **options: Any) -> PrivateSearch:
        if np.asarray(options["y_val"]).dtype.kind != np.asarray(y).dtype.kind:
            raise dptune.InputError("y_val holds text, and y numbers")
        return super().fit(X, y, **options)


def test_a_refusal_by_the_kind_of_private_answers_is_seen(fast_path, monkeypatch):
    with pytest.raises(dptune.InputError):
        assert_neighbours_are_alike(
            fast_path, monkeypatch, "selection", PLAIN, fits("answer, array", ["?"]), searched=Refuses
        )


def test_training_rows_that_were_read_with_the_private_ones_are_seen(fast_path, monkeypatch):
    """What one table does: the training rows' types, and so the name, are private cells' to decide."""
    public, private = people(M, 1), people(N, 2)

    def cut(odd: Any) -> dict[str, Any]:
        column = public["age"] + changed(private["age"], odd)
        table = read_again(frame({name: public[name] + private[name] for name in public} | {"age": column}))
        return {"X": table[:M].copy(), "y": public["sick"], "X_val": table[M:].copy(), "y_val": private["sick"]}

    tables = [cut(private["age"][WHO]), cut("?")]
    with pytest.raises(AssertionError):
        assert_neighbours_are_alike(fast_path, monkeypatch, "selection", BY_TYPE, tables)
