"""A fitted search in MLflow; that nothing else gets there tests/optuna_front/test_mlflow.py tests."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression

import dptune
from dptune_mlflow import log_run
from dptune_sklearn import PrivateSearch


def test_a_fitted_search_is_one_run_however_often_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    X = np.random.default_rng(0).normal(size=(120, 2))
    y, uri = (X[:, 0] > 0).astype(int), f"file:{tmp_path}/mlruns"
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=2.0))
    space = {"C": loguniform(1e-2, 1e2)}
    settings = {"ledger": ledger, "loss": "log_loss", "clip": (0, 2), "n_trials": 8, "cv": None}
    search = PrivateSearch(LogisticRegression(), space, **settings)
    search.fit(X[:40], y[:40], X_val=X[40:], y_val=y[40:])
    found = {"recommended": search.best_params_, "estimate": search.best_loss_}
    where = {"delta": 1e-5, "tracking_uri": uri, "experiment": "patients"}
    written = [log_run(ledger, search.name_, **found, **where) for _ in range(2)]
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("patients").experiment_id])
    assert written == [run.info.run_id] * 2
    numbers, loss = run.data.metrics, search.best_loss_
    assert run.data.tags["recommended.C"] == str(search.best_params_["C"])
    assert (numbers["loss"], numbers["loss_sigma"]) == (loss.value, loss.sigma)
    assert (numbers["improvement_low"], numbers["improvement_high"]) == loss.improvement.interval()
    assert numbers["mu_spent"] == ledger.spent()
    table = Path(client.download_artifacts(run.info.run_id, "released.csv")).read_text().splitlines()
    assert [line.split(",")[1] for line in table[1:]] == search.released_["release"]
