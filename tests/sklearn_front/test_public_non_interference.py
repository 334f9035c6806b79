"""Neighbouring private data leave the same public search, name, plan, logs and pickle; planted bugs are found."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, _search, _validation
from sklearn.neighbors import KNeighborsClassifier

from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch, decide, public_search
from dptune_sklearn.models import Models
from search_transcripts import can_answers, left_behind
from sklearn_tools import PUBLIC, ledger_in, rows

N, WHO, SECRET = 60, 7, 1234.56789
SEARCHES: dict[str, Any] = {
    "made": lambda **about: PrivateSearch(LogisticRegression(C=0.01), {"C": [0.1, 1.0, 10.0]}, cv=3, **about),
    "wrapped": lambda **about: PrivateSearch(
        GridSearchCV(KNeighborsClassifier(2, algorithm="kd_tree"), {"n_neighbors": [1, 3, 5]}, cv=3), **about
    ),
}


def neighbour(kind: str) -> tuple[Any, Any]:
    X, y = rows(N, seed=5)
    if kind == "label":
        y = y.astype(object)
        y[WHO] = f"unknown {SECRET}"
    elif kind != "same":
        X[WHO] = {"other": -3.0, "nan": np.nan, "secret": SECRET}[kind]
    return X, y


@pytest.fixture
def canned(monkeypatch) -> None:
    """Answers are constants, and so is the clock, which cv_results_ shows of public training."""
    can_answers(monkeypatch)
    for module in (_validation, _search, public_search):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 0.0, perf_counter=lambda: 0.0))


def transcript(folder: Path, which: str, kind: str) -> list[str]:
    X_val, y_val = neighbour(kind)
    fit = {"X": PUBLIC[0], "y": PUBLIC[1], "X_val": X_val, "y_val": y_val}
    return left_behind(
        folder, lambda where: SEARCHES[which](ledger=ledger_in(where, mu=1.0), loss="zero_one"), fit, SECRET
    )


def assert_nothing_interferes(folder: Path, which: str, kind: str) -> None:
    mine, theirs = transcript(folder / "a", which, "same"), transcript(folder / "b", which, kind)
    assert [pair for pair in itertools.zip_longest(mine, theirs) if pair[0] != pair[1]] == []


@pytest.mark.parametrize(
    ("kind", "which"),
    [
        *(("other", "made"), ("nan", "wrapped"), ("secret", "wrapped"), ("label", "made")),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("other", "wrapped"), ("nan", "made"), ("secret", "made"), ("label", "wrapped"))
        ),
    ],
)
def test_neighbours_leave_the_same_search(fast_path, canned, which, kind):
    assert_nothing_interferes(fast_path, which, kind)


def private_mean(models: Models, parameters: Any) -> float:
    return float(np.nan_to_num(reveal(models.losses(models.fitted(parameters))), nan=1.0).mean())


def votes_read_private_rows(monkeypatch) -> None:
    proposed = decide._proposed

    def leaking(search, models):
        found = proposed(search, models)
        found.losses[:, 0] = [private_mean(models, each) for each in found.parameters]
        return found

    monkeypatch.setattr(decide, "_proposed", leaking)


def finalists_ordered_by_private_losses(monkeypatch) -> None:
    proposed = decide._proposed

    def leaking(search, models):
        found = proposed(search, models)
        scores = [private_mean(models, each) for each in found.parameters]
        return public_search.Proposed(**{**vars(found), "scores": scores})

    monkeypatch.setattr(decide, "_proposed", leaking)


def best_estimator_was_asked(monkeypatch) -> None:
    fitted = Models.fitted

    def leaking(self, parameters):
        model = fitted(self, parameters)
        model.seen_ = self._losses(model).sum()
        return model

    monkeypatch.setattr(Models, "fitted", leaking)


BUGS = (votes_read_private_rows, finalists_ordered_by_private_losses, best_estimator_was_asked)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(fast_path, canned, monkeypatch, bug):
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        assert_nothing_interferes(fast_path, "made", "label")
