"""A report of what a search has found: the same release as ``dptune.report``, from the search's ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.choice import stored_report
from dptune_sklearn import PrivateSearch


def people() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X = rng.normal(size=(400, 2)) + y[:, None]
    return (X[:150].copy(), y[:150].copy()), {"X_val": X[150:].copy(), "y_val": y[150:].copy()}


def test_a_search_leaves_a_share_for_its_report(tmp_path: Path) -> None:
    public, private = people()
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    search = PrivateSearch(
        LogisticRegression(), {"C": loguniform(1e-3, 1e3)}, ledger=ledger, loss="zero_one", n_trials=5,
        report_share=0.36,
    ).fit(*public, **private)  # fmt: skip
    assert search.selection_.mu == pytest.approx(0.8)
    left = ledger.remaining()
    assert left >= 0.6 - 1e-9  # more if the choice was the default
    assert search.report(*public, **private).mu == pytest.approx(left)
    other = search.set_params(cv=None)
    with pytest.raises(dptune.InputError, match="report_share= goes with cv="):
        other.fit(*public, **private)


def test_a_report_of_no_search_is_refused(tmp_path: Path) -> None:
    public, private = people()
    search = PrivateSearch(LogisticRegression(), {"C": [0.1, 1.0]}, ledger=tmp_path / "ledger.db", loss="zero_one")
    with pytest.raises(NotFittedError, match="not fitted"):
        search.report(*public, **private)


def test_a_search_reports_on_its_best_estimator(tmp_path: Path) -> None:
    public, private = people()
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    search = PrivateSearch(
        LogisticRegression(), {"C": loguniform(1e-3, 1e3)}, ledger=ledger, loss="zero_one", n_trials=10, mu=0.8,
        method="selection", cv=None,
    ).fit(*public, **private)  # fmt: skip
    found = search.report(*public, **private)
    assert found.mu == pytest.approx(0.6)  # what mu=0.8 has left of 1
    assert found.accuracy_score.value > 0.6
    assert search.report(*public, **private).to_dict() == found.to_dict()
    assert stored_report(ledger, f"{search.name_} report").to_dict() == found.to_dict()
    assert ledger.spent() == pytest.approx(1.0)
    fewer = {"X_val": private["X_val"][:9], "y_val": private["y_val"][:9]}
    for wrong in (fewer, {**private, "y_val": None}, {**private, "y_val": private["y_val"][:9]}):
        with pytest.raises(dptune.DptuneError, match=r"Nothing was charged\.$"):
            search.report(*public, **wrong, name="wrong")
    assert ledger.count() == ledger.count(search.name_) + 1  # the report is one charge
    with pytest.raises(dptune.BudgetExhausted):
        search.report(*public, **private, name="another", mu=0.5)


def test_a_report_after_a_search_that_left_nothing_names_the_remedy(tmp_path: Path) -> None:
    public, private = people()
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=50.0))
    worst = LogisticRegression(C=1e-9)  # a choice of the default would leave the estimate's part
    search = PrivateSearch(worst, {"C": [0.1, 1.0]}, ledger=ledger, loss="zero_one").fit(*public, **private)
    assert search.best_params_["C"] > 1e-9
    with pytest.raises(dptune.BudgetExhausted) as refused:
        search.report(*public, **private)
    assert "give the choice report_share=" in " ".join(refused.value.__notes__)
    assert ledger.count(f"{search.name_} report") == 0


def test_a_report_of_the_default_after_a_search(tmp_path: Path) -> None:
    public, private = people()
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1000.0))
    search = PrivateSearch(
        LogisticRegression(), {"C": [0.1, 1.0]}, ledger=ledger, loss="zero_one", report_share=0.5
    ).fit(*public, **private)  # fmt: skip
    usual = DummyClassifier(strategy="most_frequent").fit(*public)
    found = search.report(*public, **private, model=usual, mu=500.0)
    exact = np.mean(usual.predict(private["X_val"]) == private["y_val"])
    assert found.accuracy_score.value == pytest.approx(exact, abs=0.01)  # the noise: sqrt(2) / 500 of 250 people
    with pytest.raises(dptune.errors.BudgetMismatch, match="the model"):
        search.report(*public, **private)  # the name is taken by the report of the default
    with pytest.raises(dptune.InputError, match=r"shares memory with [Xy], which is public"):
        search.report(private["X_val"], private["y_val"], **private)
