"""In shown scripts public rows are a function of public rows: no private row scales or selects them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from page_tools import blocks, page

MARKS = re.compile(r"^X.*train_test_split|^X_val|^X, X_val|^X_train, X_val|^X_val, X_train", re.MULTILINE)


def preparation(name: str) -> str:
    """The lines of a page's first script that load, split and scale."""
    code = next(code for _, code in blocks(page(name), "python") if "train_test_split(" in code)
    last = list(MARKS.finditer(code))[-1]
    return code[: code.index("\n", last.start()) + 1]


def public_rows(code: str, data: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes]:
    monkeypatch.setattr(sklearn.datasets, "load_breast_cancer", lambda **_: (data[0].copy(), data[1].copy()))
    names: dict[str, Any] = {}
    exec(code, names)
    X, y = (names.get(f"{each}_train", names[each]) for each in ("X", "y"))
    return X.tobytes(), y.tobytes()


def private_row(code: str, X: Any, y: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """The largest private row of the script's own split, which most scales would show."""
    monkeypatch.setattr(sklearn.datasets, "load_breast_cancer", lambda **_: (np.arange(1.0, len(X) + 1)[:, None], y))
    names: dict[str, Any] = {}
    exec(re.sub(r"^X_val.*/.*$|^X, X_val = .*$|^X_train, X_val = .*/.*$", "", code, flags=re.MULTILINE), names)
    places = names["X_val"].ravel().astype(int) - 1
    return int(places[X[places, 0].argmax()])


PAGES = [
    "README.md",
    "docs/public.md",
    "docs/optuna.md",
    *(f"docs/tutorial_{one}.md" for one in ("optuna", "ray", "sklearn")),
]


@pytest.mark.parametrize("name", PAGES)
def test_public_rows_are_the_same_whoever_a_private_row_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, (X, y) = preparation(name), sklearn.datasets.load_breast_cancer(return_X_y=True)
    changed = private_row(code, X, y, monkeypatch)
    other = X.copy()
    other[changed] *= 3
    assert public_rows(code, (X, y), monkeypatch) == public_rows(code, (other, y), monkeypatch)


def test_scaling_before_the_split_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    code = preparation("README.md")
    bad = re.sub(r"^X, X_val = .*$", "", code, flags=re.MULTILINE).replace("split(X,", "split(X / X.max(axis=0),")
    other = X.copy()
    other[private_row(code, X, y, monkeypatch)] *= 3
    assert public_rows(bad, (X, y), monkeypatch) != public_rows(bad, (other, y), monkeypatch)
