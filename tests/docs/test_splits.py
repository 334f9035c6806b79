"""How docs/sklearn.md splits a file of public and private rows: one odd private cell costs its own row only."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_tools import blocks, page
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dptune.losses.estimator import estimator_losses

N = 200
RECIPE = next(code for _, code in blocks(page("docs/sklearn.md"), "python") if "patients.csv" in code)
MODEL = make_pipeline(
    make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    ),
    LogisticRegression(),
)


def losses(folder: Path, recipe: str, places: dict[int, Any], column: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    score, age = rng.integers(0, 10, N) / 2, rng.integers(20, 90, N)
    table = pd.DataFrame(
        {"score": score, "age": age, "sick": (score + age / 30 + rng.normal(0, 1, N) > 4.2).astype(int)}
    )
    table = table.astype(object)
    for line, cell in places.items():
        table.loc[line - 1, column] = cell
    (folder / "patients.csv").write_text(table.to_csv(index=False))
    made: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(recipe, made)
    MODEL.fit(made["X_train"], made["y_train"].astype(int))
    return estimator_losses("log_loss", MODEL, made["X_val"], made["y_val"], like=made["X_train"])


@pytest.mark.parametrize(("public", "cell", "column"), [("?", "?", "score"), (1.5, "Bern", "score"), (1.5, "", "sick")])
def test_one_odd_private_cell(tmp_path: Path, public: Any, cell: str, column: str) -> None:
    train, val = train_test_split(range(1, N + 1), test_size=0.6, random_state=0)
    odd = {train[3]: public} if column == "score" else {}
    a, b = (losses(tmp_path, RECIPE, odd | each, column) for each in ({}, {val[5]: cell}))
    assert np.isfinite(a).all()
    assert np.delete(a, 5).tobytes() == np.delete(b, 5).tobytes()


# ---- shown scripts: no private row scales or selects public rows ----------------------------------------

X, Y = load_breast_cancer(return_X_y=True)
MARKS = re.compile(r"^X.*train_test_split|^X_val|^X, X_val|^X_train, X_val|^X_val, X_train", re.MULTILINE)


def preparation(name: str) -> str:
    """The lines of a page's first script that load, split and scale."""
    code = next(code for _, code in blocks(page(name), "python") if "train_test_split(" in code)
    last = list(MARKS.finditer(code))[-1]
    return code[: code.index("\n", last.start()) + 1]


def ran(code: str, X: Any, y: Any) -> dict[str, Any]:
    """The names that the code makes of these rows instead of scikit-learn's."""
    names: dict[str, Any] = {"rows": lambda **_: (X.copy(), y.copy())}
    exec(code.replace("load_breast_cancer(", "rows("), names)
    return names


def public_rows(code: str, X: Any, y: Any) -> tuple[bytes, bytes]:
    names = ran(code, X, y)
    return tuple(names.get(f"{each}_train", names[each]).tobytes() for each in ("X", "y"))


def with_another_private_row(code: str) -> np.ndarray:
    """The rows, the largest private one of the script's split three times as large: most scales would show it."""
    unscaled = re.sub(r"^X_val.*/.*$|^X, X_val = .*$|^X_train, X_val = .*/.*$", "", code, flags=re.MULTILINE)
    places = ran(unscaled, np.arange(1.0, len(X) + 1)[:, None], Y)["X_val"].ravel().astype(int) - 1
    other = X.copy()
    other[places[X[places, 0].argmax()]] *= 3
    return other


PAGES = [
    "README.md",
    "docs/public.md",
    "docs/optuna.md",
    *(f"docs/tutorial_{one}.md" for one in ("optuna", "ray", "sklearn")),
]


@pytest.mark.parametrize("name", PAGES)
def test_public_rows_are_the_same_whatever_a_private_row_is(name: str) -> None:
    code = preparation(name)
    assert public_rows(code, X, Y) == public_rows(code, with_another_private_row(code), Y)


def test_scaling_before_the_split_is_found() -> None:
    code = preparation("README.md")
    bad = re.sub(r"^X, X_val = .*$", "", code, flags=re.MULTILINE).replace("split(X,", "split(X / X.max(axis=0),")
    assert public_rows(bad, X, Y) != public_rows(bad, with_another_private_row(code), Y)
