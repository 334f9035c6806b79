"""PrivateSearch asks private people at several places, as it asks those of one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dptune
from dptune_sklearn import PrivateSearch
from places_contract import Away

RNG = np.random.default_rng(0)


def rows(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with a column of texts, which a place reads as the public rows say."""
    X = pd.DataFrame({"a": RNG.normal(size=n), "kind": RNG.choice(["x", "y"], n)})
    return X, np.where(X["a"] + (X["kind"] == "x") + RNG.normal(size=n) > 0.5, "yes", "no")


def test_a_search_and_its_report_ask_places(tmp_path: Path) -> None:
    X, y = rows(150)
    parts = {"north": rows(300), "south": rows(500)}
    places = dptune.Places([dptune.Place(name, data) for name, data in parts.items()])
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough"),
        LogisticRegression(),
    )
    grid = {"logisticregression__C": [1e-6, 1.0]}
    chosen, accuracies = [], []
    for k, private in enumerate(
        (
            {"data": places},
            {
                "X_val": pd.concat([a for a, _ in parts.values()]),
                "y_val": np.concatenate([b for _, b in parts.values()]),
            },
        )
    ):
        search = PrivateSearch(
            GridSearchCV(model, grid), ledger=tmp_path / f"{k}.db", budget=dptune.Budget.gdp(mu=60.0), loss="log_loss",
            default={"logisticregression__C": 1e-6}, report_share=0.5,
        )  # fmt: skip
        search.fit(X, y, **private)
        found = search.report(X, y, **private)
        # mu = 42: another choice or verdict, or an accuracy that is off by .02 (100 sigma), has a chance below 1e-100
        chosen.append((search.best_params_, search.selection_.verdict))
        accuracies.append(found.accuracy_score.value)
        if k == 0:
            away = dptune.Places([Away(name) for name in parts])
            assert clone(search).fit(X, y, data=away).best_params_ == search.best_params_
            assert str(search.report(X, y, data=away)) == str(found)
        assert ("Places" in str(search.statement(delta=1e-5))) == (k == 0)
    assert chosen[0] == chosen[1]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.02)
    with pytest.raises(dptune.InputError, match="give no X_val="):
        search.fit(X, y, data=places, X_val=X)
    with pytest.raises(dptune.InputError, match=r"must be dptune\.Places"):
        search.fit(X, y, data=(X, y))


def test_rows_of_a_place_train_nothing(tmp_path: Path) -> None:
    X, y = RNG.normal(size=(60, 2)), np.arange(60) % 2
    places, trained = dptune.Places([dptune.Place("here", (X, y))]), list[int]()

    class Counted(LogisticRegression):
        def fit(self, X: Any, y: Any) -> Any:
            trained.append(len(X))
            return super().fit(X, y)

    model = Counted().fit(X.copy(), y.copy())
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(1.0))
    search = PrivateSearch(GridSearchCV(Counted(), {"C": [0.1, 1.0]}), ledger=ledger, loss="log_loss")
    for call in (
        lambda: search.fit(X, y, data=places),
        lambda: search.fit(X[:40], y.copy(), data=places),
        lambda: dptune.report(model, ledger, data=places, public=(X, y)),
        lambda: dptune.report(model, ledger, data=places, held_out=(X, y)),
    ):
        with pytest.raises(dptune.InputError, match=r"at the place 'here': (X|y|public|held_out)=.* shares memory"):
            call()
    assert trained == [60]
    assert ledger.facts("plan") == {}
